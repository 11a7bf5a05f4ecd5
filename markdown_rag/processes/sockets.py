"""Listening sockets that only this user can reach: unix sockets in a private directory, else loopback.

The directory is the guard (0700, ours, no link): whatever mode a socket in it has, nobody else gets to it. Where no
such directory exists, or its path is too long for a socket, the loopback interface serves, and the token is the guard.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
import socket
import stat
import tempfile
import time
from collections.abc import Iterable
from itertools import islice
from pathlib import Path

_PATH_BYTES = 100  # of the 107 (Linux) or 103 (macOS) that a socket's path may have
_SUFFIX_BYTES = 20  # what "-PID.x" may add
_LOOKED_AT, _YOUNG_SECONDS = 500, 3600  # sockets of others that are looked at, and how old they are at least


def socket_base(key: Path) -> Path | None:
    """A path prefix for the sockets of the process that serves key: private and short enough. None: no such place.

    The directory that key lies in is often too deep for a socket, so key's hash goes into the name.
    """
    digest = hashlib.sha256(os.fsencode(os.path.realpath(key))).hexdigest()[:16]
    for folder in _runtime_directories():
        base = folder / digest
        if len(os.fsencode(base)) <= _PATH_BYTES - _SUFFIX_BYTES and is_private(folder):
            return base
    return None


def remove_stale(base: Path) -> None:
    """Remove the sockets of earlier processes with this base; for who holds the lock on what they served.

    Some that killed processes left of other directories, which may never be served again, go with them.
    """
    remove(base.parent.glob(f"{base.name}-*"))
    remove(other for other in islice(base.parent.iterdir(), _LOOKED_AT) if _is_abandoned(other))


def _is_abandoned(path: Path) -> bool:
    """Whether it is a socket of an hour or more on which nobody listens, of a process that is gone.

    Whoever binds one listens at once; but macOS refuses too where a living process has not answered for long.
    """
    try:
        if not _is_of_the_gone(path):
            return False
        status = path.lstat()
        if not stat.S_ISSOCK(status.st_mode) or time.time() - status.st_mtime < _YOUNG_SECONDS:
            return False
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as caller:
            caller.setblocking(False)
            caller.connect(str(path))
    except ConnectionRefusedError:
        return True
    except OSError:  # it went away, or is busy: somebody's
        return False
    return False


def _is_of_the_gone(path: Path) -> bool:
    """Whether the process in a socket's name is certainly there no more."""
    named = re.search(r"-(\d{1,9})\.[a-z]$", path.name)
    try:
        if named is not None:
            os.kill(int(named[1]), 0)
    except ProcessLookupError:
        return True
    return False


def remove(paths: Iterable[Path]) -> None:
    """Remove sockets; one that cannot be removed is stale for the next."""
    for path in paths:
        with contextlib.suppress(OSError):
            path.unlink()


def listen(base: Path | None, letter: str) -> tuple[socket.socket, str]:
    """A listening socket and its address, ``unix:PATH`` or ``tcp:HOST:PORT``. Raises OSError."""
    if base is None:
        listener = socket.create_server(("127.0.0.1", 0), backlog=128)
        return listener, f"tcp:127.0.0.1:{listener.getsockname()[1]}"
    path = base.with_name(f"{base.name}-{os.getpid()}.{letter}")
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        listener.bind(str(path))
        listener.listen(128)
    except OSError:
        listener.close()
        raise
    return listener, f"unix:{path}"


def _runtime_directories() -> list[Path]:
    found = []
    runtime = os.environ.get("XDG_RUNTIME_DIR", "")
    if os.path.isabs(runtime) and os.path.isdir(runtime):
        found.append(Path(runtime) / "markdown-fastrag-mcp")
    found.extend(Path(root) / f"markdown-fastrag-mcp-{os.getuid()}" for root in (tempfile.gettempdir(), "/tmp"))  # noqa: S108
    return found


def is_private(folder: Path) -> bool:
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
