"""The entry for whoever indexes: a file's bytes become a document, by what its name says it is."""

from __future__ import annotations

from markdown_rag.markdown.chunking import ChunkPolicy, Document, chunk_document
from markdown_rag.markdown.decoding import Undecodable
from markdown_rag.markdown.edgelist import edge_list_document
from markdown_rag.markdown.names import is_edge_list


def to_document(data: bytes, path: str, policy: ChunkPolicy) -> Document | Undecodable:
    """The document of a file. path: relative, POSIX."""
    return edge_list_document(data) if is_edge_list(path) else chunk_document(data, path, policy)
