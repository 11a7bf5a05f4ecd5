"""Two lists of matches in, one ranking out. Pure: no store, no clock, no disk.

``gather`` joins the lists, ``score_chunks`` adds the parts of each chunk up (evidence.py says how far words are
trusted, names.py what a file is called), ``rank`` orders chunks by file. Guarantees: every candidate
is ranked once, equal scores keep the order of workspace, path and position, and nothing depends on the order in which
an engine returned equal scores.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass

from markdown_rag.search.evidence import coverage, gate, phrase, position, token_weights
from markdown_rag.search.names import Names
from markdown_rag.search.policy import SearchPolicy
from markdown_rag.search.query import Query
from markdown_rag.store.base import Match

_DOTTED = re.compile(r"[\w-]+(?:\.[\w-]+)+")
_FEW_TOKENS = 12  # up to so many are looked for one by one, in a third of the time of taking a text apart


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
    """A chunk at its place in the answer. order: what it was sorted by.

    weights: the query tokens' idf in its round; identifiers: the query's exact names.
    """

    chunk: Ranked
    order: float
    weights: Mapping[str, float]
    identifiers: tuple[str, ...] = ()

    @property
    def match(self) -> Match:
        """The row."""
        return self.chunk.candidate.match


@dataclass(frozen=True, slots=True)
class Scored:
    """All candidates of a round with their parts. weights: idf of the query's tokens; trust: the gate.

    identifiers: the query's exact names.
    """

    chunks: tuple[Ranked, ...]
    weights: Mapping[str, float]
    trust: float
    identifiers: tuple[str, ...] = ()


def gather(query: Query, dense: Sequence[Match], lexical: Sequence[Match]) -> list[Candidate]:
    """The union of both lists, one candidate a row."""
    similarity = {match.id: match.score for match in dense}
    keyword = {match.id: match.score for match in lexical}
    held_in = _holder(frozenset(query.tokens))
    rows = {match.id: match for match in (*lexical, *dense)}
    return [
        Candidate(match, similarity.get(id_), keyword.get(id_), held_in(match.lexical)) for id_, match in rows.items()
    ]


def _holder(wanted: frozenset[str]) -> Callable[[str], frozenset[str]]:
    """A function from lexical text (tokens joined by single blanks) to the wanted ones that it holds."""
    if len(wanted) > _FEW_TOKENS:
        return lambda text: wanted.intersection(text.split())
    sought = [(token, f" {token} ") for token in sorted(wanted)]

    def held(text: str) -> frozenset[str]:
        framed = f" {text} "
        return frozenset([token for token, word in sought if word in framed])

    return held


def as_written(names: Sequence[str], match: Match) -> float:
    """The share of exact names that a chunk, its title or its path holds letter by letter, in any case.

    Tokens alone do not tell ``--pattern`` from the word, nor ``a.b`` from a longer name that begins with it.
    """
    text = f"{match.title}\n{match.path}\n{match.text}".casefold()
    return sum(written(name.casefold(), text) for name in names) / len(names) if names else 0.0


def written(name: str, text: str) -> float:
    """1 where the text holds the name, both folded; of a dotted path the share of its longest end that the text holds.

    What a page says of ``markup.goldmark.renderer.unsafe`` stands there as ``renderer.unsafe``.
    """
    parts = name.split(".") if _DOTTED.fullmatch(name) else [name]
    for start in range(max(1, len(parts) - 1)):
        end = ".".join(parts[start:])
        if end in text and re.search(rf"(?<!\w){re.escape(end)}(?!\w)", text):
            return (len(parts) - start) / len(parts)
    return 0.0


def score_chunks(query: Query, candidates: Sequence[Candidate], policy: SearchPolicy, spread: float) -> Scored:
    """Every candidate with its parts and sum. spread: the model's dense_spread where the policy sets none."""
    weights = token_weights(query, candidates)
    trust = gate(candidates, weights, policy)
    most = max((candidate.lexical or 0.0 for candidate in candidates), default=0.0)
    similarity = _stretch([c.dense for c in candidates if c.dense is not None], policy, spread)
    score = _by_name if query.names and query.telling <= policy.identifier_words and most > 0 else _by_parts
    asked = _Asked(query, policy, weights, trust, Names(query, policy))
    shares = {held: coverage(held, weights) for held in {candidate.held for candidate in candidates}}
    ranked = []
    for candidate in candidates:
        keyword = (candidate.lexical or 0.0) / most if most else 0.0
        ranked.append(score(asked, candidate, keyword, similarity(candidate.dense), shares[candidate.held]))
    return Scored(tuple(ranked), weights, trust, query.identifiers)


@dataclass(frozen=True, slots=True)
class _Asked:
    """What every candidate of a round is scored by."""

    query: Query
    policy: SearchPolicy
    weights: Mapping[str, float]
    trust: float
    names: Names


def _by_name(asked: _Asked, candidate: Candidate, keyword: float, dense: float, held: float) -> Ranked:
    """A query that is an exact name: keywords and the name as written; similarity is the tail."""
    policy, match = asked.policy, candidate.match
    order = keyword + policy.identifier_dense * dense
    if policy.identifier_exact:
        order += policy.identifier_exact * as_written(asked.query.names, match)
    order += _exact_name(asked, match)
    return Ranked(candidate, keyword, dense, asked.trust * asked.names.overlap(match), held, order)


def _by_parts(asked: _Asked, candidate: Candidate, keyword: float, dense: float, held: float) -> Ranked:
    """Every other query: words as far as they are trusted, meaning, names, and for a question where it is answered."""
    policy, match = asked.policy, candidate.match
    keyword *= asked.trust
    title = asked.trust * asked.names.overlap(match)
    order = policy.lexical_weight * keyword + policy.dense_weight * dense + policy.title_weight * title
    order += _exact_name(asked, match)
    if policy.phrase_weight:
        order += policy.phrase_weight * asked.trust * phrase(asked.query, match, candidate.held, asked.weights)
    if asked.query.words > policy.entity_words:
        order += policy.opening_weight * (match.ord == 0)
    if match.end_byte - match.start_byte < policy.thin_bytes:
        order *= 0.5 + 0.5 * (match.end_byte - match.start_byte) / policy.thin_bytes
    return Ranked(candidate, keyword, dense, title, held, order)


def _exact_name(asked: _Asked, match: Match) -> float:
    """What a file gains whose name the query is; most its opening, which says what the name stands for."""
    policy = asked.policy
    if not policy.exact_name or not asked.names.exact(match):
        return 0.0
    return policy.exact_name + policy.opening_weight * (match.ord == 0)


def rank(scored: Scored, policy: SearchPolicy, file_of: Callable[[Match], Hashable]) -> list[Placed]:
    """Chunks best first, at most per_file of one file.

    A file's best chunk stands for it and takes second_chunk times the second-best with it; further chunks of the file,
    where the policy allows them, stand for themselves.
    """
    files: dict[Hashable, list[Ranked]] = {}
    for chunk in sorted(scored.chunks, key=lambda chunk: (-chunk.order, *position(chunk.candidate.match))):
        files.setdefault(file_of(chunk.candidate.match), []).append(chunk)
    placed = []
    for best, *others in files.values():
        second = policy.second_chunk * others[0].order if others else 0.0
        placed.append(Placed(best, best.order + second, scored.weights, scored.identifiers))
        further = others[: policy.per_file - 1] if policy.per_file else others
        placed.extend(Placed(chunk, chunk.order, scored.weights, scored.identifiers) for chunk in further)
    return sorted(placed, key=lambda item: (-item.order, *position(item.match)))


def _stretch(similarities: Sequence[float], policy: SearchPolicy, spread: float) -> Callable[[float | None], float]:
    if not similarities:
        return lambda _: 0.0
    low = min(similarities)
    least = spread if policy.dense_spread is None else policy.dense_spread
    width = max(least, max(similarities) - low)
    # A single candidate, or several that are equally near, are all as good as the leg can say.
    return lambda value: 0.0 if value is None else (_clip((value - low) / width) if width > 0 else 1.0)


def _clip(value: float) -> float:
    return min(1.0, max(0.0, value))
