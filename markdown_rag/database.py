"""SQLite files of the state directory: what can be lost without harm.

One function opens a file: WAL, a bounded wait for locks, named migrations applied once and remembered. A file that
is damaged is set aside (never deleted) and made anew: losing it costs a rescan or a call, nothing else (D2).
"""

from __future__ import annotations

import contextlib
import sqlite3
import threading
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from markdown_rag.errors import StateError

BUSY_SECONDS = 15.0
_CLOSE_SECONDS = 1.0
_DAMAGE = ("not a database", "malformed", "disk image", "file is encrypted")


class Database:
    """One SQLite file, one connection a thread, closed together. Thread-safe.

    migrations: SQL scripts in order; those beyond the file's ``user_version`` are applied at opening. A file from a
    newer version of this package (more migrations than we know) is refused by StateError.
    """

    def __init__(self, path: Path, migrations: Sequence[str]) -> None:
        self.path = path
        self._migrations = tuple(migrations)
        self._local = threading.local()
        self._all: list[tuple[sqlite3.Connection, threading.RLock]] = []
        self._lock = threading.Lock()
        self._closed = False
        self._generation = 0
        self._file: tuple[int, int] | None = None
        try:
            path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            self._open_checked()
        except OSError as error:
            raise self._unusable(error) from error

    def _unusable(self, error: Exception) -> StateError:
        return StateError(
            f"The state file {self.path} cannot be used: {error}.",
            "Check that its folder exists, is writable and not full, or point MARKDOWN_RAG_CACHE_DIR elsewhere.",
        )

    def _open_checked(self) -> None:
        try:
            self._migrate(self._connect())
        except sqlite3.DatabaseError as error:
            if not _is_damage(error):
                raise self._unusable(error) from error
            self._set_aside()
            try:
                self._migrate(self._connect())
            except sqlite3.DatabaseError as again:
                raise self._unusable(again) from again

    def _set_aside(self) -> None:
        """Move a damaged file (and its WAL) out of the way, keeping it for who wants to look."""
        self._close_all()
        stamp = time.strftime("%Y%m%d-%H%M%S")
        for suffix in ("", "-wal", "-shm"):
            source = Path(f"{self.path}{suffix}")
            if source.exists():
                source.rename(f"{self.path}.damaged-{stamp}{suffix}")

    def _connect(self) -> sqlite3.Connection:
        connection = sqlite3.connect(
            self.path, timeout=BUSY_SECONDS, isolation_level=None, check_same_thread=False, cached_statements=256
        )
        with self._lock:
            if self._closed:
                connection.close()
                raise StateError(f"The state file {self.path} is closed.", "The server is shutting down.")
            in_use = threading.RLock()
            in_use.acquire()
            self._all.append((connection, in_use))
        try:
            connection.execute("PRAGMA journal_mode=WAL")
            connection.execute("PRAGMA synchronous=NORMAL")
        finally:
            in_use.release()
        self._file = self._identity()
        self._local.connection = connection
        self._local.in_use = in_use
        self._local.generation = self._generation
        return connection

    def _migrate(self, connection: sqlite3.Connection) -> None:
        (known,) = connection.execute("PRAGMA user_version").fetchone()
        if known > len(self._migrations):
            raise StateError(
                f"{self.path} was written by a newer version of this program.",
                "Update this installation, or point MARKDOWN_RAG_CACHE_DIR at another folder.",
            )
        if known == len(self._migrations):
            return
        connection.execute("BEGIN IMMEDIATE")
        try:
            (known,) = connection.execute("PRAGMA user_version").fetchone()  # another process may have been faster
            for number in range(known, len(self._migrations)):
                for statement in self._migrations[number].split(";"):
                    if statement.strip():
                        connection.execute(statement)
            connection.execute(f"PRAGMA user_version={len(self._migrations)}")
            connection.execute("COMMIT")
        except BaseException:
            connection.execute("ROLLBACK")
            raise

    def _identity(self) -> tuple[int, int] | None:
        try:
            found = self.path.stat()
        except OSError:
            return None
        return found.st_dev, found.st_ino

    def _connection(self) -> sqlite3.Connection:
        if not self._closed and self._identity() != self._file:
            # Somebody deleted or replaced the file: writing on into the unlinked one would be lost on exit.
            self._close_all()
            self.path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            self._open_checked()
        if getattr(self._local, "generation", None) == self._generation and not self._closed:
            connection: sqlite3.Connection = self._local.connection
            return connection
        return self._connect()

    def _open(self, begin: str) -> sqlite3.Connection:
        """This thread's connection, after a first statement; StateError if that is not possible."""
        try:
            connection = self._connection()
            with self._local.in_use:
                connection.execute(begin)
        except (sqlite3.Error, OSError) as error:
            raise self._explain(error) from error
        return connection

    @contextlib.contextmanager
    def read(self) -> Iterator[sqlite3.Connection]:
        """A connection for reading. SQLite's errors come out as StateError."""
        connection = self._open("SELECT 1")
        try:
            with self._local.in_use:
                yield connection
        except sqlite3.Error as error:
            raise self._explain(error) from error

    @contextlib.contextmanager
    def write(self) -> Iterator[sqlite3.Connection]:
        """One transaction, taken for writing from its start; rolled back on any exception."""
        connection = self._open("BEGIN IMMEDIATE")
        in_use: threading.RLock = self._local.in_use
        try:
            with in_use:
                yield connection
                connection.execute("COMMIT")
        except BaseException as error:
            with in_use, contextlib.suppress(sqlite3.Error):
                connection.execute("ROLLBACK")
            if isinstance(error, sqlite3.Error):
                raise self._explain(error) from error
            raise

    def _explain(self, error: Exception) -> StateError:
        """Our error; a damaged file is set aside and made anew, so that the next call works."""
        if _is_damage(error):
            with contextlib.suppress(OSError, sqlite3.Error, StateError):
                self._set_aside()
                self._migrate(self._connect())
        return self._unusable(error)

    def _close_all(self) -> None:
        with self._lock:
            connections, self._all = self._all, []
            self._generation += 1
        for connection, in_use in connections:
            # Closed under a running statement, sqlite3 crashes the interpreter; one that stays busy is left open.
            if in_use.acquire(timeout=_CLOSE_SECONDS):
                with contextlib.suppress(sqlite3.Error):
                    connection.close()
                in_use.release()

    def close(self) -> None:
        """Close every connection; using the object afterwards is StateError."""
        with self._lock:
            self._closed = True
        self._close_all()


def _is_damage(error: Exception) -> bool:
    return isinstance(error, sqlite3.DatabaseError) and any(word in str(error) for word in _DAMAGE)
