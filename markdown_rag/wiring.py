"""Settings cut into policies, and the parts built from them: each once, on first use, closed in reverse.

Nothing heavy is imported until a part is asked for: the first reply of a server must not wait for Milvus (D1).
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

from markdown_rag.clock import Clock
from markdown_rag.database import Database
from markdown_rag.errors import EmbeddingError, FastRagError
from markdown_rag.settings import Settings
from markdown_rag.workspaces import MIGRATIONS, WorkspaceRegistry

if TYPE_CHECKING:
    from markdown_rag.embeddings.service import Embeddings
    from markdown_rag.indexing.ignore import ScanPolicy
    from markdown_rag.indexing.pipeline import Indexer
    from markdown_rag.indexing.statcache import StatCache
    from markdown_rag.markdown.chunking import ChunkPolicy
    from markdown_rag.search.searcher import Searcher
    from markdown_rag.store.base import Model, Store
    from markdown_rag.store.opening import StoreSettings

T = TypeVar("T")

DOCUMENT_WEIGHT = {"local": 0.5}  # measured for the local model only; others get it when they are measured


class Parts:
    """The parts of one process. Thread-safe; every property builds its part on first use."""

    def __init__(self, settings: Settings, clock: Clock) -> None:
        self.settings = settings
        self.clock = clock
        self._lock = threading.RLock()
        self._built: dict[str, Any] = {}
        self._closers: list[Callable[[], None]] = []
        self._closed = False

    def _once(self, name: str, build: Callable[[], T]) -> T:
        """Build a part once; a part with ``close`` is closed with the process."""
        with self._lock:
            if name not in self._built:
                part = build()
                self._built[name] = part
                if callable(close := getattr(part, "close", None)):
                    self._closers.append(close)
            found: T = self._built[name]
            return found

    @property
    def workspaces(self) -> WorkspaceRegistry:
        """Which folders were indexed from here."""
        path = self.settings.state_directory / "workspaces.sqlite3"
        return self._once("workspaces", lambda: WorkspaceRegistry(Database(path, MIGRATIONS), self.clock))

    @property
    def embeddings(self) -> Embeddings:
        """Texts to vectors, cached and paced."""
        return self._once("embeddings", self._embeddings)

    @property
    def store(self) -> Store:
        """The collection of the chosen model. Raises EmbeddingError where the model's dimension can't be learnt."""
        return self._once("store", self._store)

    @property
    def stat_cache(self) -> StatCache:
        """What size and time each file had when it was last read."""
        from markdown_rag.indexing.statcache import StatCache  # noqa: PLC0415

        return self._once("stat_cache", lambda: StatCache(self.settings.state_directory / "files.sqlite3"))

    def close(self) -> None:
        """Close what was built, last first; an error in one does not keep the others open."""
        with self._lock:
            closers, self._closers, self._closed = self._closers, [], True
            self._built.clear()
        for close in reversed(closers):
            with contextlib.suppress(FastRagError):
                close()
