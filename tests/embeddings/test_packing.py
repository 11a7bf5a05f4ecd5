"""What is sent together, and what is cut."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from markdown_rag.embeddings.base import Limits
from markdown_rag.embeddings.packing import cut, estimate_tokens, pack, room, split_text

SIZES = st.lists(st.integers(1, 400), max_size=60)


@given(sizes=SIZES, items=st.integers(1, 9), most=st.integers(0, 9), tokens=st.integers(0, 900))
def test_every_text_is_in_exactly_one_batch_and_no_batch_is_over_a_limit(
    sizes: list[int], items: int, most: int, tokens: int
) -> None:
    batches = list(pack(iter(sizes), Limits(most, tokens, 0), items))
    assert [index for batch in batches for index in batch] == list(range(len(sizes)))
    for batch in batches:
        assert 0 < len(batch) <= min(items, most or items)
        assert len(batch) == 1 or not tokens or sum(sizes[index] for index in batch) <= room(tokens)


@given(text=st.text(max_size=400), tokens=st.integers(1, 40))
def test_a_cut_text_loses_nothing_but_blank_parts_and_keeps_the_limit(text: str, tokens: int) -> None:
    parts = split_text(text, tokens)
    position = 0
    for part in parts:
        found = text.index(part, position)
        assert not text[position:found].strip()
        position = found + len(part)
        assert estimate_tokens(part) <= max(tokens, 2)  # one character is never cut
    assert not text[position:].strip()


def test_a_text_is_cut_between_words_where_it_has_some() -> None:
    parts = split_text("alpha beta gamma delta " * 200, 20)
    assert len(parts) > 10
    assert all(word in ("alpha", "beta", "gamma", "delta") for part in parts for word in part.split())


def test_only_texts_over_the_models_limit_are_cut() -> None:
    limits = Limits(0, 0, 400)
    assert cut("short", limits) == [("short", estimate_tokens("short"))]
    assert cut("  ", limits) == []
    long = cut("x" * 4_000, limits)
    assert len(long) > 1
    assert "".join(part for part, _ in long) == "x" * 4_000
    assert all(size == estimate_tokens(part) <= room(400) for part, size in long)


def test_texts_are_looked_at_as_their_batches_are_asked_for() -> None:
    looked = []

    def sizes() -> Iterator[int]:
        for size in range(1, 100):
            looked.append(size)
            yield size

    batches = pack(sizes(), Limits(0, 0, 0), 10)
    assert len(next(batches)) == 10
    assert len(looked) == 11


@pytest.mark.parametrize(
    ("text", "least", "most"),
    [("word " * 100, 100, 150), ("안녕하세요 " * 20, 100, 150), ("日本語の文章" * 10, 60, 75), ("Größe " * 10, 15, 25)],
)
def test_the_estimate_follows_the_script(text: str, least: int, most: int) -> None:
    assert least <= estimate_tokens(text) <= most
