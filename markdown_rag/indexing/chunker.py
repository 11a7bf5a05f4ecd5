"""Files' bytes in, their documents out, in the same order; for large runs in a process of its own.

Python runs one thread at a time. Chunking is half of an index run's processor time, and a search in the same process
would wait for it again and again. Apart and at a lower priority it takes what searches leave. The answers are the same:
what a process that died had not answered is chunked here.

The process is this module: ``python -m markdown_rag.indexing.chunker FD`` is sent a policy, then paths with bytes, and
sends a document for each, until the other end is closed.
"""

from __future__ import annotations

import contextlib
import logging
import os
import subprocess
import sys
import threading
from collections import deque
from collections.abc import Iterator
from multiprocessing.connection import Connection
from queue import SimpleQueue
from socket import socketpair

from markdown_rag.markdown.chunking import ChunkPolicy, Document
from markdown_rag.markdown.decoding import Undecodable
from markdown_rag.markdown.documents import to_document
from markdown_rag.processes.starting import inherited_environment

WORTH_FILES = 100  # below that, starting a process (0.2 s of processor time, 60 MB) costs more than it saves
AHEAD_FILES = 32  # files under way: enough to keep both processes busy
AHEAD_BYTES = 4 * 1024 * 1024
NICENESS = 5

log = logging.getLogger(__name__)


class Chunker:
    """Chunks files with one policy. ``put`` a file, ``take`` the document of the first one not taken yet.

    process None: here, when it is taken. Not thread-safe.
    """

    def __init__(self, policy: ChunkPolicy, process: ChunkProcess | None = None) -> None:
        self._policy = policy
        self._process = process
        self._waiting: deque[tuple[str, bytes]] = deque()
        self._bytes = 0

    @property
    def full(self) -> bool:
        """Whether a document should be taken before another file is put."""
        if self._process is None:
            return bool(self._waiting)
        return len(self._waiting) >= AHEAD_FILES or self._bytes >= AHEAD_BYTES

    def put(self, path: str, data: bytes) -> None:
        """Begin with a file. path: relative, POSIX."""
        self._waiting.append((path, data))
        self._bytes += len(data)
        if self._process is not None:
            self._process.send(path, data)

    def take(self) -> Document | Undecodable:
        """The document of the file that was put first."""
        path, data = self._waiting[0]
        document = None if self._process is None else self._process.receive()
        self._waiting.popleft()
        self._bytes -= len(data)
        if document is None:
            document = to_document(data, path, self._policy)
        return document


@contextlib.contextmanager
def chunker(policy: ChunkPolicy, files: int) -> Iterator[Chunker]:
    """A chunker for about this many files; its process, if it has one, ends with it."""
    process = ChunkProcess.start(policy) if files >= WORTH_FILES else None
    try:
        yield Chunker(policy, process)
    finally:
        if process is not None:
            process.close()


class ChunkProcess:
    """The other process. Once it has failed it answers None to everything."""

    def __init__(self, process: subprocess.Popen[bytes], connection: Connection) -> None:
        self._process = process
        self._connection = connection
        self._lost = False

    @classmethod
    def start(cls, policy: ChunkPolicy) -> ChunkProcess | None:
        """A new process, None where none can be started."""
        ours, theirs = socketpair()
        command = [sys.executable, "-P", "-m", "markdown_rag.indexing.chunker", str(theirs.fileno())]
        try:
            process = subprocess.Popen(  # noqa: S603 - our own module, no shell
                command,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,  # this one's may be the protocol's (I9)
                pass_fds=[theirs.fileno()],
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
        started = cls(process, Connection(ours.detach()))
        started._send(policy)
        return started

    @property
    def pid(self) -> int:
        """Its process id."""
        return self._process.pid

    def send(self, path: str, data: bytes) -> None:
        """Ask for a document."""
        self._send((path, data))

    def receive(self) -> Document | Undecodable | None:
        """The next document; None if the process is gone."""
        if self._lost:
            return None
        try:
            document: Document | Undecodable = self._connection.recv()
        except (OSError, EOFError) as error:
            self._lose(error)
            return None
        return document

    def _send(self, message: object) -> None:
        if not self._lost:
            try:
                self._connection.send(message)
            except OSError as error:
                self._lose(error)

    def _lose(self, error: Exception) -> None:
        log.warning("the chunking process ended, going on without it: %s", error or type(error).__name__)
        self._lost = True

    def close(self) -> None:
        """End it, whatever it is doing."""
        self._connection.close()
        self._process.kill()
        self._process.wait()


def serve(connection: Connection) -> None:
    """Answer until the other end is closed."""
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
            connection.send(to_document(data, path, policy))


if __name__ == "__main__":
    os.nice(NICENESS)
    serve(Connection(int(sys.argv[1])))
