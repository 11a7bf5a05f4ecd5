"""Laws of chunking: they hold for every input."""

import unicodedata
from collections.abc import Callable

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from markdown_rag.markdown.chunking import ChunkPolicy, chunk_document
from markdown_rag.markdown.decoding import Decoded, Undecodable, decode
from markdown_rag.markdown.lexical import analyze, tokens
from markdown_rag.markdown.outline import Block, parse_outline

bounded = settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])

LINES = st.sampled_from(
    [
        "# Title", "## Part {#id}", "### Deep `code`", "Lower\n---", "", "", "plain words here", "- item one",
        "  - nested", "1. first", "> quoted", "> > twice", "```py", "~~~", "````", "print('# no')", "| a | b |",
        "|---|---|", "| 1 | 2 |", "<div>", "<!-- # hidden", "-->", "    code", "[^1]: a note", "***", "---", "+++",
        "title: x", "tags: [a, b]", "다음 회의는 화요일", "请先关闭阀门，再更换滤芯。", "ปิดวาล์วก่อน", "नमस्ते दुनिया",
        "می‌شود", "e\u0301" * 9, "👩‍👩‍👧‍👦",
        "data:image/png;base64," + "QUJD" * 30, "data:image/png;base64," + "QUJD" * 600,
        "x" * 300, "y" * 2500, "word " * 120, "Sentence one. Sentence two! Three? " * 12, "字" * 500, "\t\ttabs",
        "\0\0", "\ufeff", "C++ and C# v1.2.3 foo.bar",
    ]
)  # fmt: skip
NOTES = st.lists(LINES, max_size=40).map("\n".join)
POLICIES = st.builds(
    ChunkPolicy,
    max_tokens=st.integers(32, 500),
    min_tokens=st.integers(0, 200),
    overlap=st.integers(0, 100),
    min_final=st.integers(0, 100),
)


@bounded
@given(text=NOTES, policy=POLICIES, newline=st.sampled_from(["\n", "\r\n", "\r"]))
def test_notes_keep_every_byte_and_every_limit(judged: Callable, text: str, policy: ChunkPolicy, newline: str) -> None:
    data = text.replace("\n", newline).encode()
    if not isinstance(decode(data), Undecodable):  # a few NULs and little else are binary data
        judged(data, "folder/some_note.md", policy)


@bounded
@given(text=st.text(max_size=400), policy=POLICIES)
def test_any_unicode_keeps_every_byte_and_every_limit(judged: Callable, text: str, policy: ChunkPolicy) -> None:
    data = text.encode("utf-8", "surrogatepass")
    if not isinstance(decode(data), Undecodable):
        judged(data, "a.md", policy)


@bounded
@given(data=st.binary(max_size=300))
def test_any_bytes_are_text_with_exact_offsets_or_named(data: bytes) -> None:
    decoded = decode(data)
    if isinstance(decoded, Undecodable):
        assert decoded.reason
        return
    assert not {"\0", "\r", "\ufeff"} & set(decoded.text)
    decoded.text.encode()
    offsets = [decoded.lines.byte_offset(index) for index in range(len(decoded.text) + 1)]
    assert offsets == sorted(offsets)
    assert offsets[-1] == len(data)


@bounded
@given(text=st.text(max_size=200), noise=st.lists(st.binary(min_size=1, max_size=4), max_size=3))
def test_damaged_utf8_reads_as_python_replaces_it(text: str, noise: list[bytes]) -> None:
    data = ("다음 회의는 화요일 오후에 열립니다. " * 3 + text.replace("\r", "")).encode("utf-8", "replace") + b"|".join(
        noise
    )
    decoded = decode(data)
    if isinstance(decoded, Decoded) and decoded.encoding == "utf-8":
        expected = data.decode("utf-8", "replace").replace("\r\n", "\n").replace("\r", "\n")
        assert decoded.text == expected.replace("\0", "\ufffd").replace("\ufeff", "\u2060")


@pytest.mark.parametrize("encoding", ["utf-16-le", "utf-16-be", "utf-32-le", "utf-32-be", "utf-8"])
@bounded
@given(text=st.text(max_size=100).filter(lambda text: not text.startswith("\0")))  # UTF-16's mark and NUL is UTF-32's
def test_a_byte_order_mark_settles_the_encoding(encoding: str, text: str) -> None:
    data = ("\ufeff" + text).encode(encoding, "surrogatepass")
    decoded = decode(data)
    assert isinstance(decoded, Decoded)
    assert decoded.encoding == encoding
    for index in range(len(decoded.text)):
        start, end = decoded.lines.byte_offset(index), decoded.lines.byte_offset(index + 1)
        original = data[start:end].decode(encoding, "replace")
        assert original in ("\r\n", "\r", "\0", "\ufeff") or decoded.text[index] in (original, "\ufffd")


@bounded
@given(text=NOTES)
@example(text="- \n\t- \n\t-")
def test_blocks_nest_and_never_overlap(text: str) -> None:
    text = text.replace("\0", "")

    def check(blocks: tuple[Block, ...], low: int, high: int) -> None:
        for block in blocks:
            assert low <= block.start <= block.end <= high
            check(block.children, block.start, block.end)
            low = block.end

    outline = parse_outline(text)
    check(outline.blocks, 0, len(text))
    assert all(text[heading.start : heading.end].strip() for heading in outline.headings)


@bounded
@given(text=st.text(max_size=300) | NOTES)
def test_every_token_is_a_word_by_itself(text: str) -> None:
    found = tokens(text)
    assert all(token.isalnum() or "_" in token for token in found)
    assert analyze(text).split() == found
    assert analyze(unicodedata.normalize("NFD", text)) == analyze(unicodedata.normalize("NFC", text))


@bounded
@given(text=NOTES, end=st.integers(0, 400))
def test_a_note_is_found_by_any_word_it_holds(text: str, end: int) -> None:
    for word in text[:end].split()[:20]:
        if len(word) <= 40:
            assert set(tokens(word)) <= set(tokens(f"before {word} after"))


@bounded
@given(text=NOTES, policy=POLICIES)
def test_a_rename_changes_no_embedded_text(text: str, policy: ChunkPolicy) -> None:
    one, other = (chunk_document(text.encode(), path, policy) for path in ("old name.md", "else/where.md"))
    if isinstance(one, Undecodable) or isinstance(other, Undecodable):
        assert one == other
        return
    assert [chunk.text_hash for chunk in one.chunks] == [chunk.text_hash for chunk in other.chunks]
