"""What travels between a run and its requests: batches out, reports back, an outcome in the end."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass

from markdown_rag.embeddings.answers import Answer
from markdown_rag.embeddings.base import Vector
from markdown_rag.embeddings.splits import Split
from markdown_rag.errors import EmbeddingError


@dataclass(frozen=True, slots=True)
class BatchOutcome:
    """vectors[i]: of texts[i], unit length, or None where refused[i] says why."""

    vectors: list[Vector | None]
    refused: dict[int, str]


@dataclass(slots=True, eq=False)
class Batch:
    """Pieces that travel together; none of them is the probe.

    not_before: monotonic seconds. seen: the run's successes when the batch failed before.
    """

    pieces: list[int]
    split: Split | None = None
    attempts: int = 0
    not_before: float = 0.0
    seen: int = 0

    def halves(self) -> tuple[Batch, Batch]:
        """The batch as two that know of each other."""
        middle = len(self.pieces) // 2
        split = Split(len(self.pieces), self.split)
        tried = max(0, self.attempts - 2)  # halves of what broke a provider break it at most twice more each
        first, second = (
            Batch(pieces, split, tried, seen=self.seen) for pieces in (self.pieces[:middle], self.pieces[middle:])
        )
        return first, second


class Ready(deque[Batch]):
    """Batches that may be sent, in order. New ones are made when no other is left, while those before are under way.

    fresh: the pieces of new batches.
    """

    def __init__(self, fresh: Iterator[list[int]]) -> None:
        super().__init__()
        self._fresh = fresh

    def __bool__(self) -> bool:
        if not len(self) and (pieces := next(self._fresh, None)) is not None:
            self.append(Batch(pieces))
        return len(self) > 0


@dataclass(frozen=True, slots=True)
class Report:
    """What a request's thread says about one sending of a batch."""

    batch: Batch
    result: Answer | EmbeddingError
