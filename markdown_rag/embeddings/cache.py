"""What was paid for once: vectors on disk, by model and role, and by the hash of the text.

Lossless (the float32 values themselves, little-endian). Shared by every process of a user. Bounded: beyond max_bytes
the vectors used longest ago go. A use is noted once a day, so that reading does not write. Losing the file costs calls
to the provider and nothing else: trouble with it never ends a run, it is kept in ``trouble`` for who asks.
"""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import numpy as np

from markdown_rag.clock import Clock, SystemClock
from markdown_rag.database import Database
from markdown_rag.embeddings.base import Vector
from markdown_rag.errors import StateError

MAX_BYTES = 2 * 1024**3
_SCHEMA = """
CREATE TABLE models (id INTEGER PRIMARY KEY, fingerprint TEXT NOT NULL UNIQUE);
CREATE TABLE vectors (
    id INTEGER PRIMARY KEY, model INTEGER NOT NULL, hash TEXT NOT NULL, day INTEGER NOT NULL, vector BLOB NOT NULL,
    UNIQUE (model, hash)
);
CREATE INDEX vectors_by_day ON vectors (day);
CREATE TABLE dimensions (model TEXT PRIMARY KEY, dimension INTEGER NOT NULL)
"""
_ASK_AT_ONCE = 500  # names a statement; SQLite allows 32,766
_PAGE_BYTES = 16_384
_PRUNE_TO = 0.9  # of max_bytes, so that not every write prunes
_FLOAT32 = np.dtype("<f4")


class VectorCache:
    """One cache file. Thread-safe, and safe with other processes on the same file."""

    def __init__(self, path: Path, max_bytes: int = MAX_BYTES, clock: Clock | None = None) -> None:
        _prepare(path)
        self._database = Database(path, [_SCHEMA])
        self._max_bytes = max_bytes
        self._clock = clock or SystemClock()
        self.trouble = ""

    def get(self, fingerprint: str, hashes: Sequence[str]) -> dict[str, Vector]:
        """The vectors that are known, by hash; read-only arrays."""
        found: dict[str, Vector] = {}
        stale: list[tuple[int, int]] = []
        today = self._today()
        try:
            with self._database.read() as connection:
                for rows in _lookups(connection, "id, hash, day, vector", fingerprint, hashes):
                    for row, text_hash, day, blob in rows:
                        found[text_hash] = np.frombuffer(blob, _FLOAT32)
                        if day < today:
                            stale.append((today, row))
            if stale:
                # What was found is the answer, noted or not: nobody waits for the note, the next use makes it.
                with self._database.write(patient=False) as connection:
                    connection.executemany("UPDATE vectors SET day = ? WHERE id = ?", stale)
        except StateError as error:
            self.trouble = str(error)
        return found

    def known(self, fingerprint: str, hashes: Sequence[str]) -> set[str]:
        """Which of the hashes have a vector; reads no vector and notes no use."""
        try:
            with self._database.read() as connection:
                lookups = _lookups(connection, "hash", fingerprint, hashes)
                return {text_hash for rows in lookups for (text_hash,) in rows}
        except StateError as error:
            self.trouble = str(error)
            return set()

    def put(self, fingerprint: str, items: Mapping[str, Vector]) -> None:
        """Keep vectors, in one transaction; an equal one replaces what is there."""
        for _ in range(2):  # a damaged file is set aside by the first attempt and made anew for the second
            try:
                self._put(fingerprint, items)
            except StateError as error:
                self.trouble = str(error)
            else:
                return

    def _put(self, fingerprint: str, items: Mapping[str, Vector]) -> None:
        if not items:
            return
        day = self._today()
        with self._database.write() as connection:
            connection.execute("INSERT OR IGNORE INTO models (fingerprint) VALUES (?)", (fingerprint,))
            (model,) = connection.execute("SELECT id FROM models WHERE fingerprint = ?", (fingerprint,)).fetchone()
            connection.executemany(
                "INSERT INTO vectors (model, hash, day, vector) VALUES (?, ?, ?, ?)"
                " ON CONFLICT (model, hash) DO UPDATE SET day = excluded.day, vector = excluded.vector",
                ((model, text_hash, day, vector.astype(_FLOAT32).tobytes()) for text_hash, vector in items.items()),
            )
            self._prune(connection)

    def _prune(self, connection: sqlite3.Connection) -> None:
        """Within a write: remove the vectors used longest ago until there is room again."""
        used = _used_bytes(connection)
        if used <= self._max_bytes:
            return
        (rows,) = connection.execute("SELECT count(*) FROM vectors").fetchone()
        surplus = int(rows * (1 - self._max_bytes * _PRUNE_TO / used)) + 1
        oldest = "SELECT id FROM vectors ORDER BY day, id LIMIT ?"
        connection.execute(f"DELETE FROM vectors WHERE id IN ({oldest})", (surplus,))  # noqa: S608

    def dimension(self, model: str) -> int:
        """The remembered dimension of a model, or 0."""
        try:
            with self._database.read() as connection:
                row = connection.execute("SELECT dimension FROM dimensions WHERE model = ?", (model,)).fetchone()
        except StateError as error:
            self.trouble = str(error)
            return 0
        return int(row[0]) if row else 0

    def remember_dimension(self, model: str, dimension: int) -> None:
        """Keep a model's dimension; 0 forgets it."""
        try:
            with self._database.write() as connection:
                connection.execute("DELETE FROM dimensions WHERE model = ?", (model,))
                if dimension:
                    connection.execute("INSERT INTO dimensions VALUES (?, ?)", (model, dimension))
        except StateError as error:
            self.trouble = str(error)

    @property
    def count(self) -> int:
        """How many vectors are kept, of all models."""
        try:
            with self._database.read() as connection:
                return int(connection.execute("SELECT count(*) FROM vectors").fetchone()[0])
        except StateError as error:
            self.trouble = str(error)
            return 0

    def close(self) -> None:
        """Let go of the file. Safe to call twice."""
        self._database.close()

    def _today(self) -> int:
        return int(self._clock.now() // 86_400)


def _prepare(path: Path) -> None:
    """Create a missing file with large pages: a vector of 512 or 768 values wastes up to half a page of 4,096 bytes.

    Whatever is wrong with the place is said by Database, and a file that somebody else made keeps its pages.
    """
    if path.exists():
        return
    with (
        contextlib.suppress(OSError, sqlite3.Error),
        contextlib.closing(sqlite3.connect(path, isolation_level=None)) as connection,
    ):
        connection.execute(f"PRAGMA page_size = {_PAGE_BYTES}")
        connection.execute("VACUUM")  # writes the empty file's header


def _lookups(
    connection: sqlite3.Connection, columns: str, fingerprint: str, hashes: Sequence[str]
) -> Iterator[sqlite3.Cursor]:
    """Cursors over the rows of the hashes, so many names a statement."""
    row = connection.execute("SELECT id FROM models WHERE fingerprint = ?", (fingerprint,)).fetchone()
    for start in range(0, len(hashes) if row else 0, _ASK_AT_ONCE):
        part = hashes[start : start + _ASK_AT_ONCE]
        marks = ",".join("?" * len(part))
        # Only marks and column names of this module are written into the statement.
        yield connection.execute(
            f"SELECT {columns} FROM vectors WHERE model = ? AND hash IN ({marks})",  # noqa: S608
            (row[0], *part),
        )


def _used_bytes(connection: sqlite3.Connection) -> int:
    """The file's size without its free pages."""
    (pages,) = connection.execute("PRAGMA page_count").fetchone()
    (free,) = connection.execute("PRAGMA freelist_count").fetchone()
    (size,) = connection.execute("PRAGMA page_size").fetchone()
    return int((pages - free) * size)
