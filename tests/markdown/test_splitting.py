"""Cutting one span: limits, borders, tiling."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from markdown_rag.markdown.splitting import MAX_TEXT, cut, overlap_start
from markdown_rag.markdown.tokens import count


@settings(max_examples=80, deadline=None)
@given(text=st.text(min_size=1, max_size=600), room=st.integers(4, 60), start=st.integers(0, 20))
def test_parts_tile_the_span(text: str, room: int, start: int) -> None:
    text = text.encode("utf-8", "replace").decode()
    start = min(start, len(text) - 1)
    parts = cut(text, start, len(text), room)
    assert [part[0] for part in parts] == [start, *(part[1] for part in parts[:-1])]
    assert parts[-1][1] == len(text)
    assert all(first < last for first, last, _ in parts)


@pytest.mark.parametrize(
    ("text", "border"),
    [
        ("one line of words here\n" * 30, "\n"),
        ("One sentence of words here. " * 30, ". "),
        ("words without any end " * 30, " "),
        ("请先关闭阀门再更换滤芯。" * 30, "。"),
    ],
)
def test_a_span_is_cut_at_its_best_border(text: str, border: str) -> None:
    parts = cut(text, 0, len(text), 40)
    assert len(parts) > 2
    assert all(text[:last].endswith(border) for _, last, _ in parts)
    assert all(count(text[first:last]) <= 40 for first, last, _ in parts)


def test_html_is_cut_before_rows() -> None:
    text = "<table>\n" + "<tr>\n  <td>cell one</td>\n  <td>cell two</td>\n</tr>\n" * 30 + "</table>\n"
    assert all(text[first:].startswith("<tr>") for first, _, _ in cut(text, 0, len(text), 60, html=True)[1:])


def test_no_part_is_longer_than_a_field() -> None:
    text = "word " * 40_000
    assert all(len(text[first:last].encode()) <= MAX_TEXT for first, last, _ in cut(text, 0, len(text), 100_000))


def test_an_overlap_begins_at_a_border_and_within_its_tokens() -> None:
    text = "One sentence here. " * 40
    begin = overlap_start(text, 0, 380, 20)
    assert text[begin:].startswith("One")
    assert 0 < count(text[begin:380]) <= 20
    assert overlap_start(text, 370, 380, 20) >= 370
