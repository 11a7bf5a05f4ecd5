"""The serving side of presence: a process counts its clients and knows when the last one has gone.

The kernel closes a dead client's connection, so nobody has to ask whether a process still lives.
"""

from __future__ import annotations

import contextlib
import selectors
import socket
import threading
import time
from collections.abc import Callable

from markdown_rag.processes.endpoint import greeting

START_SECONDS = 15.0  # for the first client to come
_LOOK_SECONDS = 1.0  # between looks at what still keeps a process whose clients have gone


class Presence:
    """Counts connected clients on a listening socket, in a thread of its own, and calls gone when none is left.

    kind: what the greeting says. linger: seconds to stay after the last client. may_leave: asked then; while it says
    no, the process stays. gone is called once, after the listening socket is closed: who leaves greets nobody.
    """

    def __init__(
        self,
        listener: socket.socket,
        token: str,
        kind: str,
        gone: Callable[[], None],
        *,
        linger: float,
        may_leave: Callable[[], bool] = lambda: True,
    ) -> None:
        self._listener = listener
        self._expected = token.encode() + b"\n"
        self._greeting = greeting(kind)
        self._gone = gone
        self._linger = linger
        self._may_leave = may_leave
        self._wake_in, self._wake_out = socket.socketpair()
        self._stopping = False
        self._deadline: float | None = time.monotonic() + START_SECONDS
        self._clients: dict[socket.socket, bytes] = {}  # connection -> what it has sent so far
        self._greeted: set[socket.socket] = set()
        self._thread = threading.Thread(target=self._run, name="presence", daemon=True)

    @property
    def clients(self) -> int:
        """How many are connected now."""
        return len(self._greeted)

    def start(self) -> None:
        """Begin to count."""
        self._thread.start()

    def retire(self) -> None:
        """From now on leave as soon as the last client has gone."""
        self._linger = 0.0
        self._wake_out.send(b"r")

    def stop(self) -> None:
        """Stop counting and let go of all clients."""
        self._stopping = True
        self._wake_out.send(b"x")
        self._thread.join()
        self._wake_in.close()
        self._wake_out.close()

    def _run(self) -> None:
        with selectors.DefaultSelector() as selector:
            for source in (self._listener, self._wake_in):
                source.setblocking(False)
                selector.register(source, selectors.EVENT_READ)
            while not self._stopping:
                wait = None if self._deadline is None else max(0.0, self._deadline - time.monotonic())
                ready = [key.fileobj for key, _ in selector.select(wait)]
                if self._wake_in in ready:
                    self._wake_in.recv(64)
                    self._set_deadline()
                if self._listener in ready:
                    self._accept(selector)
                for connection in ready:
                    if isinstance(connection, socket.socket) and connection in self._clients:
                        self._hear(selector, connection)
                if not ready and self._is_over():
                    break
        self._listener.close()
        for connection in self._clients:
            connection.close()
        self._gone()

    def _is_over(self) -> bool:
        if self._deadline is None or time.monotonic() < self._deadline:
            return False
        if self._may_leave():
            return True
        self._deadline = time.monotonic() + _LOOK_SECONDS
        return False

    def _set_deadline(self) -> None:
        self._deadline = None if self._greeted else time.monotonic() + self._linger

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
                self._set_deadline()
                with contextlib.suppress(OSError):
                    connection.send(self._greeting)
            return
        selector.unregister(connection)
        del self._clients[connection]
        connection.close()
        if connection in self._greeted:
            self._greeted.remove(connection)
            self._set_deadline()
