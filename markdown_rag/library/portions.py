"""Which part of a text is meant, and as much of it as fits: lines, headings, sections, tokens. Pure.

A portion is a pair of character positions. Sections are the author's: a heading and everything under it, deeper
headings included.
"""

from __future__ import annotations

import difflib
import re
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate

from markdown_rag.amounts import amount
from markdown_rag.errors import InputError, NotFound
from markdown_rag.library.texts import Text
from markdown_rag.markdown.frontmatter import split_front_matter
from markdown_rag.markdown.outline import Heading, parse_outline
from markdown_rag.markdown.tokens import byte_lengths, count, encode
from markdown_rag.paths import nfc

NEAREST = 3
_LINES = re.compile(r"\s*(\d{1,9})\s*(?:[-–:,]\s*(\d{1,9})?\s*)?")
_STEPS = re.compile(r"\s*(?:›|>|#|/)\s*")
_CHARACTERS_A_TOKEN = 24  # looked at for each token wanted; more is never in one
_MAX_OUTLINE = 400
_OUTLINE_SHARE, _LEAST_OUTLINE = 3, 100  # an outline may have a third of an answer's tokens


@dataclass(frozen=True, slots=True)
class Portion:
    """A part of a text."""

    start: int
    end: int


def parse_lines(given: str) -> tuple[int, int]:
    """First and last line of "10-40", "10" or "10-" (to the end, last = 0). Raises InputError."""
    found = _LINES.fullmatch(given)
    first = int(found[1]) if found else 0
    if not found or first < 1 or (found[2] and int(found[2]) < first):
        raise InputError(f"lines: {given!r} is no range of lines.", 'Write it as "10-40", "10" or "10-".')
    if found[2]:
        return first, int(found[2])
    return first, 0 if re.search(r"[-–:,]", given) else first


def by_lines(text: Text, first: int, last: int) -> Portion:
    """Whole lines; last 0 means to the end. Raises InputError where the document ends before."""
    if first > text.lines:
        raise NotFound(
            f"The document has {amount(text.lines, 'line')}, so there is no line {first}.",
            f"Lines 1-{text.lines} are there.",
        )
    end = len(text.text) if not last else text.line_start(last + 1)
    return Portion(text.line_start(first), end)


def headings_of(text: Text) -> tuple[Heading, ...]:
    """The headings of a text that open sections."""
    front = split_front_matter(text.text) if text.source == "disk" else None
    return parse_outline(text.text, (front.kept or front.end) if front else 0).headings


def by_heading(text: Text, wanted: str) -> Portion:
    """The section under a heading: its text, a path ("A › B", "A > B"), an anchor, or "^block". Raises InputError."""
    if wanted.strip().startswith("^"):
        return _by_block(text, wanted.strip()[1:])
    headings = headings_of(text)
    names = [_folded(heading.text) for heading in headings]
    whole = [number for number, name in enumerate(names) if name == _folded(wanted)]
    anchors = [number for number, name in enumerate(names) if _anchor(name) == _anchor(_folded(wanted))]
    found = whole or _by_path(headings, names, wanted) or anchors
    if not found:
        raise NotFound(f"The document has no heading {wanted!r}.", _nearest(wanted, headings))
    return _section(text, headings, found[0])


def _by_path(headings: Sequence[Heading], names: Sequence[str], wanted: str) -> list[int]:
    steps = [_folded(step) for step in _STEPS.split(wanted.strip()) if step]
    if len(steps) < 2:
        return []
    found = []
    for number in range(len(headings)):
        # As steps, too: a heading may hold what stands between them.
        path = [step for above in _above(headings, number) for step in _STEPS.split(names[above]) if step]
        rest = iter(path)
        if path and path[-1] == steps[-1] and all(step in rest for step in steps):
            found.append(number)
    return found


def _by_block(text: Text, name: str) -> Portion:
    found = re.search(rf"(?:^|[ \t])\^{re.escape(name)}[ \t]*$", text.text, re.MULTILINE)
    if not found:
        raise NotFound(f"The document has no block ^{name}.", "Read it whole, or by heading or lines.")
    start = text.text.rfind("\n\n", 0, found.start())
    return Portion(0 if start < 0 else start + 2, min(len(text.text), found.end() + 1))


def sections_of(text: Text, passage: Portion) -> Portion:
    """The innermost sections in which a passage begins and ends, with all between; one passage may be of several.

    Before the first heading a section is what stands there.
    """
    headings = headings_of(text)

    def section(position: int) -> Portion:
        inside = [number for number, heading in enumerate(headings) if heading.start <= position]
        if inside:
            return _section(text, headings, inside[-1])
        return Portion(0, headings[0].start if headings else len(text.text))

    spoken = len(text.text[: passage.end].rstrip())
    first, last = section(passage.start), section(max(passage.start, spoken - 1))
    return Portion(first.start, max(first.end, last.end))


def heading_path(headings: Sequence[Heading], position: int) -> tuple[str, ...]:
    """The headings above a position, outermost first; one that begins there counts."""
    inside = [number for number, heading in enumerate(headings) if heading.start <= position]
    return tuple(headings[number].text for number in _above(headings, inside[-1])) if inside else ()


def outline(text: Text, max_tokens: int) -> tuple[str, ...]:
    """The headings with their lines, indented by level, in a share of max_tokens: the outer ones where not all fit.

    Where headings are left out, the last line says how many there are.
    """
    room, found = max(_LEAST_OUTLINE, max_tokens // _OUTLINE_SHARE), headings_of(text)
    for deepest in range(max((each.level for each in found), default=1), 0, -1):
        outer = [each for each in found if each.level <= deepest]
        lines = [_outline_line(each, text) for each in outer[:_MAX_OUTLINE]]
        ends = list(accumulate(count(line) + 1 for line in lines))  # each with its line end
        if ends and ends[-1] <= room and len(lines) == len(outer):
            break
    shown = lines[: bisect_right(ends, room)] if found else []
    if len(shown) == len(found):
        return tuple(shown)
    how = "a larger max_tokens shows more, lines or heading any part"
    return (*shown, f"… {len(shown)} of {amount(len(found), 'heading')}; {how}")


def _outline_line(heading: Heading, text: Text) -> str:
    return f"{'  ' * (heading.level - 1)}{heading.text} (line {text.line(heading.start)})"


def fitting(text: str, portion: Portion, max_tokens: int) -> Portion:
    """As much from the start of a portion as has at most max_tokens: to a line end, else a blank, else a character."""
    looked_at = text[portion.start : min(portion.end, portion.start + max_tokens * _CHARACTERS_A_TOKEN)]
    ends = list(accumulate(byte_lengths(encode(looked_at))))
    if len(ends) <= max_tokens:
        return Portion(portion.start, portion.start + len(looked_at))
    room = max(1, len(looked_at.encode()[: ends[max_tokens - 1]].decode("utf-8", "ignore")))
    line = looked_at.rfind("\n", 0, room) + 1
    blank = looked_at.rfind(" ", 0, room) + 1
    return Portion(portion.start, portion.start + next((cut for cut in (line, blank) if cut > room // 2), room))


def _section(text: Text, headings: Sequence[Heading], number: int) -> Portion:
    own = headings[number]
    following = (other.start for other in headings[number + 1 :] if other.level <= own.level)
    end = next((text.text.rfind("\n", 0, start) + 1 for start in following), len(text.text))
    return Portion(text.text.rfind("\n", 0, own.start) + 1, end)


def _above(headings: Sequence[Heading], number: int) -> list[int]:
    """A heading and those it stands under, outermost first."""
    path = [number]
    for before in range(number - 1, -1, -1):
        if headings[before].level < headings[path[0]].level:
            path.insert(0, before)
    return path


def _nearest(wanted: str, headings: Sequence[Heading]) -> str:
    names = {_folded(heading.text): heading.text for heading in headings}
    close = difflib.get_close_matches(_folded(wanted), list(names), n=NEAREST, cutoff=0.5) or list(names)[:NEAREST]
    if not close:
        return "It has none; read it by lines."
    more = f" and {len(names) - len(close)} more" if len(names) > len(close) else ""
    return f"It has: {', '.join(names[name] for name in close)}{more}."


def _folded(text: str) -> str:
    return " ".join(nfc(text).replace("`", "").casefold().split()).strip("# ")


def _anchor(folded: str) -> str:
    return re.sub(r"[^\w\- ]", "", folded).replace(" ", "-")
