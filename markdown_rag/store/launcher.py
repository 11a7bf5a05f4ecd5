"""Finds the engine of a data directory, or starts it: one a directory, however many look at once.

A client that finds no living engine takes the directory's start lock, looks again, and starts one detached. The lock
falls when its holder dies, and the library's own lock on the data decides in the end: an engine that cannot get it
leaves, and its launcher goes on looking for the one that has it.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import select
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from markdown_rag.errors import StoreFormatError, StoreUnavailable
from markdown_rag.store.endpoint import Endpoint, greet, read_endpoint

START_SECONDS = 60.0
_LOOK_SECONDS = 0.1  # between looks while somebody else starts or ends an engine
_LOCK_FILE = "engine.lock"
_LOG_FILE = "engine.log"
_REPORTS = 2  # lines an engine writes: its pid, then how its start went
# An engine needs no keys: of the environment it gets what an interpreter and its libraries need.
_PASSED_ON = ("PATH", "HOME", "USER", "LANG", "TZ", "TMPDIR", "XDG_RUNTIME_DIR", "VIRTUAL_ENV")
_PASSED_PREFIXES = ("PYTHON", "LC_", "LD_", "DYLD_", "MILVUS_LITE_")


@dataclass(frozen=True, slots=True)
class EngineConnection:
    """A living engine that stays as long as this is open. uri and token are for a Milvus client."""

    uri: str
    token: str
    pid: int
    presence: socket.socket

    def close(self) -> None:
        """Let go of the engine. Safe to call twice."""
        self.presence.close()


def connect_engine(
    data_dir: Path, log_dir: Path | None = None, *, seconds: float = START_SECONDS, loopback: bool = False
) -> EngineConnection:
    """The engine of the directory, started if it does not run.

    data_dir: made if missing. log_dir: where engine.log is written (default: beside data_dir). loopback: start it on
    the loopback interface even where unix sockets work. Raises StoreFormatError for an old single-file database and
    StoreUnavailable for everything else that keeps an engine from answering within seconds.
    """
    deadline = time.monotonic() + seconds
    found = _find(data_dir)
    if found is not None:
        return found
    log_dir = log_dir or data_dir.parent
    _prepare(data_dir, log_dir)
    while time.monotonic() < deadline:
        with _start_lock(data_dir, deadline):
            found = _find(data_dir) or _start(data_dir, log_dir, deadline, loopback=loopback)
        if found is not None:
            return found
    raise StoreUnavailable(
        f"The index in {data_dir} is in use by another program.",
        f"End the program that holds it open, or set MILVUS_ADDRESS to another place. Details: {log_dir / _LOG_FILE}.",
    )


def _find(data_dir: Path) -> EngineConnection | None:
    endpoint = read_endpoint(data_dir)
    presence = None if endpoint is None else greet(endpoint)
    return None if endpoint is None or presence is None else _connection(endpoint, presence)


def _connection(endpoint: Endpoint, presence: socket.socket) -> EngineConnection:
    uri = endpoint.grpc if endpoint.grpc.startswith("unix:") else f"http://{endpoint.grpc}"
    return EngineConnection(uri, endpoint.token, endpoint.pid, presence)


def _prepare(data_dir: Path, log_dir: Path) -> None:
    if data_dir.is_file():
        raise StoreFormatError(
            f"{data_dir} is a single-file database of an older Milvus Lite, which cannot be read any more.",
            "Move it away (the index is made anew from your files) or set MILVUS_ADDRESS to another place.",
        )
    try:
        data_dir.mkdir(parents=True, exist_ok=True, mode=0o700)
        log_dir.mkdir(parents=True, exist_ok=True, mode=0o700)
    except OSError as error:
        raise _unwritable(data_dir, error) from error
    if not os.access(data_dir, os.W_OK | os.X_OK):
        raise _unwritable(data_dir, PermissionError("permission denied"))


def _unwritable(data_dir: Path, error: OSError) -> StoreUnavailable:
    return StoreUnavailable(
        f"The index directory {data_dir} cannot be written: {error.strerror or error}.",
        "Give your user write access to it, or set MILVUS_ADDRESS or MARKDOWN_RAG_CACHE_DIR to another place.",
    )


@contextlib.contextmanager
def _start_lock(data_dir: Path, deadline: float) -> Iterator[None]:
    """Alone among the directory's launchers, or past the deadline."""
    try:
        handle = os.open(data_dir / _LOCK_FILE, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise _unwritable(data_dir, error) from error
    try:
        while True:
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if time.monotonic() > deadline:
                    break
                time.sleep(_LOOK_SECONDS)
        yield
    finally:
        os.close(handle)


def _start(data_dir: Path, log_dir: Path, deadline: float, *, loopback: bool) -> EngineConnection | None:
    """Start an engine and connect; None if another one holds the data, for now."""
    ready = _spawn(data_dir, log_dir, loopback=loopback)
    heard, ended = b"", False
    try:
        while time.monotonic() < deadline:
            readable, _, _ = select.select([ready], [], [], _LOOK_SECONDS)
            if readable:
                part = os.read(ready, 65_536)
                heard, ended = heard + part, not part
                if ended or heard.count(b"\n") == _REPORTS:
                    return _judge(data_dir, log_dir, heard)
            else:
                found = _find(data_dir)  # an engine whose launcher died while it was starting
                if found is not None:
                    return found
    finally:
        os.close(ready)
        if not ended:
            _stop_if_useless(data_dir, heard)
    raise StoreUnavailable("The embedded engine did not start in time.", f"See {log_dir / _LOG_FILE}.")


def _stop_if_useless(data_dir: Path, heard: bytes) -> None:
    """End the engine we started unless it is the one that serves the directory."""
    pid = _reported(heard).get("pid")
    endpoint = read_endpoint(data_dir)
    if pid is not None and (endpoint is None or endpoint.pid != pid):
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def _judge(data_dir: Path, log_dir: Path, heard: bytes) -> EngineConnection | None:
    """What the engine's report means."""
    report = _reported(heard)
    if report.get("ready"):
        return _find(data_dir)
    if report.get("error") == "DataDirLockedError":
        time.sleep(_LOOK_SECONDS)  # the one that holds it is starting or ending
        return None
    reason = report.get("message", "it ended while starting")
    raise StoreUnavailable(f"The embedded engine could not open {data_dir}: {reason}.", f"See {log_dir / _LOG_FILE}.")


def _reported(heard: bytes) -> dict[str, Any]:
    """All the lines of a report together; what is not whole does not count."""
    report: dict[str, Any] = {}
    for line in heard.splitlines():
        with contextlib.suppress(ValueError):
            report.update(json.loads(line))
    return report


def _spawn(data_dir: Path, log_dir: Path, *, loopback: bool) -> int:
    """Start a detached engine; the file descriptor on which it reports its pid, then readiness or an error."""
    ready, theirs = os.pipe()
    log = log_dir / _LOG_FILE
    # -P: the current directory is not searched for modules.
    command = [sys.executable, "-P", "-m", "markdown_rag.store.daemon", str(data_dir)]
    command += ["--log", str(log), "--ready-fd", str(theirs)]
    command += ["--loopback"] if loopback else []
    try:
        with log.open("ab") as output:
            subprocess.run(  # noqa: S603 - our own module, arguments are no shell text
                command,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                pass_fds=[theirs],
                env=_environment(),
                cwd=data_dir,
                check=True,  # it forks at once: this waits for the interpreter, not for the engine
                timeout=START_SECONDS,
            )
    except (OSError, subprocess.SubprocessError) as error:
        os.close(ready)
        raise StoreUnavailable(f"The embedded engine could not be started: {error}.") from error
    finally:
        os.close(theirs)
    return ready


def _environment() -> dict[str, str]:
    passed = {k: v for k, v in os.environ.items() if k in _PASSED_ON or k.startswith(_PASSED_PREFIXES)}
    root = str(Path(__file__).parents[2])
    passed["PYTHONPATH"] = os.pathsep.join(filter(None, [root, passed.get("PYTHONPATH", "")]))
    passed["PYTHON_DOTENV_DISABLED"] = "1"  # pymilvus reads a .env beside the installation otherwise
    passed["GRPC_VERBOSITY"] = "NONE"
    # One search is one pass over memory: more threads gain nothing, and wait for each other on a busy machine.
    passed |= dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")
    return passed
