"""Which files left the index, and where their text went: what an id from before is answered with.

A file that was renamed is, to an index run, one that is gone and one that is new. Its rows go, so what told them to be
the same is kept here: the path that now holds the same bytes or all of its words, or else hashes of the texts it held.
Bounded, and nothing rests on it: where it is lost, such an id is answered with "not in the index any more".
"""

from __future__ import annotations

import sqlite3
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice

from markdown_rag.paths import file_digest
from markdown_rag.store.base import FileEntry, Match, Store, Where, record_id

KEPT = 20_000  # files, the newest
TEXTS = 32  # of a file
READ_ROWS = 2_000  # of one run, for their texts' hashes
ARRIVALS = 50  # files that one run wrote, in which words of files that left are looked for
TELLING = 20  # characters: a shorter text stands in many files by chance
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

    successor: the path that held the same bytes, or all of its words in a row, when it left, "" for none. texts: then
    the hashes of its first texts.
    """

    workspace: str
    path: str
    file_hash: str
    successor: str = ""
    texts: tuple[str, ...] = ()


def departures(
    gone: Sequence[FileEntry], staying: Mapping[str, str], store: Store, arrived: Iterable[str] = ()
) -> list[Departure]:
    """What is to be kept of files whose rows are still there.

    staying: path to hash of every other file; arrived: those of them that the run has just written.
    """
    homes: defaultdict[str, list[str]] = defaultdict(list)
    for path, file_hash in staying.items():
        homes[file_hash].append(path)
    found = [
        Departure(entry.workspace, entry.path, entry.file_hash, _nearest(entry.path, homes.get(entry.file_hash, ())))
        for entry in gone
    ]
    lost = [entry for entry, departure in zip(gone, found, strict=True) if not departure.successor]
    rows = _rows(lost, store)
    holders = _holders(lost, rows, arrived, store)
    return [
        replace(
            each,
            successor=each.successor or holders.get(each.path, ""),
            texts=tuple(row.text_hash for row in rows.get(each.path, ())),
        )
        for each in found
    ]


def _nearest(path: str, others: Iterable[str]) -> str:
    """Of some paths the one most like another: of the same name, else the first."""
    name = path.rpartition("/")[2]
    return min(others, key=lambda other: (other.rpartition("/")[2] != name, other), default="")


def _rows(gone: Sequence[FileEntry], store: Store) -> dict[str, list[Match]]:
    """Path to its first rows, in order; of as many files as a run may read."""
    ids: list[str] = []
    for entry in gone:
        rows = min(entry.chunk_count, TEXTS)
        if len(ids) + rows > READ_ROWS:
            break
        ids += [record_id(entry.workspace, entry.path, entry.gen, ord_) for ord_ in range(rows)]
    found: defaultdict[str, list[Match]] = defaultdict(list)
    for start in range(0, len(ids), _SLICE):
        for row in store.get(ids[start : start + _SLICE]):
            found[row.path].append(row)
    return {path: sorted(rows, key=_ord) for path, rows in found.items()}


def _ord(row: Match) -> int:
    return row.ord


def _holders(
    lost: Sequence[FileEntry], rows: Mapping[str, Sequence[Match]], arrived: Iterable[str], store: Store
) -> dict[str, str]:
    """Path of a file that left, to that of one just written that holds all of its words in a row."""
    paths = sorted(arrived)
    whole = [entry.path for entry in lost if entry.chunk_count == len(rows.get(entry.path, ()))]
    if not whole or not 0 < len(paths) <= ARRIVALS:
        return {}
    written: defaultdict[tuple[str, int], list[str]] = defaultdict(list)
    some = islice(store.rows(Where(workspaces=(lost[0].workspace,), paths=tuple(paths))), READ_ROWS)
    for row in sorted(some, key=lambda row: (row.path, row.gen, row.ord)):
        written[row.path, row.gen].append(row.text)
    bodies = {path: _words("".join(texts)) for (path, _), texts in written.items()}  # of each path the newest
    found = {path: _words("".join(row.text for row in rows[path])) for path in whole}
    return {
        path: _nearest(path, holding)
        for path, words in found.items()
        if len(words) >= TELLING and (holding := [other for other, body in bodies.items() if words in body])
    }


def _words(text: str) -> str:
    """A text without regard to its line ends and blanks."""
    return " ".join(text.split())


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
