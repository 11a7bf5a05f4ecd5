"""Where the engine of a data directory answers, and the connection that keeps it alive.

An engine writes one small file into its data directory: its address, a random token, its process id. A client reads
it and opens the *presence* connection: the engine counts these, the kernel closes them when a process dies, and an
engine without any leaves. The engine's greeting on that connection is the proof that it lives and has counted us:
from then on it stays until we let go. Whatever the file holds (nothing, garbage, the address of a dead process), the
answer is either a greeted connection or "no engine here".
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import secrets
import socket
import stat
import tempfile
from dataclasses import asdict, dataclass
from pathlib import Path

PROTOCOL = 1  # of the file and the greeting; an engine of another protocol is not used
ENDPOINT_FILE = "engine.json"
CHANGES_FILE = "engine.changes"
_SOCKET_PATH_BYTES = 100  # of the 107 (Linux) or 103 (macOS) that a socket's path may have
_GREETING = b"markdown-rag engine 1\n"
_GREETING_SECONDS = 3.0


@dataclass(frozen=True, slots=True)
class Endpoint:
    """How to reach an engine. grpc: an address that gRPC understands; presence: ``unix:PATH`` or ``tcp:HOST:PORT``."""

    protocol: int
    pid: int
    grpc: str
    presence: str
    token: str


def read_endpoint(data_dir: Path) -> Endpoint | None:
    """The endpoint that the directory's file names; None where there is none that can be understood."""
    try:
        found = json.loads((data_dir / ENDPOINT_FILE).read_bytes())
        endpoint = Endpoint(
            int(found["protocol"]), int(found["pid"]), str(found["grpc"]), str(found["presence"]), str(found["token"])
        )
    except (OSError, ValueError, TypeError, KeyError, RecursionError):
        return None
    return endpoint if endpoint.protocol == PROTOCOL else None


def write_endpoint(data_dir: Path, endpoint: Endpoint) -> None:
    """Publish an endpoint, readable by this user alone, whole or not at all."""
    draft = data_dir / f"{ENDPOINT_FILE}.{os.getpid()}.{secrets.token_hex(4)}"
    handle = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(handle, "w", encoding="utf-8") as file:
        json.dump(asdict(endpoint), file)
    draft.replace(data_dir / ENDPOINT_FILE)


def withdraw_endpoint(data_dir: Path, endpoint: Endpoint) -> None:
    """Remove the file if it still names this endpoint."""
    if read_endpoint(data_dir) == endpoint:
        with contextlib.suppress(FileNotFoundError):
            (data_dir / ENDPOINT_FILE).unlink()


def greet(endpoint: Endpoint) -> socket.socket | None:
    """A presence connection that the engine has counted; None if no engine answers there."""
    try:
        connection = _dial(endpoint.presence)
    except (OSError, ValueError):
        return None
    try:
        connection.sendall(endpoint.token.encode("ascii", "replace") + b"\n")
        answer = b""
        while len(answer) < len(_GREETING) and (part := connection.recv(64)):
            answer += part
    except OSError:
        answer = b""
    if answer != _GREETING:
        connection.close()
        return None
    connection.settimeout(None)
    return connection


def _dial(presence: str) -> socket.socket:
    kind, _, place = presence.partition(":")
    family = socket.AF_UNIX if kind == "unix" else socket.AF_INET
    connection = socket.socket(family, socket.SOCK_STREAM)
    try:
        connection.settimeout(_GREETING_SECONDS)
        host, _, port = place.rpartition(":")
        connection.connect(place if kind == "unix" else (host, int(port)))
    except (OSError, ValueError, OverflowError):
        connection.close()
        raise
    return connection


def greeting() -> bytes:
    """What an engine answers to a client whose token is right."""
    return _GREETING


def socket_base(data_dir: Path) -> Path | None:
    """A path prefix for an engine's unix sockets: in a directory that belongs to this user alone and short enough.

    The data directory itself is often too deep for a socket, so its hash goes into the name. None: no such place.
    """
    digest = hashlib.sha256(os.fsencode(os.path.realpath(data_dir))).hexdigest()[:16]
    for folder in _runtime_directories():
        base = folder / digest
        if len(os.fsencode(base)) <= _SOCKET_PATH_BYTES - 20 and _is_private(folder):
            return base
    return None


def _runtime_directories() -> list[Path]:
    found = []
    runtime = os.environ.get("XDG_RUNTIME_DIR", "")
    if os.path.isabs(runtime) and os.path.isdir(runtime):
        found.append(Path(runtime) / "markdown-fastrag-mcp")
    found.extend(Path(root) / f"markdown-fastrag-mcp-{os.getuid()}" for root in (tempfile.gettempdir(), "/tmp"))  # noqa: S108
    return found


def _is_private(folder: Path) -> bool:
    """Make the directory if needed; whether it is a real one, ours, and closed to everybody else."""
    try:
        folder.mkdir(mode=0o700, exist_ok=True)
        status = folder.lstat()
        if not stat.S_ISDIR(status.st_mode) or status.st_uid != os.getuid():
            return False
        if stat.S_IMODE(status.st_mode) != 0o700:
            folder.chmod(0o700)
    except OSError:
        return False
    return True


def read_changes(data_dir: Path) -> int | None:
    """The directory's change count: grows before every acknowledged write. None before the first engine."""
    try:
        with (data_dir / CHANGES_FILE).open("rb") as file:
            data = file.read(8)
    except OSError:
        return None
    return int.from_bytes(data, "little") if len(data) == 8 else None
