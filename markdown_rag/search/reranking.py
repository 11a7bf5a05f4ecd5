"""The first hits in the order of a cross-encoder, weighed with their own. Pure but for the model that is asked."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from markdown_rag.errors import EmbeddingError
from markdown_rag.search.policy import SearchPolicy
from markdown_rag.search.ranking import Placed


class Reranker(Protocol):
    """Reads question and passage together. Raises EmbeddingError."""

    def scores(self, query: str, texts: Sequence[str]) -> Sequence[float]:
        """How well each text answers the query, 0 to 1."""
        ...


def reranked(
    query: str, placed: list[Placed], reranker: Reranker | None, policy: SearchPolicy
) -> tuple[list[Placed], str]:
    """The first chunks by their order plus the weight of the model's score, the rest behind them as they were.

    Without a model, and where it fails, the order stays; then the second value says so.
    """
    first, rest = placed[: policy.rerank_top], placed[policy.rerank_top :]
    if reranker is None or len(first) < 2:
        return placed, ""
    try:
        scores = reranker.scores(query, [_passage(item) for item in first])
    except EmbeddingError as error:
        return placed, f"Not reranked: {error}"
    order = sorted(range(len(first)), key=lambda at: (-(first[at].order + policy.rerank_weight * scores[at]), at))
    return [first[at] for at in order] + rest, ""


def _passage(item: Placed) -> str:
    match = item.match
    return "\n".join(part for part in (match.title, match.heading_path, match.text) if part)
