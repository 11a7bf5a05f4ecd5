"""A cross-encoder: reads question and passage together and says how well one answers the other. Off by default.

Through ``fastembed`` (an extra): a folder with an ONNX model, or the name of one that it knows. The network is used
only where the user allowed it.
"""

from __future__ import annotations

import math
import os
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeVar

from markdown_rag.embeddings.onnx import is_path, not_installed, quieten
from markdown_rag.errors import EmbeddingRefused

T = TypeVar("T")
_BATCH = 1  # more at once is no faster on a processor, and costs memory
_FILES = ("model.onnx", "onnx/model.onnx")


class CrossEncoder:
    """One model, loaded on first use.

    model: a folder's path or a name. threads: of one passage. kept: where fetched models lie. download: whether a model
    that is not there may be fetched.
    """

    def __init__(self, model: str, threads: int, kept: Path, *, download: bool) -> None:
        self._given = model
        self._threads = threads
        self._kept = kept
        self._download = download
        self._loaded: Any = None
        self._lock = threading.Lock()

    def scores(self, query: str, texts: Sequence[str]) -> list[float]:
        """How well each text answers the query, 0 to 1. EmbeddingRefused where the model cannot be used."""
        with self._lock:
            if self._loaded is None:
                self._loaded = self._load()
            model = self._loaded
        raw = self._guarded(lambda: [float(score) for score in model.rerank(query, list(texts), batch_size=_BATCH)])
        return [1 / (1 + math.exp(-max(-50.0, min(50.0, score)))) for score in raw]

    def close(self) -> None:
        """Let go of the model's memory; a later request loads it again."""
        with self._lock:
            self._loaded = None

    def _load(self) -> Any:
        encoder = _library()
        path = Path(os.path.expanduser(self._given))
        options: dict[str, Any] = {"local_files_only": not self._download, "cache_dir": str(self._kept)}
        name = self._given
        if path.is_dir() or is_path(self._given):
            name = self._guarded(lambda: self._register(encoder, path))
            options |= {"specific_model_path": str(path), "local_files_only": True}
        return self._guarded(
            lambda: encoder(name, threads=self._threads, providers=["CPUExecutionProvider"], **options)
        )

    def _register(self, encoder: Any, path: Path) -> str:
        """The name by which the library knows the model of a folder; told once a process."""
        from fastembed.common.model_description import ModelSource  # noqa: PLC0415

        file = next((name for name in _FILES if (path / name).is_file()), None)
        if file is None:
            raise EmbeddingRefused(
                f"RERANK_MODEL={path} is no model folder: {_FILES[0]} is missing.",
                "Put an ONNX cross-encoder and its tokenizer files there, or unset RERANK_MODEL.",
            )
        name = f"folder/{path.resolve()}"
        with _REGISTERING:
            if not any(known["model"].lower() == name.lower() for known in encoder.list_supported_models()):
                encoder.add_custom_model(model=name, sources=ModelSource(hf=name), model_file=file)
        return name

    def _guarded(self, work: Callable[[], T]) -> T:
        try:
            return work()
        except EmbeddingRefused:
            raise
        except Exception as error:  # onnxruntime's errors have no other base, and the tokenizer raises Exception itself
            said = " ".join(str(error).split())[:200]
            raise EmbeddingRefused(
                f"RERANK_MODEL={self._given} cannot be used: {said}",
                "Name a folder with an ONNX cross-encoder, set EMBEDDING_ALLOW_DOWNLOAD=on to fetch a named one, or "
                "unset RERANK_MODEL.",
            ) from error


_REGISTERING = threading.Lock()


def _library() -> Any:
    try:
        from fastembed.rerank.cross_encoder import TextCrossEncoder  # noqa: PLC0415  1 s, only when chosen
    except ImportError as error:
        raise not_installed("RERANK_MODEL", "unset RERANK_MODEL") from error
    quieten()
    return TextCrossEncoder
