"""Two lists of matches in, one ranking out. Pure: no store, no clock, no disk.

Each step is its own function. ``gather`` joins the lists, ``gate`` says how far keywords can be trusted for this
query, ``score_chunks`` adds the parts of each chunk up, ``rank`` orders chunks by file. Guarantees: every candidate
is ranked once, equal scores keep the order of workspace, path and position, and nothing depends on the order in which
an engine returned equal scores.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import PurePosixPath

from markdown_rag.markdown.lexical import tokens as analyze
from markdown_rag.search.policy import SearchPolicy
from markdown_rag.search.query import Query
from markdown_rag.store.base import Match


@dataclass(frozen=True, slots=True)
class Candidate:
    """A chunk that at least one leg found. dense: inner product; lexical: BM25; None where the leg did not find it.

    held: those of the query's tokens that the chunk's lexical text holds.
    """

    match: Match
    dense: float | None
    lexical: float | None
    held: frozenset[str]


@dataclass(frozen=True, slots=True)
class Ranked:
    """A candidate with the parts of its ranking sum, each 0 to 1. order: the sum; it compares only in one query.

    coverage: the idf-weighted share of the query's tokens that the chunk holds.
    """

    candidate: Candidate
    lexical: float
    dense: float
    title: float
    coverage: float
    order: float


@dataclass(frozen=True, slots=True)
class Placed:
    """A chunk at its place in the answer. order: what it was sorted by; weights: the query tokens' idf in its round."""

    chunk: Ranked
    order: float
    weights: Mapping[str, float]

    @property
    def match(self) -> Match:
        """The row."""
        return self.chunk.candidate.match


@dataclass(frozen=True, slots=True)
class Scored:
    """All candidates of a round with their parts. weights: idf of the query's tokens; trust: the gate."""

    chunks: tuple[Ranked, ...]
    weights: Mapping[str, float]
    trust: float


def gather(query: Query, dense: Sequence[Match], lexical: Sequence[Match]) -> list[Candidate]:
    """The union of both lists, one candidate a row."""
    similarity = {match.id: match.score for match in dense}
    keyword = {match.id: match.score for match in lexical}
    wanted = frozenset(query.tokens)
    rows = {match.id: match for match in (*lexical, *dense)}
    return [
        Candidate(match, similarity.get(id_), keyword.get(id_), wanted.intersection(match.lexical.split()))
        for id_, match in rows.items()
    ]


def token_weights(query: Query, candidates: Sequence[Candidate]) -> dict[str, float]:
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


def gate(candidates: Sequence[Candidate], weights: Mapping[str, float], policy: SearchPolicy) -> float:
    """How far keywords count for this query, 0 to 1: by the best coverage among the top keyword chunks.

    One word of a longer query stands in some chunk by chance, so what counts is the coverage beyond one word. Without a
    keyword chunk every candidate is looked at: titles count where a server has no keyword search. Without a dense one
    there is nothing to weigh keywords against.
    """
    if all(candidate.dense is None for candidate in candidates):
        return 1.0
    found = [candidate for candidate in candidates if candidate.lexical is not None]
    top = sorted(found, key=lambda candidate: (-(candidate.lexical or 0.0), *_position(candidate.match)))
    best = max(coverage(candidate.held, weights) for candidate in top[: policy.gate_top] or candidates)
    words = len(weights)
    beyond = (best * words - 1) / (words - 1) if words > 1 else best
    return _clip(beyond / policy.gate_full) if policy.gate_full else 1.0


def title_overlap(query: Query, match: Match) -> float:
    """The best cosine between the query's tokens and those of the title, the file's stem or an alias, 0 to 1."""
    wanted = frozenset(query.tokens)
    if not wanted:
        return 0.0
    names = _names(match.title, match.path, match.aliases)
    return max((len(wanted & name) / math.sqrt(len(wanted) * len(name)) for name in names), default=0.0)


def as_written(names: Sequence[str], match: Match) -> float:
    """The share of exact names that a chunk, its title or its path holds letter by letter, in any case.

    Tokens alone do not tell ``--pattern`` from the word, nor ``a.b`` from a longer name that begins with it.
    """
    text = f"{match.title}\n{match.path}\n{match.text}".casefold()
    found = sum(bool(re.search(rf"(?<!\w){re.escape(name.casefold())}(?!\w)", text)) for name in names)
    return found / len(names) if names else 0.0


def score_chunks(query: Query, candidates: Sequence[Candidate], policy: SearchPolicy, spread: float) -> Scored:
    """Every candidate with its parts and sum. spread: the model's dense_spread where the policy sets none."""
    weights = token_weights(query, candidates)
    trust = gate(candidates, weights, policy)
    most = max((candidate.lexical or 0.0 for candidate in candidates), default=0.0)
    similarity = _stretch([c.dense for c in candidates if c.dense is not None], policy, spread)
    by_name = bool(query.names) and query.words <= policy.identifier_words and most > 0
    ranked = []
    for candidate in candidates:
        held = coverage(candidate.held, weights)
        keyword = (candidate.lexical or 0.0) / most if most else 0.0
        dense = similarity(candidate.dense)
        title = trust * title_overlap(query, candidate.match)
        if by_name:
            keyword *= held
            exact = policy.identifier_exact * as_written(query.names, candidate.match)
            order = keyword + exact + policy.identifier_dense * dense
        else:
            keyword *= trust * (1 - policy.coordination + policy.coordination * held)
            order = policy.lexical_weight * keyword + policy.dense_weight * dense + policy.title_weight * title
        ranked.append(Ranked(candidate, keyword, dense, title, held, order))
    return Scored(tuple(ranked), weights, trust)


def rank(scored: Scored, policy: SearchPolicy, file_of: Callable[[Match], Hashable]) -> list[Placed]:
    """Chunks best first, at most per_file of one file.

    A file's best chunk stands for it and takes second_chunk times the second-best with it; further chunks of the file,
    where the policy allows them, stand for themselves.
    """
    files: dict[Hashable, list[Ranked]] = {}
    for chunk in sorted(scored.chunks, key=lambda chunk: (-chunk.order, *_position(chunk.candidate.match))):
        files.setdefault(file_of(chunk.candidate.match), []).append(chunk)
    placed = []
    for best, *others in files.values():
        second = policy.second_chunk * others[0].order if others else 0.0
        placed.append(Placed(best, best.order + second, scored.weights))
        further = others[: policy.per_file - 1] if policy.per_file else others
        placed.extend(Placed(chunk, chunk.order, scored.weights) for chunk in further)
    return sorted(placed, key=lambda item: (-item.order, *_position(item.match)))


def _stretch(similarities: Sequence[float], policy: SearchPolicy, spread: float) -> Callable[[float | None], float]:
    if not similarities:
        return lambda _: 0.0
    low = min(similarities)
    least = spread if policy.dense_spread is None else policy.dense_spread
    width = max(least, max(similarities) - low)
    # A single candidate, or several that are equally near, are all as good as the leg can say.
    return lambda value: 0.0 if value is None else (_clip((value - low) / width) if width > 0 else 1.0)


def _position(match: Match) -> tuple[str, str, int]:
    return match.workspace, match.path, match.ord


def _clip(value: float) -> float:
    return min(1.0, max(0.0, value))


@lru_cache(maxsize=10_000)
def _names(title: str, path: str, aliases: tuple[str, ...]) -> tuple[frozenset[str], ...]:
    """The tokens of everything a file is called, without what has none."""
    found = (frozenset(analyze(name)) for name in (title, PurePosixPath(path).stem, *aliases))
    return tuple(name for name in found if name)
