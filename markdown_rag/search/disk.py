"""A file of a workspace as it is now: a root and a relative path in, its bytes or why there are none out.

Nothing outside the workspace is ever read: the file is opened without following a link, and the folder it lies in must
still be inside the root. Nothing blocks: a FIFO in its place is refused.
"""

from __future__ import annotations

import os
import stat
from enum import StrEnum
from pathlib import Path

_FLAGS = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_CLOEXEC", 0)
_BLOCK = 1 << 20


class Absence(StrEnum):
    """Why a file gives no bytes.

    gone: it is not in its folder. away: the workspace's root is not there, so nothing can be said. replaced: something
    that is no regular file has its place, or its folder leads out of the workspace. unreadable: too large, or refused.
    """

    GONE = "gone"
    AWAY = "away"
    REPLACED = "replaced"
    UNREADABLE = "unreadable"


def read_file(root: Path, path: str, limit: int) -> bytes | Absence:
    """The bytes of a file of at most limit bytes. path: relative, POSIX."""
    absolute = os.path.join(root, path)
    try:
        handle = os.open(absolute, _FLAGS)
    except (FileNotFoundError, NotADirectoryError):
        # An unmounted root says nothing about its files.
        return Absence.GONE if root.is_dir() else Absence.AWAY
    except (OSError, ValueError):
        return Absence.REPLACED if _is_link(absolute) else Absence.UNREADABLE
    try:
        found = os.fstat(handle)
        if not stat.S_ISREG(found.st_mode) or not _lies_inside(os.path.dirname(absolute), root):
            return Absence.REPLACED
        return _all_bytes(handle, limit) if found.st_size <= limit else Absence.UNREADABLE
    except OSError:
        return Absence.UNREADABLE
    finally:
        os.close(handle)


def _all_bytes(handle: int, limit: int) -> bytes | Absence:
    pieces, left = [], limit + 1
    while left > 0 and (piece := os.read(handle, min(_BLOCK, left))):
        pieces.append(piece)
        left -= len(piece)
    return b"".join(pieces) if left > 0 else Absence.UNREADABLE


def _is_link(absolute: str) -> bool:
    try:
        return os.path.islink(absolute)
    except ValueError:  # a name no disk can hold
        return False


def _lies_inside(folder: str, root: Path) -> bool:
    real, base = os.path.realpath(folder), os.path.realpath(root)
    return real == base or real.startswith(base.rstrip(os.sep) + os.sep)
