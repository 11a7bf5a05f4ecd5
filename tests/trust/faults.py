"""Faults at the seams that exist: the k-th call fails once, for ever, or takes effect and reports failure."""

from __future__ import annotations

import contextlib
import errno
import inspect
import os
import sys
import threading
from collections.abc import Iterator, Sequence
from enum import StrEnum
from pathlib import Path
from typing import Any

from markdown_rag.database import Database
from markdown_rag.embeddings.base import Matrix, Role
from markdown_rag.errors import EmbeddingUnavailable, StateError, StoreUnavailable
from markdown_rag.store.base import Store
from tests.indexing.parts import HashingEmbedder


class Mode(StrEnum):
    """How a call fails. LATE: it takes effect, and its caller is told that it failed."""

    ONCE = "once"
    FOR_EVER = "for ever"
    LATE = "late"


class Faults:
    """Counts the calls over a seam and says which of them fail. Nothing fails before ``arm``, nor after ``disarm``."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.disarm()

    def arm(self, at: int, mode: Mode) -> None:
        """Let the at-th call from now on fail."""
        self.calls, self._at, self._mode = 0, at, mode

    def disarm(self) -> bool:
        """Let every call pass again; whether any failed."""
        reached = getattr(self, "calls", 0) >= getattr(self, "_at", sys.maxsize)
        self.arm(sys.maxsize, Mode.ONCE)
        return reached

    @contextlib.contextmanager
    def around(self, error: Exception) -> Iterator[None]:
        """Do what is inside, unless this call fails before it."""
        with self._lock:
            self.calls += 1
            fails = self.calls == self._at or (self._mode is Mode.FOR_EVER and self.calls > self._at)
        if fails and self._mode is not Mode.LATE:
            raise error
        yield
        if fails:
            raise error


class FaultyStore:
    """A store whose calls may fail. What streams is read before it is handed on."""

    def __init__(self, inner: Store, faults: Faults) -> None:
        self.inner = inner
        self._faults = faults

    def __getattr__(self, name: str) -> Any:
        found = getattr(self.inner, name)
        if not callable(found) or name == "close":
            return found

        def call(*arguments: Any, **options: Any) -> Any:
            with self._faults.around(StoreUnavailable("The store is away.")):
                result = found(*arguments, **options)
                return iter(list(result)) if inspect.isgenerator(result) or isinstance(result, map) else result

        return call


class FaultyEmbedder(HashingEmbedder):
    """A provider whose requests may fail."""

    def __init__(self, faults: Faults) -> None:
        super().__init__()
        self._faults = faults

    def embed(self, texts: Sequence[str], role: Role) -> Matrix:
        with self._faults.around(EmbeddingUnavailable("The provider is away.")):
            return super().embed(texts, role)


class FaultyDatabase(Database):
    """A state file whose statements and transactions may fail."""

    def __init__(self, path: Path, migrations: Sequence[str], faults: Faults) -> None:
        self._faults = faults
        super().__init__(path, migrations)

    @contextlib.contextmanager
    def read(self) -> Iterator[Any]:
        with self._faults.around(StateError("The disk is full.")), super().read() as connection:
            yield connection

    @contextlib.contextmanager
    def write(self) -> Iterator[Any]:
        with self._faults.around(StateError("The disk is full.")), super().write() as connection:
            yield connection


_watched: dict[str, Faults] = {}  # folder -> what may fail in it


def _hook(event: str, arguments: tuple[Any, ...]) -> None:
    if event not in {"open", "os.scandir", "os.listdir"} or not _watched or not isinstance(arguments[0], str):
        return
    for folder, faults in list(_watched.items()):
        if arguments[0] == folder or arguments[0].startswith(folder + os.sep):
            with faults.around(OSError(errno.EIO, os.strerror(errno.EIO), arguments[0])):
                pass


sys.addaudithook(_hook)  # the interpreter tells of every file it opens and folder it lists, and lets a hook refuse


@contextlib.contextmanager
def faulty_disk(folder: Path, faults: Faults) -> Iterator[None]:
    """Let opening and listing under a folder fail."""
    _watched[str(folder)] = faults
    try:
        yield
    finally:
        del _watched[str(folder)]
