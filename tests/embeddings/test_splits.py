"""What a refused batch teaches."""

from __future__ import annotations

from markdown_rag.embeddings.splits import Split


def test_a_batch_whose_parts_all_go_through_was_too_large() -> None:
    split = Split(100)
    assert split.settle(50, embedded=True) == 0
    assert split.settle(50, embedded=True) == 50


def test_a_batch_with_a_bad_text_teaches_no_size() -> None:
    split = Split(4)
    inner = Split(2, split)
    assert split.settle(2, embedded=True) == 0
    assert inner.settle(1, embedded=False) == 0
    assert inner.settle(1, embedded=True) == 0
    assert not split.pending


def test_the_smallest_part_that_was_too_large_decides() -> None:
    outer = Split(100)
    inner = Split(50, outer)
    assert inner.settle(25, embedded=True) == 0
    assert inner.settle(25, embedded=True) == 25
