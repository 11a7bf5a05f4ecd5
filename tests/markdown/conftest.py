"""The judge of chunked documents: every promise of the markdown part, checked on any input."""

import re
from collections.abc import Callable

import pytest

from markdown_rag.markdown.chunking import ChunkPolicy, Document, chunk_document
from markdown_rag.markdown.decoding import Undecodable, decode
from markdown_rag.markdown.frontmatter import split_front_matter
from markdown_rag.markdown.tokens import count

Judge = Callable[..., Document]
DEFAULT = ChunkPolicy()


def judged_document(data: bytes, path: str = "note.md", policy: ChunkPolicy = DEFAULT) -> Document:
    """Chunk a file and hold it against the laws; what it is made of comes back."""
    decoded = decode(data)
    document = chunk_document(data, path, policy)
    assert not isinstance(decoded, Undecodable)
    assert not isinstance(document, Undecodable)
    body = decoded.lines.byte_offset(split_front_matter(decoded.text).end)
    _covered(document, body, len(data))
    line, reached = 1, 0
    for position, chunk in enumerate(document.chunks):
        assert chunk.ord == position
        assert chunk.embed_text.strip()
        assert count(chunk.embed_text) - 1 <= chunk.tokens <= policy.max_tokens
        assert count(chunk.embed_text) <= policy.max_tokens
        assert len(chunk.text.encode()) <= 60_000
        assert len(chunk.prefix.encode()) <= 4_000
        assert len(chunk.lexical.encode()) <= 60_000
        assert all(re.fullmatch(r"\w{1,80}", token) for token in chunk.lexical.split(" ") if chunk.lexical)
        assert chunk.text == _read_back(data[chunk.start_byte : chunk.end_byte], document.encoding)
        if chunk.start_byte >= reached:
            line += _read_back(data[reached : chunk.start_byte], document.encoding).count("\n")
        else:
            line -= _read_back(data[chunk.start_byte : reached], document.encoding).count("\n")
        reached = chunk.start_byte
        assert chunk.start_line == line
        assert chunk.end_line == line + chunk.text[:-1].count("\n")
    assert chunk_document(data, path, policy) == document
    return document


def _covered(document: Document, body: int, size: int) -> None:
    """No byte of the body is in neither a chunk nor the report."""
    spans = [(chunk.start_byte, chunk.end_byte) for chunk in document.chunks]
    spans += [(gap.start_byte, gap.end_byte) for gap in document.excluded]
    reached = body
    for start, end in sorted(spans):
        assert start <= reached
        reached = max(reached, end)
    assert reached == size


def _read_back(data: bytes, encoding: str) -> str:
    text = data.decode(encoding, "replace").replace("\r\n", "\n").replace("\r", "\n")
    return text.replace("\0", "\ufffd").replace("\ufeff", "\u2060")


@pytest.fixture(scope="session")
def judged() -> Judge:
    return judged_document
