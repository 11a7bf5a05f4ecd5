"""Rows on their way to an engine and back, column by column.

``pymilvus`` puts every value of every row into its message by a call of its own (107 us a row of 768 dimensions; here
11) and makes a dictionary of every row it reads (19 us; here 5). The messages are the same: tests/store/test_columns.py
compares them with the library's own.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from markdown_rag.errors import StoreError
from markdown_rag.store import schema
from markdown_rag.store.base import Match

Row = Mapping[str, Any]


def put_into(grpc_handler: Any, entity_helper: Any, plain_list: Callable[..., Any]) -> None:
    """Put what is here where these modules of the library look its own up."""
    grpc_handler.SearchResult = FoundColumns
    entity_helper.extract_row_data_from_fields_data_v2 = row_reader(entity_helper.extract_row_data_from_fields_data_v2)
    grpc_handler.HybridExtraList = row_list(grpc_handler.HybridExtraList, plain_list)
    calls = grpc_handler.GrpcHandler
    for name in ("_prepare_row_insert_request", "_prepare_row_upsert_request"):
        setattr(calls, name, request_maker(getattr(calls, name)))


class FoundColumns:
    """What a search found, as it came: in the place of the library's SearchResult, which takes it apart row by row."""

    def __init__(self, results: Any, *_decimals: Any, **_status: Any) -> None:
        self.results = results

    def __len__(self) -> int:
        """How many rows."""
        return len(self.results.scores)


def matches(found: FoundColumns, sign: float) -> list[Match]:
    """The rows that the one query of a search found; sign turns the engine's distance into a score that grows.

    Raises StoreError for columns of different lengths, and for one that is missing.
    """
    results = found.results
    scores = [sign * score for score in results.scores]
    if not scores:
        return []
    columns = {field.field_name: _values(field.scalars) for field in results.fields_data}
    columns |= {"id": results.ids.str_id.data, "score": scores}
    if len({len(columns.get(name, ())) for name in Match.__slots__}) > 1:
        raise StoreError("The store's answer is broken: its columns differ in length.", "Ask again.")
    return list(map(Match, *(columns[name] for name in Match.__slots__)))


def _values(scalars: Any) -> Sequence[Any]:
    kind = scalars.WhichOneof("data")
    if kind is None:
        return ()
    data: Sequence[Any] = getattr(scalars, kind).data
    return [tuple(cell.string_data.data) for cell in data] if kind == "array_data" else data


def row_reader(usual: Callable[[Any, list[dict[str, Any]]], bool]) -> Callable[[Any, list[dict[str, Any]]], bool]:
    """The library's putting of a column into rows, without a look at the type of every value (30 us a row; here 5).

    usual: the library's own, for vectors, columns in which a value is missing, and arrays of what is no text. As with
    that, the result is whether values are left to be read when a row is asked for.
    """

    def read(column: Any, rows: list[dict[str, Any]]) -> bool:
        values = () if len(column.valid_data) else _texts_and_numbers(column.scalars)
        if len(values) != len(rows):
            return usual(column, rows)
        name = column.field_name
        for row, value in zip(rows, values, strict=True):
            row[name] = value
        return False

    read.usual = usual  # type: ignore[attr-defined]
    return read


def _texts_and_numbers(scalars: Any) -> Sequence[Any]:
    """The values of a column, () for kinds that we do not use."""
    kind = scalars.WhichOneof("data")
    if kind in _PLAIN.values():
        plain: Sequence[Any] = getattr(scalars, kind).data
        return plain
    if kind == "json_data":
        return [json.loads(value) for value in scalars.json_data.data]
    if kind == "array_data" and all(cell.WhichOneof("data") in _TEXTS for cell in scalars.array_data.data):
        return [list(cell.string_data.data) for cell in scalars.array_data.data]
    return ()


_TEXTS = frozenset({"string_data", None})


def row_list(usual: Callable[..., Any], plain: Callable[..., Any]) -> Callable[..., Any]:
    """The library's list of rows: of its plain kind where nothing is left to be read."""

    def made(left: Sequence[Any], rows: Sequence[Any], *, extra: Any = None, **options: Any) -> Any:
        return usual(left, rows, extra=extra, **options) if left else plain(rows, extra=extra)

    made.usual = usual  # type: ignore[attr-defined]
    return made


def request_maker(usual: Callable[..., Any]) -> Callable[..., Any]:
    """The library's making of a request from rows, which takes one that insertion() made as it is."""

    def made(handler: Any, name: str, rows: Any, *arguments: Any, **options: Any) -> Any:
        return usual(handler, name, rows, *arguments, **options) if isinstance(rows, list) else rows

    return made


def write(client: Any, request: Any, seconds: float) -> None:
    """Send a request that insertion() made.

    By the calls for rows: those for columns need a thread a call, and where the system has none left for it, no later
    one ever ends, nor does closing.
    """
    connection, context = client._get_connection(), client._generate_call_context()  # noqa: SLF001
    send = connection.upsert_rows if type(request).__name__ == "UpsertRequest" else connection.insert_rows
    send(request.collection_name, request, context=context, timeout=seconds)


def insertion(name: str, rows: Sequence[Row], dimension: int, *, upsert: bool) -> Any:
    """The request that writes rows (rows.py) into a collection."""
    from pymilvus.client.types import DataType  # noqa: PLC0415 - 0.5 s and 130 MB
    from pymilvus.grpc_gen import milvus_pb2, schema_pb2  # noqa: PLC0415

    request = (milvus_pb2.UpsertRequest if upsert else milvus_pb2.InsertRequest)(
        collection_name=name, num_rows=len(rows)
    )
    for field in schema.FIELDS:
        column = request.fields_data.add(field_name=field.name, type=int(DataType[field.kind]))
        values = [row[field.name] for row in rows]
        if field.kind == "FLOAT_VECTOR":
            column.vectors.dim = dimension
            column.vectors.float_vector.MergeFromString(_packed_floats(np.stack(values)))
        elif field.kind == "ARRAY":
            cells = [schema_pb2.ScalarField(string_data=schema_pb2.StringArray(data=items)) for items in values]
            column.scalars.array_data.data.extend(cells)
        elif field.kind == "JSON":
            column.scalars.json_data.data.extend(_json(value) for value in values)
        else:
            getattr(column.scalars, _PLAIN[field.kind]).data.extend(values)
    return request


_PLAIN = {"VARCHAR": "string_data", "INT32": "int_data", "INT64": "long_data"}


def _json(value: Mapping[str, Any]) -> bytes:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()


def _packed_floats(matrix: np.ndarray[Any, np.dtype[np.float32]]) -> bytes:
    """A ``repeated float`` with the number 1, as it is on the wire: its tag, its length, little-endian values."""
    data = matrix.astype("<f4", copy=False).tobytes()
    length, size = bytearray(), len(data)
    while size > 0x7F:
        length.append(size & 0x7F | 0x80)
        size >>= 7
    length.append(size)
    return b"\x0a" + bytes(length) + data
