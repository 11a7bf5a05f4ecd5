"""Watches a folder and says when something in it changed: by the system's events, or by looking now and then.

Events come in batches: QUIET_MS after the last write, at the latest MOST_MS after the first. Where the system sends
none (a network file system, its limit reached, the folder gone) the folder is looked at instead, so seldom that it
costs at most a hundredth of a processor; that also happens beside events, for those that were lost. Which of the two it
is, and why, can be asked at any time.
"""

from __future__ import annotations

import logging
import math
import os
import re
import stat
import threading
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from markdown_rag.clock import Clock
from markdown_rag.errors import FastRagError
from markdown_rag.markdown.names import is_document
from markdown_rag.paths import nfc

QUIET_MS = 300
MOST_MS = 1_500
LOOK_SECONDS = 2.0  # between looks where there are no events
CHECK_SECONDS = 60.0  # between looks beside events
SHARE = 100  # a look is followed by this many times its own duration of rest

_RULES = (".gitignore", ".git")  # files that change which files count; .git itself: a checkout

_REMOTE = frozenset(
    {
        "9p", "afs", "cifs", "davfs", "drvfs", "fuse.rclone", "fuse.s3fs", "fuse.sshfs", "nfs", "nfs4", "prl_fs",
        "smb3", "smbfs", "vboxsf", "virtiofs",
    }
)  # fmt: skip

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Watched:
    """How a folder is watched. by_events: else by looking; reason: why not by events. trouble: of the last look."""

    root: Path
    by_events: bool
    reason: str
    trouble: str


class Watch:
    """One folder, in a thread of its own until it is closed or nobody wants it.

    changed: called with the folder (relative, "" for all of it) in which something changed or may have; it looks for
    itself. wanted: asked now and then; owed: asked while it is quiet, whether all of it has to be looked at now.
    dot_folders: names or paths of those that count; others are somebody's own.
    """

    def __init__(
        self,
        root: Path,
        changed: Callable[[str], None],
        wanted: Callable[[], bool],
        clock: Clock,
        *,
        owed: Callable[[], bool] = lambda: False,
        dot_folders: frozenset[str] = frozenset(),
        events: bool = True,
    ) -> None:
        self._root = root
        self._changed = changed
        self._wanted = wanted
        self._owed = owed
        self._clock = clock
        self._dot_folders = dot_folders
        self._stop = threading.Event()
        self._events = events
        self._reason = "" if events else "events are off"
        self._trouble = ""
        self._rest = 0.0
        self._thread = threading.Thread(target=self._run, name=f"watch {root.name}", daemon=True)
        self._thread.start()

    @property
    def state(self) -> Watched:
        """How it is going."""
        return Watched(self._root, self._events, self._reason, self._trouble)

    @property
    def over(self) -> bool:
        """Whether it has ended."""
        return not self._thread.is_alive()

    def close(self, seconds: float = 2.0) -> None:
        """End it. Safe to call twice."""
        self._stop.set()
        self._thread.join(seconds)

    def _run(self) -> None:
        self._look("")  # what changed while nobody watched
        for folder in self._batches():
            if self._stop.is_set() or not self._wanted():
                return
            self._look(folder)

    def _look(self, folder: str | None) -> None:
        """Have a folder looked at; None: all of it, if that is owed."""
        started = self._clock.monotonic()
        try:
            if folder is None:
                if not self._owed():
                    return
                folder = ""
            self._changed(folder)
            self._trouble = ""
        except FastRagError as error:
            if str(error) != self._trouble:
                log.warning("watching %s: %s", self._root, error)
            self._trouble = str(error)
        if folder == "":
            self._rest = SHARE * (self._clock.monotonic() - started)

    def _batches(self) -> Iterator[str | None]:
        """Folders to look at, None when it is only time to ask whether anybody wants to know, or a look is owed."""
        off, refused, refused_at = self._reason, "", -math.inf
        while not self._stop.is_set():
            if self._clock.monotonic() - refused_at > CHECK_SECONDS:
                refused = ""  # a limit that was reached may be so no more
            reason = off or refused or self._obstacle()
            if not reason:
                self._events, self._reason = True, ""
                try:
                    yield from self._by_events()
                except (OSError, RuntimeError) as error:  # the limit of watches is reached
                    refused, refused_at = str(error), self._clock.monotonic()
                if self._stop.is_set():
                    return
                reason = refused or self._obstacle() or "the folder was replaced"
            if reason != self._reason:
                log.warning("looking at %s now and then: %s", self._root, reason)
            self._events, self._reason = False, reason
            self._clock.wait(self._stop, max(LOOK_SECONDS, self._rest))
            yield ""

    def _obstacle(self) -> str:
        """Why events cannot be relied on, "" if they can."""
        if _identity(self._root) is None:
            return "the folder is not there"
        kind = _remote_kind(self._root)
        return f"{kind} sends no events" if kind else ""

    def _by_events(self) -> Iterator[str | None]:
        from watchfiles import watch  # noqa: PLC0415 - most processes watch nothing

        folder_watched = _identity(self._root)
        checked = -math.inf  # the first time there is quiet: what happened before events flowed
        for changes in watch(
            self._root,
            watch_filter=None,
            debounce=MOST_MS,
            step=QUIET_MS,
            stop_event=self._stop,
            rust_timeout=int(LOOK_SECONDS * 1000),
            yield_on_timeout=True,
            raise_interrupt=False,
            force_polling=False,
            ignore_permission_denied=True,
        ):
            if _identity(self._root) != folder_watched:
                return  # unmounted, or replaced: events would come from a folder nobody sees any more
            folder = common_folder(self._root, (path for _, path in changes), self._dot_folders)
            if folder is None and self._clock.monotonic() - checked > max(CHECK_SECONDS, self._rest):
                folder = ""
            if folder == "":
                checked = self._clock.monotonic()
            yield folder


def describe(watched: Watched) -> str:
    """How a folder is watched, for people."""
    how = "by events" if watched.by_events else f"by looking now and then ({watched.reason})"
    return f"{watched.root} {how}" + (f"; {watched.trouble}" if watched.trouble else "")


def _identity(root: Path) -> tuple[int, int] | None:
    """What tells a folder from another one of the same name; None where there is none."""
    try:
        found = root.stat()
    except OSError:
        return None
    return (found.st_dev, found.st_ino) if stat.S_ISDIR(found.st_mode) else None


def common_folder(root: Path, paths: Iterable[str], dot_folders: frozenset[str] = frozenset()) -> str | None:
    """The deepest folder, relative and POSIX, that holds every path that can matter; None where none can.

    Documents matter, rules for ignoring do, and names without a suffix, which may be folders. What an editor or git
    writes beside them does not, nor what is in a dot folder that is not one of dot_folders.
    """
    folders = [os.path.dirname(path) for path in paths if _matters(os.path.relpath(path, root), dot_folders)]
    if not folders:
        return None
    common = os.path.commonpath(folders)
    while not os.path.isdir(common) and len(common) > len(str(root)):
        common = os.path.dirname(common)
    relative = os.path.relpath(common, root)
    return "" if relative == "." or relative.startswith("..") else relative.replace(os.sep, "/")


def _matters(relative: str, dot_folders: frozenset[str]) -> bool:
    *folders, name = nfc(relative).split(os.sep)
    for depth, folder in enumerate(folders, start=1):
        if folder.startswith(".") and not dot_folders & {folder, "/".join(folders[:depth])}:
            return False
    return name in _RULES or is_document(name) or not (name.startswith(".") or os.path.splitext(name)[1])


def _remote_kind(root: Path) -> str:
    """The kind of a network file system that root lies on, "" for a local one or where the platform does not tell."""
    try:
        mounts = Path("/proc/self/mounts").read_bytes()
    except OSError:
        return ""
    kind = file_system(os.fsencode(root), mounts)
    return kind if kind in _REMOTE else ""


def file_system(path: bytes, mounts: bytes) -> str:
    """The kind of file system that an absolute path lies on, by the lines of ``/proc/self/mounts``."""
    best, kind = b"", b""
    for line in mounts.splitlines():
        _, place, found, *_ = line.split(b" ")
        # Blanks, tabs, newlines and backslashes are written in octal (proc(5)), other bytes as they are.
        place = re.sub(rb"\\([0-7]{3})", lambda octal: bytes([int(octal[1], 8)]), place)
        if len(place) >= len(best) and (path == place or path.startswith(place.rstrip(b"/") + b"/")):
            best, kind = place, found
    return kind.decode("ascii", "replace")
