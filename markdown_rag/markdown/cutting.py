"""Blocks become atoms: spans that are not cut any further, each within the limits.

A block stays whole where it fits. One that alone exceeds the limit is opened: a list at its items, a quote at its
blocks, a table at its rows, all else at the best border `splitting` finds. A fence or table that was opened carries its
opening line or header rows as the prefix of every later part.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

from markdown_rag.markdown.blobs import Blobs
from markdown_rag.markdown.outline import Block
from markdown_rag.markdown.splitting import MAX_TEXT, cut, overlap_start
from markdown_rag.markdown.tokens import count

MAX_PREFIX = 4_000  # bytes
_CHARS_PER_TOKEN = 12  # text this long for its room is opened without being counted as a whole
_SAFE_CHARS = MAX_TEXT // 4
_FENCE_LINE = re.compile(r"(`{3,}|~{3,})[^\n]*")


@dataclass(frozen=True, slots=True)
class Atom:
    """A span with its tokens.

    A piece that begins here takes `prefix` and begins at `first`, which costs `opening` tokens more; to one that ends
    here, embedding adds the line `closing`.
    """

    start: int
    end: int
    tokens: int
    first: int
    opening: int = 0
    prefix: str = ""
    closing: str = ""


@dataclass(frozen=True, slots=True)
class Frame:
    """The block around parts: what a part that begins behind `start` repeats, and one that ends before `end` adds."""

    start: int
    end: int
    prefix: str = ""
    opening: int = 0
    closing: str = ""


def part_size(room: int) -> int:
    """About how many tokens each part gets of what does not fit into the room.

    What fits is the author's own unit and stays whole. What has to be cut anyway is cut smaller than it must be: the
    same passages are found, with less text around them (docs/optimization.md).
    """
    return max(1, room * 3 // 4)


class Cutter:
    """Opens blocks into atoms for one document: its text, its blobs, the overlap in tokens."""

    def __init__(self, text: str, blobs: Blobs, overlap: int) -> None:
        self.text = text
        self.blobs = blobs
        self.overlap = overlap

    def tokens(self, start: int, end: int) -> int:
        """Tokens of what is embedded of a span."""
        return count(self.blobs.without(self.text, start, end))

    def bytes_fit(self, start: int, end: int) -> bool:
        """Whether a span may be stored as one text."""
        return end - start <= _SAFE_CHARS or len(self.text[start:end].encode()) <= MAX_TEXT

    def atoms(self, blocks: tuple[Block, ...], start: int, end: int, room: int) -> list[Atom]:
        """Tile text[start:end] by its blocks; what no block covers belongs to the block before it."""
        found: list[Atom] = []
        units = self._units(blocks, start, end)
        for index, (block, first, last) in enumerate(units):
            space = room
            if index == 1 and units[0][0].kind == "heading":
                space = max(room // 2, room - sum(atom.tokens for atom in found))  # a heading stays with its text
            found += self._unit(block, first, last, space)
        return found

    def smaller(self, atom: Atom, excess: int) -> list[Atom]:
        """An atom cut so that each part has about `excess` tokens less; [] if it is a single character."""
        if atom.end - atom.start < 2:
            return []
        spans = cut(self.text, atom.start, atom.end, atom.tokens - excess)
        if len(spans) == 1:
            middle = (atom.start + atom.end) // 2
            spans = [(a, b, self.tokens(a, b)) for a, b in ((atom.start, middle), (middle, atom.end))]
        opening = count(atom.prefix) if atom.prefix else 0
        parts = [Atom(a, b, tokens, a, opening, atom.prefix, atom.closing) for a, b, tokens in spans]
        parts[0] = replace(parts[0], first=atom.first, opening=atom.opening)
        return parts

    def _units(self, blocks: tuple[Block, ...], start: int, end: int) -> list[tuple[Block, int, int]]:
        """Blocks with the span each stands for: from the start of its first line to the next one's."""
        starts: list[tuple[int, Block]] = []
        for block in blocks:
            if block.end <= start or block.start >= end:
                continue
            begin = self._line_start(block.start, starts[-1][0] if starts else start)
            if not starts or begin > starts[-1][0]:
                starts.append((begin, block))
        if not starts or starts[0][0] > start:
            starts.insert(0, (start, Block("text", start, end)))
        borders = [begin for begin, _ in starts[1:]] + [end]
        return [(block, begin, border) for (begin, block), border in zip(starts, borders, strict=True)]

    def _line_start(self, position: int, floor: int) -> int:
        """Where the line of a position starts, not before floor."""
        return self.text.rfind("\n", floor, position) + 1 or floor

    def _unit(self, block: Block, start: int, end: int, room: int) -> list[Atom]:
        halved = block.kind == "fence" and (start > block.start or end < block.end)  # a blob cut it in two
        if not halved and end - start <= room * _CHARS_PER_TOKEN:
            tokens = self.tokens(start, end)
            if tokens <= room and self.bytes_fit(start, end):
                return [Atom(start, end, tokens, start)]
        if block.kind == "table" and start <= block.start:
            return self._table(block, start, end, room)
        if block.children and start <= block.start:
            return self.atoms(block.children, start, end, room)
        if block.kind == "fence":
            return self._fence(block, start, end, room)
        return self._parts(start, end, room, html=block.kind == "html")

    def _table(self, block: Block, start: int, end: int, room: int) -> list[Atom]:
        """Rows whole; header and first row stay together, later pieces repeat the header as prefix."""
        rows = tuple(child for child in block.children if child.kind == "row" and child.start < end)
        if not rows:
            return self._parts(start, end, room)
        header_end = self._line_start(rows[0].start, start)
        header = self.text[self._line_start(block.start, start) : header_end]
        opening = self._prefix_cost(header, room)
        prefix = header if opening else ""
        atoms = self._parts(start, header_end, room) if header_end > start else []
        for _, first, last in self._units(rows, header_end, end):
            tokens = self.tokens(first, last)
            if tokens + opening <= room and self.bytes_fit(first, last):
                atoms.append(Atom(first, last, tokens, first, opening, prefix))
            else:
                atoms += self._parts(first, last, room - opening, Frame(start, start, prefix, opening))
        head, row = atoms[0], atoms[1] if len(atoms) > 1 else atoms[0]
        if head.end == header_end == row.start and head.tokens + row.tokens <= room:
            atoms[:2] = [Atom(head.start, row.end, head.tokens + row.tokens, head.start)]
        return atoms

    def _fence(self, block: Block, start: int, end: int, room: int) -> list[Atom]:
        """Parts of a fence: each later one repeats the opening line, each that ends inside closes it for embedding."""
        match = _FENCE_LINE.match(self.text, block.start)
        if match is None:
            return self._parts(start, end, room)
        line = self.text.rfind("\n", max(0, block.start - 200), block.start) + 1
        lead = re.sub(r"[^\s>]", " ", self.text[line : block.start]) if line else ""
        closing = lead + match[1]
        for prefix in (f"{lead}{match[0]}\n", f"{closing}\n"):
            if opening := self._prefix_cost(prefix, room):
                frame = Frame(block.start, block.end, prefix, opening, closing)
                return self._parts(start, end, room - opening - count("\n" + closing), frame)
        return self._parts(start, end, room)

    @staticmethod
    def _prefix_cost(prefix: str, room: int) -> int:
        """Tokens of a prefix, 0 where it is too long to be repeated."""
        if len(prefix.encode()) > MAX_PREFIX:
            return 0
        tokens = count(prefix)
        return tokens if tokens <= room // 3 else 0

    def _parts(self, start: int, end: int, room: int, frame: Frame | None = None, *, html: bool = False) -> list[Atom]:
        """Cut a span that is one block's, or a part of it; frame is the block it belongs to."""
        frame = frame or Frame(start, start)
        overlap = min(self.overlap, room // 2)
        spans: list[tuple[int, int, int]] = []
        position = start
        for first, last in [*self.blobs.within(start, end), (end, end)]:
            if first > position:
                spans += cut(self.text, position, first, max(1, part_size(room) - overlap), html)
            if last > first:
                spans.append((first, last, 0))
            position = last
        atoms: list[Atom] = []
        for first, last, tokens in spans:
            begin = overlap_start(self.text, start, first, overlap) if overlap and first > start else first
            opening = self.tokens(begin, first) if begin < first else 0
            prefix, closing = "", frame.closing if last < frame.end else ""
            if first > frame.start:
                prefix, opening = frame.prefix, opening + frame.opening
            atoms.append(Atom(first, last, tokens, begin, opening, prefix, closing))
        return atoms
