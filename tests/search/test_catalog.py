"""What the catalog knows, how old it may be, and what it costs."""

from __future__ import annotations

import threading
from collections import Counter
from concurrent.futures import ThreadPoolExecutor

import pytest

from markdown_rag.errors import StoreUnavailable
from markdown_rag.search.catalog import ASKED_LATELY_S, MAX_AGE_S, Catalog
from markdown_rag.store.base import EVERYTHING, Capabilities, FileEntry, Model, RowKey, Where
from markdown_rag.store.memory import MemoryStore
from tests.waiting import SECONDS, eventually, joined


class CountingStore(MemoryStore):
    """A store in memory that counts catalog reads; blind: it cannot tell whether somebody wrote."""

    def __init__(self, *, blind: bool = False) -> None:
        super().__init__(Model("local", "words", 64))
        self.blind = blind
        self.reads: Counter[str] = Counter()

    def catalog(self, where: Where = EVERYTHING) -> list[FileEntry]:
        self.reads["whole"] += 1
        return super().catalog(where)

    def commits(self, where: Where = EVERYTHING) -> list[RowKey]:
        self.reads["named"] += 1
        return super().commits(where)

    def change_count(self) -> int | None:
        return None if self.blind else super().change_count()


@pytest.fixture
def shelf(libraries):
    return libraries(store=CountingStore())


def test_an_unchanged_index_is_read_once(shelf) -> None:
    shelf.add("a.md", "alpha")
    for _ in range(5):
        assert shelf.paths("alpha") == ["a.md"]
    assert shelf.store.reads == {"whole": 1}


def test_an_engine_that_is_started_by_the_first_question_is_read_once(libraries) -> None:
    class Starting(CountingStore):
        def capabilities(self) -> Capabilities:
            if not self.reads["start"]:
                self.reads["start"] = 1
                self.delete(["counts as a change"])
            return super().capabilities()

    shelf = libraries(store=Starting())
    shelf.add("a.md", "alpha")
    for _ in range(5):
        assert shelf.paths("alpha") == ["a.md"]
    assert shelf.store.reads == {"start": 1, "whole": 1}


def test_while_others_write_each_search_asks_about_its_own_files_only(shelf) -> None:
    shelf.add("a.md", "alpha")
    shelf.paths("alpha")
    for n in range(4):
        shelf.add(f"b{n}.md", "beta")
        assert "a.md" in shelf.paths("alpha")
    assert shelf.store.reads == {"whole": 1, "named": 4}


def test_after_a_few_seconds_the_catalog_is_read_again(shelf) -> None:
    shelf.add("a.md", "alpha")
    shelf.paths("alpha")
    shelf.add("b.md", "beta")
    shelf.clock.advance(MAX_AGE_S + 1)
    assert shelf.ask("alpha").total_files == 2
    assert shelf.store.reads == {"whole": 2}


def test_a_store_that_cannot_tell_of_writes_is_asked_about_the_files_of_each_search(libraries) -> None:
    shelf = libraries(store=CountingStore(blind=True))
    shelf.add("a.md", "alpha")
    shelf.paths("alpha")
    shelf.paths("alpha")
    assert shelf.store.reads == {"whole": 1, "named": 2}


def test_a_write_of_ours_is_seen_at_once(shelf) -> None:
    shelf.add("a.md", "alpha")
    assert shelf.ask("alpha").total_files == 1
    shelf.add("b.md", "alpha")
    shelf.catalog.forget()
    assert shelf.ask("alpha").total_files == 2


def test_the_catalog_holds_only_committed_files_in_their_newest_generation(shelf) -> None:
    shelf.add("a.md", "one", "two", gen=1)
    shelf.add("a.md", "new", gen=2)
    shelf.store.insert(shelf.records("unfinished.md", ["x", "y"])[:1])
    snapshot = shelf.catalog.snapshot()
    assert {key: entry.gen for key, entry in snapshot.files.items()} == {("w", "a.md"): 2}
    assert snapshot.totals(Where()) == (1, 1)


def test_scopes_are_counted_exactly(shelf) -> None:
    for path in ("a_b/x.md", "aXb/x.md", "a_b/deep/y.md", "a_bc.md", "top.md"):
        shelf.add(path, "text")
    snapshot = shelf.catalog.snapshot()
    assert snapshot.totals(Where(scope="a_b")) == (2, 2)
    assert snapshot.totals(Where(scope="a_b", recursive=False)) == (1, 1)
    assert snapshot.totals(Where(scope="a_b/x.md")) == (1, 1)
    assert snapshot.totals(Where(recursive=False)) == (2, 2)
    assert snapshot.totals(Where(scope="a")) == (0, 0)


def test_named_files_are_answered_from_the_store_whatever_is_kept(shelf) -> None:
    shelf.add("a.md", "one", gen=1)
    shelf.catalog.snapshot()
    shelf.add("a.md", "two", gen=7)
    assert shelf.catalog.newest([("w", "a.md"), ("w", "none.md"), ("other", "a.md")]) == {("w", "a.md"): 7}
    assert shelf.catalog.newest([]) == {}


def test_workspaces_are_kept_apart(shelf) -> None:
    shelf.add("a.md", "one", workspace="v")
    shelf.add("b.md", "one", workspace="w")
    assert set(shelf.catalog.snapshot(("v",)).files) == {("v", "a.md")}
    assert len(shelf.catalog.snapshot().files) == 2


def test_many_sets_of_workspaces_do_not_pile_up() -> None:
    from markdown_rag.clock import ManualClock

    catalog = Catalog(CountingStore(), ManualClock())
    for n in range(100):
        catalog.snapshot((str(n),))
    assert len(catalog._snapshots) <= 16


def test_one_read_of_everything_serves_each_part_of_it(shelf) -> None:
    shelf.add("a.md", "alpha", workspace="v")
    shelf.add("b.md", "beta", workspace="w")
    whole = shelf.catalog.snapshot()
    for workspaces in (("v",), ("w",), ("v", "w")):
        part = shelf.catalog.snapshot(workspaces)
        assert set(part.files) == {key for key in whole.files if key[0] in workspaces}
        assert shelf.catalog.current(workspaces) is part
    shelf.add("c.md", "gamma", workspace="v")
    shelf.catalog.forget()
    assert len(shelf.catalog.snapshot(("v",)).files) == 2, "also after it was read for itself"
    assert shelf.store.reads == {"whole": 2}


def test_nobody_waits_while_somebody_reads_an_old_catalog_anew(libraries) -> None:
    class Held(CountingStore):
        reading, go_on = threading.Event(), threading.Event()

        def catalog(self, where: Where = EVERYTHING) -> list[FileEntry]:
            if self.reads["whole"]:
                self.reading.set()
                assert self.go_on.wait(SECONDS)
            return super().catalog(where)

    shelf = libraries(store=Held())
    shelf.add("a.md", "alpha")
    old = shelf.catalog.snapshot()
    shelf.add("b.md", "beta")
    shelf.clock.advance(MAX_AGE_S + 1)
    with ThreadPoolExecutor(1) as pool:
        anew = pool.submit(shelf.catalog.snapshot)
        assert shelf.store.reading.wait(SECONDS)
        assert shelf.catalog.snapshot() is old
        assert shelf.catalog.current() is None, "what is not proven is asked for by name"
        shelf.store.go_on.set()
        assert len(anew.result().files) == 2
    assert len(shelf.catalog.snapshot().files) == 2


@pytest.fixture
def held(libraries):
    """A library whose second reading of the catalog waits, and what lets it go on."""

    class Held(CountingStore):
        reading, go_on = threading.Event(), threading.Event()

        def catalog(self, where: Where = EVERYTHING) -> list[FileEntry]:
            found = super().catalog(where)
            if self.reads["whole"] == 2:
                self.reading.set()
                assert self.go_on.wait(SECONDS)
            return found

    return libraries(store=Held())


def test_a_catalog_that_nobody_asked_for_in_hours_is_not_shown_while_another_is_read(held) -> None:
    held.add("a.md", "alpha", workspace="v")
    held.add("b.md", "beta", workspace="w")
    assert len(held.catalog.snapshot(("v",)).files) == 1
    held.add("c.md", "gamma", workspace="v")
    held.clock.advance(3600)
    with ThreadPoolExecutor(1) as pool:
        other = pool.submit(held.catalog.snapshot, ("w",))
        assert held.store.reading.wait(SECONDS)
        threading.Timer(0.2, held.store.go_on.set).start()
        assert {path for _, path in held.catalog.snapshot(("v",)).files} == {"a.md", "c.md"}
        assert len(other.result().files) == 1


def test_what_was_read_before_a_write_ended_is_not_shown_after_it(held) -> None:
    held.add("a.md", "alpha")
    held.catalog.snapshot()
    held.store.delete(["counts as a change"])
    held.catalog.forget()
    with ThreadPoolExecutor(1) as pool:
        early = pool.submit(held.catalog.snapshot)
        assert held.store.reading.wait(SECONDS)
        held.add("b.md", "beta")
        held.catalog.forget()
        held.store.go_on.set()
        assert len(early.result().files) == 1
    assert len(held.catalog.snapshot().files) == 2


def test_a_small_workspace_is_as_new_beside_a_large_one_as_alone(libraries) -> None:
    class Slow(CountingStore):
        def catalog(self, where: Where = EVERYTHING) -> list[FileEntry]:
            found = super().catalog(where)
            shelf.clock.advance(0.1 * len(found))
            return found

    shelf = libraries(store=Slow(blind=True))
    for n in range(39):
        shelf.add(f"{n}.md", "alpha", workspace="large")
    shelf.add("a.md", "alpha", workspace="small")
    assert len(shelf.catalog.snapshot().files) == 40
    shelf.add("b.md", "beta", workspace="small")
    assert len(shelf.catalog.snapshot(("small",)).files) == 1
    shelf.clock.advance(MAX_AGE_S + 1)
    assert len(shelf.catalog.snapshot(("small",)).files) == 2
    assert len(shelf.catalog.snapshot().files) == 40, "which is costly to read, and so kept for longer"


def test_a_catalog_is_renewed_before_it_is_too_old_and_questions_go_on_meanwhile(held) -> None:
    held.add("a.md", "alpha")
    old = held.catalog.snapshot()
    held.add("b.md", "beta")
    held.clock.advance(MAX_AGE_S * 0.6)
    for _ in range(3):
        assert held.catalog.snapshot() is old
        assert held.catalog.current() is None
    assert held.store.reading.wait(SECONDS)
    held.store.go_on.set()
    eventually(held.catalog.current)
    assert len(held.catalog.snapshot().files) == 2
    assert held.store.reads["whole"] == 2


def test_who_writes_while_others_ask_reads_the_catalog_for_them(shelf) -> None:
    shelf.add("a.md", "alpha")
    shelf.paths("alpha")
    shelf.add("b.md", "alpha")
    shelf.catalog.written()
    assert shelf.store.reads == {"whole": 2}
    assert shelf.ask("alpha").total_files == 2
    assert shelf.store.reads == {"whole": 2}
    shelf.clock.advance(ASKED_LATELY_S)
    shelf.add("c.md", "alpha")
    shelf.catalog.written()
    assert shelf.store.reads == {"whole": 2}, "nobody asks"
    assert shelf.ask("alpha").total_files == 3


def test_a_write_is_seen_at_once_also_where_the_catalog_cannot_be_read_after_it(libraries) -> None:
    class Failing(CountingStore):
        def catalog(self, where: Where = EVERYTHING) -> list[FileEntry]:
            found = super().catalog(where)
            if self.reads["whole"] == 2:
                raise StoreUnavailable("It is away.")
            return found

    shelf = libraries(store=Failing())
    shelf.add("a.md", "alpha")
    shelf.paths("alpha")
    shelf.add("b.md", "alpha")
    shelf.catalog.written()
    assert shelf.ask("alpha").total_files == 2


def test_a_reading_that_began_before_a_write_ended_is_not_shown_after_it(held) -> None:
    held.add("a.md", "alpha")
    held.catalog.snapshot()
    held.clock.advance(MAX_AGE_S + 1)
    held.store.delete(["counts as a change"])
    with ThreadPoolExecutor(2) as pool:
        early = pool.submit(held.catalog.snapshot)
        assert held.store.reading.wait(SECONDS)
        held.add("b.md", "beta")
        done = pool.submit(held.catalog.written)
        held.store.go_on.set()
        assert len(early.result().files) == 1
        done.result()
    assert len(held.catalog.snapshot().files) == 2


def test_reading_the_catalog_takes_at_most_a_twentieth_of_the_time(libraries) -> None:
    class Slow(CountingStore):
        def catalog(self, where: Where = EVERYTHING) -> list[FileEntry]:
            shelf.clock.advance(2.0)
            return super().catalog(where)

    shelf = libraries(store=Slow(blind=True))
    shelf.add("a.md", "alpha")
    began = shelf.clock.monotonic()
    while shelf.clock.monotonic() - began < 1_000:
        shelf.clock.advance(0.5)
        shelf.catalog.snapshot()
        joined(*(thread for thread in threading.enumerate() if thread.name == "catalog"))
    assert 10 < shelf.store.reads["whole"] * 2.0 <= 0.05 * 1_000 + 2.0


def test_a_write_is_seen_whatever_becomes_of_reading_the_catalog_after_it(libraries) -> None:
    class Failing(CountingStore):
        fails = False

        def catalog(self, where: Where = EVERYTHING) -> list[FileEntry]:
            if self.fails:
                raise MemoryError
            return super().catalog(where)

    shelf = libraries(store=Failing())
    shelf.add("a.md", "alpha")
    shelf.paths("alpha")
    shelf.add("b.md", "alpha")
    shelf.store.fails = True
    with pytest.raises(MemoryError):
        shelf.catalog.written()
    shelf.store.fails = False
    assert shelf.ask("alpha").total_files == 2


def test_who_writes_reads_for_all_who_have_asked_lately(shelf) -> None:
    shelf.add("a.md", "alpha", workspace="v")
    shelf.add("b.md", "beta", workspace="w")
    shelf.catalog.snapshot(("v",))
    shelf.catalog.snapshot(("w",))
    shelf.add("c.md", "alpha", workspace="v")
    shelf.catalog.written()
    before = shelf.store.reads["whole"]
    assert len(shelf.catalog.snapshot(("v",)).files) == 2
    assert len(shelf.catalog.snapshot(("w",)).files) == 1
    assert shelf.store.reads["whole"] == before


def test_what_is_proven_to_be_of_now_is_not_forgotten(shelf) -> None:
    shelf.add("a.md", "alpha")
    shelf.paths("alpha")
    shelf.catalog.forget()
    shelf.paths("alpha")
    assert shelf.store.reads == {"whole": 1}
