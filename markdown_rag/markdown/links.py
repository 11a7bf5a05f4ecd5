"""Text becomes its links: wikilinks, markdown links and embeds, with the line each stands on.

Targets are as the author wrote them (percent-decoded for markdown links); resolving them is for others. Links in code
and comments are none, neither HTML's nor Obsidian's (``%%``).
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Literal
from urllib.parse import unquote

from markdown_rag.markdown.outline import Outline

Kind = Literal["wikilink", "markdown", "embed"]
_SCHEME = re.compile(r"[a-zA-Z][a-zA-Z0-9+.-]+:")
_BLOCK = re.compile(r"#?\^([\w-]+)$")
_MARK = b"%%"  # of an Obsidian comment, at both ends


@dataclass(frozen=True, slots=True)
class Link:
    """One link. target is a note or path ("" for this document); heading and block name a place in it, or are "".

    alias is the text shown, "" where it is the target itself. line is 1-based.
    """

    kind: Kind
    target: str
    heading: str
    block: str
    alias: str
    line: int


@lru_cache(maxsize=1)
def _parser() -> Any:
    import pyromark  # noqa: PLC0415 - a native library, on first use only

    options = pyromark.Options
    return pyromark.Markdown(options=options.ENABLE_TABLES | options.ENABLE_FOOTNOTES | options.ENABLE_WIKILINKS)


def extract_links(text: str, outline: Outline) -> tuple[Link, ...]:
    """The links to documents in the part of the text that the outline covers; web addresses are left out."""
    body = text[outline.start :]
    source = body.encode()
    newlines = [match.start() for match in re.finditer(b"\n", source)]
    first_line = text.count("\n", 0, outline.start) + 1
    links: list[tuple[int, Link]] = []
    code: list[tuple[int, int]] = []
    shown: list[tuple[dict[str, Any], bool, int, list[str]]] = []
    for event, span in _parser().events_with_range(body):
        if not isinstance(event, dict):
            continue
        if "Code" in event or "CodeBlock" in (event.get("Start") or {}):
            code.append((span["start"], span["end"]))
        tag = event.get("Start") or event.get("End")
        if isinstance(tag, dict) and ("Link" in tag or "Image" in tag):
            image = "Image" in tag
            shown.append((tag["Image" if image else "Link"], image, span["start"], []))
        elif tag in ("Link", "Image") and shown:
            data, image, start, words = shown.pop()
            link = _link(data, image, "".join(words), first_line + bisect_right(newlines, start))
            links += [(start, link)] if link else []
        elif shown and (word := event.get("Text") or event.get("Code")):
            shown[-1][3].append(word)
    edges = _comment_edges(source, code) if links and _MARK in source else []
    kept = [link for start, link in links if bisect_right(edges, start) % 2 == 0]
    return tuple(sorted(kept, key=lambda link: link.line))


def _comment_edges(source: bytes, code: Sequence[tuple[int, int]]) -> list[int]:
    """Where Obsidian's comments begin and end, in turn; marks in code are none.

    A comment is on one line, or goes from a line that begins with the mark to one that ends with it. A mark alone is
    text: there are percent signs elsewhere than in Obsidian.
    """
    text = bytearray(source)
    for start, end in code:
        text[start:end] = text[start:end].replace(b"%", b" ")
    edges: list[int] = []
    opened, at = -1, 0
    for line in text.splitlines(keepends=True):
        marks = [at + found.start() for found in re.finditer(_MARK, line)]
        if opened >= 0:
            if line.rstrip().endswith(_MARK):
                edges += (opened, at + len(line))
                opened = -1
        elif len(marks) == 1 and line.lstrip().startswith(_MARK):
            opened = marks[0]
        else:
            for first, last in zip(marks[::2], marks[1::2], strict=False):
                edges += (first, last + len(_MARK))
        at += len(line)
    return edges


def _link(data: dict[str, Any], image: bool, shown: str, line: int) -> Link | None:
    wiki = isinstance(data["link_type"], dict)
    # In a table the bar before the shown text is written with a backslash, which is not the target's.
    target = data["dest_url"].removesuffix("\\") if wiki else unquote(data["dest_url"])
    if not wiki and (_SCHEME.match(target) or target.startswith("//") or data["link_type"] in ("Autolink", "Email")):
        return None
    name, _, place = target.partition("#")
    block = _BLOCK.match("#" + place) if place else None
    heading = "" if block else place.rsplit("#", 1)[-1]
    kind: Kind = "embed" if image else "wikilink" if wiki else "markdown"
    alias = "" if wiki and not data["link_type"]["WikiLink"]["has_pothole"] else shown
    return Link(kind, name.strip(), heading.strip(), block[1] if block else "", alias, line)
