"""Which process a job belongs to, and whether that process is still there.

A process is told by its pid, its start time, the boot and the pid namespace it lives in, never by a host's name: names
change and are shared. Linux tells them in /proc; elsewhere (macOS) ``ps`` tells start times, and that of process 1
stands for the boot. Where neither does the answer is UNKNOWN, and the lease decides. What ``ps`` said stands for
KEPT_SECONDS, as presence is asked for often and under locks; that a pid is nobody's any more is seen at once.
"""

from __future__ import annotations

import json
import os
import secrets
import subprocess
import sys
import time
from dataclasses import asdict, dataclass
from enum import StrEnum
from functools import lru_cache
from pathlib import Path

KEPT_SECONDS = 2.0

_PROC = Path("/proc")
_PS_SECONDS = 5.0
_MOST_TOLD = 1000
_PS_ENVIRONMENT = {"PATH": "/bin:/usr/bin", "LC_ALL": "C", "TZ": "UTC"}  # the same words in every process


class Presence(StrEnum):
    """What this process can tell about another. UNKNOWN: another boot, container or platform; only the lease tells."""

    PRESENT = "present"
    GONE = "gone"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Owner:
    """One queue of one process.

    realm: boot and pid namespace in which pid has a meaning. started: the start time of the process in that realm. Both
    are "" where the platform does not tell. queue: random, so that two queues of one process differ.
    heir_to: the target (of IndexRequest) whose jobs this owner takes over when theirs has died, and whose heirs will
    take over its own; "": it does not, and they end with it.
    """

    pid: int
    realm: str
    started: str
    queue: str
    heir_to: str = ""


def this_process(heir_to: str = "") -> Owner:
    """A new owner in the running process."""
    pid = os.getpid()
    return Owner(pid, _realm(), _stat(pid)[1], secrets.token_hex(8), heir_to)


def presence(owner: Owner, *, now: bool = False) -> Presence:
    """Whether the owner's process runs. GONE is certain: no such pid, a zombie, or the pid was given to another.

    now: take nothing that ``ps`` said before.
    """
    if owner.realm != _realm():
        return Presence.UNKNOWN
    if now:
        _told.pop(owner.pid, None)
    state, started = _stat(owner.pid)
    if state in {"Z", "X"} or (started and owner.started and started != owner.started):
        return Presence.GONE
    if started and owner.started:
        return Presence.PRESENT
    return _signalled(owner.pid)


def name_of(owner: Owner) -> str:
    """An owner as text, for what outlives its process."""
    return json.dumps(asdict(owner))


def is_gone(name: str) -> bool:
    """Whether the process that a name was made of is certainly not there any more."""
    try:
        return presence(Owner(**json.loads(name))) is Presence.GONE
    except (ValueError, TypeError):  # nobody's name, or another version's
        return True


def _signalled(pid: int) -> Presence:
    """Ask the kernel for the pid alone: a number that nobody has is gone, one that is taken may be anybody's."""
    if sys.platform == "win32":  # there, signal 0 is Ctrl+C
        return Presence.UNKNOWN
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return Presence.GONE
    except PermissionError:
        pass
    return Presence.UNKNOWN


def _realm() -> str:
    try:
        boot = (_PROC / "sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
        return f"{boot} {os.readlink(_PROC / 'self/ns/pid')}"
    except OSError:
        pass
    if _has_proc():
        return ""
    try:
        return _boot_by_ps()
    except LookupError:
        return ""


def _stat(pid: int) -> tuple[str, str]:
    """State and start time of a process, ("", "") if unseen.

    From proc(5), fields 3 and 22 (the time in clock ticks since boot); without /proc what ``ps`` says, to the second.
    """
    try:
        text = (_PROC / f"{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ("", "") if _has_proc() else _by_ps_lately(pid)
    fields = text.rpartition(")")[2].split()  # field 2, the command in brackets, may hold blanks and brackets
    return (fields[0], fields[19]) if len(fields) > 19 else ("", "")


def _has_proc() -> bool:
    return (_PROC / "self").exists()


@lru_cache(maxsize=1)  # of an answer; an error is not kept
def _boot_by_ps() -> str:
    """The boot, which stays the same. LookupError where ``ps`` does not tell this time."""
    started = _by_ps_lately(1)[1]
    if not started:
        raise LookupError
    return f"process 1 of {started}"


_told: dict[int, tuple[float, tuple[str, str]]] = {}  # when and what ps said of a pid, also that it did not answer


def _by_ps_lately(pid: int) -> tuple[str, str]:
    if _signalled(pid) is Presence.GONE:
        _told.pop(pid, None)
        return "", ""
    known = _told.get(pid)
    if known is None or time.monotonic() - known[0] > KEPT_SECONDS:
        if len(_told) > _MOST_TOLD:
            _told.clear()
        said = _by_ps(pid)
        known = _told[pid] = time.monotonic(), said
    return known[1]


def _by_ps(pid: int) -> tuple[str, str]:
    # Each column on its own: macOS takes all that follows a "=" for the heading.
    command = ["ps", "-o", "stat=", "-o", "lstart=", "-p", str(pid)]
    try:
        told = subprocess.run(  # noqa: S603 - the path is ours, no shell
            command, capture_output=True, text=True, env=_PS_ENVIRONMENT, timeout=_PS_SECONDS, check=False
        ).stdout
    except (OSError, ValueError, subprocess.SubprocessError):
        return "", ""
    state, _, started = told.strip().partition(" ")
    return state[:1], " ".join(started.split())
