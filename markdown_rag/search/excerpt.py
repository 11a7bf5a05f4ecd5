"""The part of a chunk that answers: a window of whole lines round the query's words.

Text in, an exact slice of it out, never empty for a text with a visible character, never over the budget. The chunk's
own leading headings are left out (a hit shows them as its heading path) unless there is nothing else, and it neither
begins nor ends with lines that say nothing to a reader: an HTML comment, a place for a table of contents. Lines longer
than half of the budget are cut at sentence ends, else blanks, else characters; where that leaves out a part of a line,
readers are shown a mark, and where it begins or ends inside a code fence the line that opens or closes that. The budget
has room for both.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate

from markdown_rag.markdown.lexical import tokens as analyze
from markdown_rag.search.fences import cost, fences_of, round_about
from markdown_rag.search.ranking import written

MIN_BUDGET = 80
CUT = "…"
_MARKS = 2 * len(CUT.encode())
_HEADING = re.compile(r" {0,3}#{1,6}(?:[ \t]|$)")
_COMMENTS, _CONTENTS = r"(?:<!--(?:[^-]|-(?!->))*-->[ \t]*)+", r"\[toc\]|\[\[_?toc_?\]\]|\$?\{:?[ \t]*:?toc[ \t]*\}"
_SILENT = re.compile(rf"[ \t]*(?:{_COMMENTS}|{_CONTENTS})?[ \t]*\n?", re.IGNORECASE)
_SENTENCE_END = re.compile(r"[.!?]['\")\]]*\s+|[。！？]['\"」』）]*\s*")


@dataclass(frozen=True, slots=True)
class Excerpt:
    """A slice of a chunk.

    start_line, end_line: 1-based lines of the file, inclusive. before, after: the chunk goes on there. answers_at: the
    character of the chunk at which the line begins that holds most of the query, of the excerpt's lines. cut_before,
    cut_after: the chunk goes on there in the same line. opening, closing: lines round it that keep code code, or "".
    """

    text: str
    start_line: int
    end_line: int
    before: bool
    after: bool
    answers_at: int = 0
    cut_before: bool = False
    cut_after: bool = False
    opening: str = ""
    closing: str = ""

    def marked(self, *, before: bool = False, after: bool = False) -> str:
        """The text as readers see it. before, after: the file's line goes on beyond the chunk, where that ends."""
        first = CUT if self.cut_before or (before and not self.before) else ""
        last = CUT if self.cut_after or (after and not self.after) else ""
        return f"{self.opening}{first}{self.text}{last}{self.closing}"


@dataclass(frozen=True, slots=True)
class _Unit:
    start: int
    end: int
    held: frozenset[str]


def excerpt(
    text: str,
    start_line: int,
    weights: Mapping[str, float],
    budget: int,
    prefix: str = "",
    *,
    identifiers: Sequence[str] = (),
) -> Excerpt:
    """The best window of a chunk's text.

    start_line: the file's line on which text begins. weights: the query's tokens and what each is worth. budget: UTF-8
    bytes, at least MIN_BUDGET. prefix: what opens the fence or table that the chunk begins inside of. identifiers:
    exact names; a line that holds one goes before any that holds none, whatever else they hold.
    """
    whole = text.casefold()
    names = [name for name in dict.fromkeys(map(str.casefold, identifiers)) if written(name, whole)]
    weights = {**weights, **dict.fromkeys(map(_mark, names), 1.0 + sum(weights.values()))}
    offsets = range(len(text) + 1) if text.isascii() else list(accumulate(map(_width, text), initial=0))
    fences = fences_of(text, prefix)
    room = max(MIN_BUDGET, budget - cost(fences)) - _MARKS
    wanted = frozenset(weights)
    units = _body(text, [_Unit(a, b, _held(text[a:b], wanted, names)) for a, b in _spans(text, offsets, room // 2)])
    if not units:
        return Excerpt(text[:0], start_line, start_line, before=False, after=False)
    first, last = _tightest(units, offsets, weights, room)
    answering = max(units[first : last + 1], key=lambda unit: round(sum(weights[token] for token in unit.held), 9))
    first, last = _spoken(text, units, *_grow(units, offsets, first, last, room))
    start, end = units[first].start, units[last].end
    kept = text[start:end]
    start += len(kept) - len(kept.lstrip("\n"))
    kept = text[start:end].rstrip()
    end = start + len(kept)
    first_line = start_line + text.count("\n", 0, start)
    opening, closing = round_about(fences, start, end)
    return Excerpt(
        kept,
        first_line,
        first_line + kept.count("\n"),
        before=bool(text[:start].strip()),
        after=bool(text[end:].strip()),
        answers_at=min(max(answering.start if answering.held else start, start), end),
        cut_before=bool(text[text.rfind("\n", 0, start) + 1 : start].strip()),
        cut_after=bool(text[end:].partition("\n")[0].strip()),
        opening=opening,
        closing=closing,
    )


def _held(piece: str, wanted: frozenset[str], names: Sequence[str]) -> frozenset[str]:
    """The wanted tokens of a line, and a mark for each name that it holds as written."""
    if not wanted or _SILENT.fullmatch(piece):
        return frozenset()
    folded = piece.casefold() if names else ""
    return wanted.intersection(analyze(piece)).union(_mark(name) for name in names if written(name, folded))


def _mark(name: str) -> str:
    """What stands for a name among tokens, none of which begins like that."""
    return f"={name}"


def _width(char: str) -> int:
    if char < "\x80":
        return 1
    if char < "\u0800":
        return 2
    return 3 if char <= "\uffff" else 4


def _spans(text: str, offsets: Sequence[int], limit: int) -> list[tuple[int, int]]:
    """Lines with their line ends; longer ones in pieces of at most limit bytes."""
    spans = []
    start = 0
    while start < len(text):
        end = text.find("\n", start) + 1 or len(text)
        while offsets[end] - offsets[start] > limit:
            cut = _cut(text, offsets, start, limit)
            spans.append((start, cut))
            start = cut
        spans.append((start, end))
        start = end
    return spans


def _cut(text: str, offsets: Sequence[int], start: int, limit: int) -> int:
    most = start + 1
    while most < len(text) and offsets[most + 1] - offsets[start] <= limit:
        most += 1
    half = (start + most) // 2
    ends = [found.end() for found in _SENTENCE_END.finditer(text, half, most)]
    if ends:
        return ends[-1]
    blank = text.rfind(" ", half, most)
    return blank + 1 if blank >= 0 else most


def _body(text: str, units: list[_Unit]) -> list[_Unit]:
    """The units without silent edges and without leading headings, if anything else is left."""
    visible = [i for i, unit in enumerate(units) if text[unit.start : unit.end].strip()]
    if not visible:
        return []
    spoken = [i for i in visible if not _is_silent(text, units[i])] or visible
    prose = [i for i in spoken if not _HEADING.match(text, units[i].start, units[i].end)]
    return units[(prose or spoken)[0] : spoken[-1] + 1]


def _is_silent(text: str, unit: _Unit) -> bool:
    """Whether a line holds nothing, or only what no reader sees."""
    return _SILENT.fullmatch(text, unit.start, unit.end) is not None


def _spoken(text: str, units: Sequence[_Unit], first: int, last: int) -> tuple[int, int]:
    """A window without silent lines at its edges, if anything else is in it."""
    spoken = [i for i in range(first, last + 1) if not _is_silent(text, units[i])]
    return (spoken[0], spoken[-1]) if spoken else (first, last)


def _tightest(
    units: Sequence[_Unit], offsets: Sequence[int], weights: Mapping[str, float], room: int
) -> tuple[int, int]:
    """The smallest window within room that holds the most weight of distinct tokens; the first of equals."""
    found = [i for i, unit in enumerate(units) if unit.held]
    best, choice = (0.0, 0), (0, 0)
    counts: Counter[str] = Counter()
    left = 0
    for right in found:
        counts.update(units[right].held)
        while offsets[units[right].end] - offsets[units[found[left]].start] > room or (
            found[left] < right and all(counts[token] > 1 for token in units[found[left]].held)
        ):
            counts.subtract(units[found[left]].held)
            left += 1
        size = offsets[units[right].end] - offsets[units[found[left]].start]
        value = (round(sum(weights[token] for token in sorted(counts) if counts[token] > 0), 9), -size)
        if value > best:
            best, choice = value, (found[left], right)
    return choice


def _grow(units: Sequence[_Unit], offsets: Sequence[int], first: int, last: int, room: int) -> tuple[int, int]:
    """Whole units added on both sides, evenly by bytes, while they fit."""
    anchor_start, anchor_end = offsets[units[first].start], offsets[units[last].end]
    while True:
        used = offsets[units[last].end] - offsets[units[first].start]
        left = units[first - 1] if first else None
        right = units[last + 1] if last + 1 < len(units) else None
        fits_left = left is not None and used + offsets[left.end] - offsets[left.start] <= room
        fits_right = right is not None and used + offsets[right.end] - offsets[right.start] <= room
        if not fits_left and not fits_right:
            return first, last
        before, after = anchor_start - offsets[units[first].start], offsets[units[last].end] - anchor_end
        if fits_right and (after <= before or not fits_left):
            last += 1
        else:
            first -= 1
