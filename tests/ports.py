"""Ports at which nobody answers, held so that nobody else can be given them meanwhile."""

from __future__ import annotations

import contextlib
import socket
from collections.abc import Iterator


@contextlib.contextmanager
def refusing() -> Iterator[int]:
    """A port on 127.0.0.1 that refuses connections while the block lasts.

    It is bound and nobody listens. A server of our own that sets SO_REUSEPORT may take it over.
    """
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as held:
        held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        held.bind(("127.0.0.1", 0))
        yield held.getsockname()[1]
