"""A document's links as they are kept with its record: what leads where, in the author's words, packed into one text.

Kept are links to documents: wikilinks, markdown links and embeds of the body, wikilinks in front matter, and its
``requires:`` and ``related:`` lists. Pictures, web addresses and places in the same document are none. An edge list
file (``_graph.yaml``) gives edges between other files. Resolving targets is library/graph.py's.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from markdown_rag.markdown.links import extract_links
from markdown_rag.markdown.names import EXTENSIONS
from markdown_rag.markdown.outline import Outline

MAX_PACKED = 60_000  # bytes; the store's field holds 65,535
REQUIRES, RELATED = "requires", "related"
_EXTENSION = re.compile(r"\.[A-Za-z][A-Za-z0-9]{0,5}$")
_WIKILINK = re.compile(r"!?\[\[([^\[\]\n|]+)(?:\|[^\[\]\n]*)?\]\]")
_MEDIA = re.compile(
    r"\.(png|jpe?g|gif|svg|webp|bmp|avif|pdf|mp[34]|m4a|wav|ogg|mov|mkv|webm|canvas|base|csv|zip|txt|html?|json|ya?ml"
    r"|xlsx|docx|pptx)$",
    re.IGNORECASE,
)
_MAX_VALUES = 500  # front matter values that are looked at
_MAX_NAME = 1_000  # characters of a target


@dataclass(frozen=True, slots=True)
class Edge:
    """One link as written. kind: wikilink, markdown, embed, requires, related, or a word of the edge list's author.

    target: a note's name or a path. place: a heading in it, "^block", or "". line: 1-based, 0 where it stands in front
    matter. source: the file it leads from, as the edge list names it; "" is the file that carries the edge.
    """

    kind: str
    target: str
    place: str = ""
    line: int = 0
    source: str = ""


def document_edges(text: str, outline: Outline, properties: Mapping[str, Any] | None) -> tuple[Edge, ...]:
    """The links of one document: front matter first, then the body; the same link twice is one."""
    found = [*_property_edges(properties or {}), *_body_edges(text, outline)]
    first = {(edge.kind, edge.target, edge.place): edge for edge in reversed(found)}
    return tuple(edge for edge in found if first[edge.kind, edge.target, edge.place] is edge)


def _body_edges(text: str, outline: Outline) -> Iterator[Edge]:
    if "[" not in text:
        return
    for link in extract_links(text, outline):
        if link.target and len(link.target) <= _MAX_NAME and leads_to_document(link.kind, link.target):
            yield Edge(link.kind, link.target, f"^{link.block}" if link.block else link.heading, link.line)


def leads_to_document(kind: str, target: str) -> bool:
    """Whether a target can be a document: by its extension, or for want of one. A note's name may hold dots."""
    extension = _EXTENSION.search(target.rstrip("/"))
    if extension is None or extension[0].lower() in EXTENSIONS:
        return True
    return kind == "wikilink" and not _MEDIA.match(extension[0])


def _property_edges(properties: Mapping[str, Any]) -> Iterator[Edge]:
    budget = _MAX_VALUES
    for name, value in properties.items():
        kind = name.lower() if name.lower() in {REQUIRES, RELATED} else ""
        for item in value if isinstance(value, list) else [value]:
            budget -= 1
            if budget < 0:
                return
            if isinstance(item, str) and (edge := _property_edge(kind, item.strip())):
                yield edge


def _property_edge(kind: str, value: str) -> Edge | None:
    wikilink = _WIKILINK.fullmatch(value)
    if not wikilink and not kind:
        return None
    target, _, place = (wikilink[1] if wikilink else value).partition("#")
    target = target.strip()
    if not target or len(target) > _MAX_NAME or "://" in target:
        return None
    return Edge(kind or "wikilink", target, place.strip())


def pack(edges: Iterable[Edge]) -> list[str]:
    """Edges as the texts that are stored, each within the store's limit: JSON arrays of arrays; none for none.

    An array is kind, target, place, line, and the source where it is another file.
    """
    texts: list[str] = []
    parts: list[str] = []
    room = MAX_PACKED
    for edge in edges:
        values = [edge.kind, edge.target, edge.place, edge.line, *([edge.source] if edge.source else [])]
        part = json.dumps(values, ensure_ascii=False, separators=(",", ":"))
        size = len(part.encode()) + 1
        if parts and size >= room:
            texts.append(f"[{','.join(parts)}]")
            parts, room = [], MAX_PACKED
        parts.append(part)
        room -= size
    return [*texts, f"[{','.join(parts)}]"] if parts else texts


def unpack(stored: str) -> tuple[Edge, ...]:
    """The edges of a stored text; what is no edge is passed over."""
    if not stored:
        return ()
    try:
        found = json.loads(stored)
    except ValueError:
        return ()
    arrays = found if isinstance(found, list) else ()
    return tuple(Edge(*values) for values in arrays if isinstance(values, list) and 4 <= len(values) <= 5)
