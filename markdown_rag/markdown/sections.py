"""An outline becomes the author's sections: spans that tile the body, each with its heading path."""

from __future__ import annotations

from dataclasses import dataclass

from markdown_rag.markdown.frontmatter import shorten
from markdown_rag.markdown.outline import Outline

MAX_HEADING = 480  # bytes of one heading in a path: six of them, joined, stay under 3,000


@dataclass(frozen=True, slots=True)
class Section:
    """A span of text under one heading; path is () before the first heading."""

    start: int
    end: int
    path: tuple[str, ...]


def split_sections(text: str, outline: Outline, start: int) -> list[Section]:
    """The sections of text[start:], in order. A heading without text of its own joins the deeper one that follows."""
    sections: list[Section] = []
    stack: list[tuple[int, str]] = []
    text_from = start  # where the open section's text begins, behind its heading
    for heading in outline.headings:
        if not heading.text:
            continue
        begin = max(start, text.rfind("\n", start, heading.start) + 1)
        bare = not text[text_from:begin].strip()
        if begin > start and not (bare and (not stack or heading.level > stack[-1][0])):
            sections.append(Section(start, begin, tuple(name for _, name in stack)))
            start = begin
        while stack and stack[-1][0] >= heading.level:
            stack.pop()
        stack.append((heading.level, shorten(heading.text, MAX_HEADING)))
        text_from = heading.end
    sections.append(Section(start, len(text), tuple(name for _, name in stack)))
    return [section for section in sections if section.end > section.start]


def common_path(one: tuple[str, ...], other: tuple[str, ...]) -> tuple[str, ...]:
    """The path that two heading paths share."""
    shared = 0
    for mine, theirs in zip(one, other, strict=False):
        if mine != theirs:
            break
        shared += 1
    return one[:shared]
