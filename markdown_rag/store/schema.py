"""What a collection is called, which fields it has, and the limits that hold on every engine (I14). Pure.

Limits are the strictest of all engines: lengths in UTF-8 bytes (the embedded engine counts characters, a server
bytes), 16,384 rows a window, requests far below a server's 64 MiB message cap.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from markdown_rag.store.base import Model
from markdown_rag.store.capabilities import SPARSE_FIELD as SPARSE_FIELD  # noqa: PLC0414  a field of ours too

SCHEMA_VERSION = 2
WINDOW = 16_384  # the largest limit a server answers (milvus.io/docs/limitations.md)
MAX_INSERT_ROWS = 1000
MAX_INSERT_BYTES = 16 * 1024 * 1024  # a server refuses messages over 64 MiB
PROPERTY_PREFIX = "markdown_rag."
BIRTH = f"{PROPERTY_PREFIX}birth"  # random: tells a collection from the next one of the same name
_NAME_BYTES = 255  # the longest name of a collection
_SLUG_LENGTH = 60


@dataclass(frozen=True, slots=True)
class Field:
    """One field. kind is the name of Milvus's data type. size: bytes of a VARCHAR (or of an ARRAY's element).

    cut True: the field only describes (title, tags), longer values are cut at a character; False: they are refused.
    """

    name: str
    kind: str
    size: int = 0
    cut: bool = False
    primary: bool = False


MAX_ITEMS = 1024  # elements of an ARRAY; a server allows 4,096
PROPERTIES_BYTES = 60_000  # a server refuses JSON over 65,536 bytes

FIELDS: tuple[Field, ...] = (
    Field("id", "VARCHAR", 64, primary=True),
    Field("workspace", "VARCHAR", 512),
    Field("path", "VARCHAR", 8192),
    Field("folder", "VARCHAR", 8192),
    Field("filename", "VARCHAR", 1024),
    Field("ord", "INT32"),
    Field("chunk_count", "INT32"),
    Field("gen", "INT64"),
    Field("title", "VARCHAR", 8192, cut=True),
    Field("heading_path", "VARCHAR", 16_384, cut=True),
    Field("text", "VARCHAR", 65_535),
    Field("prefix", "VARCHAR", 8192),
    Field("lexical", "VARCHAR", 65_535),
    Field("tags", "ARRAY", 1024, cut=True),
    Field("aliases", "ARRAY", 1024, cut=True),
    Field("properties", "JSON", PROPERTIES_BYTES, cut=True),
    Field("start_line", "INT64"),
    Field("end_line", "INT64"),
    Field("start_byte", "INT64"),
    Field("end_byte", "INT64"),
    Field("file_hash", "VARCHAR", 128),
    Field("text_hash", "VARCHAR", 128),
    Field("policy", "VARCHAR", 128),
    Field("links", "VARCHAR", 65_535),
    Field("vector", "FLOAT_VECTOR"),
)

KEY_FIELDS = ("id", "workspace", "path", "gen", "ord")
CATALOG_FIELDS = (
    "workspace", "path", "gen", "chunk_count", "title", "tags", "aliases", "properties", "file_hash", "policy",
)  # fmt: skip
RECORD_FIELDS = tuple(field.name for field in FIELDS if field.name not in {"id", "folder", "filename"})
LINK_FIELDS = ("workspace", "path", "gen", "links")
_NOT_MATCHED = {"folder", "filename", "chunk_count", "properties", "policy", "links", "vector"}
MATCH_FIELDS = tuple(field.name for field in FIELDS if field.name not in _NOT_MATCHED)


def properties(model: Model) -> dict[str, str]:
    """What a collection's vectors mean, as its properties (I7). All values are text: servers keep nothing else."""
    return {
        f"{PROPERTY_PREFIX}provider": model.provider,
        f"{PROPERTY_PREFIX}model": model.model,
        f"{PROPERTY_PREFIX}dimension": str(model.dimension),
        f"{PROPERTY_PREFIX}document_weight": f"{model.document_weight:g}",
        f"{PROPERTY_PREFIX}schema": str(SCHEMA_VERSION),
    }


def model_of(stored: Mapping[str, Any]) -> Model | None:
    """The model of a collection's properties; None where they are not ours or of another schema."""
    values = {key.removeprefix(PROPERTY_PREFIX): str(value) for key, value in stored.items()}
    try:
        if values["schema"] != str(SCHEMA_VERSION):
            return None
        return Model(values["provider"], values["model"], int(values["dimension"]), float(values["document_weight"]))
    except (KeyError, ValueError):
        return None


def collection_name(prefix: str, model: Model) -> str:
    """``prefix_provider_model_dimension_hash``: readable, valid on every engine, and different for every meaning."""
    meaning = "\0".join(f"{key}={value}" for key, value in sorted(properties(model).items()))
    digest = hashlib.sha256(meaning.encode("utf-8", "surrogatepass")).hexdigest()[:8]
    start = _slug(prefix) or "markdown_vectors"
    if not re.match(r"[A-Za-z_]", start):
        start = f"_{start}"
    name = f"{start}_{_slug(model.provider)}_{_slug(model.model)}_{model.dimension}_{digest}"
    return name if len(name) <= _NAME_BYTES else f"{name[: _NAME_BYTES - 9]}_{digest}"


def _slug(text: str) -> str:
    return re.sub(r"[^A-Za-z0-9]+", "_", text).strip("_")[:_SLUG_LENGTH]


def batches(sizes: Sequence[int], max_rows: int, max_bytes: int = MAX_INSERT_BYTES) -> Iterator[slice]:
    """Cut rows of the given sizes (bytes) into runs bounded by rows and bytes, in order; one row may exceed alone."""
    start = total = 0
    for position, size in enumerate(sizes):
        full = position - start >= max_rows or total + size > max_bytes
        if full and position > start:
            yield slice(start, position)
            start, total = position, 0
        total += size
    if start < len(sizes):
        yield slice(start, len(sizes))
