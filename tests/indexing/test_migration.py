"""An index copied to another store: all of it, once, with nothing embedded."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from markdown_rag.clock import StopSignal
from markdown_rag.errors import Cancelled, StoreError, StoreUnavailable
from markdown_rag.indexing.migration import migrate
from markdown_rag.store.base import EVERYTHING, Model, Record
from markdown_rag.store.memory import MemoryStore

from .conftest import NewBench
from .parts import DIMENSION, Bench


class Failing(MemoryStore):
    """A target whose insert fails at the k-th call, or that lets go of rows it was given."""

    def __init__(self, *, fail_at: int = 0, loses: str = "") -> None:
        super().__init__(Model("test", "hashing", DIMENSION))
        self.calls = 0
        self.fail_at = fail_at
        self.loses = loses

    def insert(self, records: Sequence[Record]) -> None:
        self.calls += 1
        if self.calls == self.fail_at:
            raise StoreUnavailable("gone")
        super().insert([record for record in records if record.path != self.loses])


@pytest.fixture
def vault(new_bench: NewBench, tmp_path: Path) -> Bench:
    bench = new_bench(tmp_path / "vault", tmp_path / "state")
    for number in range(30):
        bench.note(f"folder{number % 3}/{number:02}.md", f"words of number {number}")
    bench.write("long.md", "\n\n".join(f"# Part {n}\n\n{'some words ' * 300}" for n in range(6)))
    bench.run()
    bench.embedder.sent = []
    return bench


def whole(store: MemoryStore) -> dict[str, tuple[Record, bytes]]:
    empty = np.empty(0, np.float32)
    return {r.id: (replace(r, vector=empty), r.vector.tobytes()) for r in store.records(EVERYTHING)}  # type: ignore[misc]


def same(one: MemoryStore, other: MemoryStore) -> bool:
    ours, theirs = whole(one), whole(other)
    return ours.keys() == theirs.keys() and all(
        ours[i][1] == theirs[i][1] and repr(ours[i][0]) == repr(theirs[i][0]) for i in ours
    )


def test_a_copy_holds_every_row_with_its_vector_and_embeds_nothing(vault: Bench) -> None:
    target = Failing()
    seen: list[tuple[int, int]] = []
    done = migrate(vault.store, target, StopSignal(), lambda files, total: seen.append((files, total)))
    assert (done.files, done.rows, done.present, done.gone) == (31, vault.store.count(), 0, 0)
    assert same(vault.store, target)  # type: ignore[arg-type]
    assert seen[-1] == (31, 31)
    assert vault.embedder.sent == []


def test_a_second_copy_writes_nothing(vault: Bench) -> None:
    target = Failing()
    migrate(vault.store, target, StopSignal())
    calls = target.calls
    done = migrate(vault.store, target, StopSignal())
    assert (done.files, done.present, target.calls) == (0, 31, calls)


@pytest.mark.parametrize("k", range(1, 5))
def test_a_copy_that_broke_off_leaves_whole_files_and_goes_on(vault: Bench, k: int) -> None:
    target = Failing(fail_at=k)
    if k <= 2:
        with pytest.raises(StoreUnavailable):
            migrate(vault.store, target, StopSignal())
    for entry in target.catalog():
        assert sum(key.path == entry.path for key in target.keys(EVERYTHING)) == entry.chunk_count
    migrate(vault.store, target, StopSignal())
    assert same(vault.store, target)  # type: ignore[arg-type]


def test_an_edit_after_a_copy_is_copied_over_the_old_text(vault: Bench) -> None:
    target = Failing()
    migrate(vault.store, target, StopSignal())
    vault.note("folder0/00.md", "edited since")
    vault.run()
    done = migrate(vault.store, target, StopSignal())
    assert done.files == 1
    assert same(vault.store, target)  # type: ignore[arg-type]


def test_what_the_target_has_newer_stays(vault: Bench) -> None:
    target = Failing()
    migrate(vault.store, target, StopSignal())
    source, vault.store = vault.store, target
    vault.restart()
    vault.note("folder0/00.md", "newer over there")
    vault.run()
    before = whole(target)
    done = migrate(source, target, StopSignal())
    assert (done.files, done.newer) == (0, 1)
    assert whole(target).keys() == before.keys()


def test_a_target_that_loses_rows_is_found_out(vault: Bench) -> None:
    with pytest.raises(StoreError, match=r"long\.md"):
        migrate(vault.store, Failing(loses="long.md"), StopSignal())


def test_a_copy_can_be_stopped(vault: Bench) -> None:
    stop = StopSignal()
    stop.stop()
    with pytest.raises(Cancelled):
        migrate(vault.store, Failing(), stop)


def test_searching_the_copy_finds_what_the_original_finds(vault: Bench) -> None:
    target = MemoryStore(Model("test", "hashing", DIMENSION), lexical=False)  # an older server
    migrate(vault.store, target, StopSignal())
    query = vault.embeddings.query("words of number 7")
    assert [m.id for m in target.dense(query, 5)] == [m.id for m in vault.store.dense(query, 5)]
