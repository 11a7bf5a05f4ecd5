"""What stands between a client's call and the embedded database: the token, turns, the count of changes."""

from __future__ import annotations

import base64
import contextlib
import os
import secrets
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from markdown_rag.clock import SystemClock
from markdown_rag.precedence import Precedence
from markdown_rag.store.endpoint import CHANGES_FILE
from markdown_rag.store.failures import TAKEN_AWAY
from markdown_rag.store.rwlock import ReadersFirstLock

SEARCHING_SECONDS = 5.0  # so long after a search, rows in memory are kept few for the next one
LINGER_SECONDS = 0.015  # so long after a search of a question, its other one or the look at generations arrives
TURN_SECONDS = 0.1  # of a writer that has waited: each of its steps also waits for the readers that are there

_FREE = frozenset({"Connect", "GetVersion", "CheckHealth", "GetFlushState", "ListDatabases"})
_READS = frozenset(
    {
        "Search", "HybridSearch", "Query", "DescribeCollection", "HasCollection", "ShowCollections", "DescribeIndex",
        "GetLoadState", "GetLoadingProgress", "GetCollectionStatistics", "GetIndexState", "DescribeAlias",
        "GetIndexBuildProgress", "ShowPartitions", "HasPartition", "GetPartitionStatistics", "GetIndexStatistics",
    }
)  # fmt: skip
_KEEPS_ROWS = frozenset({"LoadCollection", "CreateIndex", "Flush"})  # what is stored stays as it was
_OWN_TURNS = frozenset({"Insert", "Upsert", "Flush"})  # the database takes turns itself, in small pieces


class Changes:
    """The data directory's change count, in a file of eight bytes that every client can read without asking us."""

    def __init__(self, data_dir: Path) -> None:
        self._file = os.open(data_dir / CHANGES_FILE, os.O_RDWR | os.O_CREAT, 0o600)
        self._count = max(int.from_bytes(os.pread(self._file, 8, 0), "little"), time.time_ns())
        self._lock = threading.Lock()
        self.grow()  # a write may have been stored and never counted when the last engine died

    def grow(self) -> None:
        """Count one write."""
        with self._lock:
            self._count += 1
            os.pwrite(self._file, self._count.to_bytes(8, "little"), 0)

    def close(self) -> None:
        """Close the file."""
        os.close(self._file)


class Activity:
    """Who searches now, when somebody did last, and what follows for writers."""

    QUIET_ROWS = 2000  # unflushed rows while nobody searches: larger segments, fewer merges
    SEARCHED_ROWS = 500  # while somebody does: every search after a write looks through them

    def __init__(self) -> None:
        self._last_search = -SEARCHING_SECONDS
        self._searches = Precedence(SystemClock(), LINGER_SECONDS, TURN_SECONDS)

    @contextlib.contextmanager
    def search(self) -> Iterator[None]:
        """Inside, somebody searches."""
        self._last_search = time.monotonic()
        with self._searches.question():
            yield

    def give_way(self) -> bool:
        """Before a step of writing, outside of any turn: wait while somebody searches; whether nobody does."""
        return self._searches.give_way()

    def unflushed_limit(self) -> int:
        """How many rows may wait in memory."""
        searching = time.monotonic() - self._last_search < SEARCHING_SECONDS
        return self.SEARCHED_ROWS if searching else self.QUIET_ROWS


@contextlib.contextmanager
def written(turns: ReadersFirstLock, activity: Activity) -> Iterator[None]:
    """A writer's turn: after the searches under way; who has waited for them long enough waits for no new ones."""
    with turns.write(urgent=not activity.give_way()):
        yield


class Gate:
    """A gRPC interceptor (by shape): no call without the token; many readers or one writer; every write counted.

    is_whole: whether the database is still in its place; without that no call is carried out or reported as done, and
    lost is called.
    """

    def __init__(
        self,
        token: str,
        changes: Changes,
        activity: Activity,
        turns: ReadersFirstLock,
        *,
        is_whole: Callable[[], bool],
        lost: Callable[[], None],
    ) -> None:
        self._wanted = base64.b64encode(token.encode()).decode()
        self._changes = changes
        self._activity = activity
        self._turns = turns
        self._is_whole = is_whole
        self._lost = lost

    def intercept_service(self, continuation: Callable[[Any], Any], details: Any) -> Any:
        """Wrap the handler of one call (the interface of grpc.ServerInterceptor)."""
        import grpc  # noqa: PLC0415 - only the engine's process needs it

        handler = continuation(details)
        if handler is None or handler.unary_unary is None:
            return None  # unknown, or a stream: the embedded database has none
        method = details.method.rpartition("/")[2]
        allowed = self._authorised(details.invocation_metadata)

        def guarded(request: Any, context: Any) -> Any:
            if not allowed:
                context.abort(grpc.StatusCode.UNAUTHENTICATED, "wrong token")
            self._require_whole(method, context)
            with self._heard(method), self._turn(method):
                answer = handler.unary_unary(request, context)
            self._require_whole(method, context)  # what was written into a removed file is not stored
            return answer

        return grpc.unary_unary_rpc_method_handler(guarded, handler.request_deserializer, handler.response_serializer)

    def _authorised(self, metadata: Any) -> bool:
        return any(key == "authorization" and secrets.compare_digest(value, self._wanted) for key, value in metadata)

    def _require_whole(self, method: str, context: Any) -> None:
        import grpc  # noqa: PLC0415

        if method not in _FREE and not self._is_whole():
            self._lost()
            # Of the codes that say no, one that the client's library does not repeat over this connection.
            context.abort(grpc.StatusCode.INVALID_ARGUMENT, TAKEN_AWAY)

    @contextlib.contextmanager
    def _heard(self, method: str) -> Iterator[None]:
        """Searches are known from their arrival on; a write is not even taken apart before its time."""
        if method in {"Search", "HybridSearch"}:
            with self._activity.search():
                yield
        else:
            if method in _OWN_TURNS:  # the others wait as they take their turn
                self._activity.give_way()
            yield

    @contextlib.contextmanager
    def _turn(self, method: str) -> Iterator[None]:
        if method in _FREE:
            yield
        elif method in _READS:
            with self._turns.read():
                yield
        else:
            try:
                with contextlib.nullcontext() if method in _OWN_TURNS else written(self._turns, self._activity):
                    yield
            finally:
                if method not in _KEEPS_ROWS:
                    self._changes.grow()
