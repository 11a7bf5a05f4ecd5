"""A ranked chunk becomes what the user gets: a place on this machine, an excerpt, a score, and its freshness."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Hashable, Sequence
from pathlib import Path

from markdown_rag.markdown.chunking import HEADING_JOIN
from markdown_rag.markdown.decoding import Decoded, decode
from markdown_rag.markdown.frontmatter import split_front_matter
from markdown_rag.markdown.outline import headings_before, headings_over, joined_path
from markdown_rag.search.answer import Hit
from markdown_rag.search.copies import Copy
from markdown_rag.search.excerpt import excerpt
from markdown_rag.search.freshness import Cited, standing
from markdown_rag.search.policy import SearchPolicy
from markdown_rag.search.ranking import Placed
from markdown_rag.search.relevance import DenseScale, relevance
from markdown_rag.store.base import Match

Roots = Callable[[str], Path | None]
_LOOKED_THROUGH = 256 * 1024  # bytes of a file in which headings are looked for
_NEAR = 200  # bytes beside a chunk in which the rest of its line is looked for
_LINE_END = re.compile(rb"[\r\n]")
_BLANK = b" \t\0"  # in any encoding
_LINE_STARTS = _BLANK + b">*+-"


class Places:
    """Where workspaces are on this machine; each is asked for once, so one object serves one search."""

    def __init__(self, roots: Roots) -> None:
        self._roots = roots
        self._known: dict[str, Path | None] = {}
        self._absolute: dict[tuple[str, str], str] = {}

    def root(self, workspace: str) -> Path | None:
        """The workspace's folder, None if it is on another machine."""
        if workspace not in self._known:
            self._known[workspace] = self._roots(workspace)
        return self._known[workspace]

    def absolute(self, match: Match) -> str:
        """The file's path on this machine, or ""."""
        key = match.workspace, match.path
        known = self._absolute.get(key)
        if known is None:
            root = self.root(match.workspace)
            known = self._absolute[key] = "" if root is None else os.path.join(root, match.path)
        return known

    def named(self, copy: Copy, shown: Match) -> str:
        """What to call a copy of what is shown: its relative path there, its whole path in another workspace."""
        if copy.workspace == shown.workspace:
            return copy.path
        root = self.root(copy.workspace)
        return f"{copy.path} of workspace {copy.workspace}" if root is None else os.path.join(root, copy.path)

    def identity(self, match: Match) -> Hashable:
        """What makes two rows rows of one file: the place on disk, else workspace and path."""
        return self.absolute(match) or (match.workspace, match.path)


def make_hit(
    item: Placed, places: Places, policy: SearchPolicy, scale: DenseScale, *, copies: Sequence[Copy], first: bool
) -> Hit:
    """The hit of a placed chunk. Reads the file to tell whether it changed.

    copies: what is not shown for it. first: it leads the answer, so it is shown at greater length.
    """
    match = item.match
    budget = policy.excerpt_bytes if first else policy.further_excerpt_bytes
    shown = excerpt(match.text, match.start_line, item.weights, budget, match.prefix, identifiers=item.identifiers)
    now = standing(
        places.root(match.workspace),
        match.path,
        match.file_hash,
        policy.hash_bytes,
        passage=Cited(match.text, match.start_line),
        shown=Cited(shown.text, shown.start_line),
    )
    first_line, last_line = shown.start_line + now.shift, shown.end_line + now.shift
    absolute = places.absolute(match)
    named = [(places.named(copy, match), copy.how) for copy in copies]
    return Hit(
        id=match.id,
        workspace=match.workspace,
        path=match.path,
        absolute=absolute,
        title=match.title,
        heading_path=_heading(match, shown.answers_at, now.file),
        ord=match.ord,
        text_hash=match.text_hash,
        start_line=match.start_line + now.shift if now.whole else first_line,
        end_line=match.end_line + now.shift if now.whole else last_line,
        start_byte=match.start_byte,
        end_byte=match.end_byte,
        excerpt=shown.marked(before=_begins_in_a_line(match, now.file), after=_ends_in_a_line(match, now.file)),
        excerpt_start_line=first_line,
        excerpt_end_line=last_line,
        tags=match.tags,
        aliases=match.aliases,
        score=relevance(item.chunk.coverage, item.chunk.candidate.dense, scale),
        parts=_parts(item),
        freshness=now.freshness,
        indexed_line=shown.start_line,
        same_in=tuple(dict.fromkeys(f"{name} ({how})" for name, how in named if name != absolute)),
    )


def _begins_in_a_line(match: Match, file: bytes) -> bool:
    """Whether text of the same line stands before a chunk. file: where it is as it was indexed, else b""."""
    if match.ord == 0 or match.text.startswith("\n"):
        return False
    near = file[max(0, match.start_byte - _NEAR) : match.start_byte]
    return bool(_LINE_END.split(near)[-1].strip(_LINE_STARTS))


def _ends_in_a_line(match: Match, file: bytes) -> bool:
    """Whether text of the same line stands behind a chunk. file: where it is as it was indexed, else b""."""
    if match.text.endswith("\n"):
        return False
    near = file[match.end_byte : match.end_byte + _NEAR]
    return bool(_LINE_END.split(near)[0].strip(_BLANK))


def _heading(match: Match, at: int, file: bytes) -> str:
    """The headings above a character of a chunk, of which several sections may be in one.

    file: of the chunk, where it is as it was indexed. Of a heading's own parents those that stand before the chunk and
    are not of all its sections are only there.
    """
    begun = 0
    if match.start_line == 1 and match.ord == 0:  # where front matter may stand, which holds no headings
        front = split_front_matter(match.text)
        begun = front.kept or front.end
    if at < begun:
        return match.heading_path
    # A chunk that begins inside a fence or a table has its opening in the prefix.
    inside = headings_over(match.prefix + match.text[begun:], len(match.prefix) + at - begun)
    known = match.heading_path.count(HEADING_JOIN) + bool(match.heading_path)
    if inside and inside[0].level > known + 1 and (names := _names_in(file, match, at)):
        return HEADING_JOIN.join(names)
    return joined_path(match.heading_path, tuple(heading.text for heading in inside), HEADING_JOIN)


def _names_in(file: bytes, match: Match, at: int) -> tuple[str, ...]:
    """The headings of the file above a character of a chunk, () where that is not to be told at little cost."""
    decoded = decode(file) if 0 < len(file) <= _LOOKED_THROUGH else None
    if not isinstance(decoded, Decoded):
        return ()
    front = split_front_matter(decoded.text)
    begun, end = front.kept or front.end, decoded.lines.start(match.end_line + 2)
    line = match.start_line + match.text.count("\n", 0, at)
    return headings_before(decoded.text[begun:end], decoded.lines.start(line) - begun)


def _parts(item: Placed) -> dict[str, float]:
    chunk = item.chunk
    parts = {
        "coverage": chunk.coverage,
        "similarity": chunk.candidate.dense or 0.0,
        "bm25": chunk.candidate.lexical or 0.0,
        "lexical": chunk.lexical,
        "dense": chunk.dense,
        "title": chunk.title,
        "order": item.order,
    }
    return {name: round(value, 4) for name, value in parts.items()}
