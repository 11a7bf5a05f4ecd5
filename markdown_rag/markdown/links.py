"""Text becomes its links: wikilinks, markdown links and embeds, with the line each stands on.

Targets are as the author wrote them (percent-decoded for markdown links); resolving them is for others. Links in code
and comments are none.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Literal
from urllib.parse import unquote

from markdown_rag.markdown.outline import Outline

Kind = Literal["wikilink", "markdown", "embed"]
_SCHEME = re.compile(r"[a-zA-Z][a-zA-Z0-9+.-]+:")
_BLOCK = re.compile(r"#?\^([\w-]+)$")


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
    newlines = [match.start() for match in re.finditer(b"\n", body.encode())]
    first_line = text.count("\n", 0, outline.start) + 1
    links: list[Link] = []
    shown: list[tuple[dict[str, Any], bool, int, list[str]]] = []
    for event, span in _parser().events_with_range(body):
        if not isinstance(event, dict):
            continue
        tag = event.get("Start") or event.get("End")
        if isinstance(tag, dict) and ("Link" in tag or "Image" in tag):
            image = "Image" in tag
            shown.append((tag["Image" if image else "Link"], image, span["start"], []))
        elif tag in ("Link", "Image") and shown:
            data, image, start, words = shown.pop()
            link = _link(data, image, "".join(words), first_line + bisect_right(newlines, start))
            links += [link] if link else []
        elif shown and (word := event.get("Text") or event.get("Code")):
            shown[-1][3].append(word)
    return tuple(sorted(links, key=lambda link: link.line))


def _link(data: dict[str, Any], image: bool, shown: str, line: int) -> Link | None:
    wiki = isinstance(data["link_type"], dict)
    target = data["dest_url"] if wiki else unquote(data["dest_url"])
    if not wiki and (_SCHEME.match(target) or target.startswith("//") or data["link_type"] in ("Autolink", "Email")):
        return None
    name, _, place = target.partition("#")
    block = _BLOCK.match("#" + place) if place else None
    heading = "" if block else place.rsplit("#", 1)[-1]
    kind: Kind = "embed" if image else "wikilink" if wiki else "markdown"
    alias = "" if wiki and not data["link_type"]["WikiLink"]["has_pothole"] else shown
    return Link(kind, name.strip(), heading.strip(), block[1] if block else "", alias, line)
