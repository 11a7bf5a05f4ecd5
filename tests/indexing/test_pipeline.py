"""The order of writes as others notice it: stops, what is left for later, what waits, what a clearing leaves."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from markdown_rag.clock import ManualClock, StopSignal
from markdown_rag.errors import Cancelled, EmbeddingRefused, StoreUnavailable
from markdown_rag.indexing.indexer import Indexer
from markdown_rag.indexing.pipeline import FLUSH_ROWS, SLICE_ROWS
from markdown_rag.indexing.reconcile import GRACE_NS
from markdown_rag.indexing.report import Progress
from markdown_rag.markdown.chunking import ChunkPolicy
from markdown_rag.paths import file_digest
from markdown_rag.store.base import EVERYTHING, Model, Record, RowKey, Where
from markdown_rag.store.memory import MemoryStore

from .conftest import NewBench
from .parts import DIMENSION, Bench, as_nobody
from .reference import ReferenceIndex, stored


class WatchedStore(MemoryStore):
    """A store in memory that counts what it is asked for. before: operation -> what happens before it, with its rows.

    "key" is the reading of one key of a listing.
    """

    def __init__(self) -> None:
        super().__init__(Model("test", "hashing", DIMENSION))
        self.calls: Counter[str] = Counter()
        self.before: dict[str, Callable[[Sequence[str]], None]] = {}

    def insert(self, records: Sequence[Record]) -> None:
        self._watch("insert", [record.id for record in records])
        super().insert(records)

    def delete(self, ids: Sequence[str]) -> None:
        self._watch("delete", ids)
        super().delete(ids)

    def flush(self) -> None:
        self._watch("flush", ())

    def keys(self, where: Where = EVERYTHING) -> Iterator[RowKey]:
        for key in super().keys(where):
            self._watch("key", [key.id])
            yield key

    def _watch(self, operation: str, ids: Sequence[str]) -> None:
        self.calls[operation] += 1
        self.before.get(operation, lambda _: None)(ids)


@pytest.fixture
def bench(new_bench: NewBench, tmp_path: Path) -> Bench:
    return new_bench(
        tmp_path / "vault",
        tmp_path / "state",
        store=WatchedStore(),
        clock=ManualClock(2_000_000_000.0),
        chunking=ChunkPolicy(max_tokens=64, min_tokens=16, min_final=8),
    )


def check(bench: Bench) -> None:
    """The store holds exactly what a plain reading of the disk gives."""
    reference = ReferenceIndex(bench.root, bench.chunking)
    reference.run()
    assert stored(bench.store, bench.workspace.id) == reference.index


def long_note(word: str, parts: int = 6) -> str:
    return "# Top\n\n" + "".join(f"## Part {i}\n\n{word} {i} " + "and so on " * 12 + "\n\n" for i in range(parts))


# Stops


def test_a_stop_is_seen_while_one_large_file_is_written(bench: Bench) -> None:
    bench.write("large.md", long_note("amber", 3 * SLICE_ROWS))
    stop = StopSignal()
    bench.store.before["insert"] = lambda _: stop.stop()
    with pytest.raises(Cancelled):
        bench.run(stop=stop)
    assert bench.store.count() == SLICE_ROWS
    assert bench.store.catalog() == []
    bench.store.before.clear()
    bench.run()
    check(bench)


def test_a_stop_is_seen_while_the_rows_of_a_workspace_are_looked_through(bench: Bench) -> None:
    bench.write("a.md", long_note("amber"))
    bench.run()
    bench.restart(keep_state=False)
    stop = StopSignal()
    bench.store.before["key"] = lambda _: stop.stop()
    with pytest.raises(Cancelled):
        bench.run(stop=stop)
    assert bench.store.calls["key"] == 1


# What earlier runs left


def leave_uncommitted(bench: Bench, path: str, gen: int) -> int:
    """Rows as a run leaves them that dies before it commits, and nothing that remembers them; how many."""
    rows = [row for row in bench.store.records(EVERYTHING) if row.path == path and row.ord > 0]
    bench.store.insert([replace(row, gen=gen) for row in rows])
    bench.restart(keep_state=False)
    return len(rows)


@pytest.mark.parametrize(
    ("path", "recursive", "age_ns"),
    [("beside", True, 2 * GRACE_NS), ("", False, 2 * GRACE_NS), ("", True, GRACE_NS - 10**9)],
    ids=["of another folder", "of the root only", "a second too early"],
)
def test_remains_that_a_run_could_not_judge_are_removed_by_the_first_that_can(
    bench: Bench, path: str, recursive: bool, age_ns: int
) -> None:
    bench.write("deep/a.md", long_note("amber"))
    bench.note("beside/b.md")
    bench.run()
    left = leave_uncommitted(bench, "deep/a.md", bench.clock.now_ns() - age_ns)
    assert bench.run(path, recursive=recursive).orphans == 0
    bench.clock.advance(2)
    assert bench.run().orphans == left > 0
    check(bench)


def test_remains_in_a_folder_that_could_not_be_read_are_removed_once_it_can(bench: Bench) -> None:
    bench.write("locked/a.md", long_note("amber"))
    bench.note("b.md")
    bench.run()
    left = leave_uncommitted(bench, "locked/a.md", bench.clock.now_ns() - 2 * GRACE_NS)
    scope = bench.scope()
    (bench.root / "locked").chmod(0)
    with as_nobody(bench.root, bench.state, *bench.state.iterdir()):
        report = bench.indexer.run(scope, bench.chunking, bench.scanning, progress=Progress(), stop=StopSignal())
    (bench.root / "locked").chmod(0o755)
    assert (bench.kinds(report), report.orphans) == ({"locked": "unreadable"}, 0)
    assert bench.run().orphans == left > 0
    check(bench)


def test_every_row_is_listed_only_where_what_a_run_left_may_be_forgotten(bench: Bench) -> None:
    bench.write("a.md", long_note("amber"))
    bench.run()
    bench.run()
    assert bench.store.calls["key"] == 0
    bench.restart(keep_state=False)
    bench.run()
    assert bench.store.calls["key"] == bench.store.count()
    bench.run()
    assert bench.store.calls["key"] == bench.store.count()


# What waits


def refusing(bench: Bench) -> None:
    def refuse(texts: Sequence[str]) -> None:
        if any("amber" in text for text in texts):
            raise EmbeddingRefused("Not this text.")

    bench.embedder.before = refuse


def without_budget(bench: Bench) -> None:
    bench.indexer.close()
    bench.indexer = Indexer(bench.store, bench.embeddings, bench.cache, bench.clock, bench.batch_chunks, budget=1)


@pytest.mark.parametrize("hindered", [refusing, without_budget])
def test_a_file_that_was_moved_and_cannot_be_indexed_yet_is_found_under_its_old_name(
    bench: Bench, hindered: Callable[[Bench], None]
) -> None:
    bench.write("old.md", long_note("amber"))
    bench.note("b.md")
    bench.run()
    before = bench.rows()["old.md"]
    (bench.root / "old.md").rename(bench.root / "new.md")
    hindered(bench)
    report = bench.run(use_cache=False)
    assert (report.failed + report.postponed, report.deleted) == (1, 0)
    assert bench.rows()["old.md"] == before
    bench.embedder.before = lambda _: None
    bench.restart()
    assert bench.run().deleted == 1
    check(bench)


# Quick to search


@pytest.mark.ends_with("missing")
def test_a_run_that_wrote_much_makes_it_quick_to_search_and_a_small_one_does_not_wait_for_that(bench: Bench) -> None:
    for number in range(FLUSH_ROWS - 1):
        bench.note(f"{number}.md")
    bench.run()
    assert bench.store.calls["flush"] == 0
    for number in range((FLUSH_ROWS + 1) // 2):
        bench.note(f"{number}.md", "others")
    bench.run()  # as many rows go as come
    assert bench.store.calls["flush"] == 1
    bench.indexer.clear(bench.workspace.id)
    assert bench.store.calls["flush"] == 1
    bench.note("one more.md")
    bench.run()
    assert bench.store.calls["flush"] == 2
    bench.indexer.clear(bench.workspace.id)
    assert bench.store.calls["flush"] == 3


# Clearing


def test_nothing_is_remembered_of_a_cleared_workspace(bench: Bench) -> None:
    for path in ("a.md", "b.md", "c.md"):
        bench.write(path, long_note(path))
    bench.run()
    (bench.root / "a.md").unlink()
    bench.run()
    assert bench.cache.departed(file_digest(bench.workspace.id, "a.md"))
    rows = bench.store.count()
    assert bench.indexer.clear(bench.workspace.id) == rows
    assert bench.store.count() == 0
    assert bench.cache.load(bench.scope()) == {}
    assert bench.cache.unfinished(bench.scope(), bench.store.collection) == []
    assert bench.cache.departed(file_digest(bench.workspace.id, "a.md")) is None
    report = bench.run()
    assert (report.new, report.orphans) == (2, 0)


def test_what_a_clearing_leaves_that_is_cut_short_is_nowhere_to_be_seen_and_gone_after_the_next_run(
    bench: Bench,
) -> None:
    bench.write("a.md", long_note("amber"))
    bench.write("b.md", long_note("birch", 4))
    bench.run()
    rows = Counter(row.path for row in bench.store.rows(EVERYTHING))

    def second(_: Sequence[str]) -> None:
        if bench.store.calls["delete"] == 2:
            raise StoreUnavailable("The store is away.")

    bench.store.calls.clear()
    bench.store.before["delete"] = second
    with pytest.raises(StoreUnavailable):
        bench.indexer.clear(bench.workspace.id)
    assert bench.store.catalog() == []
    assert bench.store.count() == rows.total() - 2
    assert {each.path: each.rows for each in bench.cache.unfinished(bench.scope(), bench.store.collection)} == rows
    bench.store.before.clear()
    bench.clock.advance(1)
    bench.run()
    check(bench)
