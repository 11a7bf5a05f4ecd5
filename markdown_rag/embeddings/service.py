"""Texts to vectors as the rest of the program sees it: cached, checked, each text paid for once.

Every vector a provider gave is in the cache before a call returns or raises, so nothing is paid for twice (I13).
Documents and queries never share a vector: the fingerprint holds the role.
"""

from __future__ import annotations

import hashlib
import unicodedata
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace

from markdown_rag.clock import Clock, StopSignal
from markdown_rag.embeddings.base import Embedder, ModelCard, Role, Vector
from markdown_rag.embeddings.batching import Batcher
from markdown_rag.embeddings.cache import VectorCache
from markdown_rag.embeddings.retry import BatchPolicy
from markdown_rag.embeddings.run import OnTrouble
from markdown_rag.errors import EmbeddingMismatch, EmbeddingRefused

OnProgress = Callable[[int], None]

_PROBE = "How many dimensions?"
_LEAVE_S = 1.0  # how long close() waits for requests under way; they are daemons and end by their own timeout


@dataclass(frozen=True, slots=True)
class DocumentOutcome:
    """vectors[i] is texts[i]'s unit vector, or None where refused[i] says why.

    embedded: different texts that were sent and answered. cached: texts whose vector was known, equal ones counted.
    """

    vectors: list[Vector | None]
    refused: dict[int, str]
    embedded: int
    cached: int


def _nobody(_: str) -> None:
    """Who listens where nobody does."""


class Embeddings:
    """One model with its cache. Thread-safe; queries and documents of all threads share one pace."""

    def __init__(self, embedder: Embedder, policy: BatchPolicy, cache: VectorCache, clock: Clock) -> None:
        self._embedder = embedder
        self._batcher = Batcher(embedder, policy, clock)
        self._cache = cache
        self._card: ModelCard | None = embedder.card if embedder.card.dimension else None

    @property
    def card(self) -> ModelCard:
        """Which model, with its dimension; a model of unknown dimension is asked once, and the answer is remembered.

        Raises EmbeddingError where the model has to be asked and cannot be.
        """
        return self._known_card(Role.QUERY, StopSignal())

    def _known_card(self, role: Role, stop: StopSignal, on_trouble: OnTrouble = _nobody) -> ModelCard:
        own = self._embedder.card
        if self._card is None:
            known = self._cache.dimension(_memory_key(own))
            if not known:
                outcome = self._batcher.embed([_PROBE], role, stop, on_trouble=on_trouble)
                known = len(_only(outcome.vectors, outcome.refused))
                self._cache.remember_dimension(_memory_key(own), known)
            self._card = replace(own, dimension=known)
        return self._card

    def documents(
        self,
        texts: Sequence[str],
        hashes: Sequence[str],
        stop: StopSignal,
        on_progress: OnProgress | None = None,
        *,
        on_trouble: OnTrouble = _nobody,
        use_cache: bool = True,
    ) -> DocumentOutcome:
        """Vectors of document texts; hashes[i] names texts[i]'s content, and equal hashes are embedded once.

        on_progress: number of texts settled since its last call. on_trouble: why the provider does not answer while it
        is asked again and again, "" when it does, without any secret. use_cache False embeds all of them again. Raises
        Cancelled or the EmbeddingError that ended the run; what had arrived by then is in the cache.
        """
        card = self._known_card(Role.DOCUMENT, stop, on_trouble)
        fingerprint = card.fingerprint(Role.DOCUMENT)
        times = Counter(hashes)
        known = self._cache.get(fingerprint, list(times)) if use_cache else {}
        known = {name: vector for name, vector in known.items() if len(vector) == card.dimension}
        first = {name: index for index, name in reversed(list(enumerate(hashes))) if name not in known}
        names = list(dict.fromkeys(name for name in hashes if name in first))
        cached = sum(times[name] for name in known)
        _report(on_progress, cached)

        def keep(indices: list[int], vectors: list[Vector]) -> None:
            fresh = {names[index]: vector for index, vector in zip(indices, vectors, strict=True)}
            self._cache.put(fingerprint, fresh)
            known.update(fresh)
            _report(on_progress, sum(times[name] for name in fresh))

        try:
            outcome = self._batcher.embed(
                [texts[first[name]] for name in names],
                Role.DOCUMENT,
                stop,
                on_vectors=keep,
                on_trouble=on_trouble,
                dimension=card.dimension,
            )
        except EmbeddingMismatch:
            self._forget()
            raise
        reasons = {names[index]: reason for index, reason in outcome.refused.items()}
        _report(on_progress, sum(times[name] for name in reasons))
        return DocumentOutcome(
            vectors=[known.get(name) for name in hashes],
            refused={index: reasons[name] for index, name in enumerate(hashes) if name in reasons},
            embedded=len(names) - len(reasons),
            cached=cached,
        )

    def query(self, text: str) -> Vector:
        """The unit vector of a query, from the cache where the same query was asked before.

        Raises EmbeddingError: Unavailable within the policy's query patience, Refused for a blank text.
        """
        plain = " ".join(unicodedata.normalize("NFC", text).split())
        card = self._known_card(Role.QUERY, StopSignal())
        fingerprint = card.fingerprint(Role.QUERY)
        name = hashlib.sha256(plain.encode("utf-8", "replace")).hexdigest()
        vector = self._cache.get(fingerprint, [name]).get(name)
        if vector is not None and len(vector) == card.dimension:
            return vector

        def keep(_: list[int], vectors: list[Vector]) -> None:
            self._cache.put(fingerprint, {name: vectors[0]})

        try:
            outcome = self._batcher.embed([plain], Role.QUERY, StopSignal(), on_vectors=keep, dimension=card.dimension)
        except EmbeddingMismatch:
            self._forget()
            raise
        return _only(outcome.vectors, outcome.refused)

    def known(self, hashes: Sequence[str]) -> set[str]:
        """Which document hashes have a vector already; asks no provider where the dimension is known."""
        return self._cache.known(self.card.fingerprint(Role.DOCUMENT), hashes)

    def adopt(self, vectors: Mapping[str, Vector]) -> None:
        """Take unit vectors of document texts, by hash, that this model gave to somebody else; they are paid for."""
        card = self.card
        fitting = {name: vector for name, vector in vectors.items() if len(vector) == card.dimension}
        self._cache.put(card.fingerprint(Role.DOCUMENT), fitting)

    def close(self) -> None:
        """End what is under way, let go of the provider's connections and of the cache. Safe to call twice.

        An error of one keeps none of the others open.
        """
        self._batcher.close()
        with ExitStack() as last_first:
            last_first.callback(self._cache.close)
            last_first.callback(self._batcher.join, _LEAVE_S)
            last_first.callback(self._embedder.close)

    def _forget(self) -> None:
        """The model does not answer as remembered: the next process asks it. This one has a collection open for it."""
        if not self._embedder.card.dimension:
            self._cache.remember_dimension(_memory_key(self._embedder.card), 0)


def _memory_key(card: ModelCard) -> str:
    return f"{card.provider} {card.model}"


def _only(vectors: list[Vector | None], refused: dict[int, str]) -> Vector:
    if vectors[0] is None:
        raise EmbeddingRefused(f"The text was not embedded: {refused[0]}.", "Ask with other words.")
    return vectors[0]


def _report(on_progress: OnProgress | None, texts: int) -> None:
    if texts and on_progress:
        on_progress(texts)
