"""The id under which an answer names a passage: short, and good for longer than the row it came from. Pure.

``FILE-ORD-TEXT``: 12 hex digits of the file's place, the chunk's position, 8 hex digits of the embedded text's hash. It
is found again after the file was indexed anew, also where the text has moved in it, and it can tell that the text is
gone. ``passage_id`` and ``parse_id`` are each other's inverse.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from markdown_rag.paths import file_digest

_SHAPE = re.compile(r"(?:docs://)?([0-9a-f]{12})(?:-(\d{1,9})-([0-9a-f]{8}))?")


@dataclass(frozen=True, slots=True)
class PassageId:
    """An id's parts.

    file: of workspace and path. ord: the position it had. text: start of the text's hash, "" for the whole document.
    """

    file: str
    ord: int
    text: str


def passage_id(workspace: str, path: str, ord_: int, text_hash: str) -> str:
    """The id of a passage."""
    return f"{file_digest(workspace, path)}-{ord_}-{text_hash[:8]}"


def parse_id(given: str) -> PassageId | None:
    """The parts of a passage's id, or of a document's alone; None for what is neither."""
    found = _SHAPE.fullmatch(given.strip().lower())
    return PassageId(found[1], int(found[2] or 0), found[3] or "") if found else None


def parse_uri(given: str) -> PassageId | None:
    """The document that a URI names; None for what is no URI of ours."""
    return parse_id(given) if given.strip().lower().startswith("docs://") else None


@dataclass(frozen=True, slots=True)
class Continuation:
    """Where a text that was cut goes on: characters of a file with this hash, as the disk or the index has it."""

    source: str
    file: str
    file_hash: str
    start: int
    end: int

    def __str__(self) -> str:
        return f"{self.source}-{self.file}-{self.file_hash}-{self.start}-{self.end}"


_CONTINUATION = re.compile(r"(disk|index)-([0-9a-f]{12})-([0-9a-f]{12})-(\d{1,12})-(\d{1,12})")


def parse_continuation(given: str) -> Continuation | None:
    """A continuation from its text, None for what is none."""
    found = _CONTINUATION.fullmatch(given.strip().lower())
    return Continuation(found[1], found[2], found[3], int(found[4]), int(found[5])) if found else None
