"""Our reads of the embedded database against the library's own, over random histories of the same collection."""

from __future__ import annotations

import itertools
import threading
import time
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from markdown_rag.precedence import MOST_SECONDS
from markdown_rag.store.engine import SLICE
from markdown_rag.store.gate import Activity, written
from markdown_rag.store.memory import MemoryStore, bm25
from markdown_rag.store.rows import to_row
from markdown_rag.store.rwlock import ReadersFirstLock
from markdown_rag.store.schema import SPARSE_FIELD
from tests.waiting import joined

from .conftest import DIMENSION, MODEL, record, vector

NUMBERS = st.lists(st.integers(0, 25), min_size=1, max_size=8)
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("insert"), NUMBERS),
        st.tuples(st.just("delete"), NUMBERS),
        st.tuples(st.sampled_from(["insert", "delete"]), st.just([1])),  # one row that comes and goes
        st.tuples(st.just("flush"), st.just([])),
        st.tuples(st.just("flush"), st.just([])),
        st.tuples(st.just("reopen"), st.just([])),
    ),
    min_size=1,
    max_size=14,
)
FILTER = 'path == "1.md" or ord > 12'
_names = itertools.count()


class Opened:
    """One collection of the library, opened in this process, with the library's own methods beside ours."""

    def __init__(self, folder: Path) -> None:
        from markdown_rag.store.engine import open_database

        self.turns, self.activity = ReadersFirstLock(), Activity()
        self._open = lambda: open_database(folder, self.turns, self.activity)
        self.database = self._open()
        self.name = f"c{next(_names)}"
        self.collection = self.database.create_collection(self.name, library_schema())
        self.collection.create_index(SPARSE_FIELD, INDEX)
        self.collection.load()

    def reopen(self) -> None:
        self.database.close()
        self.database = self._open()
        self.collection = self.database.get_collection(self.name)
        self.collection.load()


INDEX = {"index_type": "SPARSE_INVERTED_INDEX", "metric_type": "BM25", "params": {"bm25_k1": 1.2, "bm25_b": 0.75}}


def library_schema():
    from milvus_lite.schema.types import CollectionSchema, DataType, FieldSchema, Function, FunctionType

    fields = [
        FieldSchema("id", DataType.VARCHAR, is_primary=True, max_length=64),
        FieldSchema("path", DataType.VARCHAR, max_length=100),
        FieldSchema("ord", DataType.INT64),
        FieldSchema("lexical", DataType.VARCHAR, max_length=1000, enable_analyzer=True, analyzer_params={}),
        FieldSchema("vector", DataType.FLOAT_VECTOR, dim=DIMENSION),
        FieldSchema(SPARSE_FIELD, DataType.SPARSE_FLOAT_VECTOR, is_function_output=True),
    ]
    function = Function("bm25", FunctionType.BM25, ["lexical"], [SPARSE_FIELD])
    return CollectionSchema(fields, functions=[function])


def row_of(number: int, version: int) -> dict:
    text = f"word{number % 5} all version{version % 3} " + "more " * (number % 4)
    made = record(f"{number % 4}.md", number, lexical=text, vector=vector(number * 1000 + version))
    full, _ = to_row(made, DIMENSION)
    kept = {name: full[name] for name in ("path", "ord", "lexical")}
    return kept | {"id": f"k{number}", "vector": full["vector"].tolist()}


@pytest.fixture
def opened(tmp_path: Path):
    found = Opened(tmp_path / "index.db")
    yield found
    found.database.close()


def compare(opened: Opened, living: dict[str, dict]) -> None:
    from milvus_lite.engine.collection import Collection

    ours = opened.collection
    assert {row["id"] for row in ours.query(output_fields=["id"])} == set(living)
    assert ours.num_entities == Collection.num_entities.fget(ours) == len(living)
    for expression in (None, FILTER):
        theirs = Collection.query(ours, expression, output_fields=["id", "path", "ord"])
        mine = ours.query(expression, output_fields=["id", "path", "ord"])
        assert sorted(mine, key=lambda row: row["id"]) == sorted(theirs, key=lambda row: row["id"])
        query = [vector(99).tolist()]
        (expected,) = Collection.search(
            ours, query, 10, "IP", expr=expression, output_fields=["ord"], anns_field="vector"
        )
        (found,) = ours.search(query, 10, "IP", expr=expression, output_fields=["ord"], anns_field="vector")
        assert [hit["id"] for hit in found] == [hit["id"] for hit in expected]
        assert [hit["distance"] for hit in found] == pytest.approx([hit["distance"] for hit in expected], rel=1e-4)
    keys = ["k3", "none", "k1", "k3"]
    assert [row["id"] for row in ours.get(keys)] == [key for key in keys if key in living]
    exact = {row["id"]: score for row, score in bm25(list(living.values()), ["word1", "all"])}
    (scored,) = ours.search(["word1 all"], 100, "BM25", anns_field=SPARSE_FIELD, output_fields=["id"])
    assert {hit["id"]: -hit["distance"] for hit in scored} == pytest.approx(exact, rel=1e-4)


@settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(STEPS)
def test_what_is_read_is_what_the_library_reads_after_any_history(tmp_path_factory, steps):
    opened = Opened(tmp_path_factory.mktemp("living") / "index.db")
    living: dict[str, dict] = {}
    try:
        for version, (step, numbers) in enumerate(steps):
            if step == "insert":
                rows = [row_of(number, version) for number in dict.fromkeys(numbers)]
                living |= {row["id"]: dict(row) for row in rows}
                opened.collection.insert(rows)
            elif step == "delete":
                for number in numbers:
                    living.pop(f"k{number}", None)
                opened.collection.delete([f"k{number}" for number in numbers])
            elif step == "flush":
                opened.collection.flush()
            else:
                opened.reopen()
            compare(opened, living)
    finally:
        opened.database.close()


def test_a_row_that_comes_and_goes_again_stays_gone(opened: Opened):
    living = {row["id"]: dict(row) for row in [row_of(number, 0) for number in range(3)]}
    opened.collection.insert(list(map(dict, living.values())))
    opened.collection.flush()
    first = living["k1"]
    for _ in range(2):
        del living["k1"]
        opened.collection.delete(["k1"])
        compare(opened, living)
        opened.collection.flush()
        compare(opened, living)
        living["k1"] = first
        opened.collection.insert([dict(first)])
        opened.collection.flush()
        compare(opened, living)


def test_segments_that_merge_change_no_answer(opened: Opened):
    living: dict[str, dict] = {}
    for version in range(9):  # the library merges at four segments of a size
        rows = [row_of(number, version) for number in range(version, 26, 2)]
        living |= {row["id"]: dict(row) for row in rows}
        opened.collection.insert(rows)
        gone = f"k{version}"
        living.pop(gone, None)
        opened.collection.delete([gone])
        opened.collection.flush()
        compare(opened, living)
    opened.collection._wait_for_bg()
    assert len(opened.collection._segments_snapshot()) < 9
    compare(opened, living)


def test_reads_go_on_while_a_merge_holds_the_librarys_lock(opened: Opened):
    import threading

    rows = [row_of(number, 0) for number in range(10)]
    opened.collection.insert(rows)
    opened.collection.flush()
    opened.collection._wait_for_bg()
    held, done = threading.Event(), threading.Event()

    def hold() -> None:
        with opened.collection._maintenance_lock:
            held.set()
            done.wait(60)

    holder = threading.Thread(target=hold)
    holder.start()
    try:
        assert held.wait(30)
        opened.collection.insert([row_of(20, 0)])
        assert len(opened.collection.query(output_fields=["id"])) == 11
        assert holder.is_alive()
    finally:
        done.set()
        holder.join()


def test_what_is_prepared_in_the_background_is_never_read_while_somebody_writes(opened: Opened):
    opened.collection.insert([row_of(number, 0) for number in range(10)])
    opened.collection._wait_for_bg()
    before = opened.collection._living._view
    with opened.turns.write():
        opened.collection.load()
        opened.collection._wait_for_bg()  # as one does who drops an index
        assert opened.collection._living._view is before
    opened.collection.load()
    opened.collection._wait_for_bg()
    assert opened.collection._living._view.count() == 10


def test_what_we_write_is_read_by_the_stock_library(tmp_path: Path):
    """The format on disk stays the library's own: another program can open the directory."""
    import subprocess
    import sys

    opened = Opened(tmp_path / "index.db")
    opened.collection.insert([row_of(number, 0) for number in range(12)])
    opened.collection.flush()
    opened.collection.delete(["k3"])
    opened.database.close()
    script = """
import sys
from milvus_lite import MilvusLite
with MilvusLite(sys.argv[1]) as database:
    collection = database.get_collection(sys.argv[2])
    collection.load()
    print(sorted(row["id"] for row in collection.query(None, output_fields=["id"])))
    print(len(collection.search(["all"], 20, "BM25", anns_field="sparse")[0]))
"""
    command = [sys.executable, "-c", script, str(tmp_path / "index.db"), opened.name]
    run = subprocess.run(command, capture_output=True, text=True, check=True)
    keys, hits = run.stdout.splitlines()
    assert keys == str(sorted(f"k{number}" for number in range(12) if number != 3))
    assert hits == "11"


def test_exact_scores_need_no_particular_order_of_writing():
    store, other = MemoryStore(MODEL), MemoryStore(MODEL)
    rows = [record("a.md", number, lexical=f"a{number % 3} b") for number in range(9)]
    store.insert(rows)
    other.insert(rows[::-1])
    scores = [{match.id: match.score for match in one.lexical("a1 b", 9)} for one in (store, other)]
    assert scores[0] == pytest.approx(scores[1])
    assert np.isfinite(list(scores[0].values())).all()


def test_what_was_deleted_is_copied_after_a_flush_and_not_for_every_question(opened: Opened):
    collection = opened.collection
    collection.insert([row_of(number, 0) for number in range(20)])
    collection.flush()
    collection.delete([f"k{number}" for number in range(10)])
    collection.flush()
    collection._wait_for_bg()
    assert collection.num_entities == 10
    stored = collection._living._stored()
    collection.insert([row_of(3, 1)])
    collection.delete(["k15"])
    assert collection.num_entities == 10
    assert collection._living._stored() is stored
    collection.flush()
    assert collection._living._stored() is not stored


def test_rows_are_not_inserted_while_somebody_searches_but_for_their_turns(opened: Opened):
    rows = [row_of(number, 0) for number in range(2 * SLICE)]
    with opened.activity.search():
        inserting = threading.Thread(target=opened.collection.insert, args=(rows,))
        inserting.start()
        assert not inserting.join(MOST_SECONDS / 2)
        assert opened.collection.query("ord >= 0") == []
        joined(inserting)
    assert len(opened.collection.query("ord >= 0")) == len(rows), "they come in under a search without end too"


def test_rows_in_memory_are_flushed_as_soon_as_they_are_too_many(opened: Opened, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(Activity, "QUIET_ROWS", 2 * SLICE)
    monkeypatch.setattr(Activity, "SEARCHED_ROWS", 2 * SLICE)
    opened.collection.insert([row_of(number, 0) for number in range(2 * SLICE - 1)])
    kept = opened.collection._memtable
    opened.collection.insert([row_of(2 * SLICE, 0)])
    assert opened.collection._memtable is not kept, "full"
    assert len(opened.collection.query("ord >= 0")) == 2 * SLICE


def test_writes_have_their_turns_under_searches_without_end() -> None:
    """Steps as long as the insertion of 25 rows, under six searches of 50 ms that overlap."""
    activity, turns, over = Activity(), ReadersFirstLock(), threading.Event()

    def search() -> None:
        while not over.is_set():
            with activity.search(), turns.read():
                time.sleep(0.05)

    threads = [threading.Thread(target=search) for _ in range(6)]
    for number, thread in enumerate(threads):
        thread.start()
        time.sleep(0.05 / 6 * (number > 0))
    began, worked = time.monotonic(), 0.0
    try:
        while time.monotonic() - began < 4.0:
            with written(turns, activity):
                time.sleep(0.007)
                worked += 0.007
    finally:
        over.set()
        for thread in threads:
            thread.join()
    assert worked > 0.04 * (time.monotonic() - began)
