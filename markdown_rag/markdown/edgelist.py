"""An edge list file (``_graph.yaml``) becomes a document that carries edges and next to no text.

Its shape is that of ExpertPack's graph export: ``nodes``, a list of mappings with ``id`` and ``file``, and ``edges``, a
list of mappings with ``source``, ``target`` and ``kind``; ends are ids, or files where no node has that id. Files are
relative to the list's own folder. No search looks at its rows; what cannot be read is named.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from typing import Any

from markdown_rag.markdown.chunking import Chunk, Document, Excluded
from markdown_rag.markdown.decoding import Decoded, Undecodable, decode
from markdown_rag.markdown.edges import Edge, pack
from markdown_rag.markdown.names import EDGE_LIST
from markdown_rag.markdown.plainyaml import Unreadable, load_yaml
from markdown_rag.markdown.tokens import count

KEPT_AS_LINKS = "kept as links"
MAX_CHARACTERS = 5_000_000
_SLICE = 80  # characters of a chunk: rows exist to carry edges, and a row needs a text of its own


def edge_list_document(data: bytes) -> Document | Undecodable:
    """The document of an edge list; Undecodable where it is none."""
    decoded = decode(data)
    if isinstance(decoded, Undecodable):
        return decoded
    if len(decoded.text) > MAX_CHARACTERS:
        return Undecodable(f"an edge list of more than {MAX_CHARACTERS:,} characters")
    try:
        edges = tuple(dict.fromkeys(_edges(load_yaml(decoded.text))))
    except Unreadable as error:
        return Undecodable(f"no edge list: {error}")
    if not edges:
        return Undecodable("no edge list: it holds no edges with source and target")
    chunks = tuple(_chunk(decoded, number) for number in range(len(pack(edges))))
    return Document(
        title=EDGE_LIST,
        title_source="stem",
        aliases=(),
        tags=(),
        description="",
        properties={},
        chunks=chunks,
        excluded=(Excluded(chunks[-1].end_byte, len(data), KEPT_AS_LINKS),),
        warnings=decoded.warnings,
        encoding=decoded.encoding,
        edges=edges,
    )


def _edges(found: Any) -> Iterator[Edge]:
    listed = found if isinstance(found, Mapping) else {}
    files = {
        _text(node.get("id")): _text(node.get("file")) for node in _mappings(listed.get("nodes")) if node.get("file")
    }
    for edge in _mappings(listed.get("edges")):
        source, target = (_text(edge.get(end)) for end in ("source", "target"))
        if source and target:
            kind = _text(edge.get("kind")) or "related"
            yield Edge(kind[:100], files.get(target, target), source=files.get(source, source))


def _mappings(found: Any) -> Iterator[Mapping[Any, Any]]:
    return (item for item in found if isinstance(item, Mapping)) if isinstance(found, list) else iter(())


def _text(value: Any) -> str:
    return str(value).strip()[:1000] if isinstance(value, str | int) else ""


def _chunk(decoded: Decoded, number: int) -> Chunk:
    start, end = (min(len(decoded.text), _SLICE * place) for place in (number, number + 1))
    lines = decoded.lines
    return Chunk(
        ord=number,
        heading_path=(),
        text=decoded.text[start:end],
        prefix="",
        start_line=lines.line(start),
        end_line=lines.line(max(start, end - 1)),
        start_byte=lines.byte_offset(start),
        end_byte=lines.byte_offset(end),
        embed_text=EDGE_LIST,
        text_hash=hashlib.sha256(EDGE_LIST.encode()).hexdigest(),
        tokens=count(EDGE_LIST),
        lexical="edges",
    )
