"""The embedded engine's process: ``python -m markdown_rag.store.daemon DATA_DIR``.

The database (engine.py) behind gRPC on a private unix socket, or on the loopback interface where sockets cannot be
used: one process a data directory, shared by every process that uses it. It ends on SIGTERM and soon after its last
client has gone, and closes the database either way. It reports its process id, then readiness or why it cannot serve,
as lines of JSON on the file descriptor given by ``--ready-fd``.
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
from pathlib import Path
from typing import Any

from markdown_rag.store import endpoint as endpoints
from markdown_rag.store.engine import open_database, serve_database
from markdown_rag.store.gate import Activity, Changes, Gate
from markdown_rag.store.presence import Presence
from markdown_rag.store.rwlock import ReadersFirstLock

CLOSE_SECONDS = 2.5  # then the process ends without merging on: the write-ahead log keeps every row
_LOOK_SECONDS = 1.0  # between looks at the endpoint file

log = logging.getLogger("markdown_rag.engine")


class Engine:
    """One data directory, opened and served."""

    def __init__(self, data_dir: Path, *, loopback: bool = False) -> None:
        """Open the directory (raises milvus_lite's errors and OSError) and start to answer."""
        self._data_dir = data_dir
        self._leave = threading.Event()
        self._turns = ReadersFirstLock()
        self._activity = Activity()
        self._database = open_database(data_dir, self._turns, self._activity)
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
        gate = Gate(token, self._changes, self._activity, self._turns)
        server = serve_database(self._database, gate)
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
    parser = argparse.ArgumentParser(prog="markdown_rag.store.daemon")
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
