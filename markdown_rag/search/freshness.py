"""Whether a hit is still true: the file on disk against the hash of what was indexed.

Only files that are cited are read, once each, up to a bound. Size and time are never taken as proof. In a file that has
changed the cited text is looked for: where it still stands, the hit is true at other lines.
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

    fresh: the file's bytes are those that were indexed. moved: they are not, but the same text stands in it. changed:
    it does not. deleted: the file is gone from a directory that is there. remote: its workspace is not on this machine.
    unchecked: it is too large to read for an answer, or could not be read.
    """

    FRESH = "fresh"
    MOVED = "moved"
    CHANGED = "changed"
    DELETED = "deleted"
    REMOTE = "remote"
    UNCHECKED = "unchecked"


@dataclass(frozen=True, slots=True)
class Standing:
    """Where a passage stands now. start_line: its first line, 0 where it is not known to stand anywhere."""

    freshness: Freshness
    start_line: int = 0


def freshness(root: Path | None, path: str, file_hash: str, limit: int) -> Freshness:
    """Compare a file with the sha256 that was indexed. root: the workspace on this machine, None if it is elsewhere."""
    return _look(root, path, file_hash, limit)[0]


def standing(root: Path | None, path: str, file_hash: str, limit: int, *, text: str, start_line: int) -> Standing:
    """Where a passage stands that was indexed from this line on."""
    fresh, data = _look(root, path, file_hash, limit)
    if fresh is Freshness.FRESH:
        return Standing(fresh, start_line)
    if fresh is not Freshness.CHANGED or not data or len(data) > _LOOKED_THROUGH:
        return Standing(fresh)
    decoded = decode(data)
    at = find_passage(decoded, text, start_line) if isinstance(decoded, Decoded) else -1
    if not isinstance(decoded, Decoded) or at < 0:
        return Standing(Freshness.CHANGED)
    return Standing(Freshness.MOVED, decoded.lines.line(at) - _blank_lines(text))


def find_passage(decoded: Decoded, text: str, start_line: int) -> int:
    """Where a passage stands in a text, nearest to a line; -1 where it does not. A short one must be whole lines."""
    words = text.strip("\n")
    if not words.strip():
        return -1
    places = []
    at = decoded.text.find(words)
    while at >= 0:
        end = at + len(words)
        starts, ends = decoded.text[at - 1 : at] in {"", "\n"}, decoded.text[end : end + 1] in {"", "\n"}
        if (starts and ends) or len(words) >= _TELLING:
            places.append(at)
        at = decoded.text.find(words, at + 1)
    wanted = start_line + _blank_lines(text)
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
