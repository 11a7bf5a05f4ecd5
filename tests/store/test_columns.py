"""What goes over the wire to an engine and back is what the library itself would make of it."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from markdown_rag.errors import StoreError, StoreLimitError
from markdown_rag.store import columns, schema
from markdown_rag.store.base import Store
from markdown_rag.store.collection import MilvusStore
from markdown_rag.store.messages import field_builder, vector_reader
from markdown_rag.store.milvus import library
from markdown_rag.store.opening import StoreSettings, open_store
from markdown_rag.store.rows import to_match, to_row

from .conftest import DIMENSION, MODEL, record, vector

SHAPES = [
    record("a.md", 0, links="[1]", gen=1_796_020_064_073_513_925),
    record("b/ü 日本.md", 7, tags=(), aliases=(), properties={}, text="", prefix="| a |", title="Título \x00"),
    record("c.md", 1, tags=("x" * 1024,) * 40, properties={"é": ["a", 1.5, None, True, {"n": -(2**53)}], "": "\u2028"}),
    record("d.md", 2, vector=np.full(DIMENSION, -0.0, dtype=np.float32)),
]


@pytest.fixture(params=["embedded", pytest.param("server", marks=pytest.mark.server)])
def opened(request: pytest.FixtureRequest) -> Iterator[MilvusStore]:
    address = request.getfixturevalue("engine_dir" if request.param == "embedded" else "milvus_server")
    store = open_store(StoreSettings(str(address), "", f"columns{os.getpid()}", 100, 30.0, Path("unused")), MODEL)
    assert isinstance(store, MilvusStore)
    yield store
    store.close()


def theirs(rows: list[dict[str, object]], method: str) -> object:
    """The same request as the library makes it."""
    library()
    from pymilvus.client.prepare import Prepare
    from pymilvus.client.types import DataType

    fields = [
        {
            "name": field.name,
            "type": DataType[field.kind],
            "is_primary": field.primary,
            "element_type": DataType.VARCHAR,
            "params": {"max_length": field.size, "max_capacity": schema.MAX_ITEMS, "dim": DIMENSION},
        }
        for field in schema.FIELDS
    ]
    return getattr(Prepare, method)("name", rows, "", fields, [])


@pytest.mark.parametrize(("upsert", "method"), [(False, "row_insert_param"), (True, "row_upsert_param")])
@pytest.mark.parametrize("count", [1, len(SHAPES)])
def test_rows_are_sent_as_the_library_sends_them(upsert: bool, method: str, count: int) -> None:
    rows = [to_row(shape, DIMENSION)[0] for shape in SHAPES[:count]]
    ours = columns.insertion("name", rows, DIMENSION, upsert=upsert)
    assert ours.SerializeToString(deterministic=True) == theirs(rows, method).SerializeToString(deterministic=True)


def test_vectors_of_any_length_arrive_bit_by_bit() -> None:
    for rows, dimension in ((1, 1), (1, 31), (1, 32), (3, 1536), (700, 3072)):
        matrix = np.random.default_rng(dimension).normal(size=(rows, dimension)).astype(np.float32)
        given = [to_row(record("a.md", n, vector=row), dimension)[0] for n, row in enumerate(matrix)]
        sent = columns.insertion("name", given, dimension, upsert=False)
        (column,) = [field for field in sent.fields_data if field.field_name == "vector"]
        assert np.array_equal(np.asarray(column.vectors.float_vector.data, dtype=np.float32), matrix.ravel())
        assert column.vectors.dim == dimension


def test_rows_are_written_where_the_system_has_no_thread_left_for_a_call(
    opened: MilvusStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    from grpc import _channel

    asked, start = [], _channel._run_channel_spin_thread
    opened.ensure()
    # After one that it did not get, gRPC waits for ever, as does who closes the connection.
    monkeypatch.setattr(_channel, "_run_channel_spin_thread", lambda state: (asked.append(state), start(state)))
    opened.insert(SHAPES)
    opened.insert(SHAPES[:1])
    assert opened.count() == len(SHAPES)
    assert not asked


def test_what_a_search_finds_is_read_as_the_library_reads_it(opened: MilvusStore) -> None:
    store = opened
    store.insert(SHAPES)
    store.flush()
    from pymilvus.client.search_result import SearchResult

    found = store._session.call(
        lambda client, seconds: client.search(
            store.collection,
            data=[vector(5)],
            anns_field="vector",
            limit=10,
            output_fields=list(schema.MATCH_FIELDS),
            search_params={"metric_type": "IP"},
            consistency_level="Strong",
            timeout=seconds,
        )
    )
    rows = SearchResult(found.results)[0]
    expected = [to_match({**row["entity"], "id": row["id"]}, -row["distance"]) for row in rows]
    assert columns.matches(found, -1.0) == expected
    assert len(rows) == len(SHAPES)


@pytest.mark.parametrize("sent", [[("path", ["a"])], []])
def test_an_answer_whose_columns_differ_in_length_or_are_missing_is_refused(sent: list[tuple[str, list[str]]]) -> None:
    library()
    from pymilvus.grpc_gen import schema_pb2

    fields = [
        schema_pb2.FieldData(
            field_name=name, type=21, scalars=schema_pb2.ScalarField(string_data=schema_pb2.StringArray(data=values))
        )
        for name, values in [(name, ["a", "b"]) for name in schema.MATCH_FIELDS if name != "path"] + sent
    ]
    ids = schema_pb2.IDs(str_id=schema_pb2.StringArray(data=["1", "2"]))
    results = schema_pb2.SearchResultData(fields_data=fields, scores=[0.5, 0.25], ids=ids)
    with pytest.raises(StoreError, match="columns"):
        columns.matches(columns.FoundColumns(results), 1.0)


def test_an_empty_answer_is_no_match(store: Store) -> None:
    store.insert(SHAPES[:1])
    store.delete([SHAPES[0].id])
    assert store.dense(vector(1), 3) == []


def test_a_property_that_is_not_valid_unicode_is_refused_by_name(store: Store) -> None:
    with pytest.raises(StoreLimitError, match=r"a\.md"):
        store.insert([record("a.md", 0, properties={"half": "\ud800"})])
    assert store.count() == 0


@pytest.mark.parametrize(
    ("kind", "column"),
    [
        ("VARCHAR", ["a", "", "日本 \x00"]),
        ("VARCHAR", []),
        ("VARCHAR", ["a", None]),
        ("INT32", [0, -1, 2**31 - 1]),
        ("INT64", [0, -(2**63), 2**63 - 1]),
        ("INT64", [None]),
        ("JSON", [{"a": [1, None]}, None, "text"]),
        ("ARRAY", [["a", ""], [], ["b"]]),
        ("ARRAY", [[], []]),
        ("ARRAY", [["a"], None]),
        ("FLOAT_VECTOR", [[0.5, -1.0], [0.25, 3.0]]),
    ],
)
def test_a_column_of_the_engine_s_answer_is_the_one_the_library_builds(kind: str, column: list[object]) -> None:
    from milvus_lite.adapter.grpc.translators import records
    from milvus_lite.schema.types import DataType, FieldSchema

    usual = getattr(records._build_field_data, "usual", records._build_field_data)
    element = DataType.VARCHAR if kind == "ARRAY" else None
    field = FieldSchema("name", DataType[kind], dim=2 if kind == "FLOAT_VECTOR" else None, element_type=element)
    assert (
        field_builder(usual)("name", field, column).SerializeToString()
        == usual("name", field, column).SerializeToString()
    )


def columns_of(kind: str) -> Any:
    """A column of two rows as an engine sends it; "missing": one of the values is none."""
    from pymilvus.grpc_gen import schema_pb2

    column = schema_pb2.FieldData(field_name="name")
    slots: dict[str, tuple[int, str, list[object]]] = {
        "text": (21, "string_data", ["a", "日本 \x00"]),
        "missing": (21, "string_data", ["a", ""]),
        "int32": (4, "int_data", [0, -1]),
        "int64": (5, "long_data", [2**63 - 1, 0]),
        "bool": (1, "bool_data", [True, False]),
        "json": (23, "json_data", [b'{"a": [1, null, 1.5]}', b"{}"]),
    }
    if kind in slots:
        column.type, slot, values = slots[kind]
        getattr(column.scalars, slot).data.extend(values)
        column.valid_data.extend([True, False] if kind == "missing" else [])
    elif kind == "vector":
        column.type, column.vectors.dim = 101, 2
        column.vectors.float_vector.data.extend([0.5, 1.0, 1.5, 2.0])
    else:
        column.type = 22
        column.scalars.array_data.element_type = 21 if kind == "texts" else 5
        for values in (["a", "b"], []) if kind == "texts" else ([1], [2, 3]):
            cell = column.scalars.array_data.data.add()
            getattr(cell, "string_data" if kind == "texts" else "long_data").data.extend(values)
    return column


@pytest.mark.parametrize("kind", ["text", "missing", "int32", "int64", "bool", "json", "texts", "numbers", "vector"])
def test_rows_of_an_answer_are_those_that_the_library_makes(kind: str) -> None:
    library()
    from pymilvus.client import entity_helper, grpc_handler

    ours: list[list[dict[str, object]]] = []
    for read, made in (
        (entity_helper.extract_row_data_from_fields_data_v2, grpc_handler.HybridExtraList),
        (entity_helper.extract_row_data_from_fields_data_v2.usual, grpc_handler.HybridExtraList.usual),
    ):
        column, rows = columns_of(kind), [{"id": "1"}, {"id": "2"}]
        left = [column] if read(column, rows) else []
        ours.append([dict(row) for row in made(left, rows, extra={"cost": 0}, dynamic_fields=None)])
    assert ours[0] == ours[1]
    assert len(ours[0]) == 2


def test_vectors_reach_the_engine_as_the_library_reads_them_and_odd_ones_are_left_to_it() -> None:
    from milvus_lite.adapter.grpc.translators import records
    from milvus_lite.exceptions import SchemaValidationError

    library()
    from pymilvus.grpc_gen import schema_pb2

    usual = getattr(records._extract_vector_column, "usual", records._extract_vector_column)
    read = vector_reader(usual)
    for rows, dimension in ((1, 1), (2, 31), (3, 32), (700, 96)):
        matrix = np.random.default_rng(rows).normal(size=(rows, dimension)).astype(np.float32)
        column = schema_pb2.FieldData(field_name="vector", type=101)
        column.vectors.dim = dimension
        column.vectors.float_vector.data.extend(matrix.ravel().tolist())
        assert np.array_equal(np.asarray(read(column, 101, rows)), np.asarray(usual(column, 101, rows)))
        with pytest.raises(SchemaValidationError):
            read(column, 101, rows + 1)
    with pytest.raises(SchemaValidationError):
        read(schema_pb2.FieldData(field_name="vector", type=101), 101, 1)
