"""What is added behind the hits of a search: documents they require, and neighbours that answer the question too.

Hits are never displaced and never repeated, and what is added is never expanded again: it is reached from hits alone. A
neighbour must be about the question itself: its own score counts, less for each hop, and a weak one is left out. What
was excluded is neither added nor passed through; required documents may lie outside the scope and the tags.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from markdown_rag.library.graph import Graph, Step, required, walk
from markdown_rag.library.reader import ReadAnswer, Reader, ReadRequest
from markdown_rag.markdown.tokens import count
from markdown_rag.search.answer import Hit, SearchRequest
from markdown_rag.search.catalog import Snapshot
from markdown_rag.search.generations import FileKey
from markdown_rag.search.searcher import Searcher
from markdown_rag.search.selection import Selection
from markdown_rag.store.base import record_id

REQUIRED_HOPS, REQUIRED_DOCUMENTS, REQUIRED_TOKENS = 2, 3, 3_500
LINK_HOPS, LINK_SLOTS = 2, 2
LINK_CANDIDATES = 200  # neighbours that are asked about
DECAY = 0.7  # of a neighbour's score a hop
WORTH = 0.5  # of the best hit's score: what a neighbour's own must reach at one hop; below it is drift


@dataclass(frozen=True, slots=True)
class Required:
    """A document that was added because another requires it. text_hash: of its first chunk."""

    answer: ReadAnswer
    text_hash: str
    because_of: str


@dataclass(frozen=True, slots=True)
class Linked:
    """A hit that was added because it is linked with another. because_of: the path of the last one on the way."""

    hit: Hit
    because_of: str


@dataclass(frozen=True, slots=True)
class Expander:
    """Adds to the hits of one search.

    graph_of: the links of a workspace; root_of: where it is on this machine. may_add: what all that is added must meet.
    """

    reader: Reader
    searcher: Searcher
    snapshot: Snapshot
    graph_of: Callable[[str], Graph]
    root_of: Callable[[str], Path | None]
    may_add: Selection

    def required(self, hits: Sequence[Hit]) -> list[Required]:
        """The documents that hits require, nearest first; the budget of tokens is shared among them."""
        steps = self._reached(hits, lambda graph, paths: required(graph, paths, REQUIRED_HOPS))
        wanted = list(steps.items())[:REQUIRED_DOCUMENTS]
        left, found = REQUIRED_TOKENS, []
        for number, (key, step) in enumerate(wanted):
            entry = self.snapshot.files[key]
            request = ReadRequest(entry, max_tokens=left // (len(wanted) - number))
            answer = self.reader.read(request, self.root_of(entry.workspace))
            left -= count(answer.text)
            first = self.reader.store.get([record_id(entry.workspace, entry.path, entry.gen, 0)])
            found.append(Required(answer, first[0].text_hash if first else "", origin(step)))
        return found

    def linked(self, request: SearchRequest, hits: Sequence[Hit]) -> list[Linked]:
        """The neighbours that deserve a slot: a search among them alone, each score less for each hop."""
        steps = self._reached(hits, lambda graph, paths: walk(graph, paths, direction="both", hops=LINK_HOPS))
        allowed = {(entry.workspace, entry.path) for entry in self.snapshot.select(request.where)}
        near = [key for key in steps if key in allowed][:LINK_CANDIDATES]
        if not near:
            return []
        files: dict[str, list[str]] = {}
        for workspace, path in near:
            files.setdefault(workspace, []).append(path)
        where = replace(request.where, files=tuple((workspace, tuple(paths)) for workspace, paths in files.items()))
        found = self.searcher.search(replace(request, k=2 * LINK_SLOTS, where=where, per_file=1)).hits
        return worthy(found, steps, max(hit.score for hit in hits))

    def _reached(self, hits: Sequence[Hit], reach: Callable[[Graph, Iterable[str]], list[Step]]) -> dict[FileKey, Step]:
        """What is reached from the hits, nearest first, in the workspace of each."""
        workspaces = dict.fromkeys(hit.workspace for hit in hits)
        steps = [
            ((workspace, step.path), step)
            for workspace in workspaces
            for step in reach(self.graph_of(workspace), [hit.path for hit in hits if hit.workspace == workspace])
        ]
        found = dict(sorted(steps, key=lambda item: item[1].hops))
        return {key: step for key, step in found.items() if self._allows(key) and self._allows((key[0], origin(step)))}

    def _allows(self, key: FileKey) -> bool:
        entry = self.snapshot.files.get(key)
        return entry is not None and self.may_add.holds(entry)


def worthy(found: Sequence[Hit], steps: dict[FileKey, Step], best: float) -> list[Linked]:
    """The neighbours that are near enough to the question, best first. best: the highest score of the hits."""
    scored = []
    for hit in found:
        step = steps[hit.workspace, hit.path]
        score = hit.score * DECAY**step.hops
        if score >= WORTH * DECAY * best:
            scored.append((score, Linked(hit, origin(step))))
    scored.sort(key=lambda item: -item[0])
    return [linked for _, linked in scored[:LINK_SLOTS]]


def origin(step: Step) -> str:
    """The document a step was taken from."""
    return step.link.source if step.forward else step.link.target
