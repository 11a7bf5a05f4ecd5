"""Files' bytes in, their documents out, in the same order; for large runs in a process of its own.

Python runs one thread at a time. Chunking is half of an index run's processor time, and a search in the same process
would wait for it again and again. Apart, at a lower priority and giving way while somebody waits for an answer
(precedence.py), it takes what searches leave. The documents are the same: what a process that died had not answered is
chunked here.

The process is this module: ``python -m markdown_rag.indexing.chunker FD SIGN`` is sent a policy, then paths with bytes,
and sends a document for each, until the other end is closed.
"""

from __future__ import annotations

import contextlib
import logging
import math
import os
import subprocess
import sys
import threading
import time
from collections import deque
from collections.abc import Iterator
from multiprocessing.connection import Connection
from queue import SimpleQueue
from socket import socketpair

from markdown_rag.clock import StopSignal
from markdown_rag.markdown.chunking import ChunkPolicy, Document
from markdown_rag.markdown.decoding import Undecodable
from markdown_rag.markdown.documents import to_document
from markdown_rag.precedence import PRECEDENCE, Sign
from markdown_rag.processes.starting import inherited_environment

# Starting a process takes 0.2 s of processor time and 60 MB. It is worth that where so many files may have to be
# chunked, and the first of them were: after a checkout most files turn out to be what they were.
WORTH_FILES = 100
HERE_FILES = 30
AHEAD_FILES = 32  # files under way: enough to keep both processes busy
AHEAD_BYTES = 4 * 1024 * 1024
NICENESS = 5
PATIENCE_SECONDS = 300.0  # 16 MB of markdown, about the most in a file, take 20 s on a busy machine
LOOK_SECONDS = 0.5

log = logging.getLogger(__name__)


class Chunker:
    """Chunks files with one policy. ``put`` a file, ``take`` the document of the first one not taken yet.

    here: how many files are chunked in this process, when they are taken, before one is started. stop: what ends a wait
    for the other process at once. Not thread-safe.
    """

    def __init__(self, policy: ChunkPolicy, here: float = math.inf, stop: StopSignal | None = None) -> None:
        self._policy = policy
        self._stop = stop or StopSignal()
        self._here = here
        self._put = 0
        self._process: ChunkProcess | None = None
        self._waiting: deque[tuple[str, bytes, bool]] = deque()  # and whether the other process was asked
        self._bytes = 0

    @property
    def full(self) -> bool:
        """Whether a document should be taken before another file is put."""
        if self._process is None:
            return bool(self._waiting)
        return len(self._waiting) >= AHEAD_FILES or self._bytes >= AHEAD_BYTES

    def put(self, path: str, data: bytes) -> None:
        """Begin with a file. path: relative, POSIX."""
        self._put += 1
        if self._put > self._here and self._process is None:
            self._process = ChunkProcess.start(self._policy, self._stop)
            self._here = math.inf
        self._waiting.append((path, data, self._process is not None))
        self._bytes += len(data)
        if self._process is not None:
            self._process.send(path, data)

    def take(self) -> Document | Undecodable:
        """The document of the file that was put first."""
        path, data, asked = self._waiting.popleft()
        self._bytes -= len(data)
        document = self._process.receive() if asked and self._process is not None else None
        return to_document(data, path, self._policy) if document is None else document

    def close(self) -> None:
        """End the process, if there is one, whatever it is doing."""
        if self._process is not None:
            self._process.close()


def chunker(policy: ChunkPolicy, files: int, stop: StopSignal) -> Chunker:
    """A chunker for at most so many files; to be closed."""
    return Chunker(policy, HERE_FILES if files >= WORTH_FILES else math.inf, stop)


class ChunkProcess:
    """The other process. Once it has failed it answers None to everything.

    One that neither takes nor gives anything for patience_s (it was stopped, or the machine is out of memory) is
    killed, and so is one that is waited for when stop is set: that alone ends a call on its connection.
    """

    def __init__(
        self,
        process: subprocess.Popen[bytes],
        connection: Connection,
        stop: StopSignal,
        patience_s: float = PATIENCE_SECONDS,
    ) -> None:
        self._process = process
        self._connection = connection
        self._stop = stop
        self._patience_s = patience_s
        self._lost = False
        self._closed = threading.Event()
        self._waiting_since = math.inf
        self._watch = threading.Thread(target=self._attend, name="chunking", daemon=True)
        self._watch.start()

    @classmethod
    def start(cls, policy: ChunkPolicy, stop: StopSignal) -> ChunkProcess | None:
        """A new process, None where none can be started."""
        ours, theirs = socketpair()
        try:
            handed = [theirs.fileno(), PRECEDENCE.sign().fd]
            process = subprocess.Popen(  # noqa: S603 - our own module, no shell
                [sys.executable, "-P", "-m", "markdown_rag.indexing.chunker", *map(str, handed)],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,  # this one's may be the protocol's (I9)
                pass_fds=handed,
                env=inherited_environment(),
                # A terminal's interrupt is for us: it ends when we close or die. Not a session of its own: Linux shares
                # the processor out among sessions first, and a priority counts within one only (man 7 sched).
                process_group=0,
            )
        except OSError as error:
            log.warning("chunking in this process: %s", error)
            ours.close()
            return None
        finally:
            theirs.close()
        connection = Connection(ours.detach())
        try:
            started = cls(process, connection, stop)
        except (RuntimeError, MemoryError) as error:  # no thread to watch it
            log.warning("chunking in this process: %s", error)
            connection.close()
            process.kill()
            process.wait()
            return None
        started._send(policy)
        return started

    def send(self, path: str, data: bytes) -> None:
        """Ask for a document."""
        self._send((path, data))

    def receive(self) -> Document | Undecodable | None:
        """The next document; None if the process is gone."""
        if self._lost:
            return None
        try:
            with self._exchange():
                document: Document | Undecodable = self._connection.recv()
        except (OSError, EOFError) as error:
            self._lose(error)
            return None
        return document

    def _send(self, message: object) -> None:
        if not self._lost:
            try:
                with self._exchange():
                    self._connection.send(message)
            except OSError as error:
                self._lose(error)

    def _lose(self, error: Exception) -> None:
        log.warning("the chunking process ended, going on without it: %s", error or type(error).__name__)
        self._lost = True

    @contextlib.contextmanager
    def _exchange(self) -> Iterator[None]:
        self._waiting_since = time.monotonic()
        try:
            yield
        finally:
            self._waiting_since = math.inf

    def _attend(self) -> None:
        """Kill the process when it is waited for in vain."""
        while not self._closed.wait(LOOK_SECONDS):
            waited = time.monotonic() - self._waiting_since
            if waited > self._patience_s or (waited > 0 and self._stop.stopped):
                self._process.kill()
                return

    def close(self) -> None:
        """End it, whatever it is doing."""
        self._closed.set()
        self._watch.join()
        self._connection.close()
        self._process.kill()
        self._process.wait()


def serve(connection: Connection, sign: Sign) -> None:
    """Answer until the other end is closed, giving way as the sign says."""
    policy: ChunkPolicy = connection.recv()
    requests: SimpleQueue[tuple[str, bytes] | None] = SimpleQueue()

    def listen() -> None:
        # Always reading: a side that waits to send while the other does too would wait for ever.
        with contextlib.suppress(OSError, EOFError):
            while True:
                requests.put(connection.recv())
        requests.put(None)

    threading.Thread(target=listen, daemon=True).start()
    with contextlib.suppress(OSError):
        while (request := requests.get()) is not None:
            path, data = request
            sign.give_way()
            connection.send(to_document(data, path, policy))


if __name__ == "__main__":
    os.nice(NICENESS)
    serve(Connection(int(sys.argv[1])), Sign(int(sys.argv[2])))
