"""What each engine can do and how it wants to be asked: one table, looked up by the version an engine reports. Pure.

Everything that differs between engines and can be known beforehand stands here; how they answer is collection.py's.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from markdown_rag.store.base import Capabilities

NLIST = 64
BM25_K1, BM25_B = 1.2, 0.75
SPARSE_FIELD = "sparse"
LITE, MILVUS = "milvus-lite", "milvus"


@dataclass(frozen=True, slots=True)
class Profile:
    """A row of the table: from which version on, and what holds there.

    lexical: BM25 over our tokens. name_index: of workspace and path (None: it needs none, "": the server's choice).
    tokenizer: one that sees our blanks and nothing else. write: the call by which the same id again replaces its row.
    """

    engine: str
    since: tuple[int, ...]
    lexical: bool
    vector_index: str
    name_index: str | None
    tokenizer: str
    write: str


PROFILES: tuple[Profile, ...] = (
    Profile(LITE, (), True, "IVF_FLAT", None, "standard", "insert"),
    Profile(MILVUS, (2, 5), True, "AUTOINDEX", "INVERTED", "whitespace", "upsert"),
    Profile(MILVUS, (2, 4), False, "AUTOINDEX", "INVERTED", "whitespace", "upsert"),
    Profile(MILVUS, (2,), False, "AUTOINDEX", "Trie", "whitespace", "upsert"),
    Profile(MILVUS, (), True, "AUTOINDEX", "", "whitespace", "upsert"),  # hosted: tried when a collection is made
)


@dataclass(frozen=True, slots=True)
class Index:
    """An index to be made on a field."""

    field: str
    kind: str
    metric: str
    params: Mapping[str, Any]


def capabilities_of(version: str) -> Capabilities:
    """What an engine can do, by the version it reports.

    "milvus_lite-3.2.2" is the embedded engine, "v2.3.5-lite" and "2.6.1" are Milvus. Hosted services report words of
    their own, which count as the newest: whether keywords really work there shows when a collection is made.
    """
    if version.startswith("milvus_lite-"):
        return Capabilities(LITE, version.removeprefix("milvus_lite-"), lexical=True, embedded=True)
    numbers = _plain(version)
    known = ".".join(map(str, numbers)) if numbers else version
    return Capabilities(MILVUS, known, lexical=_row(MILVUS, numbers).lexical, embedded=False)


def is_certain(capabilities: Capabilities) -> bool:
    """Whether the version tells what the engine can do."""
    return capabilities.embedded or bool(_plain(capabilities.version))


def profile(capabilities: Capabilities) -> Profile:
    """The row of an engine."""
    return _row(capabilities.engine, _plain(capabilities.version))


def _row(engine: str, numbers: tuple[int, ...]) -> Profile:
    rows = [row for row in PROFILES if row.engine == engine]
    return next((row for row in rows if row.since and numbers >= row.since), rows[-1])


def _plain(version: str) -> tuple[int, ...]:
    """The numbers of a version of Milvus itself; () of everything else."""
    found = re.match(r"v?(\d+)\.(\d+)(?:\.(\d+))?", version)
    return tuple(int(part) for part in found.groups() if part is not None) if found else ()


def indexes(capabilities: Capabilities) -> tuple[Index, ...]:
    """The indexes of a collection (docs/milvus-setup.md), the vector's first."""
    row = profile(capabilities)
    found = [Index("vector", row.vector_index, "IP", {"nlist": NLIST} if row.vector_index == "IVF_FLAT" else {})]
    if row.name_index is not None:
        found += [Index(name, row.name_index, "", {}) for name in ("path", "workspace")]
    if capabilities.lexical:
        found.append(Index(SPARSE_FIELD, "SPARSE_INVERTED_INDEX", "BM25", {"bm25_k1": BM25_K1, "bm25_b": BM25_B}))
    return tuple(found)


def vector_search(capabilities: Capabilities) -> dict[str, Any]:
    """Parameters of a dense search: every list of an IVF index, so that it is exact."""
    lists = profile(capabilities).vector_index == "IVF_FLAT"
    return {"metric_type": "IP", "params": {"nprobe": NLIST} if lists else {}}


def analyzer(capabilities: Capabilities) -> dict[str, Any]:
    """Our tokens are words joined by blanks: these tokenizers see the same ones (docs/decisions/0003)."""
    return {"tokenizer": profile(capabilities).tokenizer}
