"""Vectors, remains and the look-ahead: small parts with laws of their own."""

from __future__ import annotations

import threading
from collections.abc import Generator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from markdown_rag.clock import StopSignal
from markdown_rag.errors import Cancelled
from markdown_rag.indexing.lookahead import ahead
from markdown_rag.indexing.reconcile import GRACE_NS, Generation, ids_last_first, sweep, unfinished
from markdown_rag.indexing.statcache import Intent
from markdown_rag.indexing.vectors import with_document
from markdown_rag.store.base import FileEntry, RowKey, record_id


def unit(rows: np.ndarray) -> np.ndarray:
    return rows / np.linalg.norm(rows, axis=-1, keepdims=True)


@given(seed=st.integers(0, 2**32 - 1), chunks=st.integers(1, 20), weight=st.sampled_from([0.0, 0.25, 0.5]))
@settings(max_examples=50, deadline=None)
def test_the_inner_product_mixes_chunk_and_document(seed: int, chunks: int, weight: float) -> None:
    dice = np.random.default_rng(seed)
    own = unit(dice.normal(size=(chunks, 16))).astype(np.float32)
    query = unit(dice.normal(size=16)).astype(np.float32)
    document = unit(own.sum(axis=0))
    stored = with_document(own, weight)
    assert stored.dtype == np.float32
    expected = (1 - weight) * (own @ query) + weight * (document @ query)
    assert np.allclose(stored @ query, expected, atol=1e-5)


@given(seed=st.integers(0, 2**32 - 1), chunks=st.integers(1, 20))
@settings(max_examples=50, deadline=None)
def test_chunk_vectors_can_be_had_back_from_a_whole_generation(seed: int, chunks: int) -> None:
    own = unit(np.random.default_rng(seed).normal(size=(chunks, 16))).astype(np.float32)
    stored = with_document(own, 0.5)
    document = unit(stored.sum(axis=0))
    assert np.allclose(2 * stored - document, own, atol=1e-5)


def test_opposite_chunks_have_no_document_and_stay_finite() -> None:
    stored = with_document(np.array([[1, 0], [-1, 0]], dtype=np.float32), 0.5)
    assert np.isfinite(stored).all()
    assert np.allclose(stored, [[0.5, 0], [-0.5, 0]])


def test_a_generation_is_taken_away_with_its_commit_last() -> None:
    rest, commits = ids_last_first("w", [Generation("a", 7, 3), Generation("b", 8, 1)])
    assert rest == [record_id("w", "a", 7, 1), record_id("w", "a", 7, 2)]
    assert commits == [record_id("w", "a", 7, 0), record_id("w", "b", 8, 0)]


def committed(path: str, gen: int) -> FileEntry:
    return FileEntry("w", path, gen, 2, "", (), (), {}, "h", "p")


def key(path: str, gen: int, ord_: int) -> RowKey:
    return RowKey(record_id("w", path, gen, ord_), "w", path, gen, ord_)


def test_an_intent_that_was_committed_is_not_undone() -> None:
    intents = [Intent("a", 1, 2), Intent("b", 2, 3)]
    assert unfinished(intents, [committed("a", 1)]) == [Generation("b", 2, 3)]


def test_a_sweep_takes_only_old_uncommitted_rows_that_may_be_judged() -> None:
    now = 10 * GRACE_NS
    keys = [key("a", 1, 0), key("a", 1, 1), key("a", 2, 1), key("b", now - 5, 1), key("locked/c", 3, 1)]
    remains = sweep(keys, [committed("a", 1)], now, lambda path: path.startswith("locked/"))
    assert remains.ids == (record_id("w", "a", 2, 1),)
    assert remains.young == 1


@pytest.fixture
def pool() -> Generator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(2) as made:
        yield made


def test_the_next_item_is_made_while_the_present_one_is_used(pool: ThreadPoolExecutor) -> None:
    second_begun = threading.Event()

    def source() -> Generator[int]:
        yield 1
        second_begun.set()
        yield 2

    with closing(ahead(pool, source(), StopSignal())) as items:
        assert next(items) == 1
        assert second_begun.wait(10)
        assert list(items) == [2]


def test_an_error_comes_out_after_the_items_before_it(pool: ThreadPoolExecutor) -> None:
    def source() -> Generator[int]:
        yield 1
        raise KeyError("broken")

    with closing(ahead(pool, source(), StopSignal())) as items:
        assert next(items) == 1
        with pytest.raises(KeyError, match="broken"):
            next(items)


def test_a_stage_that_is_given_up_is_closed(pool: ThreadPoolExecutor) -> None:
    closed = threading.Event()

    def source() -> Generator[int]:
        try:
            yield from range(100)
        finally:
            closed.set()

    with closing(ahead(pool, source(), StopSignal())) as items:
        next(items)
    assert closed.is_set()


def test_a_stop_does_not_wait_for_the_item_in_the_making(pool: ThreadPoolExecutor) -> None:
    stop, release = StopSignal(), threading.Event()

    def source() -> Generator[int]:
        yield 1
        release.wait(30)
        yield 2

    items = ahead(pool, source(), stop)
    assert next(items) == 1
    stop.stop("enough")
    with pytest.raises(Cancelled, match="enough"):
        next(items)
    release.set()
