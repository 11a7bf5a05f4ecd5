"""How far a query's words can be trusted, seen from the chunks they were found in. Pure.

It rests on coverage: the share of the query's weight that a chunk holds.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Protocol

from markdown_rag.search.policy import SearchPolicy
from markdown_rag.search.query import Query
from markdown_rag.store.base import Match


class Holding(Protocol):
    """A candidate as it is looked at here."""

    @property
    def match(self) -> Match:
        """The row."""
        ...

    @property
    def dense(self) -> float | None:
        """Its similarity, None where the leg did not find it."""
        ...

    @property
    def lexical(self) -> float | None:
        """Its BM25, None where the leg did not find it."""
        ...

    @property
    def held(self) -> frozenset[str]:
        """The query's tokens that it holds."""
        ...


def token_weights(query: Query, candidates: Sequence[Holding]) -> dict[str, float]:
    """The idf of each query token over the candidates: ln(1 + (n + ½) / (df + ½))."""
    counts = dict.fromkeys(query.tokens, 0)
    for candidate in candidates:
        for token in candidate.held:
            counts[token] += 1
    size = len(candidates)
    return {token: math.log(1 + (size + 0.5) / (df + 0.5)) for token, df in counts.items()}


def coverage(held: Iterable[str], weights: Mapping[str, float]) -> float:
    """The share of the query's weight that a chunk holds, 0 to 1; 0 for a query without tokens."""
    total = sum(weights.values())
    return min(1.0, sum(weights[token] for token in sorted(held)) / total) if total else 0.0


def gate(candidates: Sequence[Holding], weights: Mapping[str, float], policy: SearchPolicy) -> float:
    """How far keywords count for this query, 0 to 1: by the best coverage among the top keyword chunks.

    One word of a longer query stands in some chunk by chance, so what counts is the coverage beyond one word. Without a
    keyword chunk every candidate is looked at: titles count where a server has no keyword search. Without a dense one
    there is nothing to weigh keywords against.
    """
    if not policy.gate_full or all(candidate.dense is None for candidate in candidates):
        return 1.0
    found = [candidate for candidate in candidates if candidate.lexical is not None]
    top = sorted(found, key=lambda candidate: (-(candidate.lexical or 0.0), *position(candidate.match)))
    best = max(coverage(candidate.held, weights) for candidate in top[: policy.gate_top] or candidates)
    words = len(weights)
    chance = policy.gate_low if policy.gate_low is not None else 1 / words if words > 1 else 0.0
    return min(1.0, max(0.0, (best - chance) / (1 - chance) / policy.gate_full))


def phrase(query: Query, match: Match, held: frozenset[str], weights: Mapping[str, float]) -> float:
    """The share of the query's neighbouring words that stand side by side in the chunk, 0 to 1, by their weight."""
    if len(held) < 2:
        return 0.0
    text = f" {match.lexical} "
    whole = found = 0.0
    for one, other in zip(query.tokens, query.tokens[1:], strict=False):
        weight = math.sqrt(weights[one] * weights[other])
        whole += weight
        if weight and one in held and other in held and f" {one} {other} " in text:
            found += weight
    return found / whole if whole else 0.0


def position(match: Match) -> tuple[str, str, int]:
    """Where equal scores are ordered by: workspace, path, place in the file."""
    return match.workspace, match.path, match.ord
