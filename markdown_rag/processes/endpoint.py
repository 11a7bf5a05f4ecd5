"""Where a background process answers, and the connection that keeps it alive.

The process writes one small file: its addresses, a random token, its process id. A client reads it and opens the
*presence* connection: the process counts these, the kernel closes them when a client dies, and a process without any
leaves. The greeting on that connection is the proof that it lives, is who the file says, and has counted us: from then
on it stays until we let go. Whatever the file holds (nothing, garbage, the address of a dead or foreign process), the
answer is either a greeted connection or "nobody here".
"""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import socket
from dataclasses import asdict, dataclass
from pathlib import Path

GREETING_SECONDS = 2.0
_FILE_BYTES = 65_536  # far more than an endpoint needs: whatever else lies there is not read into memory


@dataclass(frozen=True, slots=True)
class Endpoint:
    """How to reach a process. kind: who it is, protocol included; its greeting says the same word for word.

    address: where it serves, in its own terms. presence: ``unix:PATH`` or ``tcp:HOST:PORT``. token: proves to it that
    the client could read this file.
    """

    kind: str
    pid: int
    address: str
    presence: str
    token: str


@dataclass(frozen=True, slots=True)
class Connection:
    """A living process that stays as long as this is open."""

    endpoint: Endpoint
    presence: socket.socket

    @property
    def alive(self) -> bool:
        """Whether the process is still there, as far as the kernel has told."""
        try:
            return self.presence.recv(1, socket.MSG_PEEK | socket.MSG_DONTWAIT) != b""
        except BlockingIOError:
            return True
        except OSError:
            return False

    def close(self) -> None:
        """Let go of the process. Safe to call twice."""
        self.presence.close()


def read_endpoint(path: Path, kind: str) -> Endpoint | None:
    """The endpoint a file names; None where it names none of this kind, or another user wrote it."""
    try:
        with path.open("rb") as file:
            if os.fstat(file.fileno()).st_uid != os.getuid():
                return None
            found = json.loads(file.read(_FILE_BYTES))
        endpoint = Endpoint(
            str(found["kind"]), int(found["pid"]), str(found["address"]), str(found["presence"]), str(found["token"])
        )
    except (OSError, ValueError, TypeError, KeyError, OverflowError, RecursionError):
        return None
    return endpoint if endpoint.kind == kind else None


def write_endpoint(path: Path, endpoint: Endpoint) -> None:
    """Publish an endpoint, readable by this user alone, whole or not at all. Raises OSError."""
    draft = path.with_name(f"{path.name}.{os.getpid()}.{secrets.token_hex(4)}")
    try:
        handle = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            json.dump(asdict(endpoint), file)
        draft.replace(path)
    except OSError:
        with contextlib.suppress(OSError):
            draft.unlink(missing_ok=True)
        raise


def withdraw_endpoint(path: Path, endpoint: Endpoint) -> None:
    """Remove the file if it still names this endpoint; one that cannot be removed names a process that is gone."""
    if read_endpoint(path, endpoint.kind) == endpoint:
        with contextlib.suppress(OSError):
            path.unlink()


def greeting(kind: str) -> bytes:
    """What a process of this kind answers to a client whose token is right."""
    return kind.encode() + b"\n"


def greet(endpoint: Endpoint) -> Connection | None:
    """A presence connection that the process has counted; None if nobody of that kind answers there."""
    try:
        connection = _dial(endpoint.presence)
    except (OSError, ValueError, OverflowError):
        return None
    expected, answer = greeting(endpoint.kind), b""
    try:
        connection.sendall(endpoint.token.encode("ascii", "replace") + b"\n")
        while len(answer) < len(expected) and (part := connection.recv(256)):
            answer += part
    except OSError:
        answer = b""
    if answer != expected:
        connection.close()
        return None
    connection.settimeout(None)
    return Connection(endpoint, connection)


def find(path: Path, kind: str) -> Connection | None:
    """The living process that a file names, or None."""
    endpoint = read_endpoint(path, kind)
    return None if endpoint is None else greet(endpoint)


def _dial(presence: str) -> socket.socket:
    how, _, place = presence.partition(":")
    family = socket.AF_UNIX if how == "unix" else socket.AF_INET
    connection = socket.socket(family, socket.SOCK_STREAM)
    try:
        connection.settimeout(GREETING_SECONDS)
        host, _, port = place.rpartition(":")
        connection.connect(place if how == "unix" else (host, int(port)))
    except (OSError, ValueError, OverflowError):
        connection.close()
        raise
    return connection
