"""Rows at rest: what a store takes, gives and promises. Every implementation passes tests/store/test_contract.py.

A *record* is a stored chunk with its vector. Rows are written in generations (I3): all rows of a file's new
version go in, the row with ``ord == 0`` last; that row commits the generation. Rows are never changed, only added
and deleted by id.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

Vector = npt.NDArray[np.float32]


def record_id(workspace: str, path: str, gen: int, ord_: int) -> str:
    """The primary key: hash of workspace and path, generation, position. New for every generation.

    Zero-padded so that text order is numeric order; at most 64 ASCII characters.
    """
    digest = hashlib.sha256(f"{workspace}\0{path}".encode()).hexdigest()[:24]
    return f"{digest}-{gen:016x}-{ord_:06x}"


@dataclass(frozen=True, slots=True)
class Record:
    """One row (docs/storage-format.md). vector: float32, the model's dimension, (chunk + document) / 2, not normalised.

    text is exactly the file's span (decoded, newlines as LF); lines are 1-based and inclusive; bytes are offsets in
    the file, end exclusive. properties is a JSON object. links: of the whole file, packed (markdown/edges.py), on its
    ``ord == 0`` row, and on further ones where they do not fit; else "".
    """

    workspace: str
    path: str
    ord: int
    chunk_count: int
    gen: int
    title: str
    heading_path: str
    text: str
    prefix: str
    lexical: str
    tags: tuple[str, ...]
    aliases: tuple[str, ...]
    properties: Mapping[str, Any]
    start_line: int
    end_line: int
    start_byte: int
    end_byte: int
    file_hash: str
    text_hash: str
    policy: str
    vector: Vector
    links: str = ""

    @property
    def id(self) -> str:
        """The primary key."""
        return record_id(self.workspace, self.path, self.gen, self.ord)


@dataclass(frozen=True, slots=True)
class FileEntry:
    """What the ``ord == 0`` row of a generation says about its file: one line of the catalog."""

    workspace: str
    path: str
    gen: int
    chunk_count: int
    title: str
    tags: tuple[str, ...]
    aliases: tuple[str, ...]
    properties: Mapping[str, Any]
    file_hash: str
    policy: str


@dataclass(frozen=True, slots=True)
class FileLinks:
    """The links that one row carries, packed."""

    workspace: str
    path: str
    gen: int
    links: str


@dataclass(frozen=True, slots=True)
class RowKey:
    """Where a row belongs; enough to judge and delete it."""

    id: str
    workspace: str
    path: str
    gen: int
    ord: int


@dataclass(frozen=True, slots=True)
class Where:
    """Which rows a search or a listing may see; all parts must hold. The empty value means everything.

    workspaces: ids ((), any). scope: relative POSIX folder or file ("" = whole workspace); a row matches when its
    path is the scope or lies under it, exactly. paths: only these paths (None = any, () = none).
    recursive False: only files directly in the scope folder. exclude_paths: never these. within: in one of these
    folders or files ((), anywhere); outside: in none of these. files: only these, as (workspace, its paths) pairs
    (None = any, () = none); the same path in another workspace is another file.
    """

    workspaces: tuple[str, ...] = ()
    scope: str = ""
    recursive: bool = True
    paths: tuple[str, ...] | None = None
    exclude_paths: tuple[str, ...] = ()
    within: tuple[str, ...] = ()
    outside: tuple[str, ...] = ()
    files: tuple[tuple[str, tuple[str, ...]], ...] | None = None


EVERYTHING = Where()


@dataclass(frozen=True, slots=True)
class Match:
    """What the engine found: of a stored row what an answer needs, and the engine's score (larger is better).

    score: dense = inner product with the stored vector; lexical = BM25, never negative.
    """

    id: str
    score: float
    workspace: str
    path: str
    ord: int
    gen: int
    title: str
    heading_path: str
    text: str
    prefix: str
    lexical: str
    tags: tuple[str, ...]
    aliases: tuple[str, ...]
    start_line: int
    end_line: int
    start_byte: int
    end_byte: int
    file_hash: str
    text_hash: str


@dataclass(frozen=True, slots=True)
class Model:
    """What the vectors of one collection mean (I7). Names and properties of the collection carry all of it.

    provider and model in the user's words; dimension of a vector; document_weight as stored (0.5 = half document).
    """

    provider: str
    model: str
    dimension: int
    document_weight: float = 0.5


@dataclass(frozen=True, slots=True)
class Capabilities:
    """What the server behind the store can do. lexical False: below Milvus 2.5, dense only."""

    engine: str
    version: str
    lexical: bool
    embedded: bool


@dataclass(frozen=True, slots=True)
class Health:
    """What ``status`` and ``doctor`` show of a store. rows counts all stored rows of this collection."""

    capabilities: Capabilities
    address: str
    collection: str
    rows: int


class Store(Protocol):
    """One collection of one model. All methods block, are bounded in time, thread-safe, and raise only StoreError.

    Also Cancelled, soon after the work they are for was stopped (``clock.stoppable``). Nothing is created by reading:
    before the first ``ensure`` every listing is empty.
    """

    @property
    def model(self) -> Model:
        """The model this store was opened for."""
        ...

    @property
    def collection(self) -> str:
        """The collection's name."""
        ...

    def capabilities(self) -> Capabilities:
        """What the server can do (connects on first use)."""
        ...

    def ensure(self) -> None:
        """Create the collection if it is missing and load it; StoreMismatch if it means something else."""
        ...

    def identity(self) -> str:
        """What tells this collection from one that is made anew under its name; "" while there is none."""
        ...

    def insert(self, records: Sequence[Record]) -> None:
        """Store rows, in the given order; on return all are acknowledged and visible to readers.

        Splits by rows and bytes as the engine needs. Writing the same ids again changes nothing. An error may leave
        a prefix of the rows stored.
        """
        ...

    def delete(self, ids: Sequence[str]) -> None:
        """Remove rows by primary key; ids that are not there are no error."""
        ...

    def flush(self) -> None:
        """Make what was written durable and quick to search. Never changes what is found."""
        ...

    def catalog(self, where: Where = EVERYTHING) -> list[FileEntry]:
        """The ``ord == 0`` rows, all generations, in no order, with every acknowledged write of anybody."""
        ...

    def commits(self, where: Where = EVERYTHING) -> list[RowKey]:
        """Keys of the ``ord == 0`` rows, all generations, in no order; may lag as a search does (0.2 s cheaper)."""
        ...

    def links(self, where: Where = EVERYTHING) -> list[FileLinks]:
        """What the rows that carry links say, all generations, in no order."""
        ...

    def keys(self, where: Where = EVERYTHING) -> Iterator[RowKey]:
        """Every stored row's key, strongly consistent, streamed. For reconcile and doctor."""
        ...

    def rows(self, where: Where) -> Iterator[Match]:
        """Stored rows with score 0, streamed, ordered by path, gen, ord within what the engine can. For reading."""
        ...

    def get(self, ids: Sequence[str]) -> list[Match]:
        """Rows by primary key (score 0), those that exist, in no order. The fast path."""
        ...

    def records(self, where: Where) -> Iterator[Record]:
        """Whole rows, in the order of ``rows``: to copy them to another store."""
        ...

    def vectors(self, where: Where) -> Iterator[tuple[RowKey, str, Vector]]:
        """(key, text_hash, stored vector) of rows: to reuse what another machine paid for (I13)."""
        ...

    def holding(self, text_hashes: Collection[str]) -> list[tuple[RowKey, str]]:
        """(key, text_hash) of rows of any workspace with one of these texts; only some where thousands repeat it."""
        ...

    def dense(self, vector: Vector, limit: int, where: Where = EVERYTHING) -> list[Match]:
        """The rows with the largest inner product, best first, at most limit."""
        ...

    def lexical(self, tokens: str, limit: int, where: Where = EVERYTHING) -> list[Match]:
        """The rows with the best BM25 score for the analyzer's tokens, best first; [] without the capability."""
        ...

    def change_count(self) -> int | None:
        """A number that grows with every write by anybody, if the engine can tell cheaply; else None."""
        ...

    def count(self, where: Where = EVERYTHING) -> int:
        """How many rows are stored."""
        ...

    def workspaces(self) -> dict[str, int]:
        """Workspace ids that have committed rows, with the number of files."""
        ...

    def health(self) -> Health:
        """Connect and say what is there."""
        ...

    def close(self) -> None:
        """Let go of the connection. Safe to call twice."""
        ...
