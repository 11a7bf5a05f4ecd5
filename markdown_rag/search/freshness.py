"""Whether a hit is still true: the file on disk against the hash of what was indexed.

Only files that are cited are read, once each, up to a bound. Size and time are never taken as proof. In a file that has
changed the cited text is looked for: where it still stands, the hit is true, at other lines or at the same.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from markdown_rag.markdown.decoding import Decoded, decode
from markdown_rag.search.disk import Absence, read_file

_LOOKED_THROUGH = 2 * 1024 * 1024  # bytes of a changed file in which a passage is looked for

_TELLING = 80  # characters that stand nowhere by chance


class Freshness(StrEnum):
    """Where a cited passage stands.

    fresh: it stands where it was indexed, whatever changed elsewhere in the file. moved: it stands at other lines.
    changed: it is not in the file any more. deleted: the file is gone from a directory that is there. remote: its
    workspace is not on this machine. unchecked: it is too large to read for an answer, or could not be read.
    """

    FRESH = "fresh"
    MOVED = "moved"
    CHANGED = "changed"
    DELETED = "deleted"
    REMOTE = "remote"
    UNCHECKED = "unchecked"


@dataclass(frozen=True, slots=True)
class Standing:
    """Where a passage stands now.

    shift: how many lines further down than when it was indexed. whole: all of it stands there; else what is shown of it
    does. file: the bytes of its file where they are those that were indexed, else b"".
    """

    freshness: Freshness
    shift: int = 0
    whole: bool = True
    file: bytes = b""


@dataclass(frozen=True, slots=True)
class Cited:
    """A piece of text and the line it was indexed at."""

    text: str
    line: int


def freshness(root: Path | None, path: str, file_hash: str, limit: int) -> Freshness:
    """Compare a file with the sha256 that was indexed. root: the workspace on this machine, None if it is elsewhere."""
    return _look(root, path, file_hash, limit)[0]


def standing(root: Path | None, path: str, file_hash: str, limit: int, *, passage: Cited, shown: Cited) -> Standing:
    """Where a passage stands, or at least what is shown of it."""
    fresh, data = _look(root, path, file_hash, limit)
    if fresh is Freshness.FRESH:
        return Standing(fresh, file=data)
    if fresh is not Freshness.CHANGED or not data or len(data) > _LOOKED_THROUGH:
        return Standing(fresh)
    decoded = decode(data)
    if not isinstance(decoded, Decoded):
        return Standing(Freshness.CHANGED)
    for cited in (passage, shown):
        at = find_passage(decoded, cited.text, cited.line)
        if at >= 0:
            shift = decoded.lines.line(at) - _blank_lines(cited.text) - cited.line
            return Standing(Freshness.MOVED if shift else Freshness.FRESH, shift, cited is passage)
    return Standing(Freshness.CHANGED)


def find_passage(decoded: Decoded, text: str, start_line: int) -> int:
    """Where a passage stands in a text, nearest to a line; -1 where it does not. A short one must be whole lines."""
    words = text.strip("\n")
    if not words.strip():
        return -1
    body, wanted = decoded.text, start_line + _blank_lines(text)
    begin = decoded.lines.start(wanted)
    if len(words) < _TELLING:  # with the line ends round it; what is found begins where the words do in the text itself
        body, words = f"\n{body}\n", f"\n{words}\n"
    after = body.find(words, begin)
    if after >= 0 and decoded.lines.line(after) == wanted:
        return after
    # Two looks whatever the text repeats: the last place before is the first one backwards, and ``rfind`` can be slow.
    before = body[: begin + len(words) - 1]
    back = before[::-1].find(words[::-1])
    places = [len(before) - back - len(words)] if back >= 0 else []
    places += [after] if after >= 0 else []
    return min(places, key=lambda place: abs(decoded.lines.line(place) - wanted), default=-1)


def _blank_lines(text: str) -> int:
    """How many line ends a passage begins with."""
    return len(text) - len(text.lstrip("\n"))


def _look(root: Path | None, path: str, file_hash: str, limit: int) -> tuple[Freshness, bytes]:
    if root is None:
        return Freshness.REMOTE, b""
    found = read_file(root, path, limit)
    match found:
        case Absence.GONE:
            return Freshness.DELETED, b""
        case Absence.REPLACED:
            return Freshness.CHANGED, b""
        case Absence():
            return Freshness.UNCHECKED, b""
        case _:
            same = hashlib.sha256(found).hexdigest() == file_hash
            return (Freshness.FRESH if same else Freshness.CHANGED), found
