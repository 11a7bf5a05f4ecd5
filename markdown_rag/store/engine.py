"""The embedded engine's process: ``python -m markdown_rag.store.engine DATA_DIR``.

Milvus Lite as a library behind gRPC on a private unix socket (loopback with a token where sockets cannot be used):
one process a data directory, shared by every process that uses it. Added to the library: many readers or one writer
at a time (it loses sight of rows during a flush otherwise), a count of changes, segments merged and keyword postings
warmed after a flush, a clean end on SIGTERM and after the last client has gone. It reports readiness, or why it
cannot serve, as one line of JSON on the file descriptor given by ``--ready-fd``.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import logging
import logging.handlers
import os
import secrets
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent import futures
from pathlib import Path
from typing import Any

from markdown_rag.store import endpoint as endpoints
from markdown_rag.store.presence import Presence
from markdown_rag.store.rwlock import ReadersFirstLock

CLOSE_SECONDS = 2.5  # then the process ends without merging on: the write-ahead log keeps every row
WORKERS = 16
MESSAGE_BYTES = 256 * 1024 * 1024
SEARCHING_SECONDS = 5.0  # so long after a search, writers think of the next one

log = logging.getLogger("markdown_rag.engine")

_FREE = frozenset({"Connect", "GetVersion", "CheckHealth", "GetFlushState", "ListDatabases"})
_READS = frozenset(
    {
        "Search", "HybridSearch", "Query", "DescribeCollection", "HasCollection", "ShowCollections", "DescribeIndex",
        "GetLoadState", "GetLoadingProgress", "GetCollectionStatistics", "GetIndexState", "DescribeAlias",
        "GetIndexBuildProgress", "ShowPartitions", "HasPartition", "GetPartitionStatistics", "GetIndexStatistics",
    }
)  # fmt: skip
_ROW_WRITES = frozenset({"Insert", "Upsert", "Delete"})


class Gate:
    """A gRPC interceptor: token, readers-writer lock, change count, and what has to follow a write."""

    def __init__(self, token: str, changes: Changes, upkeep: Upkeep) -> None:
        self._token = token
        self._changes = changes
        self._upkeep = upkeep
        self._lock = ReadersFirstLock()

    def intercept_service(self, continuation: Callable[[Any], Any], details: Any) -> Any:
        """Wrap the handler of one call (the interface of grpc.ServerInterceptor)."""
        import grpc  # noqa: PLC0415 - only this process needs it

        handler = continuation(details)
        if handler is None or handler.unary_unary is None:
            return handler
        method = details.method.rpartition("/")[2]
        allowed = _authorised(details.invocation_metadata, self._token)
        call = handler.unary_unary

        def guarded(request: Any, context: Any) -> Any:
            if not allowed:
                context.abort(grpc.StatusCode.UNAUTHENTICATED, "wrong token")
            with self._turn(method):
                answer = call(request, context)
                self._upkeep.after(method, request)
            return answer

        return grpc.unary_unary_rpc_method_handler(guarded, handler.request_deserializer, handler.response_serializer)

    @contextlib.contextmanager
    def _turn(self, method: str) -> Iterator[None]:
        if method in _FREE:
            yield
        elif method in _READS:
            with self._lock.read():
                yield
        else:
            with self._lock.write():
                try:
                    yield
                finally:
                    self._changes.grow()


def _authorised(metadata: Any, token: str) -> bool:
    import base64  # noqa: PLC0415

    wanted = base64.b64encode(token.encode()).decode()
    return any(key == "authorization" and secrets.compare_digest(value, wanted) for key, value in metadata)


class Changes:
    """The data directory's change count, in a file of eight bytes that every client can read without asking us."""

    def __init__(self, data_dir: Path) -> None:
        self._file = os.open(data_dir / endpoints.CHANGES_FILE, os.O_RDWR | os.O_CREAT, 0o600)
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


class Upkeep:
    """What follows a call: flushing the rows in memory before they make searches slow, merging, warming."""

    QUIET_ROWS = 2000  # unflushed rows while nobody searches
    SEARCHED_ROWS = 200  # unflushed rows while somebody does: a search costs ~80 us for each

    def __init__(self, database: Any) -> None:
        self._database = database
        self._last_search = -SEARCHING_SECONDS

    def after(self, method: str, request: Any) -> None:
        """React to a call that was just answered; the caller still holds the lock that the call needed."""
        if method in {"Search", "HybridSearch"}:
            self._last_search = time.monotonic()
        elif method in _ROW_WRITES:
            collection = self._open(request.collection_name)
            if collection is not None and collection._memtable.size() >= self._limit():  # noqa: SLF001
                collection.flush()
        elif method in {"Flush", "LoadCollection"}:
            names = request.collection_names if method == "Flush" else [request.collection_name]
            for collection in filter(None, map(self._open, names)):
                if not collection._bg_closed:  # noqa: SLF001
                    collection._bg_executor.submit(warm_postings, collection)  # noqa: SLF001

    def _limit(self) -> int:
        searching = time.monotonic() - self._last_search < SEARCHING_SECONDS
        return self.SEARCHED_ROWS if searching else self.QUIET_ROWS

    def _open(self, name: str) -> Any:
        from milvus_lite.exceptions import MilvusLiteError  # noqa: PLC0415

        try:
            return self._database.get_collection(name)
        except MilvusLiteError:
            return None


def warm_postings(collection: Any) -> None:
    """Build the keyword postings of loaded segments, which the library leaves to the first search."""
    from milvus_lite.analyzer.sparse import bytes_to_sparse  # noqa: PLC0415
    from milvus_lite.index.sparse_factory import create_sparse_index, sparse_index_matches  # noqa: PLC0415

    for spec in tuple(collection._index_specs.values()):  # noqa: SLF001
        if spec.index_type != "SPARSE_INVERTED_INDEX":
            continue
        for segment in collection._segments_snapshot():  # noqa: SLF001
            known = segment.sparse_indexes.get(spec.field_name)
            if segment.num_rows and not sparse_index_matches(known, spec.metric_type, spec.build_params):
                packed = segment.table.column(spec.field_name).to_pylist()
                index = create_sparse_index(spec.metric_type, spec.build_params)
                index.build([bytes_to_sparse(item or b"") for item in packed])
                segment.sparse_indexes[spec.field_name] = index


class Engine:
    """One data directory, opened and served."""

    def __init__(self, data_dir: Path, *, loopback: bool = False) -> None:
        """Open the directory (raises milvus_lite's errors and OSError) and start to answer."""
        self._data_dir = data_dir
        self._leave = threading.Event()
        self._database = open_database(data_dir)
        self._changes = Changes(data_dir)
        token = secrets.token_hex(16)
        base = None if loopback else endpoints.socket_base(data_dir)
        self._sockets: list[Path] = []
        try:
            self._server, address = self._serve(token, base)
            listener, presence = self._listen(base)
        except BaseException:
            self._database.close()
            raise
        self.endpoint = endpoints.Endpoint(endpoints.PROTOCOL, os.getpid(), address, presence, token)
        self._presence = Presence(listener, token, self._leave.set)
        self._server.start()
        self._presence.start()
        endpoints.write_endpoint(data_dir, self.endpoint)

    def _serve(self, token: str, base: Path | None) -> tuple[Any, str]:
        import grpc  # noqa: PLC0415
        from milvus_lite.adapter.grpc.servicer import MilvusServicer  # noqa: PLC0415
        from pymilvus.grpc_gen import milvus_pb2_grpc  # noqa: PLC0415

        server = grpc.server(
            futures.ThreadPoolExecutor(max_workers=WORKERS, thread_name_prefix="call"),
            interceptors=[Gate(token, self._changes, Upkeep(self._database))],
            options=[
                ("grpc.max_receive_message_length", MESSAGE_BYTES),
                ("grpc.max_send_message_length", MESSAGE_BYTES),
                # pymilvus pings every 10 s; the default answer to that is GOAWAY and a reconnect.
                ("grpc.http2.min_recv_ping_interval_without_data_ms", 1000),
                ("grpc.http2.max_ping_strikes", 0),
                ("grpc.so_reuseport", 0),
            ],
        )
        milvus_pb2_grpc.add_MilvusServiceServicer_to_server(MilvusServicer(self._database), server)
        if base is None:
            port = server.add_insecure_port("127.0.0.1:0")
            return server, f"127.0.0.1:{port}"
        for old in base.parent.glob(f"{base.name}-*"):  # of engines that were killed: we hold the directory's lock
            old.unlink(missing_ok=True)
        path = base.with_name(f"{base.name}-{os.getpid()}.g")
        server.add_insecure_port(f"unix:{path}")
        self._sockets.append(path)
        return server, f"unix:{path}"

    def _listen(self, base: Path | None) -> tuple[socket.socket, str]:
        if base is None:
            listener = socket.create_server(("127.0.0.1", 0), backlog=128)
            return listener, f"tcp:127.0.0.1:{listener.getsockname()[1]}"
        path = base.with_name(f"{base.name}-{os.getpid()}.p")
        listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        listener.bind(str(path))
        listener.listen(128)
        self._sockets.append(path)
        return listener, f"unix:{path}"

    def leave(self) -> None:
        """Ask the engine to end; safe in a signal handler."""
        self._leave.set()

    def wait(self) -> None:
        """Serve until the last client has gone or leave was called, then close everything."""
        self._leave.wait()
        endpoints.withdraw_endpoint(self._data_dir, self.endpoint)
        self._presence.stop()
        _end_after(CLOSE_SECONDS)
        self._server.stop(grace=1.0).wait()
        for path in self._sockets:
            path.unlink(missing_ok=True)
        self._changes.close()
        self._database.close()


def _end_after(seconds: float) -> None:
    """End the process even if a merge takes longer: all rows are in the log or in files that are complete."""
    watchdog = threading.Timer(seconds, os._exit, args=(0,))
    watchdog.daemon = True
    watchdog.start()


def open_database(data_dir: Path) -> Any:
    """The library's database over a directory, safe to open collections from several threads."""
    from milvus_lite.db import MilvusLite  # noqa: PLC0415

    class Database(MilvusLite):  # type: ignore[misc]
        _opening = threading.Lock()

        def get_collection(self, *arguments: Any, **options: Any) -> Any:
            with self._opening:  # two threads that open one collection would give it two logs
                return super().get_collection(*arguments, **options)

    return Database(str(data_dir))


class _EngineLog(logging.handlers.RotatingFileHandler):
    """The log file, at most two of a megabyte; what C libraries write to standard error goes there as well."""

    def __init__(self, path: Path) -> None:
        super().__init__(path, maxBytes=1_000_000, backupCount=1, encoding="utf-8")
        if path.stat().st_size > self.maxBytes:
            self.doRollover()
        self._divert()

    def doRollover(self) -> None:  # noqa: N802 - the library's name
        super().doRollover()
        self._divert()

    def _divert(self) -> None:
        if self.stream is not None:
            for number in (1, 2):
                os.dup2(self.stream.fileno(), number)


def _report(ready_fd: int, **values: Any) -> None:
    """One line to the launcher, which may be gone."""
    if ready_fd >= 0:
        with contextlib.suppress(OSError):
            os.write(ready_fd, json.dumps(values).encode() + b"\n")


def main(arguments: list[str] | None = None) -> int:
    """Serve a data directory until nobody needs it. Exit code 0; 3 if it cannot be served."""
    parser = argparse.ArgumentParser(prog="markdown_rag.store.engine")
    parser.add_argument("data_dir", type=Path)
    parser.add_argument("--log", type=Path, required=True)
    parser.add_argument("--ready-fd", type=int, default=-1)
    parser.add_argument("--loopback", action="store_true")
    options = parser.parse_args(arguments)
    if os.fork():  # the launcher waits for this process only; the engine is nobody's child
        return 0
    os.setsid()
    os.umask(0o077)
    _report(options.ready_fd, pid=os.getpid())
    sys.setswitchinterval(0.001)  # searches are Python: a shorter slice keeps one from waiting for another
    logging.basicConfig(
        level=logging.WARNING, handlers=[_EngineLog(options.log)], format="%(asctime)s %(levelname)s %(message)s"
    )
    stopping = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stopping.set())
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        engine = Engine(options.data_dir, loopback=options.loopback)
    except Exception as error:
        log.exception("cannot serve %s", options.data_dir)
        _report(options.ready_fd, error=type(error).__name__, message=str(error))
        return 3
    _report(options.ready_fd, ready=True)
    if options.ready_fd >= 0:
        os.close(options.ready_fd)
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: engine.leave())
    if stopping.is_set():
        engine.leave()
    engine.wait()
    return 0


if __name__ == "__main__":
    sys.exit(main())
