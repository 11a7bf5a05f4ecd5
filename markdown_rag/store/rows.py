"""Records to rows of the engine and back. Pure; every engine's limits are checked here, before anything is sent."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from markdown_rag.amounts import amount
from markdown_rag.errors import StoreLimitError
from markdown_rag.store import schema
from markdown_rag.store.base import FileEntry, FileLinks, Match, Record, RowKey, Vector
from markdown_rag.store.filters import parent_folder

Row = dict[str, Any]
_ROW_OVERHEAD = 400  # bytes of numbers, names and framing of one row in a request


def to_row(record: Record, dimension: int) -> tuple[Row, int]:
    """A record as the engine takes it, and about how many bytes of a request it is.

    Raises StoreLimitError for a vector of another dimension or with NaN or infinity, and for a text over its field.
    """
    row: Row = {
        "id": "",  # made when the path is known to be valid Unicode
        "workspace": record.workspace,
        "path": record.path,
        "folder": parent_folder(record.path),
        "filename": record.path.rpartition("/")[2],
        "ord": record.ord,
        "chunk_count": record.chunk_count,
        "gen": record.gen,
        "title": record.title,
        "heading_path": record.heading_path,
        "text": record.text,
        "prefix": record.prefix,
        "lexical": record.lexical,
        "tags": list(record.tags),
        "aliases": list(record.aliases),
        "properties": _fitting_properties(record),
        "start_line": record.start_line,
        "end_line": record.end_line,
        "start_byte": record.start_byte,
        "end_byte": record.end_byte,
        "file_hash": record.file_hash,
        "text_hash": record.text_hash,
        "policy": record.policy,
        "links": record.links,
        "vector": _checked_vector(record, dimension),
    }
    size = _ROW_OVERHEAD + 4 * dimension
    for field in schema.FIELDS:
        if field.kind == "VARCHAR":
            row[field.name], length = _fitting_text(field, row[field.name], record.path)
            size += length
        elif field.kind == "ARRAY":
            kept = [_fitting_text(field, item, record.path) for item in row[field.name][: schema.MAX_ITEMS]]
            row[field.name] = [text for text, _ in kept]
            size += sum(length for _, length in kept)
    row["id"] = record.id
    return row, size + len(record.id)


def _checked_vector(record: Record, dimension: int) -> Vector:
    vector = np.ascontiguousarray(record.vector, dtype=np.float32)
    if vector.shape != (dimension,):
        raise StoreLimitError(
            f"{record.path}: a vector has the shape {vector.shape}, the collection takes ({dimension},)."
        )
    if not np.isfinite(vector).all():
        raise StoreLimitError(f"{record.path}: a vector holds NaN or infinity.", "The embedding provider is at fault.")
    return vector


def _fitting_text(field: schema.Field, text: str, path: str) -> tuple[str, int]:
    try:
        data = text.encode("utf-8")
    except UnicodeEncodeError as error:
        raise StoreLimitError(f"{path!a}: {field.name} is not valid Unicode.") from error
    if len(data) <= field.size:
        return text, len(data)
    if not field.cut:
        raise StoreLimitError(f"{path}: {field.name} takes {amount(len(data), 'byte')}, the store allows {field.size}.")
    return data[: field.size].decode("utf-8", "ignore"), field.size


def _fitting_properties(record: Record) -> dict[str, Any]:
    """The properties as strict JSON, in order, as many as fit: they are for filters, the text itself is not cut."""
    kept: dict[str, Any] = {}
    used = 2
    for name, value in record.properties.items():
        safe = _strict(value)
        try:
            cost = len(json.dumps({name: safe}, ensure_ascii=False).encode()) + 2
        except UnicodeEncodeError as error:
            raise StoreLimitError(f"{record.path!a}: the property {name!a} is not valid Unicode.") from error
        if used + cost <= schema.PROPERTIES_BYTES:
            kept[name] = safe
            used += cost
    return kept


def _strict(value: Any) -> Any:
    """JSON knows no NaN and no infinity; servers refuse them."""
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    if isinstance(value, Mapping):
        return {str(key): _strict(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_strict(item) for item in value]
    return value


def to_match(row: Mapping[str, Any], score: float) -> Match:
    """A row that holds the MATCH_FIELDS."""
    values = {name: row[name] for name in schema.MATCH_FIELDS}
    values["tags"] = _texts(row["tags"])
    values["aliases"] = _texts(row["aliases"])
    return Match(score=score, **values)


def to_entry(row: Mapping[str, Any]) -> FileEntry:
    """A row that holds the CATALOG_FIELDS."""
    values = {name: row[name] for name in schema.CATALOG_FIELDS}
    values["tags"] = _texts(row["tags"])
    values["aliases"] = _texts(row["aliases"])
    values["properties"] = _json(row["properties"])
    return FileEntry(**values)


def to_record(row: Mapping[str, Any]) -> Record:
    """A whole row."""
    values = {name: row[name] for name in schema.RECORD_FIELDS}
    values |= {"tags": _texts(row["tags"]), "aliases": _texts(row["aliases"]), "properties": _json(row["properties"])}
    return Record(**{**values, "vector": np.asarray(row["vector"], dtype=np.float32)})


def to_links(row: Mapping[str, Any]) -> FileLinks:
    """A row that holds the LINK_FIELDS."""
    return FileLinks(**{name: row[name] for name in schema.LINK_FIELDS})


def to_key(row: Mapping[str, Any]) -> RowKey:
    """A row that holds the KEY_FIELDS."""
    return RowKey(**{name: row[name] for name in schema.KEY_FIELDS})


def reading_order(key: RowKey) -> tuple[str, str, int, int]:
    """Rows in the order of their text: workspace, path, generation, position."""
    return key.workspace, key.path, key.gen, key.ord


def _texts(values: Sequence[str] | None) -> tuple[str, ...]:
    return tuple(values or ())


def _json(value: Any) -> Mapping[str, Any]:
    found = json.loads(value) if isinstance(value, (str, bytes)) else value
    return found if isinstance(found, dict) else {}
