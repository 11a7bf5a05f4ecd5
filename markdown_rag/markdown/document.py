"""A file as it is indexed: values only."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from markdown_rag.markdown.edges import Edge
from markdown_rag.markdown.frontmatter import Json

TitleSource = Literal["frontmatter", "heading", "stem"]


@dataclass(frozen=True, slots=True)
class Chunk:
    """One stored passage. Lines are 1-based and inclusive, bytes are the file's, end exclusive.

    tokens: of embed_text in cl100k, counted with the blank end that is not embedded: a few more, at most one less.
    """

    ord: int
    heading_path: tuple[str, ...]
    text: str
    prefix: str
    start_line: int
    end_line: int
    start_byte: int
    end_byte: int
    embed_text: str
    text_hash: str
    tokens: int
    lexical: str


@dataclass(frozen=True, slots=True)
class Excluded:
    """Bytes of the body that are in no chunk, and why."""

    start_byte: int
    end_byte: int
    reason: str


@dataclass(frozen=True, slots=True)
class Document:
    """A file as it is indexed. A file without words has no chunks and a warning that says so. edges: its links."""

    title: str
    title_source: TitleSource
    aliases: tuple[str, ...]
    tags: tuple[str, ...]
    description: str
    properties: dict[str, Json]
    chunks: tuple[Chunk, ...]
    excluded: tuple[Excluded, ...]
    warnings: tuple[str, ...]
    encoding: str
    edges: tuple[Edge, ...] = ()
