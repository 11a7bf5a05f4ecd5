"""Finds a background process, or starts it: one each, however many look at once.

A client that finds no living one takes the start lock, looks again, and starts one detached. The lock falls when its
holder dies, and a lock that the process itself holds for life decides in the end: one that cannot get it reports
``busy`` and leaves, and its launcher goes on looking for the one that has it.

The process reports on a pipe, each line a JSON object: its pid at once, then ``{"ready": true}``, ``{"busy": true}`` or
``{"error": ..., "message": ...}``.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from markdown_rag.errors import StartError
from markdown_rag.processes.endpoint import Connection, find, read_endpoint

START_SECONDS = 60.0
_LOOK_SECONDS = 0.1  # between looks while somebody else starts or ends one
_REPORTS = 2  # lines a process writes: its pid, then how its start went
# Of the environment a process gets what an interpreter and its libraries need, and what its program adds.
_PASSED_ON = ("PATH", "HOME", "USER", "LANG", "TZ", "TMPDIR", "XDG_RUNTIME_DIR", "VIRTUAL_ENV")
_PASSED_PREFIXES = ("PYTHON", "LC_", "LD_", "DYLD_", "MILVUS_LITE_")


@dataclass(frozen=True, slots=True)
class Program:
    """A background process of ours. name: for messages. endpoint, kind: how it is found.

    lock: of those who start it. log: where its output goes; ``--log`` and ``--ready-fd`` are added to the arguments.
    module: run by this interpreter. environment: variables added to what every process needs. folder: where it runs.
    held, way_out: what to say where another process holds the place and does not answer.
    """

    name: str
    endpoint: Path
    kind: str
    lock: Path
    log: Path
    module: str
    arguments: tuple[str, ...]
    folder: Path
    environment: Mapping[str, str] = field(default_factory=dict)
    held: str = ""
    way_out: str = ""


def find_or_start(program: Program, deadline: float, on_busy: Callable[[], None] = lambda: None) -> Connection:
    """The living process, started if it does not run.

    deadline: of time.monotonic. on_busy: called whenever one holds the place and does not answer (it is starting,
    ending or stuck). Raises StartError for everything that keeps it from answering in time; an OSError is told by one.
    """
    try:
        return _find_or_start(program, deadline, on_busy)
    except OSError as error:  # no process or file more, a process of somebody else
        raise _not_started(program, error) from error


def _find_or_start(program: Program, deadline: float, on_busy: Callable[[], None]) -> Connection:
    found, held = find(program.endpoint, program.kind), False
    while found is None:
        if time.monotonic() > deadline:
            raise _late(program, held=held)
        with _start_lock(program, deadline):
            found = find(program.endpoint, program.kind) or _start(program, deadline)
        if found is None:
            held = held or time.monotonic() < deadline
            on_busy()
            time.sleep(_LOOK_SECONDS)
    return found


def _not_started(program: Program, error: Exception) -> StartError:
    return StartError(f"{program.name} could not be started: {error}.", see(program))


def _late(program: Program, *, held: bool) -> StartError:
    if held:
        words = program.held or f"{program.name} is held by another process that does not answer."
        return StartError(words, f"{program.way_out} {see(program)}".strip())
    return StartError(f"{program.name} did not start in time.", see(program))


def see(program: Program) -> str:
    """Where to read more."""
    return f"Details: {program.log}."


@contextlib.contextmanager
def _start_lock(program: Program, deadline: float) -> Iterator[None]:
    """Alone among the launchers of the program, or past the deadline."""
    try:
        handle = os.open(program.lock, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise StartError(f"{program.lock} cannot be written: {error.strerror or error}.") from error
    try:
        while not try_lock(handle):
            if time.monotonic() > deadline:
                break
            time.sleep(_LOOK_SECONDS)
        yield
    finally:
        os.close(handle)


def try_lock(handle: int) -> bool:
    """Take the lock on an open file; whether it is ours. It falls with the last process that holds the file open.

    A file system without locks (some network ones) counts as locked by us: two processes then are one too many, and
    harm nothing, since what they share has locks of its own.
    """
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:
        return True
    return True


def _start(program: Program, deadline: float) -> Connection | None:
    """Start one and connect; None if another one holds the place, for now, or at the deadline."""
    ready = _spawn(program)
    heard, ended = b"", False
    reports = select.poll()  # select() knows no file beyond the 1,024th
    reports.register(ready, select.POLLIN)
    try:
        while time.monotonic() < deadline:
            if reports.poll(_LOOK_SECONDS * 1000):
                part = os.read(ready, 65_536)
                heard, ended = heard + part, not part
                if ended or heard.count(b"\n") >= _REPORTS:
                    return _judge(program, heard)
            elif (found := find(program.endpoint, program.kind)) is not None:
                return found  # one whose launcher died while it was starting
    finally:
        os.close(ready)
        if not ended:
            _stop_if_useless(program, heard)
    return None


def _stop_if_useless(program: Program, heard: bytes) -> None:
    """End the process we started unless it is the one that serves."""
    pid = _reported(heard).get("pid")
    endpoint = read_endpoint(program.endpoint, program.kind)
    if pid is not None and (endpoint is None or endpoint.pid != pid):
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def _judge(program: Program, heard: bytes) -> Connection | None:
    """What the report of a process means."""
    report = _reported(heard)
    if report.get("ready"):
        return find(program.endpoint, program.kind)
    if report.get("busy"):
        return None
    reason = report.get("message", "it ended while starting")
    raise StartError(f"{program.name} could not start: {reason}.", see(program))


def _reported(heard: bytes) -> dict[str, Any]:
    """All the lines of a report together; what is not whole does not count."""
    report: dict[str, Any] = {}
    for line in heard.splitlines():
        with contextlib.suppress(ValueError, TypeError):
            report.update(json.loads(line))
    return report


def _spawn(program: Program) -> int:
    """Start it detached; the file descriptor on which it reports."""
    ready, theirs = os.pipe()
    # -P: the current directory is not searched for modules.
    command = [sys.executable, "-P", "-m", program.module, *program.arguments]
    command += ["--log", str(program.log), "--ready-fd", str(theirs)]
    try:
        with open(program.log, "ab", opener=_private) as output:
            subprocess.run(  # noqa: S603 - our own module, arguments are no shell text
                command,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                pass_fds=[theirs],
                env={**inherited_environment(), **program.environment},
                cwd=program.folder,
                check=True,  # it forks at once: this waits for the interpreter, not for the process
                timeout=START_SECONDS,
            )
    except (OSError, subprocess.SubprocessError) as error:
        os.close(ready)
        raise _not_started(program, error) from error
    finally:
        os.close(theirs)
    return ready


def _private(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)


def inherited_environment() -> dict[str, str]:
    """What every process of ours gets of this one's environment. No key of anybody's is in it."""
    passed = {k: v for k, v in os.environ.items() if k in _PASSED_ON or k.startswith(_PASSED_PREFIXES)}
    root = str(Path(__file__).parents[2])
    passed["PYTHONPATH"] = os.pathsep.join(filter(None, [root, passed.get("PYTHONPATH", "")]))
    return passed
