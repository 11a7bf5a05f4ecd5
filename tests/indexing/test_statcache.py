"""What is remembered between runs, and what trouble with it costs: nothing."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from markdown_rag.database import Database
from markdown_rag.indexing.reading import NotRead, Stamp
from markdown_rag.indexing.report import ProblemKind
from markdown_rag.indexing.statcache import MIGRATIONS, Intent, Noted, StatCache
from markdown_rag.paths import Scope, Workspace

SECOND = 1_000_000_000
WORKSPACE = Workspace("w", Path("/vault"))


def noted(skip: NotRead | None = None) -> Noted:
    return Noted(Stamp(5, 10 * SECOND, 11 * SECOND, 7), 20 * SECOND, "hash", "policy", skip)


@pytest.fixture
def database(tmp_path: Path) -> Iterator[Database]:
    made = Database(tmp_path / "files.sqlite3", MIGRATIONS)
    yield made
    made.close()


def test_what_is_noted_is_loaded_again(database: Database) -> None:
    skipped = noted(NotRead(ProblemKind.EMPTY, "empty"))
    StatCache(database).note("w", {"a.md": noted(), "b.md": skipped})
    assert StatCache(database).load(Scope(WORKSPACE)) == {"a.md": noted(), "b.md": skipped}


def test_a_reason_that_only_another_version_knows_costs_a_reading_of_that_file(database: Database) -> None:
    cache = StatCache(database)
    cache.note("w", {"a.md": noted(), "b.md": noted(NotRead(ProblemKind.EMPTY, "empty"))})
    with database.write() as connection:
        connection.execute("UPDATE stats SET skip_kind = 'unheard of' WHERE path = 'b.md'")
    assert cache.load(Scope(WORKSPACE)) == {"a.md": noted()}


def test_a_scope_loads_exactly_what_lies_in_it(database: Database) -> None:
    cache = StatCache(database)
    paths = ["a_b/x.md", "a_b/y/z.md", "aXb/x.md", "a_b2/x.md", "a_b", "a_b-/x.md", "a%b/x.md"]
    cache.note("w", dict.fromkeys(paths, noted()))
    cache.note("other", {"a_b/x.md": noted()})
    assert set(cache.load(Scope(WORKSPACE, "a_b"))) == {"a_b/x.md", "a_b/y/z.md", "a_b"}
    assert set(cache.load(Scope(WORKSPACE, "a%b"))) == {"a%b/x.md"}


def test_forgotten_files_and_workspaces_are_gone(database: Database) -> None:
    cache = StatCache(database)
    cache.note("w", {"a.md": noted(), "b.md": noted()})
    cache.forget("w", ["a.md"])
    assert set(cache.load(Scope(WORKSPACE))) == {"b.md"}
    cache.intend("w", "c", [Intent("b.md", 1, 2)])
    cache.mark_swept("w", "c")
    cache.forget_workspace("w")
    assert cache.load(Scope(WORKSPACE)) == {}
    assert cache.unfinished(Scope(WORKSPACE), "c") == []
    assert not cache.is_swept("w", "c")


def test_intents_last_until_carried_out(database: Database) -> None:
    cache = StatCache(database)
    first, second = Intent("x/a.md", 5, 3), Intent("b.md", 6, 1)
    cache.intend("w", "c", [first, second])
    assert cache.unfinished(Scope(WORKSPACE), "c") == [second, first]
    assert cache.unfinished(Scope(WORKSPACE, "x"), "c") == [first]
    assert cache.unfinished(Scope(WORKSPACE), "another collection") == []
    cache.note("w", {"x/a.md": noted()}, [first], "c")
    assert cache.unfinished(Scope(WORKSPACE), "c") == [second]


def test_collections_of_one_name_at_two_stores_are_told_apart(database: Database) -> None:
    here, there = StatCache(database, "localhost:19530/ default"), StatCache(database, "localhost:19530/ other")
    here.intend("w", "c", [Intent("a.md", 1, 2)])
    here.mark_swept("w", "c")
    assert not there.is_swept("w", "c")
    assert there.unfinished(Scope(WORKSPACE), "c") == []
    there.note("w", {}, [Intent("a.md", 1, 2)], "c")
    assert here.unfinished(Scope(WORKSPACE), "c") == [Intent("a.md", 1, 2)]
    here.note("w", {"a.md": noted()})
    assert there.load(Scope(WORKSPACE)) == {"a.md": noted()}


@pytest.mark.parametrize(
    ("seen", "taken", "proven"),
    [
        (Stamp(5, 10 * SECOND, 10 * SECOND, 7), 12 * SECOND, True),
        (Stamp(5, 10 * SECOND, 10 * SECOND, 7), 12 * SECOND - 1, False),
        (Stamp(5, 10 * SECOND, 11 * SECOND, 7), 12 * SECOND, False),
        (Stamp(5, 90 * SECOND, 10 * SECOND, 7), 12 * SECOND, False),
    ],
)
def test_a_stamp_recorded_too_soon_after_a_change_proves_nothing(seen: Stamp, taken: int, proven: bool) -> None:
    assert Noted(seen, taken, "hash", "policy").proves(seen) is proven


@pytest.mark.parametrize("field", ["size", "mtime_ns", "ctime_ns", "inode"])
def test_any_difference_in_a_stamp_is_a_change(field: str) -> None:
    known = noted()
    assert known.proves(known.stamp)
    assert not known.proves(known.stamp._replace(**{field: 6}))


def test_a_state_file_that_fails_is_like_an_empty_one_and_says_why(database: Database) -> None:
    cache = StatCache(database)
    cache.note("w", {"a.md": noted()})
    database.close()
    assert cache.load(Scope(WORKSPACE)) == {}
    assert cache.unfinished(Scope(WORKSPACE), "c") == []
    assert not cache.is_swept("w", "c")
    cache.note("w", {"a.md": noted()})
    cache.intend("w", "c", [Intent("a.md", 1, 1)])
    assert "is closed" in cache.take_trouble()
    assert cache.take_trouble() == ""
