"""Text from rows is the text of the file: same characters, same lines, same bytes."""

from __future__ import annotations

import hashlib
from itertools import pairwise

from hypothesis import given, settings
from hypothesis import strategies as st

from markdown_rag.library.portions import Portion, by_lines, fitting
from markdown_rag.library.texts import DiskText, StoredText
from markdown_rag.markdown.chunking import ChunkPolicy, Document, chunk_document
from markdown_rag.markdown.decoding import Decoded, decode
from markdown_rag.markdown.tokens import count
from markdown_rag.store.base import Match

lines = st.text(st.sampled_from("ab é日\t.#-|`"), max_size=60)
texts = st.builds(lambda parts, end: end.join(parts) + end, st.lists(lines, min_size=1, max_size=30), st.just("\n"))


def rows_of(data: bytes, policy: ChunkPolicy) -> list[Match]:
    document = chunk_document(data, "a.md", policy)
    if not isinstance(document, Document):
        return []
    return [
        Match(
            "", 0.0, "w", "a.md", chunk.ord, 1, "", "", chunk.text, chunk.prefix, "", (), (),
            chunk.start_line, chunk.end_line, chunk.start_byte, chunk.end_byte, "", chunk.text_hash,
        )
        for chunk in document.chunks
    ]  # fmt: skip


@settings(max_examples=60, deadline=None)
@given(text=texts, overlap=st.sampled_from([0, 8]), newline=st.sampled_from(["\n", "\r\n"]))
def test_rows_joined_without_their_overlap_are_the_file(text: str, overlap: int, newline: str) -> None:
    data = text.replace("\n", newline).encode()
    decoded = decode(data)
    rows = rows_of(data, ChunkPolicy(40, 5, overlap, 3))
    if not isinstance(decoded, Decoded) or not rows:
        return
    disk, stored = DiskText(data, decoded), StoredText.of(rows)
    gapless = all(one.end_byte >= other.start_byte for one, other in pairwise(rows))
    if gapless:
        start = decoded.text.index(rows[0].text)
        assert stored.text == decoded.text[start : start + len(stored.text)]
    for row in rows:
        begin, end = stored.span(row, row)
        assert stored.text[begin:end] == row.text
        assert disk.text[slice(*disk.span(row, row))] == row.text
        assert stored.line(begin) == row.start_line
        proof = disk.exact(*disk.span(row, row))
        assert (proof.start_byte, proof.end_byte) == (row.start_byte, row.end_byte)
        assert proof.sha256 == hashlib.sha256(data[row.start_byte : row.end_byte]).hexdigest()
        if newline == "\n":
            assert stored.exact(begin, end) == proof


@given(text=texts, first=st.integers(1, 20), more=st.integers(0, 9))
def test_lines_are_those_of_an_editor(text: str, first: int, more: int) -> None:
    decoded = decode(text.encode())
    assert isinstance(decoded, Decoded)
    disk = DiskText(text.encode(), decoded)
    if first > disk.lines:
        return
    portion = by_lines(disk, first, first + more)
    wanted = text.split("\n")[first - 1 : first + more]
    assert disk.text[portion.start : portion.end].rstrip("\n") == "\n".join(wanted).rstrip("\n")
    assert disk.line(portion.start) == first


@settings(max_examples=60, deadline=None)
@given(text=texts, limit=st.integers(1, 60))
def test_what_fits_is_never_empty_never_over_the_limit_and_ends_where_the_rest_begins(text: str, limit: int) -> None:
    at, pieces = 0, []
    while at < len(text):
        part = fitting(text, Portion(at, len(text)), limit)
        assert part.start == at < part.end
        piece = text[part.start : part.end]
        assert count(piece) <= limit or len(piece) == 1
        pieces.append(piece)
        at = part.end
    assert "".join(pieces) == text
