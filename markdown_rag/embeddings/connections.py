"""HTTP connections that can be broken off: closing a provider ends its hung requests at once.

A thread that waits for a silent server cannot be stopped, and closing a socket does not wake it; shutting the socket
down does. So the sockets that a library opens are remembered for as long as they live.
"""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any
from weakref import WeakSet

if TYPE_CHECKING:
    import httpx2


class Connections:
    """The sockets of one provider. Thread-safe."""

    def __init__(self) -> None:
        self._sockets: WeakSet[socket.socket] = WeakSet()
        self._lock = threading.Lock()

    def watch(self, opened: Any) -> None:
        """Remember a socket."""
        if isinstance(opened, socket.socket):
            with self._lock:
                self._sockets.add(opened)

    def break_off(self) -> None:
        """Shut all of them down: whoever reads from one gets an error now."""
        with self._lock:
            sockets = list(self._sockets)
        for opened in sockets:
            with contextlib.suppress(OSError):
                opened.shutdown(socket.SHUT_RDWR)

    def client(self, timeout_s: float) -> httpx2.Client:
        """An HTTP client for the SDKs that take one. Every wait of a request is bounded by timeout_s."""
        import httpx2  # noqa: PLC0415  comes with the SDKs

        return httpx2.Client(timeout=timeout_s, follow_redirects=True, event_hooks={"request": [self._trace]})

    def _trace(self, request: httpx2.Request) -> None:
        request.extensions = {**request.extensions, "trace": self._traced}

    def _traced(self, event: str, info: Mapping[str, Any]) -> None:
        """Httpcore's public trace: steps that open a stream return it."""
        stream: Any = info.get("return_value")
        if event.endswith(".complete") and hasattr(stream, "get_extra_info"):
            self.watch(stream.get_extra_info("socket"))
