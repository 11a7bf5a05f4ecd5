"""Text becomes headings and blocks with exact positions, by a CommonMark parser (pulldown-cmark through pyromark).

Only headings at the top level open sections: those in quotes, lists, comments, HTML and code do not. Positions are
character offsets in the text. Time is linear in the text, whatever is nested in whatever.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

MAX_DEPTH = 12  # deeper blocks belong to their ancestor's text
MAX_HEADING = 1_000  # characters of a heading's readable text
MAX_UNDERLINED = 200  # characters; a longer paragraph above a line of = or - is prose, and that line a rule

_CONTAINERS = {
    "BlockQuote": "quote",
    "List": "list",
    "Item": "item",
    "FootnoteDefinition": "footnote",
    "Table": "table",
}
_LEAVES = {"Paragraph": "paragraph", "HtmlBlock": "html", "Heading": "heading", "TableHead": "head", "TableRow": "row"}
_ATTRIBUTES = re.compile(r" ?\{:? ?[#.][^{}]*\}$")
_MARKED = re.compile(r"^ {0,3}(?:[#=]|-+\s*$)", re.MULTILINE)  # without such a line there is no heading
_TAG = re.compile(r"(?<!\S)#([\w/-]*[^\W\d][\w/-]*)")
MAX_TAGS = 200
_MAX_TAG = 100  # characters


@dataclass(frozen=True, slots=True)
class Heading:
    """A heading that opens a section. text is readable: no markup but code's backticks, no anchors or attributes."""

    level: int
    text: str
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class Block:
    """A block of the author, with the blocks inside it.

    kind: paragraph, heading, fence, code, table, head, row, list, item, quote, html, footnote, rule.
    """

    kind: str
    start: int
    end: int
    children: tuple[Block, ...] = ()


@dataclass(frozen=True, slots=True)
class Outline:
    """The structure of text from `start` on. tags are the inline ``#tags`` of its prose, in order, without doubles."""

    headings: tuple[Heading, ...]
    blocks: tuple[Block, ...]
    tags: tuple[str, ...] = ()
    start: int = 0


@lru_cache(maxsize=1)
def _parser() -> Any:
    import pyromark  # noqa: PLC0415 - a native library, on first use only

    options = pyromark.Options
    return pyromark.Markdown(
        options=options.ENABLE_TABLES
        | options.ENABLE_FOOTNOTES
        | options.ENABLE_STRIKETHROUGH
        | options.ENABLE_TASKLISTS
    )


class _Reader:
    """Collects the parser's events: nodes in document order as [kind, start byte, end byte, parent]."""

    def __init__(self, source: bytes) -> None:
        self.source = source
        self.nodes: list[list[Any]] = []
        self.titles: dict[int, tuple[int, list[str]]] = {}
        self.tags: dict[str, None] = {}
        self.open: list[int] = []  # containers, innermost last
        self.deep = 0  # containers beyond MAX_DEPTH
        self.inert = 0  # inside code, links or images: no tags
        self.title: list[str] | None = None

    def read(self, events: Iterable[tuple[Any, Any]]) -> None:
        for event, span in events:
            if isinstance(event, str):
                self.word(event, span)
                continue
            for key, value in event.items():
                if key == "Text":
                    self.text(value, span)
                elif key == "Start":
                    self.enter(value, span)
                elif key == "End":
                    self.leave(value)
                elif key == "Code" and self.title is not None:
                    self.title.append(f"`{value}`")

    def word(self, event: str, span: Any) -> None:
        if event == "Rule":
            self.add("rule", span)
        elif self.title is not None:
            self.title.append(" ")

    def text(self, value: str, span: Any) -> None:
        if self.title is not None:
            self.title.append(value)
        elif "#" in value and not self.inert and len(self.tags) < MAX_TAGS:
            start = span["start"]
            glued = start > 0 and self.source[start - 1] not in b" \t\n"
            for match in _TAG.finditer(value):
                if not (glued and match.start() == 0) and (tag := match[1].strip("/")[:_MAX_TAG]):
                    self.tags.setdefault(tag)

    def enter(self, tag: Any, span: Any) -> None:
        name = tag if isinstance(tag, str) else next(iter(tag))
        if name in _CONTAINERS:
            if self.deep or len(self.open) >= MAX_DEPTH:
                self.deep += 1
            else:
                self.open.append(self.add(_CONTAINERS[name], span))
        elif name == "CodeBlock":
            self.inert += 1
            self.add("code" if tag["CodeBlock"] == "Indented" else "fence", span)
        elif name in ("Link", "Image"):
            self.inert += 1
        elif name in _LEAVES:
            index = self.add(_LEAVES[name], span)
            if name == "Heading" and not self.open:
                self.title = []
                self.titles[index] = (int(tag["Heading"]["level"][1]), self.title)

    def leave(self, tag: Any) -> None:
        name = tag if isinstance(tag, str) else next(iter(tag))
        if name in _CONTAINERS:
            if self.deep:
                self.deep -= 1
            else:
                self.open.pop()
        elif name in ("CodeBlock", "Link", "Image"):
            self.inert -= 1
        elif name == "Heading":
            self.title = None

    def add(self, kind: str, span: Any) -> int:
        if not self.deep:
            self.nodes.append([kind, span["start"], span["end"], self.open[-1] if self.open else -1])
        return len(self.nodes) - 1


def parse_outline(text: str, start: int = 0) -> Outline:
    """The headings and blocks of text[start:]; text is valid Unicode with LF line ends."""
    body = text[start:] if start else text
    source = body.encode()
    reader = _Reader(source)
    reader.read(_parser().events_with_range(body))
    nodes = reader.nodes
    _tidy(nodes, len(source))
    chars = _char_offsets(source, nodes)
    children: list[list[Block]] = [[] for _ in nodes]
    top: list[Block] = []
    headings: list[Heading] = []
    for index in range(len(nodes) - 1, -1, -1):
        kind, first, last, parent = nodes[index]
        named = reader.titles.get(index)
        title = _readable("".join(named[1])) if named else ""
        if len(title) > MAX_UNDERLINED and not source[first:last].lstrip().startswith(b"#"):
            kind, named = "paragraph", None
        block = Block(kind, chars(first) + start, chars(last) + start, tuple(reversed(children[index])))
        (children[parent] if parent >= 0 else top).append(block)
        if named:
            headings.append(Heading(named[0], title, block.start, block.end))
    return Outline(tuple(reversed(headings)), tuple(reversed(top)), tuple(reader.tags), start)


def _tidy(nodes: list[list[Any]], size: int) -> None:
    """Cut spans so that blocks nest and never overlap: after a tab the parser may start an item in the one before."""
    reached = [0] * (len(nodes) + 1)  # by parent; the last is the document's
    for index, node in enumerate(nodes):
        _, first, last, parent = node
        node[1] = max(first, reached[parent])
        node[2] = max(node[1], min(last, nodes[parent][2] if parent >= 0 else size))
        reached[parent], reached[index] = node[2], node[1]


def _char_offsets(source: bytes, nodes: list[list[Any]]) -> Any:
    """A function from byte to character offsets, for the offsets in nodes; one pass over the source."""
    if source.isascii():
        return int
    table: dict[int, int] = {}
    before, chars = 0, 0
    for offset in sorted({offset for node in nodes for offset in (node[1], node[2])}):
        chars += len(source[before:offset].decode())
        table[offset] = chars
        before = offset
    return table.__getitem__


def _readable(text: str) -> str:
    text = " ".join(text.split())[: 2 * MAX_HEADING]  # bounded before anything looks for an end
    return _ATTRIBUTES.sub("", text)[:MAX_HEADING].rstrip()


def heading_at(heading_path: tuple[str, ...], text: str, offset: int) -> tuple[str, ...]:
    """The full heading path at a character offset of a chunk's text.

    A chunk of several sections carries their common path; this adds the headings that stand in the chunk's own text
    before the offset.
    """
    names = headings_before(text, offset)
    shared = next((k for k in range(min(len(names), len(heading_path)), 0, -1) if heading_path[-k:] == names[:k]), 0)
    return heading_path + names[shared:]


def headings_before(text: str, offset: int) -> tuple[str, ...]:
    """The texts of the headings in a text that a character stands under, outermost first."""
    return tuple(heading.text for heading in headings_over(text, offset))


def headings_over(text: str, offset: int) -> tuple[Heading, ...]:
    """The headings in a text that a character stands under, outermost first."""
    inside: list[Heading] = []
    for heading in parse_outline(text).headings if _MARKED.search(text) else ():
        if heading.start > offset:
            break
        if heading.text:
            while inside and inside[-1].level >= heading.level:
                inside.pop()
            inside.append(heading)
    return tuple(inside)


def joined_path(path: str, names: tuple[str, ...], join: str) -> str:
    """``heading_at`` for a path that is stored joined; it is not taken apart, since a heading may hold the joint."""
    ends = (k for k in range(len(names), 0, -1) if f"{join}{path}".endswith(join + join.join(names[:k])))
    return join.join(filter(None, (path, *names[next(ends, 0) :])))
