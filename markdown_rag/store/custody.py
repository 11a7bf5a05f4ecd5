"""The library's database and collections, kept true to the disk below them, whatever becomes of that.

- A directory that was taken away (removed, moved, replaced) is never written again, nor is a new one of its name.
- What is left of a collection without its schema is no collection: nothing can be read from it, and it is in nobody's
  way.
- A write that the disk refuses takes back nothing that was acknowledged: rows stay in memory and in the log until they
  are in files, and nothing is appended to a log whose last entry is torn.
"""

from __future__ import annotations

import contextlib
import copy
import errno
import logging
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

log = logging.getLogger("markdown_rag.engine")


def database_class(db: Any, data_dir: Path) -> type:
    """The library's database, which knows whether the directory at this path is still the one it has opened.

    db: the library's module of it.
    """

    class KeptDatabase(db.MilvusLite):  # type: ignore[misc]
        def __init__(self, folder: str) -> None:
            self._leaving: set[str] = set()  # collections that are being dropped
            super().__init__(folder)

        def is_whole(self) -> bool:
            """Whether the lock and the schema of every open collection are where they were."""
            try:
                if not os.path.samestat(os.fstat(self._lock_fd), os.stat(data_dir / db.LOCK_FILENAME)):
                    return False
                open_now = [key for key in list(self._collections) if key[1] not in self._leaving]
                for database, name in open_now:
                    os.stat(os.path.join(self._collection_dir(name, database), db.SCHEMA_FILENAME))
            except (OSError, TypeError):  # TypeError: the lock was given back
                return False
            return True

        def create_collection(self, name: str, *arguments: Any, **options: Any) -> Any:
            remains = self._collection_dir(name, options.get("database_name", db.DEFAULT_DATABASE_NAME))
            if _is_directory(remains) and not os.path.exists(os.path.join(remains, db.SCHEMA_FILENAME)):
                log.warning("removing what is left of the collection %s, which has no schema", name)
                shutil.rmtree(remains)
            return super().create_collection(name, *arguments, **options)

        def drop_collection(self, name: str, *arguments: Any, **options: Any) -> None:
            self._leaving.add(name)
            try:
                super().drop_collection(name, *arguments, **options)
            finally:
                self._leaving.discard(name)

        def close(self) -> None:
            if self.is_whole():
                super().close()

    return KeptDatabase


def _is_directory(path: str) -> bool:
    return os.path.isdir(path) and not os.path.islink(path)


def collection_class(library_class: type, is_whole: Callable[[], bool]) -> type:
    """The library's collection, which writes only while is_whole says so and survives a disk that refuses."""

    class KeptCollection(library_class):  # type: ignore[misc]
        _wal: Any
        _memtable: Any

        def __init__(self, *arguments: Any, **options: Any) -> None:
            self._opening = True  # a log that is too long for a full disk is no reason not to read it
            super().__init__(*arguments, **options)
            self._opening = False

        def _apply(self, operation: Any) -> None:
            try:
                super()._apply(operation)
            except OSError:
                if is_whole():
                    self._leave_torn_log()
                raise

        def _leave_torn_log(self) -> None:
            """Go on in a new log: recovery reads a log up to its first torn entry."""
            torn = self._wal
            self._recovered_wal_bytes += torn.size_bytes
            schemas = torn._wal_data_schema, torn._wal_delta_schema  # noqa: SLF001
            self._wal = type(torn)(torn.wal_dir, *schemas, torn.number + 1)
            _let_go(torn)

        def _trigger_flush(self) -> None:
            if not is_whole():
                raise FileNotFoundError(errno.ENOENT, "the database was taken away", self._data_dir)
            with self._maintenance_lock:
                # The library lets go of rows and log before they are in files, and of the log for good at the next
                # flush: rows that it could not write would be gone from reads at once, and from the disk then.
                rows, written, manifest = self._memtable, self._wal, self._manifest
                files = {**vars(manifest), "_partitions": copy.deepcopy(manifest._partitions)}  # noqa: SLF001
                try:
                    try:
                        super()._trigger_flush()
                    finally:
                        refused = manifest.version == files["_version"]  # it grows with every flush that is done
                        if refused:
                            self._memtable, self._wal = rows, written
                            manifest.__dict__.update(files)
                except OSError:
                    if refused and not self._opening:
                        raise
                    log.warning("rows, or the removal of their log, wait for the next flush", exc_info=True)
                    self._refresh_segment_cache()
                    self._schedule_bg_maintenance()

        def close(self) -> None:
            try:
                super().close()
            except OSError:
                _let_go(self._wal)
                self._bg_closed = True
                self._bg_executor.shutdown(wait=True)
                raise

        def _bg_compact_and_index(self) -> None:
            if is_whole():
                super()._bg_compact_and_index()

    return KeptCollection


def _let_go(written: Any) -> None:
    """Close the files of a log and leave them for recovery."""
    for sink in (written._data_sink, written._delta_sink):  # noqa: SLF001
        if sink is not None:
            with contextlib.suppress(OSError):
                sink.close()
