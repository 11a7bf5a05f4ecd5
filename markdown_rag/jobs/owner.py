"""Which process a job belongs to, and whether that process is still there.

A process is told by its pid, its start time, the boot and the pid namespace it lives in, never by a host's name: names
change and are shared. Where the platform keeps any of this to itself the answer is UNKNOWN, and the lease decides.
"""

from __future__ import annotations

import json
import os
import secrets
import sys
from dataclasses import asdict, dataclass
from enum import StrEnum
from pathlib import Path


class Presence(StrEnum):
    """What this process can tell about another. UNKNOWN: another boot, container or platform; only the lease tells."""

    PRESENT = "present"
    GONE = "gone"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Owner:
    """One queue of one process.

    realm: boot and pid namespace in which pid has a meaning. started: the kernel's start time of the process in that
    realm. Both are "" where the platform does not tell. queue: random, so that two queues of one process differ.
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


def presence(owner: Owner) -> Presence:
    """Whether the owner's process runs. GONE is certain: no such pid, a zombie, or the pid was given to another."""
    if owner.realm != _realm():
        return Presence.UNKNOWN
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
        boot = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
        return f"{boot} {os.readlink('/proc/self/ns/pid')}"
    except OSError:
        return ""


def _stat(pid: int) -> tuple[str, str]:
    """State and start time (clock ticks since boot) of a process from proc(5), fields 3 and 22; ("", "") if unseen."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return "", ""
    fields = text.rpartition(")")[2].split()  # field 2, the command in brackets, may hold blanks and brackets
    return (fields[0], fields[19]) if len(fields) > 19 else ("", "")
