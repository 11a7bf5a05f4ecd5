"""Many texts to many vectors: bounded requests at once, retries, isolation of bad texts, stop within a second."""

from __future__ import annotations

from collections.abc import Sequence

from markdown_rag.clock import Clock, StopSignal
from markdown_rag.embeddings.assembly import Assembly
from markdown_rag.embeddings.base import Embedder, Role
from markdown_rag.embeddings.batch import BatchOutcome
from markdown_rag.embeddings.line import Line
from markdown_rag.embeddings.retry import BatchPolicy
from markdown_rag.embeddings.run import OnDone, OnTrouble, OnVectors, Run

__all__ = ["BatchOutcome", "BatchPolicy", "Batcher"]


class Batcher:
    """Sends texts to one embedder. Thread-safe: runs and queries share one pace and what was learned."""

    def __init__(self, embedder: Embedder, policy: BatchPolicy, clock: Clock) -> None:
        self._line = Line(embedder, policy, clock)

    def embed(
        self,
        texts: Sequence[str],
        role: Role,
        stop: StopSignal,
        on_done: OnDone | None = None,
        *,
        on_vectors: OnVectors | None = None,
        on_trouble: OnTrouble = lambda _: None,
        dimension: int = 0,
    ) -> BatchOutcome:
        """Vectors of all texts. dimension: what is expected (0: anything).

        on_done: number of texts settled since its last call. on_vectors: indices and their vectors as soon as they are
        there, from the caller's thread, or from a request's own thread after the run has ended. on_trouble: why the
        provider did not answer a request, which is sent again; "" with each answer. Raises Cancelled, or
        the EmbeddingError that ended the run, after everything that had arrived was handed over.
        """
        texts_to_go = Assembly(texts, self._line.embedder.limits)
        return Run(self._line, role, stop, on_done, on_vectors, dimension, texts_to_go, on_trouble).go()

    @property
    def places(self) -> float:
        """Requests at once that the provider takes now."""
        return self._line.pace.limit

    @property
    def largest(self) -> int:
        """Texts a request that the provider takes, as far as is known."""
        return self._line.most

    def close(self) -> None:
        """End every run; nothing is sent from now on."""
        self._line.closed = True

    def join(self, seconds: float) -> bool:
        """Wait for the requests under way; whether all of them have ended."""
        return self._line.join(seconds)
