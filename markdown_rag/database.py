"""SQLite files of the state directory: what can be lost without harm.

One function opens a file: WAL, a bounded wait for locks, named migrations applied once and remembered. A file that
is damaged is set aside (never deleted) and made anew: losing it costs a rescan or a call, nothing else.
"""

from __future__ import annotations

import contextlib
import os
import sqlite3
import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from markdown_rag.errors import StateError
from markdown_rag.paths import missing_state

BUSY_SECONDS = 15.0
_BUSY_PAUSE_S = 0.02  # between two tries where SQLite itself does not wait
_CLOSE_SECONDS = 1.0
_DAMAGE = ("not a database", "malformed", "disk image", "file is encrypted")


@dataclass(slots=True, eq=False)
class _Handle:
    """One thread's connection to one file on disk. in_use is held while a statement may run.

    Closed under a running statement, sqlite3 crashes the interpreter: whoever closes a handle holds in_use.
    """

    connection: sqlite3.Connection
    file: tuple[int, int] | None
    thread: threading.Thread
    in_use: threading.RLock = field(default_factory=threading.RLock)
    busy_ms: float = 1000 * BUSY_SECONDS
    closed: bool = False

    def close(self) -> None:
        """Close the connection; the caller holds in_use."""
        self.closed = True
        with contextlib.suppress(sqlite3.Error):
            self.connection.close()


class Database:
    """One SQLite file, one connection a thread, closed together. Thread-safe.

    migrations: SQL scripts in order; those beyond the file's ``user_version`` are applied at opening. A file from a
    newer version of this package (more migrations than we know) is refused by StateError. A file that somebody deletes
    or replaces is noticed at the next use: each thread then leaves the old one and opens what is there. Its folder is
    never made here: one that was deleted or moved stays away, and every use is StateError.
    """

    def __init__(self, path: Path, migrations: Sequence[str]) -> None:
        self.path = path
        self._migrations = tuple(migrations)
        self._local = threading.local()
        self._handles: list[_Handle] = []
        self._lock = threading.RLock()  # guards opening, setting aside and the list
        self._closed = False
        with self._handle("SELECT 1"):
            pass

    @contextlib.contextmanager
    def read(self) -> Iterator[sqlite3.Connection]:
        """A connection for reading. SQLite's errors come out as StateError."""
        with self._handle("SELECT 1") as handle:
            yield handle.connection

    @contextlib.contextmanager
    def write(self, *, patient: bool = True) -> Iterator[sqlite3.Connection]:
        """One transaction, taken for writing from its start; rolled back on any exception.

        patient False: where another writes now, StateError at once; for what can as well be written another time.
        """
        with self._handle("BEGIN IMMEDIATE", 1000 * BUSY_SECONDS if patient else 0) as handle:
            try:
                yield handle.connection
                handle.connection.execute("COMMIT")
            except BaseException:
                with contextlib.suppress(sqlite3.Error):
                    handle.connection.execute("ROLLBACK")
                raise

    def close(self) -> None:
        """Close every connection; using the object afterwards is StateError. One that stays busy is left open."""
        with self._lock:
            handles, self._handles, self._closed = self._handles, [], True
        for handle in handles:
            if handle.in_use.acquire(timeout=_CLOSE_SECONDS):
                handle.close()
                handle.in_use.release()

    @contextlib.contextmanager
    def _handle(self, first: str, busy_ms: float = 1000 * BUSY_SECONDS) -> Iterator[_Handle]:
        """This thread's handle, in use, after a first statement; SQLite's errors come out as StateError."""
        handle = self._current()
        try:
            if busy_ms != handle.busy_ms:
                handle.connection.execute(f"PRAGMA busy_timeout = {busy_ms:.0f}")
                handle.busy_ms = busy_ms
            handle.connection.execute(first)
            yield handle
        except sqlite3.Error as error:
            if _is_damage(error):
                self._set_aside(handle)
            raise self._unusable(error) from error
        finally:
            handle.in_use.release()

    def _current(self) -> _Handle:
        """This thread's handle to the file that is there now, with in_use taken."""
        handle: _Handle | None = getattr(self._local, "handle", None)
        if handle is not None:
            handle.in_use.acquire()
            if not handle.closed and handle.file == self._identity():
                return handle
            # Closed by us all, or the file was deleted or replaced: writing on into the old one would be lost.
            handle.close()
            handle.in_use.release()
        try:
            handle = self._open()
        except (sqlite3.Error, OSError) as error:
            raise self._unusable(error) from error
        self._local.handle = handle
        return handle

    def _open(self) -> _Handle:
        """A new handle for this thread, migrated, with in_use taken. A damaged file is set aside, once."""
        with self._lock:
            if self._closed:
                raise StateError(f"The state file {self.path} is closed.", "The server is shutting down.")
            self._close_those_of_ended_threads()
            if not self.path.parent.is_dir():
                raise StateError(*missing_state(self.path.parent))
            try:
                return self._connect()
            except sqlite3.DatabaseError as error:
                if not _is_damage(error):
                    raise
                self._move_away()
                return self._connect()

    def _connect(self) -> _Handle:
        connection = sqlite3.connect(
            self.path, timeout=BUSY_SECONDS, isolation_level=None, check_same_thread=False, cached_statements=256
        )
        handle = _Handle(connection, None, threading.current_thread())
        handle.in_use.acquire()
        try:
            _write_ahead(connection)
            connection.execute("PRAGMA synchronous=NORMAL")
            self._migrate(connection)
        except BaseException:
            handle.close()
            handle.in_use.release()
            raise
        handle.file = self._identity()
        self._handles.append(handle)
        return handle

    def _migrate(self, connection: sqlite3.Connection) -> None:
        if self._version(connection) == len(self._migrations):
            return
        connection.execute("BEGIN IMMEDIATE")
        try:
            # Counted again: another process may have been faster.
            for script in self._migrations[self._version(connection) :]:
                for statement in filter(str.strip, script.split(";")):
                    connection.execute(statement)
            connection.execute(f"PRAGMA user_version={len(self._migrations)}")
            connection.execute("COMMIT")
        except BaseException:
            with contextlib.suppress(sqlite3.Error):
                connection.execute("ROLLBACK")
            raise

    def _version(self, connection: sqlite3.Connection) -> int:
        (known,) = connection.execute("PRAGMA user_version").fetchone()
        if known > len(self._migrations):
            raise StateError(
                f"{self.path} was written by a newer version of this program.",
                "Update this installation, or point MARKDOWN_RAG_CACHE_DIR at another folder.",
            )
        return int(known)

    def _set_aside(self, handle: _Handle) -> None:
        """Move a file that turned out damaged out of the way, so that the next call makes a new one."""
        with self._lock, contextlib.suppress(OSError):
            if handle.file == self._identity():  # else somebody did it already, and what is there is new
                self._move_away()

    def _move_away(self) -> None:
        """Rename the file and its log, keeping both for who wants to look."""
        stamp = time.strftime("%Y%m%d-%H%M%S")
        for suffix in ("", "-wal", "-shm"):
            with contextlib.suppress(FileNotFoundError):
                os.rename(f"{self.path}{suffix}", f"{self.path}.damaged-{stamp}{suffix}")

    def _close_those_of_ended_threads(self) -> None:
        """Every index job has a thread of its own; without this its files would stay open for ever."""
        for handle in [handle for handle in self._handles if not handle.thread.is_alive()]:
            self._handles.remove(handle)
            handle.close()  # its thread is gone, so no statement runs

    def _identity(self) -> tuple[int, int] | None:
        try:
            found = self.path.stat()
        except OSError:
            return None
        return found.st_dev, found.st_ino

    def _unusable(self, error: Exception) -> StateError:
        return StateError(
            f"The state file {self.path} cannot be used: {error}.",
            "Check that its folder exists, is writable and not full, or point MARKDOWN_RAG_CACHE_DIR elsewhere.",
        )


def _write_ahead(connection: sqlite3.Connection) -> None:
    """Switch to WAL, which is kept in the file. SQLite does not wait where another process does so first."""
    end = time.monotonic() + BUSY_SECONDS
    while True:
        try:
            connection.execute("PRAGMA journal_mode=WAL")
        except sqlite3.OperationalError as error:
            if getattr(error, "sqlite_errorcode", 0) & 0xFF != sqlite3.SQLITE_BUSY or time.monotonic() > end:
                raise
            time.sleep(_BUSY_PAUSE_S)
        else:
            return


def _is_damage(error: Exception) -> bool:
    return isinstance(error, sqlite3.DatabaseError) and any(word in str(error) for word in _DAMAGE)
