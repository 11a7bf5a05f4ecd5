"""Hits that say different things first: maximal marginal relevance over the words of the chunks. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from markdown_rag.search.ranking import Placed


def diversify(placed: Sequence[Placed], k: int, cost: float) -> list[Placed]:
    """K of the chunks, each the best by its place's order less cost times its likeness to those before it.

    Likeness is the share of common words (Jaccard), 0 to 1; order is taken relative to the best one's. The best chunk
    stays first, and of equals the earlier one comes first.
    """
    if not placed:
        return []
    most = max(placed[0].order, 1e-9)
    words = [frozenset(item.match.lexical.split()) for item in placed]
    nearest = [0.0] * len(placed)
    left = list(range(len(placed)))
    chosen: list[int] = []
    while left and len(chosen) < k:
        best = max(left, key=lambda at: (placed[at].order / most - cost * nearest[at], -at))
        left.remove(best)
        chosen.append(best)
        for at in left:
            nearest[at] = max(nearest[at], _likeness(words[best], words[at]))
    return [placed[at] for at in chosen]


def _likeness(one: frozenset[str], other: frozenset[str]) -> float:
    return len(one & other) / len(one | other) if one or other else 1.0
