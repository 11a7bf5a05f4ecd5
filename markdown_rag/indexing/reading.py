"""Read a file once: a path in, its bytes with the stat that belongs to them out (I5).

Bytes and stat come from one open handle, stat before and after. What changed in between is read once more, then left
for the next run. A path is opened without following a link and without waiting for a FIFO; a file that is not the one
the walk saw must lie where its path says.
"""

from __future__ import annotations

import os
import stat
from dataclasses import dataclass
from typing import NamedTuple

from markdown_rag.amounts import amount
from markdown_rag.clock import Clock
from markdown_rag.indexing.report import ProblemKind
from markdown_rag.markdown.names import MAX_FILE_BYTES

_ATTEMPTS = 2
_INT63 = (1 << 63) - 1  # SQLite's largest integer; inodes and times can be larger
_FLAGS = os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC


class Stamp(NamedTuple):
    """What a file system says about a file's content without reading it. Times in nanoseconds since the epoch."""

    size: int
    mtime_ns: int
    ctime_ns: int
    inode: int

    @classmethod
    def of(cls, result: os.stat_result) -> Stamp:
        """From a stat call. A time beyond the year 2262, which some file systems have, is that year's."""
        changed, moved = (max(-_INT63, min(_INT63, time)) for time in (result.st_mtime_ns, result.st_ctime_ns))
        return cls(result.st_size, changed, moved, result.st_ino & _INT63)


@dataclass(frozen=True, slots=True)
class Reading:
    """A file's bytes, the stamp they were read under, and the wall clock just before (ns)."""

    data: bytes
    stamp: Stamp
    taken_ns: int


@dataclass(frozen=True, slots=True)
class NotRead:
    """Why a file gave no bytes."""

    kind: ProblemKind
    reason: str


def open_and_read(root: str, path: str, seen: Stamp, clock: Clock) -> Reading | NotRead:
    """Read a file of a workspace that the walk saw with this stamp. root: the workspace's real path."""
    absolute = os.path.join(root, path)
    for _ in range(_ATTEMPTS):
        try:
            outcome = _read_once(absolute, seen, root, clock)
        except OSError as error:
            return _refusal(error, absolute)
        if outcome is not None:
            return outcome
    return NotRead(ProblemKind.CHANGING, "changed while it was read; the next run takes it")


def _read_once(absolute: str, seen: Stamp, root: str, clock: Clock) -> Reading | NotRead | None:
    """One attempt; None when the file changed under it."""
    with open(absolute, "rb", buffering=0, opener=_open) as file:
        taken_ns = clock.now_ns()
        before = os.fstat(file.fileno())
        if not stat.S_ISREG(before.st_mode):
            return NotRead(ProblemKind.NOT_REGULAR, "not a regular file any more")
        if Stamp.of(before) != seen and not lies_inside(os.path.dirname(absolute), root):
            return NotRead(ProblemKind.LINK, "its folder leads out of the workspace now")
        if before.st_size > MAX_FILE_BYTES:
            size = amount(before.st_size, "byte")
            return NotRead(ProblemKind.TOO_LARGE, f"{size}; at most {MAX_FILE_BYTES:,} are indexed")
        data = _all_bytes(file.fileno(), before.st_size)
        stamp = Stamp.of(before)
        settled = Stamp.of(os.fstat(file.fileno())) == stamp and len(data) == stamp.size
        return Reading(data, stamp, taken_ns) if settled else None


def _open(absolute: str, _flags: int) -> int:
    return os.open(absolute, _FLAGS)


def _all_bytes(descriptor: int, size: int) -> bytes:
    """Everything up to the end, or one byte more than expected if the file grew."""
    pieces = []
    left = size + 1
    while left and (piece := os.read(descriptor, left)):
        pieces.append(piece)
        left -= len(piece)
    return b"".join(pieces)


def _refusal(error: OSError, absolute: str) -> NotRead:
    if isinstance(error, FileNotFoundError | NotADirectoryError):
        return NotRead(ProblemKind.CHANGING, "went away while the run was under way; the next run judges it")
    if os.path.islink(absolute):
        return NotRead(ProblemKind.LINK, "became a link while the run was under way")
    return NotRead(ProblemKind.UNREADABLE, reason(error))


def reason(error: OSError) -> str:
    """The system's words, in lower case ("permission denied")."""
    return (error.strerror or type(error).__name__).lower()


def relative_inside(real: str, root: str) -> str | None:
    """The POSIX path of a real path inside a root ("" for the root itself), None outside."""
    if real == root:
        return ""
    prefix = root.rstrip(os.sep) + os.sep
    return real[len(prefix) :].replace(os.sep, "/") if real.startswith(prefix) else None


def lies_inside(folder: str, root: str) -> bool:
    """Whether a folder, links resolved, is still in the root."""
    return relative_inside(os.path.realpath(folder), root) is not None
