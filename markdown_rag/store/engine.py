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
import functools
import json
import logging
import logging.handlers
import os
import secrets
import signal
import socket
import sys
import threading
from concurrent import futures
from pathlib import Path
from typing import Any

import numpy as np

from markdown_rag.store import endpoint as endpoints
from markdown_rag.store import schema
from markdown_rag.store.gate import Changes, Gate, Upkeep
from markdown_rag.store.living import Filter, Living
from markdown_rag.store.presence import Presence

CLOSE_SECONDS = 2.5  # then the process ends without merging on: the write-ahead log keeps every row
WORKERS = 16
MESSAGE_BYTES = 256 * 1024 * 1024
_LOOK_SECONDS = 1.0  # between looks at the endpoint file

log = logging.getLogger("markdown_rag.engine")


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
            interceptors=[Gate(token, self._changes, Upkeep(self._collection))],
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

    def _collection(self, name: str) -> Any:
        from milvus_lite.exceptions import MilvusLiteError  # noqa: PLC0415

        try:
            return self._database.get_collection(name)
        except MilvusLiteError:
            return None

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

    def _stay_findable(self) -> None:
        """Publish the endpoint again if its file was damaged; end if the database itself was taken away."""
        if not (self._data_dir / "LOCK").exists():
            log.warning("the database was removed: ending")
            self._leave.set()
        elif endpoints.read_endpoint(self._data_dir) != self.endpoint:
            endpoints.write_endpoint(self._data_dir, self.endpoint)

    def wait(self) -> None:
        """Serve until the last client has gone or leave was called, then close everything."""
        while not self._leave.wait(_LOOK_SECONDS):
            self._stay_findable()
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
    """The library's database over a directory: several threads may open a collection, and reading is ours.

    The library makes its collections and their tables in memory by names in its modules, so that is where ours are
    put. Its hash of a term is a loop over bytes in Python: words come again, so a cache saves a third of an insert.
    """
    from milvus_lite import db  # noqa: PLC0415
    from milvus_lite.analyzer import protocol  # noqa: PLC0415
    from milvus_lite.engine import collection, recovery  # noqa: PLC0415

    opening = threading.Lock()

    class Database(db.MilvusLite):  # type: ignore[misc]
        def get_collection(self, *arguments: Any, **options: Any) -> Any:
            with opening:  # two threads that open one collection would give it two logs
                return super().get_collection(*arguments, **options)

    db.Collection = _collection_class()
    collection.MemTable = recovery.MemTable = _memory_class()
    protocol.term_to_id = functools.lru_cache(maxsize=100_000)(protocol.term_to_id)
    return Database(str(data_dir))


def _memory_class() -> type:
    """The library's rows in memory, flushed as columns: it goes through Python values otherwise (0.2 ms a row)."""
    from milvus_lite.storage.memtable import MemTable  # noqa: PLC0415

    class ColumnarMemTable(MemTable):  # type: ignore[misc]
        def _build_data_table(self, rows: list[tuple[int, int]]) -> Any:
            table = self.to_arrow_table()
            if table.num_rows != len(rows):  # several partitions, which we do not use
                return super()._build_data_table(rows)
            return table.select(self._data_schema.names).cast(self._data_schema)

    return ColumnarMemTable


def _collection_class() -> type:
    """The library's collection with its reads answered from a view of living rows (living.py)."""
    from milvus_lite.analyzer.sparse import compute_tf  # noqa: PLC0415
    from milvus_lite.engine.collection import Collection  # noqa: PLC0415
    from milvus_lite.search.filter import evaluate_mask  # noqa: PLC0415

    class LivingCollection(Collection):  # type: ignore[misc]
        def __init__(self, *arguments: Any, **options: Any) -> None:
            self._living = Living(self, "vector", schema.SPARSE_FIELD)  # before the library starts its background work
            super().__init__(*arguments, **options)

        @property
        def unflushed(self) -> int:
            """Rows and deletions in memory."""
            return int(self._memtable.size())

        @property
        def num_entities(self) -> int:
            return self._living.view().count()

        def warm_later(self) -> None:
            """Prepare keyword searches, after the library's own work in the background."""
            if not self._bg_closed:
                self._bg_executor.submit(lambda: self._living.view().warm())

        def _bg_compact_and_index(self) -> None:
            super()._bg_compact_and_index()
            self._living.view().warm()

        def _passing(self, expression: str | None) -> Filter | None:
            if not expression:
                return None
            compiled = self._compile_filter(expression)
            return lambda table: evaluate_mask(compiled, table)

        def query(
            self, expr: str | None = None, output_fields: list[str] | None = None, limit: int | None = None,
            offset: int = 0, order_by_pk: bool = False, **_: Any,
        ) -> list[dict[str, Any]]:  # fmt: skip
            self._require_loaded()
            view = self._living.view()
            found = view.select(self._passing(expr))
            rows = view.read(found, self._fields(output_fields))
            if order_by_pk:
                rows.sort(key=lambda row: row[self._pk_name])
            return rows[offset : None if limit is None else offset + limit]

        def get(self, pks: list[str], output_fields: list[str] | None = None, **_: Any) -> list[dict[str, Any]]:
            self._require_loaded()
            view = self._living.view()
            return view.read(view.locate(pks), self._fields(output_fields))

        def search(  # noqa: PLR0917 - the library's signature
            self, query_vectors: list[Any], top_k: int = 10, metric_type: str | None = None,
            output_fields: list[str] | None = None, anns_field: str | None = None, expr: str | None = None,
            offset: int = 0, **_: Any,
        ) -> list[list[dict[str, Any]]]:  # fmt: skip
            self._require_loaded()
            view, passing = self._living.view(), self._passing(expr)
            answers = []
            for query in query_vectors:
                if metric_type == "BM25":
                    terms = compute_tf(self._bm25_analyzers[anns_field].analyze(query))
                    found, sign = view.keywords(terms, top_k + offset, passing), -1.0
                else:
                    found, sign = view.dense(np.asarray(query, dtype=np.float32), top_k + offset, passing), 1.0
                found = found[offset:]
                rows = view.read(found, self._fields(output_fields))
                answers.append(
                    [
                        {"id": row[self._pk_name], "distance": sign * one.score, "entity": row}
                        for one, row in zip(found, rows, strict=True)
                    ]
                )
            return answers

        def _fields(self, output_fields: list[str] | None) -> list[str]:
            """The columns to read, always with the key."""
            known = [field.name for field in self._schema.fields]
            return known if output_fields is None else [n for n in known if n in output_fields or n == self._pk_name]

    return LivingCollection


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
