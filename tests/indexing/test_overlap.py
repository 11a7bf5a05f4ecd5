"""Two runs over the same files at once, whoever starts them: neither takes the other's rows."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest

from markdown_rag.indexing.indexer import Indexer
from markdown_rag.indexing.reconcile import GRACE_NS
from markdown_rag.indexing.statcache import Intent, StatCache
from markdown_rag.indexing.underway import Underway
from markdown_rag.store.base import Model, Record
from markdown_rag.store.memory import MemoryStore
from tests.doctor import findings

from .conftest import NewBench
from .parts import DIMENSION, Bench
from .reference import ReferenceIndex, stored

LONG = "# Top\n\n" + "".join(f"## Part {i}\n\n{{0}} {i} " + "and so on " * 100 + "\n\n" for i in range(600))


class HookedStore(MemoryStore):
    """A store in memory that lets something else happen after a call. after: operation -> what happens, once."""

    def __init__(self) -> None:
        super().__init__(Model("test", "hashing", DIMENSION))
        self.after: dict[str, Callable[[], object]] = {}

    def insert(self, records: Sequence[Record]) -> None:
        super().insert(records)
        self.after.pop("insert", lambda: None)()


@pytest.fixture
def bench(new_bench: NewBench, tmp_path: Path) -> Bench:
    return new_bench(tmp_path / "vault", tmp_path / "state", store=HookedStore())


@pytest.fixture
def others(bench: Bench) -> Iterator[Callable[..., Indexer]]:
    """Indexers of other processes over the same store and state."""
    made: list[Indexer] = []

    def start(underway: Underway) -> Indexer:
        cache = StatCache(bench.database)
        made.append(Indexer(bench.store, bench.embeddings, cache, bench.clock, bench.batch_chunks, underway=underway))
        return made[-1]

    yield start
    for indexer in made:
        indexer.close()


def settled(bench: Bench) -> None:
    bench.run()
    reference = ReferenceIndex(bench.root, bench.chunking)
    reference.run()
    assert stored(bench.store, bench.workspace.id) == reference.index
    assert findings(bench) == []


def whole(bench: Bench) -> bool:
    """Whether every committed generation has all its rows."""
    keys = list(bench.store.keys(bench.everything))
    return all(
        sum(key.path == entry.path and key.gen == entry.gen for key in keys) == entry.chunk_count
        for entry in bench.store.catalog()
    )


@pytest.mark.parametrize("known", [False, True], ids=["a new file", "an edited file"])
def test_a_run_that_starts_while_another_writes_a_file_takes_none_of_its_rows(bench: Bench, known: bool) -> None:
    if known:
        bench.write("big.md", LONG.format("before"))
        bench.run()
    bench.write("big.md", LONG.format("after"))
    bench.store.after["insert"] = bench.run
    bench.run()
    assert whole(bench)
    settled(bench)


def test_nor_does_a_run_of_another_process_that_lives(bench: Bench, others: Callable[..., Indexer]) -> None:
    first, second = others(Underway("one", lambda _: False)), others(Underway("two", lambda _: False))
    bench.write("big.md", LONG.format("words"))
    ours = bench.indexer

    def other_process() -> None:
        bench.indexer = second
        bench.run()

    bench.store.after["insert"] = other_process
    bench.indexer = first
    bench.run()
    assert whole(bench)
    bench.indexer = ours
    settled(bench)


def test_what_a_process_may_be_writing_is_left_to_it_until_it_is_dead_or_an_hour_old() -> None:
    gone: set[str] = set()
    ours, theirs = Underway("ours", gone.__contains__), Underway("theirs")
    with ours.run() as mine, theirs.run() as other:
        assert ours.may_be_written(Intent("a", 5, 1, mine), 6)
        assert ours.may_be_written(Intent("a", 5, 1, mine), 5 + GRACE_NS)
        assert ours.may_be_written(Intent("a", 5, 1, other), 4 + GRACE_NS)
        assert not ours.may_be_written(Intent("a", 5, 1, other), 5 + GRACE_NS)
        gone.add("theirs")
        assert not ours.may_be_written(Intent("a", 5, 1, other), 6)
    assert not ours.may_be_written(Intent("a", 5, 1, mine), 6)
