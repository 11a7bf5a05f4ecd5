"""Which files left the index, and where their text went: what an id from before is answered with.

A file that was renamed is, to an index run, one that is gone and one that is new. Its rows go, so what told them to be
the same is kept here: the path that now holds the same bytes, or else hashes of the texts it held. Bounded, and nothing
rests on it: where it is lost, such an id is answered with "not in the index any more".
"""

from __future__ import annotations

import sqlite3
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from markdown_rag.paths import file_digest
from markdown_rag.store.base import FileEntry, Store, record_id

KEPT = 20_000  # files, the newest
TEXTS = 32  # of a file
READ_ROWS = 2_000  # of one run, for their texts' hashes
_SLICE = 500
_HASH_BYTES = 32

TABLE = """
    CREATE TABLE departures (
        number INTEGER PRIMARY KEY, digest TEXT NOT NULL UNIQUE, workspace TEXT NOT NULL, path TEXT NOT NULL,
        file_hash TEXT NOT NULL, successor TEXT NOT NULL, texts BLOB NOT NULL
    )
"""


@dataclass(frozen=True, slots=True)
class Departure:
    """A file that left the index.

    successor: the path that held the same bytes when it left, "" for none. texts: then the hashes of its first texts.
    """

    workspace: str
    path: str
    file_hash: str
    successor: str = ""
    texts: tuple[str, ...] = ()


def departures(gone: Sequence[FileEntry], staying: Mapping[str, str], store: Store) -> list[Departure]:
    """What is to be kept of files whose rows are still there. staying: path to hash of every other file."""
    homes: defaultdict[str, list[str]] = defaultdict(list)
    for path, file_hash in staying.items():
        homes[file_hash].append(path)
    found = [
        Departure(entry.workspace, entry.path, entry.file_hash, _nearest(entry.path, homes.get(entry.file_hash, ())))
        for entry in gone
    ]
    lost = [entry for entry, departure in zip(gone, found, strict=True) if not departure.successor]
    texts = _texts(lost, store)
    return [replace(each, texts=texts.get(each.path, ())) for each in found]


def _nearest(path: str, others: Iterable[str]) -> str:
    """Of some paths the one most like another: of the same name, else the first."""
    name = path.rpartition("/")[2]
    return min(others, key=lambda other: (other.rpartition("/")[2] != name, other), default="")


def _texts(gone: Sequence[FileEntry], store: Store) -> dict[str, tuple[str, ...]]:
    """Path to the hashes of its first texts, in order; of as many files as a run may read."""
    ids: list[str] = []
    for entry in gone:
        rows = min(entry.chunk_count, TEXTS)
        if len(ids) + rows > READ_ROWS:
            break
        ids += [record_id(entry.workspace, entry.path, entry.gen, ord_) for ord_ in range(rows)]
    found: defaultdict[str, list[tuple[int, str]]] = defaultdict(list)
    for start in range(0, len(ids), _SLICE):
        for row in store.get(ids[start : start + _SLICE]):
            found[row.path].append((row.ord, row.text_hash))
    return {path: tuple(text for _, text in sorted(rows)) for path, rows in found.items()}


def keep(connection: sqlite3.Connection, left: Iterable[Departure]) -> None:
    """Keep departures, the newest KEPT of all."""
    connection.executemany(
        "INSERT OR REPLACE INTO departures (digest, workspace, path, file_hash, successor, texts) "
        "VALUES (?, ?, ?, ?, ?, ?)",
        (
            (file_digest(d.workspace, d.path), d.workspace, d.path, d.file_hash, d.successor, _packed(d.texts))
            for d in left
        ),
    )
    connection.execute("DELETE FROM departures WHERE number <= (SELECT max(number) FROM departures) - ?", (KEPT,))


def find(connection: sqlite3.Connection, digest: str) -> Departure | None:
    """The file that left under this digest."""
    query = "SELECT workspace, path, file_hash, successor, texts FROM departures WHERE digest = ?"
    row = connection.execute(query, (digest,)).fetchone()
    if row is None:
        return None
    workspace, path, file_hash, successor, texts = row
    return Departure(workspace, path, file_hash, successor, _unpacked(texts))


def _packed(texts: Iterable[str]) -> bytes:
    return b"".join(bytes.fromhex(text) for text in texts)


def _unpacked(data: bytes) -> tuple[str, ...]:
    return tuple(data[start : start + _HASH_BYTES].hex() for start in range(0, len(data), _HASH_BYTES))
