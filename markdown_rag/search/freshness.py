"""Whether a hit is still true: the file on disk against the hash of what was indexed.

Only files that are cited are read, once each, in blocks, up to a bound. Size and time are never taken as proof.
"""

from __future__ import annotations

import hashlib
import os
import stat
from enum import StrEnum
from pathlib import Path

_BLOCK = 1 << 20


class Freshness(StrEnum):
    """Where a cited file stands.

    fresh: its bytes are those that were indexed. changed: they are not. deleted: it is gone from a directory that is
    there. remote: its workspace is not on this machine. unchecked: it is too large to read for an answer, or could not
    be read.
    """

    FRESH = "fresh"
    CHANGED = "changed"
    DELETED = "deleted"
    REMOTE = "remote"
    UNCHECKED = "unchecked"


def freshness(root: Path | None, path: str, file_hash: str, limit: int) -> Freshness:
    """Compare a file with the sha256 that was indexed. root: the workspace on this machine, None if it is elsewhere."""
    if root is None:
        return Freshness.REMOTE
    try:
        # Without O_NONBLOCK, a FIFO that took the file's place would block the answer for ever.
        handle = os.open(root / path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0))
    except (FileNotFoundError, NotADirectoryError):
        # An unmounted root says nothing about its files.
        return Freshness.DELETED if root.is_dir() else Freshness.UNCHECKED
    except (OSError, ValueError):
        return Freshness.UNCHECKED
    try:
        return _compare(handle, file_hash, limit)
    finally:
        os.close(handle)


def _compare(handle: int, file_hash: str, limit: int) -> Freshness:
    try:
        found = os.fstat(handle)
        if not stat.S_ISREG(found.st_mode):
            return Freshness.CHANGED
        if found.st_size > limit:
            return Freshness.UNCHECKED
        digest = hashlib.sha256()
        left = limit + 1
        while left > 0 and (block := os.read(handle, min(_BLOCK, left))):
            digest.update(block)
            left -= len(block)
    except OSError:
        return Freshness.UNCHECKED
    return Freshness.FRESH if digest.hexdigest() == file_hash else Freshness.CHANGED
