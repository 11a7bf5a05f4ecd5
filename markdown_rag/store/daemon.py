"""The embedded engine's process: ``python -m markdown_rag.store.daemon DATA_DIR``.

The database (engine.py) behind gRPC on a private unix socket, or on the loopback interface where sockets cannot be
used: one process a data directory, shared by every process that uses it. It ends on SIGTERM and soon after its last
client has gone, and closes the database either way; at once, and without writing anything, when the directory was taken
away. It works from inside the directory, from where a removed one cannot be made again. It reports its process id, then
readiness or why it cannot serve, as lines of JSON on the file descriptor given by ``--ready-fd``.
"""

from __future__ import annotations

import argparse
import logging
import os
import secrets
import signal
import sys
import threading
from pathlib import Path
from typing import Any

from markdown_rag.processes import sockets
from markdown_rag.processes.detaching import Reporter, RotatingLog, detach
from markdown_rag.processes.endpoint import Endpoint
from markdown_rag.processes.findable import Findable, end_after
from markdown_rag.processes.garbage import keep_what_is_loaded
from markdown_rag.processes.presence import Presence
from markdown_rag.store.endpoint import ENDPOINT_FILE, KIND
from markdown_rag.store.engine import open_database, serve_database
from markdown_rag.store.gate import Activity, Changes, Gate
from markdown_rag.store.rwlock import ReadersFirstLock

CLOSE_SECONDS = 2.5  # then the process ends without merging on: the write-ahead log keeps every row
_LOST_SECONDS = 0.5  # where there is nothing left to close
_ANSWER_SECONDS = 1.0  # for calls under way
LINGER_SECONDS = 2.0  # after the last client; with the closing of the database well under 5 s
_HERE = Path()

log = logging.getLogger("markdown_rag.engine")


class Engine:
    """One data directory, opened and served."""

    def __init__(self, data_dir: Path, *, loopback: bool = False) -> None:
        """Open the current directory, which data_dir names, and start to answer. The library's errors and OSError."""
        self._leave = threading.Event()
        self._lost = False
        self._turns = ReadersFirstLock()
        self._activity = Activity()
        self._database = open_database(data_dir, self._turns, self._activity, reach=_HERE)
        self._changes = Changes(data_dir)
        token = secrets.token_hex(16)
        base = None if loopback else sockets.socket_base(data_dir)
        self._sockets: list[Path] = []
        try:
            self._server, address = self._serve(token, base)
            listener, presence = sockets.listen(base, "p")
        except BaseException:
            self._database.close()
            raise
        if base is not None:
            self._sockets.append(Path(presence.partition(":")[2]))
        self.endpoint = Endpoint(KIND, os.getpid(), address, presence, token)
        self._presence = Presence(listener, token, KIND, self._leave.set, linger=LINGER_SECONDS)
        self._server.start()
        self._presence.start()
        self._findable = Findable(_HERE / ENDPOINT_FILE, self.endpoint, self._database.is_whole)

    def _serve(self, token: str, base: Path | None) -> tuple[Any, str]:
        is_whole = self._database.is_whole
        gate = Gate(token, self._changes, self._activity, self._turns, is_whole=is_whole, lost=self.leave)
        server = serve_database(self._database, gate)
        if base is None:
            port = server.add_insecure_port("127.0.0.1:0")
            return server, f"127.0.0.1:{port}"
        sockets.remove_stale(base)  # we hold the directory's lock
        path = base.with_name(f"{base.name}-{os.getpid()}.g")
        server.add_insecure_port(f"unix:{path}")
        self._sockets.append(path)
        return server, f"unix:{path}"

    def _stay_findable(self) -> None:
        """End if the database was taken away."""
        if not self._findable.keep(self._leave):
            self._lost = True
            self.leave()

    def leave(self) -> None:
        """Ask the engine to end; safe in a signal handler."""
        self._leave.set()

    def wait(self) -> None:
        """Serve until the last client has gone, leave was called or the database was taken away; close everything."""
        # In a thread of its own: a signal is heard here, also while the disk does not answer.
        threading.Thread(target=self._stay_findable, name="findable", daemon=True).start()
        self._leave.wait()
        # Without merging on, if need be: all rows are in the log or in files that are complete. And first of all: the
        # disk may not answer.
        end_after(CLOSE_SECONDS)
        whole = not self._lost and self._database.is_whole()
        if not whole:
            end_after(_LOST_SECONDS)
            log.warning("the database was taken away: ending without writing anything")
        self._findable.withdraw()
        self._presence.stop()
        self._server.stop(grace=_ANSWER_SECONDS).wait()
        sockets.remove(self._sockets)
        try:
            self._database.close()
        finally:
            self._changes.close()


def main(arguments: list[str] | None = None) -> int:
    """Serve a data directory until nobody needs it. Exit code 0; 3 if it cannot be served."""
    parser = argparse.ArgumentParser(prog="markdown_rag.store.daemon")
    parser.add_argument("data_dir", type=Path)
    parser.add_argument("--log", type=Path, required=True)
    parser.add_argument("--ready-fd", type=int, default=-1)
    parser.add_argument("--loopback", action="store_true")
    options = parser.parse_args(arguments)
    if not detach():
        return 0
    reporter = Reporter(options.ready_fd)
    reporter.say(pid=os.getpid())
    sys.setswitchinterval(0.001)  # searches are Python: a shorter slice keeps one from waiting for another
    logging.basicConfig(level=logging.WARNING, handlers=[RotatingLog(options.log)])
    stopping = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stopping.set())
    try:
        os.chdir(options.data_dir)
        engine = Engine(options.data_dir, loopback=options.loopback)
        keep_what_is_loaded()
    except Exception as error:
        log.exception("cannot serve %s", options.data_dir)
        held = type(error).__name__ == "DataDirLockedError"  # the library is engine.py's alone
        reporter.say(busy=held, error=type(error).__name__, message=str(error))
        return 3
    reporter.say(ready=True)
    reporter.close()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: engine.leave())
    if stopping.is_set():
        engine.leave()
    engine.wait()
    return 0


if __name__ == "__main__":
    sys.exit(main())
