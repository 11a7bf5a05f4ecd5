"""What is kept of files that leave the index, and how much of it."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from pathlib import Path

import pytest

from markdown_rag.database import Database
from markdown_rag.indexing.departures import KEPT, TEXTS, Departure, departures
from markdown_rag.indexing.statcache import MIGRATIONS, StatCache
from markdown_rag.paths import file_digest
from tests.indexing.parts import Bench


def sha(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


@pytest.fixture
def cache(tmp_path: Path) -> Iterator[StatCache]:
    database = Database(tmp_path / "files.sqlite3", MIGRATIONS)
    yield StatCache(database)
    database.close()


def test_a_departure_is_found_by_its_files_digest_the_latest_of_a_path(cache: StatCache) -> None:
    first = Departure("w", "a.md", sha("1"), texts=(sha("x"), sha("y")))
    latest = Departure("w", "a.md", sha("2"), "b.md")
    cache.depart([first])
    assert cache.departed(file_digest("w", "a.md")) == first
    cache.depart([latest])
    assert cache.departed(file_digest("w", "a.md")) == latest
    assert cache.departed(file_digest("v", "a.md")) is None
    cache.forget_workspace("w")
    assert cache.departed(file_digest("w", "a.md")) is None


def test_only_the_newest_departures_are_kept(cache: StatCache) -> None:
    cache.depart(Departure("w", f"{number}.md", "") for number in range(KEPT + 5))
    cache.depart([Departure("w", "7.md", ""), Departure("w", "last.md", "")])
    kept = [number for number in range(12) if cache.departed(file_digest("w", f"{number}.md"))]
    assert kept == [7, 8, 9, 10, 11]
    assert cache.departed(file_digest("w", "last.md"))


def test_a_state_file_from_before_departures_is_carried_over(tmp_path: Path) -> None:
    before = Database(tmp_path / "files.sqlite3", MIGRATIONS[:2])
    with before.write() as connection:
        connection.execute("INSERT INTO sweeps VALUES ('w', ' c')")
    before.close()
    database = Database(tmp_path / "files.sqlite3", MIGRATIONS)
    cache = StatCache(database)
    assert cache.is_swept("w", "c")
    assert cache.departed(file_digest("w", "a.md")) is None
    database.close()


def test_texts_are_kept_only_of_files_whose_bytes_are_nowhere_else_and_not_all_of_long_ones(bench: Bench) -> None:
    bench.note("same.md", "alike")
    bench.write("long.md", "".join(f"## Part {i}\n\n" + f"word{i} " * 200 + "\n\n" for i in range(TEXTS + 9)))
    bench.run()
    entries = {entry.path: entry for entry in bench.store.catalog()}
    assert entries["long.md"].chunk_count > TEXTS
    staying = {"z/same.md": entries["same.md"].file_hash, "b.md": entries["same.md"].file_hash}
    found = {each.path: each for each in departures([*entries.values()], staying, bench.store)}
    assert found["same.md"] == Departure(bench.workspace.id, "same.md", entries["same.md"].file_hash, "z/same.md")
    assert found["long.md"].successor == ""
    assert len(found["long.md"].texts) == TEXTS


def test_a_run_keeps_of_each_file_that_left_which_one_of_those_that_stay_holds_its_bytes(bench: Bench) -> None:
    for path in ("old.md", "copy.md", "twin.md"):
        bench.write(path, "# Alike\n\nThe words of one file, three times.\n")
    bench.write("alone.md", "# Alone\n\nWords that are found nowhere else.\n")
    bench.note("z.md")
    bench.run()
    (bench.root / "old.md").rename(bench.root / "new.md")
    (bench.root / "twin.md").unlink()
    (bench.root / "alone.md").rename(bench.root / "other.md")
    bench.run()
    left = {
        path: bench.cache.departed(file_digest(bench.workspace.id, path)) for path in ("old.md", "twin.md", "alone.md")
    }
    assert {path: each and each.successor for path, each in left.items()} == {
        "old.md": "copy.md",
        "twin.md": "copy.md",
        "alone.md": "other.md",
    }
    assert bench.cache.departed(file_digest(bench.workspace.id, "copy.md")) is None
