"""Texts in, vectors out: what an embedder takes, gives and promises.

An *embedder* is one model of one provider: a single bounded request, no retries, no cache, no threads of its own.
Packing, concurrency, retries, checking and caching are ``batching`` and ``cache``, the same for all.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol

import numpy as np
import numpy.typing as npt

Vector = npt.NDArray[np.float32]
Matrix = npt.NDArray[np.float32]


class Role(StrEnum):
    """What a text is: models embed a document and a query differently."""

    DOCUMENT = "document"
    QUERY = "query"


@dataclass(frozen=True, slots=True)
class Limits:
    """A provider's documented bounds; the source stands beside the numbers in its adapter. 0 means none known.

    items: texts a request. request_tokens: tokens of all texts of a request. text_tokens: tokens of one text.
    concurrent: requests at once.
    """

    items: int
    request_tokens: int
    text_tokens: int
    concurrent: int = 0


@dataclass(frozen=True, slots=True)
class ModelCard:
    """Which model this is. dimension 0 means: only the first answer will tell."""

    provider: str
    model: str
    dimension: int

    def fingerprint(self, role: Role) -> str:
        """The cache's key part: provider, model, dimension and role; vectors of two fingerprints never mix."""
        parts = f"{self.provider}\0{self.model}\0{self.dimension}\0{role.value}"
        return hashlib.sha256(parts.encode()).hexdigest()[:24]


class Embedder(Protocol):
    """One model of one provider. Thread-safe."""

    @property
    def card(self) -> ModelCard:
        """Which model, and its dimension where it is known without asking."""
        ...

    @property
    def limits(self) -> Limits:
        """The bounds that batches are packed to."""
        ...

    def embed(self, texts: Sequence[str], role: Role) -> Matrix:
        """One request: float32, shape (len(texts), dimension), row i for texts[i].

        Texts are valid Unicode and not empty. Raises only EmbeddingError: Unavailable (try again), AuthError,
        Refused (never try again), Mismatch. Bounded in time.
        """
        ...

    def close(self) -> None:
        """Let go of connections. Safe to call twice."""
        ...
