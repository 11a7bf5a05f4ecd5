"""The embedded database when the disk below it is full, taken away, or holds half of a collection."""

from __future__ import annotations

import contextlib
import resource
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from markdown_rag.errors import StoreUnavailable
from markdown_rag.store import endpoint as endpoints
from markdown_rag.store.base import Store
from markdown_rag.store.gate import Activity
from markdown_rag.store.opening import StoreSettings, open_store
from markdown_rag.store.rwlock import ReadersFirstLock
from tests.waiting import remove

from .conftest import MODEL, record, vector, wait_until_gone
from .test_living import library_schema, row_of


@contextlib.contextmanager
def files_up_to(size: int) -> Iterator[None]:
    """No file of this process grows beyond size: what a full disk does, without one."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def open_here(folder: Path) -> Any:
    from markdown_rag.store.engine import open_database

    return open_database(folder, ReadersFirstLock(), Activity())


@pytest.fixture
def database(tmp_path: Path) -> Iterator[Any]:
    """The engine's database in this process, with an empty collection c."""
    made = open_here(tmp_path / "index.db")
    made.create_collection("c", library_schema())
    yield made
    made.close()


def keys_in(collection: Any) -> set[str]:
    return {row["id"] for row in collection.query(output_fields=["id"])}


def keys_after_a_crash(tmp_path: Path) -> set[str]:
    """What another engine finds that sees the files as they are now."""
    copy = tmp_path / "after a crash.db"
    shutil.copytree(tmp_path / "index.db", copy)
    opened = open_here(copy)
    found = keys_in(opened.get_collection("c"))
    opened.close()
    shutil.rmtree(copy)
    return found


def rows(*numbers: int) -> list[dict]:
    return [row_of(number, 0) for number in numbers]


def test_rows_that_a_full_disk_keeps_out_of_files_are_read_and_survive(database: Any, tmp_path: Path):
    collection = database.get_collection("c")
    collection.insert(rows(*range(30)))
    collection.delete(["k0"])
    wanted = {f"k{number}" for number in range(1, 30)}
    for _ in range(2):
        with files_up_to(500), pytest.raises(OSError, match="too large"):
            collection.flush()
        assert keys_in(collection) == keys_after_a_crash(tmp_path) == wanted
    collection.insert(rows(30))
    wanted.add("k30")
    assert keys_in(collection) == keys_after_a_crash(tmp_path) == wanted
    collection.flush()
    collection.insert(rows(31))
    collection.flush()
    assert keys_in(collection) == keys_after_a_crash(tmp_path) == wanted | {"k31"}


def test_a_database_that_is_closed_on_a_full_disk_loses_nothing(database: Any, tmp_path: Path):
    database.get_collection("c").insert(rows(*range(30)))
    with files_up_to(500):
        database.close()
    again = open_here(tmp_path / "index.db")
    assert len(keys_in(again.get_collection("c"))) == 30
    again.close()


@pytest.mark.parametrize("write", ["insert", "delete"])
def test_an_entry_that_the_disk_took_half_of_costs_no_other_one(database: Any, tmp_path: Path, write: str):
    collection = database.get_collection("c")
    collection.insert(rows(*range(10)))
    collection.delete(["k0"])
    (log,) = (tmp_path / "index.db/collections/c/wal").glob(f"wal_{'data' if write == 'insert' else 'delta'}_*")
    with files_up_to(log.stat().st_size + 50), pytest.raises(OSError, match="too large"):
        collection.insert(rows(*range(10, 20))) if write == "insert" else collection.delete(["k1"])
    collection.insert(rows(*range(20, 25)))
    collection.delete(["k2"])
    certain = {f"k{number}" for number in (*range(3, 10), *range(20, 25))}
    for found in (keys_in(collection), keys_after_a_crash(tmp_path)):
        assert certain <= found
        assert not found & {"k0", "k2"}
    collection.flush()
    assert certain <= keys_after_a_crash(tmp_path)


def test_a_full_disk_does_not_take_back_an_insert_that_is_in_the_log(database: Any):
    collection = database.get_collection("c")
    database_rows = rows(*range(26))
    with files_up_to(1_000_000):
        for start in range(0, Activity.QUIET_ROWS, len(database_rows)):
            collection.insert([row | {"id": f"{start}-{row['id']}"} for row in database_rows])
    before = len(keys_in(collection))
    collection.insert(rows(1))
    assert len(keys_in(collection)) == before + 1 > Activity.QUIET_ROWS


def half_made(folder: Path, what: str) -> None:
    if what != "empty":
        (folder / "partitions/_default/data").mkdir(parents=True)
        (folder / "wal").mkdir()
        (folder / "wal/wal_data_000001.arrow").write_bytes(b"torn")
        (folder / "manifest.json").write_text("{}")
    if what == "a draft of the schema":
        (folder / "schema.json.tmp").write_text("{")
    folder.mkdir(parents=True, exist_ok=True)


@pytest.fixture
def opened(data_dir: Path) -> Iterator[Store]:
    store = open_store(StoreSettings(str(data_dir), "", "t", 100, 30.0, data_dir.parent), MODEL)
    yield store
    store.close()


def ids_of(store: Store) -> set[str]:
    return {key.id for key in store.keys()}  # noqa: SIM118


@pytest.mark.parametrize("what", ["empty", "remains", "a draft of the schema"])
def test_what_is_left_of_a_collection_without_its_schema_is_in_nobodys_way(opened: Store, data_dir: Path, what: str):
    half_made(data_dir / "collections" / opened.collection, what)
    half_made(data_dir / "collections" / "another", what)
    assert opened.count() == 0
    opened.insert([record("a.md")])
    assert ids_of(opened) == {record("a.md").id}
    assert (data_dir / "collections" / "another").is_dir()


def removed(data_dir: Path) -> None:
    remove(data_dir)


def emptied(data_dir: Path) -> None:
    for inside in list(data_dir.iterdir()):
        remove(inside) if inside.is_dir() else inside.unlink(missing_ok=True)


def without_collections(data_dir: Path) -> None:
    remove(data_dir / "collections")


def replaced(data_dir: Path) -> None:
    remove(data_dir)
    (data_dir / "collections").mkdir(parents=True)
    (data_dir / "LOCK").touch()


def moved(data_dir: Path) -> None:
    data_dir.rename(data_dir.with_name("moved.db"))


TAKEN = [removed, emptied, without_collections, replaced, moved]
Harm = Callable[[Path], None]


def files_under(folder: Path) -> set[str]:
    return {str(path.relative_to(folder)) for path in folder.rglob("*")}


@pytest.mark.parametrize("harm", TAKEN)
def test_an_engine_whose_database_was_taken_away_leaves_and_writes_nothing(opened: Store, data_dir: Path, harm: Harm):
    opened.insert([record("a.md", number) for number in range(50)])
    pid = endpoints.read_endpoint(data_dir).pid
    harm(data_dir)
    before = files_under(data_dir.parent)
    opened.close()
    wait_until_gone(pid)
    ours = {f"index.db/{endpoints.ENDPOINT_FILE}", f"moved.db/{endpoints.ENDPOINT_FILE}"}
    assert files_under(data_dir.parent) - {"engine.log"} - ours == before - {"engine.log"} - ours


@pytest.mark.parametrize("harm", [removed, *(pytest.param(harm, marks=pytest.mark.slow) for harm in TAKEN[1:])])
def test_a_write_to_a_database_that_was_taken_away_is_refused_and_the_next_one_stored(
    opened: Store, data_dir: Path, harm: Harm
):
    opened.insert([record("a.md")])
    pid = endpoints.read_endpoint(data_dir).pid
    harm(data_dir)
    with pytest.raises(StoreUnavailable, match="was removed while it was written"):
        opened.insert([record("b.md")])
    opened.insert([record("b.md")])
    assert ids_of(opened) == {record("b.md").id}
    assert opened.dense(vector(0), 5)
    wait_until_gone(pid)


@pytest.mark.parametrize("harm", [removed, pytest.param(emptied, marks=pytest.mark.slow)])
def test_readers_of_a_database_that_was_taken_away_find_it_empty(opened: Store, data_dir: Path, harm: Harm):
    opened.insert([record("a.md")])
    harm(data_dir)
    assert opened.dense(vector(0), 5) == []
    assert opened.lexical("text", 5) == []
    assert opened.catalog() == []
    opened.flush()
    opened.delete([record("a.md").id])
    assert opened.count() == 0


def test_a_collection_that_was_made_anew_is_told_from_the_one_before(opened: Store, data_dir: Path):
    assert opened.identity() == ""
    opened.ensure()
    first = opened.identity()
    assert first == opened.identity() != ""
    removed(data_dir)
    assert opened.identity() == ""
    opened.ensure()
    assert opened.identity() not in {"", first}
