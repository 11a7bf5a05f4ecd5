"""The code fences of a chunk, so that a piece of it that begins or ends inside one can be shown as what it is.

Fences inside lists and quotes are left alone: what holds them is not in the piece either.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from markdown_rag.markdown.outline import parse_outline

_OPENING = re.compile(r" {0,3}((`{3,})[^`\n]*|(~{3,})[^\n]*)")
_LONGEST = 40  # characters of an opening line that are repeated; of a longer one the marks are


@dataclass(frozen=True, slots=True)
class Fence:
    """A fence of a text. start: of its opening line; inside: where its code begins; outside: its closing line."""

    opening: str
    closing: str
    start: int
    inside: int
    outside: int


def fences_of(text: str, prefix: str = "") -> list[Fence]:
    """The fences of a text, in order. prefix: what opens the one that it begins inside of."""
    if "```" not in text and "~~~" not in text and not prefix:
        return []
    return list(_found(prefix + text, len(prefix)))


def _found(whole: str, shift: int) -> Iterable[Fence]:
    for block in parse_outline(whole).blocks:
        start = whole.rfind("\n", 0, block.start) + 1
        match = _OPENING.match(whole, start) if block.kind == "fence" else None
        if match is None:
            continue
        closing = match[2] or match[3]
        opening = match[1].rstrip() if len(match[1]) <= _LONGEST else closing
        yield Fence(
            opening, closing, start - shift, match.end() + 1 - shift, _outside(whole, block.end, closing) - shift
        )


def _outside(whole: str, end: int, closing: str) -> int:
    """Where a fence's last line begins, which closes it; beyond the text where nothing does."""
    body = whole[:end].rstrip()
    last = body.rfind("\n") + 1
    line = body[last:].strip()
    return last if len(line) >= len(closing) and not line.strip(closing[0]) else len(whole) + 1


def cost(fences: Iterable[Fence]) -> int:
    """The most bytes that showing a piece as code can take: a line before it, and one behind it."""
    return max((len(f"{each.opening}\n\n{each.closing}".encode()) for each in fences), default=0)


def round_about(fences: Iterable[Fence], start: int, end: int) -> tuple[str, str]:
    """The lines that open and close the fence which a piece of the text begins or ends inside of; "" for none."""
    opening = closing = ""
    for each in fences:
        if each.inside <= start <= each.outside:
            opening = f"{each.opening}\n"
        if each.start < end <= each.outside:
            closing = f"\n{each.closing}"
    return opening, closing
