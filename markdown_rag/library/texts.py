"""A document's text, wherever it comes from: the file on this machine, or the rows of the index.

Both give the same text for the same bytes, with its lines and bytes in the file; the index has no text for what it
leaves out, and knows bytes only where the file was UTF-8. Pure over what was read.
"""

from __future__ import annotations

import hashlib
from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Literal, Protocol

from markdown_rag.markdown.chunking import Chunk
from markdown_rag.markdown.decoding import Decoded
from markdown_rag.store.base import Match

Source = Literal["disk", "index"]
Row = Match | Chunk  # a passage as stored, or as the file's bytes give it now


@dataclass(frozen=True, slots=True)
class Exact:
    """What proves a span: its text as the file has it, its bytes and their sha256. exact False: not to be had."""

    text: str
    start_byte: int
    end_byte: int
    sha256: str
    exact: bool


class Text(Protocol):
    """A document's text. Positions are characters of ``text``; lines are 1-based, as in an editor."""

    @property
    def text(self) -> str:
        """All of it, with newlines as LF."""
        ...

    @property
    def source(self) -> Source:
        """Where it comes from."""
        ...

    @property
    def lines(self) -> int:
        """The last line."""
        ...

    def line(self, position: int) -> int:
        """The line that holds a character."""
        ...

    def line_start(self, line: int) -> int:
        """Where a line begins, or the next one that there is; len(text) beyond the last."""
        ...

    def span(self, first: Row, last: Row) -> tuple[int, int]:
        """From where one row begins to where another ends."""
        ...

    def exact(self, start: int, end: int) -> Exact:
        """What proves a span."""
        ...


@dataclass(frozen=True, slots=True)
class DiskText:
    """A file as it is now."""

    data: bytes
    decoded: Decoded
    source: Source = "disk"

    @property
    def text(self) -> str:
        """All of it, with newlines as LF."""
        return self.decoded.text

    @property
    def lines(self) -> int:
        """The last line."""
        return self.line(max(0, len(self.text) - 1))

    def line(self, position: int) -> int:
        """The line that holds a character."""
        return self.decoded.lines.line(position)

    def line_start(self, line: int) -> int:
        """Where a line begins."""
        newlines = self.decoded.lines.newlines
        if line <= 1:
            return 0
        return newlines[line - 2] + 1 if line - 2 < len(newlines) else len(self.text)

    def span(self, first: Row, last: Row) -> tuple[int, int]:
        """From where one row begins to where another ends."""
        return self._position(first.start_byte), self._position(last.end_byte)

    def _position(self, byte: int) -> int:
        return bisect_left(range(len(self.text)), byte, key=self.decoded.lines.byte_offset)

    def exact(self, start: int, end: int) -> Exact:
        """The file's own bytes."""
        lines = self.decoded.lines
        first, last = lines.byte_offset(start) if start else 0, lines.byte_offset(end)  # a mark is the beginning's
        data = self.data[first:last]
        digest = hashlib.sha256(data).hexdigest()
        try:
            return Exact(data.decode(self.decoded.encoding), first, last, digest, exact=True)
        except UnicodeDecodeError:
            return Exact(self.text[start:end], first, last, digest, exact=False)


@dataclass(frozen=True, slots=True)
class StoredText:
    """The rows of one generation in order, joined; what two rows share stands once. starts: of each row's share."""

    rows: tuple[Match, ...]
    text: str
    starts: tuple[int, ...]
    skipped: tuple[int, ...]  # characters of each row that the one before it holds already
    source: Source = field(default="index")

    @classmethod
    def of(cls, rows: Sequence[Match]) -> StoredText:
        """The joined text of rows in order."""
        parts: list[str] = []
        starts: list[int] = []
        skipped: list[int] = []
        at = 0
        for number, row in enumerate(rows):
            before = rows[number - 1] if number else None
            shared = shared_length(before, row) if before else 0
            starts.append(at)
            skipped.append(shared)
            parts.append(row.text[shared:])
            at += len(parts[-1])
        return cls(tuple(rows), "".join(parts), tuple(starts), tuple(skipped))

    @property
    def lines(self) -> int:
        """The last line."""
        return self.rows[-1].end_line if self.rows else 1

    def _row(self, position: int) -> int:
        return max(0, bisect_right(self.starts, position) - 1)

    def line(self, position: int) -> int:
        """The line that holds a character."""
        number = self._row(position)
        row, within = self.rows[number], self.skipped[number] + position - self.starts[number]
        return row.start_line + row.text.count("\n", 0, within)

    def line_start(self, line: int) -> int:
        """Where a line begins, or the next one that there is."""
        for number, row in enumerate(self.rows):
            if line > row.end_line:
                continue
            within = 0
            for _ in range(line - row.start_line):
                within = row.text.find("\n", within) + 1 or len(row.text)
            return max(self.starts[number], self.starts[number] + within - self.skipped[number])
        return len(self.text)

    def span(self, first: Row, last: Row) -> tuple[int, int]:
        """From where one row begins to where another ends."""
        start = self.starts[first.ord] - self.skipped[first.ord]
        return max(0, start), self.starts[last.ord] - self.skipped[last.ord] + len(last.text)

    def exact(self, start: int, end: int) -> Exact:
        """The file's bytes where the rows prove them: UTF-8 with LF, no gap between the rows of the span."""
        text = self.text[start:end]
        first, last = self._row(start), self._row(max(start, end - 1))
        rows = self.rows[first : last + 1]
        whole = all(_is_plain(row) for row in rows)
        whole &= all(one.end_byte >= other.start_byte for one, other in pairwise(rows))
        data = text.encode()
        if not rows or not whole:
            ends = (rows[0].start_byte, rows[-1].end_byte) if rows else (0, 0)
            return Exact(text, *ends, "", exact=False)
        head = rows[0].text[: self.skipped[first] + start - self.starts[first]]
        start_byte = rows[0].start_byte + len(head.encode())
        return Exact(text, start_byte, start_byte + len(data), hashlib.sha256(data).hexdigest(), exact=True)


def _is_plain(row: Match) -> bool:
    """Whether a row's text is the file's bytes, as UTF-8 with LF is."""
    return len(row.text.encode()) == row.end_byte - row.start_byte


def shared_length(before: Match, after: Match) -> int:
    """How many characters at the start of a row's text the row before it holds already."""
    overlap = before.end_byte - after.start_byte
    if overlap <= 0:
        return 0
    data = after.text.encode()
    if _is_plain(before) and _is_plain(after):
        return len(data[:overlap].decode("utf-8", "ignore"))
    most = min(len(before.text), len(after.text), overlap)
    return next((size for size in range(most, 0, -1) if before.text.endswith(after.text[:size])), 0)
