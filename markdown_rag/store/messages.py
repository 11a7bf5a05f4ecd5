"""Milvus Lite's reading of requests and building of answers, as columns where it looks at every value.

The library's own functions do the rest: columns of other kinds, and those in which a value is missing. What comes out
is the same (tests/store/test_columns.py).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np


def record_check() -> Callable[..., None]:
    """The library's check of a row without its look at every number of the vector (70 us of 100 at 768 dimensions).

    Rows come as messages, in which a vector holds floats and nothing else; its length is checked as before.
    """
    from milvus_lite.schema.validation import validate_record  # noqa: PLC0415

    class Numbers(list[float]):
        """As many numbers as a vector has, none of them worth a look."""

        def __init__(self, count: int) -> None:
            super().__init__()
            self._count = count

        def __len__(self) -> int:
            return self._count

    def check(record: dict[str, Any], *arguments: Any, **options: Any) -> None:
        vector = record.get("vector")
        if not isinstance(vector, np.ndarray):
            validate_record(record, *arguments, **options)
            return
        record["vector"] = Numbers(len(vector))
        try:
            validate_record(record, *arguments, **options)
        finally:
            record["vector"] = vector

    return check


def vector_reader(usual: Callable[..., list[Any]]) -> Callable[..., list[Any]]:
    """The library's reading of a column of vectors, as arrays and not as lists of numbers (20 us of 300 a row).

    usual: the library's own, for columns of other kinds and for those in which a value is missing.
    """

    def read(column: Any, kind: int, rows: int) -> list[Any]:
        numbers = column.vectors.float_vector
        count = len(numbers.data)
        if not count or count != rows * column.vectors.dim:
            return usual(column, kind, rows)
        packed = numbers.SerializeToString()  # a tag, a length, and then the numbers
        return list(np.frombuffer(packed, "<f4", count, len(packed) - 4 * count).reshape(rows, -1))

    read.usual = usual  # type: ignore[attr-defined]
    return read


def field_builder(usual: Callable[..., Any]) -> Callable[..., Any]:
    """The library's building of a column of an answer, without a look at the type of every value (half of a search).

    usual: the library's own, for columns of other kinds and for those in which a value is missing.
    """
    from milvus_lite.schema.types import DataType  # noqa: PLC0415
    from pymilvus.grpc_gen import schema_pb2  # noqa: PLC0415

    kinds = {
        DataType.VARCHAR: ("string_data", schema_pb2.DataType.VarChar),
        DataType.INT32: ("int_data", schema_pb2.DataType.Int32),
        DataType.INT64: ("long_data", schema_pb2.DataType.Int64),
    }

    def build(name: str, field: Any, column: list[Any]) -> Any:
        texts = field.dtype is DataType.ARRAY and field.element_type is DataType.VARCHAR
        if None in column or not (texts or field.dtype in kinds):
            return usual(name, field, column)
        if not texts:
            slot, kind = kinds[field.dtype]
            built = schema_pb2.FieldData(field_name=name, type=kind)
            getattr(built.scalars, slot).data.extend(column)
            return built
        built = schema_pb2.FieldData(field_name=name, type=schema_pb2.DataType.Array)
        built.scalars.array_data.element_type = schema_pb2.DataType.VarChar
        cells = [schema_pb2.ScalarField(string_data=schema_pb2.StringArray(data=value)) for value in column]
        built.scalars.array_data.data.extend(cells)
        return built

    build.usual = usual  # type: ignore[attr-defined]
    return build
