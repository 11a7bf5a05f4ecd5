"""The engine's side of presence: it counts its clients and knows when the last one has gone.

The kernel closes a dead client's connection, so nobody has to ask whether a process still lives.
"""

from __future__ import annotations

import contextlib
import selectors
import socket
import threading
import time
from collections.abc import Callable

from markdown_rag.store.endpoint import greeting

LINGER_SECONDS = 2.0  # after the last client; with the closing of the database well under 5 s
START_SECONDS = 15.0  # for the first client to come


class Presence:
    """Counts connected clients on a listening socket, in a thread of its own, and calls gone when none is left.

    gone is called once, after the listening socket is closed: an engine that leaves greets nobody.
    """

    def __init__(self, listener: socket.socket, token: str, gone: Callable[[], None]) -> None:
        self._listener = listener
        self._expected = token.encode() + b"\n"
        self._gone = gone
        self._wake_in, self._wake_out = socket.socketpair()
        self._deadline: float | None = time.monotonic() + START_SECONDS
        self._clients: dict[socket.socket, bytes] = {}  # connection -> what it has sent so far
        self._greeted: set[socket.socket] = set()
        self._thread = threading.Thread(target=self._run, name="presence", daemon=True)

    def start(self) -> None:
        """Begin to count."""
        self._thread.start()

    def stop(self) -> None:
        """Stop counting and let go of all clients."""
        self._wake_out.send(b"x")
        self._thread.join()
        self._wake_in.close()
        self._wake_out.close()

    def _run(self) -> None:
        with selectors.DefaultSelector() as selector:
            for source in (self._listener, self._wake_in):
                source.setblocking(False)
                selector.register(source, selectors.EVENT_READ)
            while True:
                wait = None if self._deadline is None else max(0.0, self._deadline - time.monotonic())
                ready = [key.fileobj for key, _ in selector.select(wait)]
                if self._wake_in in ready:
                    break
                if self._listener in ready:
                    self._accept(selector)
                for connection in ready:
                    if isinstance(connection, socket.socket) and connection is not self._listener:
                        self._hear(selector, connection)
                if not ready and self._deadline is not None and time.monotonic() >= self._deadline:
                    break
        self._listener.close()
        for connection in self._clients:
            connection.close()
        self._gone()

    def _accept(self, selector: selectors.BaseSelector) -> None:
        with contextlib.suppress(OSError):
            connection, _ = self._listener.accept()
            connection.setblocking(False)
            selector.register(connection, selectors.EVENT_READ)
            self._clients[connection] = b""

    def _hear(self, selector: selectors.BaseSelector, connection: socket.socket) -> None:
        try:
            data = connection.recv(256)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        heard = self._clients[connection] + data
        self._clients[connection] = heard
        if data and connection not in self._greeted and self._expected.startswith(heard):
            if heard == self._expected:
                self._greeted.add(connection)
                self._deadline = None
                with contextlib.suppress(OSError):
                    connection.send(greeting())
            return
        selector.unregister(connection)
        del self._clients[connection]
        connection.close()
        if connection in self._greeted:
            self._greeted.remove(connection)
            if not self._greeted:
                self._deadline = time.monotonic() + LINGER_SECONDS
