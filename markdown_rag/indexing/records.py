"""A chunked file and its vectors in, the rows to store out. Pure."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from markdown_rag.embeddings.base import Vector
from markdown_rag.indexing.vectors import with_document
from markdown_rag.markdown.chunking import HEADING_JOIN, Document
from markdown_rag.markdown.edges import pack
from markdown_rag.store.base import Record


def records(
    workspace: str,
    path: str,
    gen: int,
    document: Document,
    vectors: Sequence[Vector],
    *,
    file_hash: str,
    policy: str,
    document_weight: float,
) -> list[Record]:
    """The rows of one generation in the order they must be written: ``ord == 0``, which commits it, is the last.

    vectors: one a chunk, of length 1.
    """
    stored = with_document(np.stack(vectors), document_weight)
    links = dict(enumerate(pack(document.edges)))
    rows = [
        Record(
            workspace=workspace,
            path=path,
            ord=chunk.ord,
            chunk_count=len(document.chunks),
            gen=gen,
            title=document.title,
            heading_path=HEADING_JOIN.join(chunk.heading_path),
            text=chunk.text,
            prefix=chunk.prefix,
            lexical=chunk.lexical,
            tags=document.tags,
            aliases=document.aliases,
            properties=document.properties,
            start_line=chunk.start_line,
            end_line=chunk.end_line,
            start_byte=chunk.start_byte,
            end_byte=chunk.end_byte,
            file_hash=file_hash,
            text_hash=chunk.text_hash,
            policy=policy,
            vector=vector,
            links=links.get(chunk.ord, ""),
        )
        for chunk, vector in zip(document.chunks, stored, strict=True)
    ]
    return rows[1:] + rows[:1]
