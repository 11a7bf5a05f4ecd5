"""Candidates are fetched, ranked and limited per file until an answer is full.

Guarantees: k chunks whenever k exist in the scope within the per-file limit, in an order that a later round never
changes, and an end: every further round asks for more or finds something.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from markdown_rag.search import ranking
from markdown_rag.search.candidates import one_workspace_a_file, settled
from markdown_rag.search.catalog import Catalog
from markdown_rag.search.copies import Copy, copy_of
from markdown_rag.search.generations import FileKey, key_of
from markdown_rag.search.hits import Places
from markdown_rag.search.legs import Legs
from markdown_rag.search.parts import take_turns
from markdown_rag.search.policy import SearchPolicy
from markdown_rag.search.query import Query
from markdown_rag.search.ranking import Placed
from markdown_rag.search.relevance import FEWEST, DenseScale, nothing_relevant, relevance
from markdown_rag.store.base import Match, Where

_NAMED = 4  # copies are looked for among so many times the chunks that are shown


@dataclass(frozen=True, slots=True)
class Collected:
    """Chunks best first.

    more: there are others behind them. passed_over: what was found where none is relevant. copies: what says the same
    as a chunk and is not shown for it, by the chunk's id.
    """

    placed: list[Placed]
    more: bool
    passed_over: list[Placed] = field(default_factory=list)
    copies: Mapping[str, Sequence[Copy]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Collector:
    """What one search is made of."""

    legs: Legs
    catalog: Catalog
    query: Query
    policy: SearchPolicy
    places: Places
    scale: DenseScale

    def collect(self, where: Where, k: int) -> Collected:
        """The best k chunks in their final order."""
        page, asked, limit = (
            _Page(self.policy.per_file, k if self.policy.fold_copies else 0),
            where,
            self.policy.candidates(k),
        )
        while True:
            placed, exhausted, relevant = self._round(asked, limit)
            if not relevant and not page.placed:
                return Collected([], more=False, passed_over=placed)
            grew = page.add(placed, self.places.identity)
            stuck = not grew and limit >= self.policy.max_candidates
            if len(page.placed) >= k or exhausted or stuck:
                return Collected(page.placed[:k], len(page.placed) > k or not exhausted, copies=page.copies)
            # One file may fill both lists however long they are, so files that have all their hits are left out.
            full = page.full_paths(self.catalog.snapshot(where.workspaces).files)
            asked = replace(where, exclude_paths=(*where.exclude_paths, *full))
            limit = min(2 * limit, self.policy.max_candidates)

    def _round(self, where: Where, limit: int) -> tuple[list[Placed], bool, bool]:
        """All candidates in order, whether there are no others, and whether any of them is relevant."""
        found = one_workspace_a_file(settled(self.legs, self.catalog, where, limit), self.places.identity)
        candidates = ranking.gather(self.query, found.dense, found.lexical)
        scored = ranking.score_chunks(self.query, candidates, self.policy, self.scale.spread)
        near = [candidate.dense for candidate in candidates if candidate.dense is not None]
        scores = (relevance(chunk.coverage, chunk.candidate.dense, self.scale) for chunk in scored.chunks)
        surest = max(scores, default=0.0)
        few = len(near) < FEWEST and _is_chosen(where)
        relevant = few or not nothing_relevant(scored.trust, near, surest, self.scale, self.policy.floor)
        return ranking.rank(scored, self.policy, self.places.identity), found.exhausted, relevant


def _is_chosen(where: Where) -> bool:
    """Whether somebody chose where to look: then the best of a few chunks is an answer, however little it holds."""
    return bool(where.scope or where.within) or where.files is not None or where.paths is not None


def in_turn(answers: Sequence[Collected], policy: SearchPolicy, places: Places, k: int) -> Collected:
    """The best k chunks of the answers to a question's parts, each part in its turn."""
    if len(answers) == 1:
        return answers[0]
    page = _Page(policy.per_file, k if policy.fold_copies else 0)
    page.add(take_turns([answer.placed for answer in answers]), places.identity)
    more = len(page.placed) > k or any(answer.more for answer in answers)
    passed_over = [] if page.placed else [item for answer in answers for item in answer.passed_over]
    copies: dict[str, list[Copy]] = {}
    for known in (page.copies, *(answer.copies for answer in answers)):
        for id_, found in known.items():
            copies.setdefault(id_, []).extend(found)
    return Collected(page.placed[:k], more, passed_over, copies)


@dataclass(slots=True)
class _Page:
    """Hits as they are gathered over several rounds. wanted: how many of them say something of their own, 0 for any."""

    per_file: int
    wanted: int = 0
    placed: list[Placed] = field(default_factory=list)
    copies: dict[str, list[Copy]] = field(default_factory=dict)
    _counts: Counter[Hashable] = field(default_factory=Counter)
    _ids: set[str] = field(default_factory=set)

    def add(self, placed: Iterable[Placed], file_of: Callable[[Match], Hashable]) -> bool:
        """Append what is new and within the per-file limit; whether anything was."""
        before = len(self.placed)
        for item in placed:
            file = file_of(item.match)
            if item.match.id in self._ids or (self.per_file and self._counts[file] >= self.per_file):
                continue
            self._ids.add(item.match.id)
            self._counts[file] += 1
            if not self._folded(item):
                self.placed.append(item)
        return len(self.placed) > before

    def _folded(self, item: Placed) -> bool:
        """Whether a chunk says the same as one that will be shown, under which it is then named."""
        if len(self.placed) >= _NAMED * self.wanted:
            return False
        for shown in self.placed[: self.wanted]:
            if copy := copy_of(shown.chunk, item.chunk):
                self.copies.setdefault(shown.match.id, []).append(copy)
                return True
        return False

    def full_paths(self, files: Iterable[FileKey]) -> list[str]:
        """Paths that need not be searched again: every file of that path, in any workspace, has all its hits."""
        if not self.per_file:
            return []
        counts = Counter(key_of(item.match) for item in self.placed)
        full = {key for key, count in counts.items() if count >= self.per_file}
        paths = {path for _, path in full}
        return sorted(paths - {path for workspace, path in files if path in paths and (workspace, path) not in full})
