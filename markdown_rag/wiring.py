"""Settings cut into policies, and the parts built from them: each once, on first use, closed in reverse.

Nothing heavy is imported until a part is asked for: the first reply of a server must not wait for Milvus. Parts
that an error kept from being built are tried again at the next request.
"""

# ruff: noqa: PLC0415 - the imports inside functions are the point of this module

from __future__ import annotations

import contextlib
import logging
import threading
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from markdown_rag.clock import Clock, StopSignal, SystemClock
from markdown_rag.database import Database
from markdown_rag.errors import EmbeddingError, FastRagError, StateError
from markdown_rag.facade import Json
from markdown_rag.indexing.report import Progress
from markdown_rag.jobs.job import Job
from markdown_rag.jobs.ledger import open_ledger
from markdown_rag.jobs.owner import is_gone, name_of
from markdown_rag.jobs.queue import JobQueue
from markdown_rag.paths import make_private
from markdown_rag.policies import (
    cross_encoder,
    embedding_settings,
    job_target,
    store_place,
    store_settings,
)
from markdown_rag.precedence import take_short_turns
from markdown_rag.reading import Reading, Unreachable, open_embeddings
from markdown_rag.settings import Settings
from markdown_rag.workspaces import MIGRATIONS, WorkspaceRegistry

if TYPE_CHECKING:
    from markdown_rag.embeddings.service import Embeddings
    from markdown_rag.indexing.indexer import Indexer
    from markdown_rag.indexing.statcache import StatCache
    from markdown_rag.search.legs import QueryVectors
    from markdown_rag.store.base import Model, Store
    from markdown_rag.store.milvus import Session
    from markdown_rag.store.opening import StoreSettings

T = TypeVar("T")
log = logging.getLogger(__name__)

# How much of a stored vector is its document's, by model; others get theirs when measured.
DOCUMENT_WEIGHT = {"use-multilingual-v3": 0.5}


class Parts:
    """The parts of one process. Thread-safe; every property builds its part on first use.

    heir: this process takes over jobs whose process died, and leaves its own to the next heir. The state directory is
    made here and nowhere later: one that is deleted or moved under a process does not come back by it.
    """

    def __init__(self, settings: Settings, clock: Clock | None = None, *, heir: bool = False) -> None:
        self.settings = settings
        self._heir = heir
        self.clock = clock or SystemClock()
        self._lock = threading.Lock()  # guards what follows; never held while a part is built
        self._building: defaultdict[str, threading.RLock] = defaultdict(threading.RLock)
        self._built: dict[str, Any] = {}
        self._closers: list[Callable[[], None]] = []
        self._closed = False
        with contextlib.suppress(OSError):  # the first part that needs it says so
            make_private(settings.state_directory)

    def once(self, name: str, build: Callable[[], T]) -> T:
        """Build a part once; a part with ``close`` is closed with the process.

        A lock a part: a provider that does not answer must not hold up a job's status. Parts need each other in one
        direction only, so the locks cannot wait in a circle.
        """
        with self._lock:
            building = self._building[name]
        with building:
            if name not in self._built:
                part = build()
                self._keep(name, part, getattr(part, "close", None))
            found: T = self._built[name]
            return found

    def _keep(self, name: str, part: object, close: Callable[[], None] | None) -> None:
        with self._lock:
            if not self._closed:
                self._built[name] = part
                if close is not None:
                    self._closers.append(close)
                return
        if close is not None:
            close()
        raise StateError("The server is stopping.", "Ask again when it is back.")

    @property
    def workspaces(self) -> WorkspaceRegistry:
        """Which folders were indexed from here."""
        path = self.settings.state_directory / "workspaces.sqlite3"
        return self.once("workspaces", lambda: WorkspaceRegistry(Database(path, MIGRATIONS), self.clock))

    @property
    def queue(self) -> JobQueue:
        """The index jobs of all processes."""
        return self.once("queue", self._queue)

    def _queue(self) -> JobQueue:
        ledger = self.once("ledger", lambda: open_ledger(self.settings.state_directory))
        return JobQueue(
            ledger,
            self._run,
            self.clock,
            self.settings.markdown_bg_max_jobs,
            self.settings.markdown_bg_job_ttl_seconds,
            heir_to=self.job_target if self._heir else "",
        )

    def _run(self, job: Job, progress: Progress, stop: StopSignal) -> Json:
        """Carry out an index job (called by the queue, in the job's own thread)."""
        from markdown_rag.running import carry_out

        return carry_out(self, job, progress, stop)

    def cost(self, tokens: int) -> float | None:
        """US dollars for tokens of the chosen model, None where its price is not known."""
        from markdown_rag.embeddings.prices import cost

        card = self.embeddings.card
        return cost(card.provider, card.model, tokens)

    @property
    def embeddings(self) -> Embeddings:
        """Texts to vectors, cached and paced."""
        return self.once("embeddings", self._embeddings)

    def _embeddings(self) -> Embeddings:
        return open_embeddings(self.settings, self.clock)

    @property
    def store_settings(self) -> StoreSettings:
        """Where the store is."""
        return store_settings(self.settings)

    @property
    def server(self) -> Session:
        """A connection for questions about all collections; kept, as it remembers that a server is away."""
        return self.once("server", self.store_settings.session)

    @property
    def store(self) -> Store:
        """The collection of the chosen model. EmbeddingError where the model's dimension cannot be learnt now."""
        return self.once("store", self._store)

    def _store(self) -> Store:
        from markdown_rag.store.base import Model
        from markdown_rag.store.opening import open_store

        card = self.embeddings.card
        weight = DOCUMENT_WEIGHT.get(card.model, 0.0)
        return open_store(self.store_settings, Model(card.provider, card.model, card.dimension, weight))

    @property
    def stat_cache(self) -> StatCache:
        """What size and time each file had when it was last read."""
        return self.once("stat_cache", self._stat_cache)

    def _stat_cache(self) -> StatCache:
        from markdown_rag.indexing.statcache import MIGRATIONS as STATS
        from markdown_rag.indexing.statcache import StatCache

        path = self.settings.state_directory / "files.sqlite3"
        return StatCache(self.once("stats", lambda: Database(path, STATS)), store_place(self.settings))

    @property
    def indexer(self) -> Indexer:
        """Folders to rows."""
        return self.once("indexer", self._indexer)

    def _indexer(self) -> Indexer:
        from markdown_rag.indexing.indexer import Indexer
        from markdown_rag.indexing.underway import Underway

        take_short_turns()  # no service: this is the first use in a process of somebody's own
        budget = self.settings.embedding_budget_tokens or 0
        underway = Underway(name_of(self.queue.owner), is_gone)
        return Indexer(self.store, self.embeddings, self.stat_cache, self.clock, budget=budget, underway=underway)

    @property
    def reading(self) -> Reading:
        """What questions are answered from; by keywords alone while the model cannot be used.

        Raises EmbeddingError where there is nothing of this model to read either.
        """
        try:
            store, vectors = self.store, self.embeddings
        except EmbeddingError as reason:
            return self._keyword_reading(reason)
        return self.once("reading", lambda: self.reading_of(store, vectors))

    def reading_of(self, store: Store, vectors: QueryVectors) -> Reading:
        """A collection opened for questions."""
        from markdown_rag.search.catalog import Catalog
        from markdown_rag.search.policy import SearchPolicy
        from markdown_rag.search.searcher import Searcher

        catalog = Catalog(store, self.clock)
        searcher = Searcher(
            store,
            vectors,
            catalog,
            roots=self.root_of,
            policy=SearchPolicy(),
            reranker=self.once("reranker", lambda: cross_encoder(self.settings)),
        )
        return Reading(store, catalog, searcher)

    def _keyword_reading(self, reason: EmbeddingError) -> Reading:
        """The provider's collection as it exists, without asking the provider. Else the reason."""
        from markdown_rag.store.opening import open_store

        model = self._existing_model()
        if model is None:
            raise reason
        store = self.once(f"store {model}", lambda: open_store(self.store_settings, model))
        return self.once(f"reading {model}", lambda: self.reading_of(store, Unreachable(reason)))

    def _existing_model(self) -> Model | None:
        """The largest collection at the address made with the chosen provider and model."""
        from markdown_rag.embeddings.registry import create_embedder
        from markdown_rag.store.opening import find_collections

        wanted = create_embedder(embedding_settings(self.settings)).card
        found = [
            info
            for info in find_collections(self.store_settings, self.server)
            if (info.model.provider, info.model.model) == (wanted.provider, wanted.model) and info.rows
        ]
        return max(found, key=lambda info: info.rows).model if found else None

    def root_of(self, workspace_id: str) -> Path | None:
        """Where a workspace is on this machine, None if it is not."""
        found = (w.root for w in self.workspaces.all() if w.id == workspace_id)
        return next(found, None)

    @property
    def job_target(self) -> str:
        """What a job writes to, in one comparable text."""
        return job_target(self.settings)

    def close(self) -> None:
        """Close what was built: the jobs first, as they use the rest, then last first.

        No error of one, not even a fault of the program, keeps the others open; it is in the log.
        """
        with self._lock:
            closers, self._closers, self._closed = self._closers, [], True
            queue = self._built.get("queue")
        for close in (*([queue.close] if queue else []), *reversed(closers)):
            try:
                close()
            except Exception as error:
                fault = None if isinstance(error, FastRagError) else error
                log.warning("a part did not close: %s", error, exc_info=fault)
