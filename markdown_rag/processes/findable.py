"""Being found while a process serves, and ending in bounded time: the endpoint file kept, withdrawn, never put back."""

from __future__ import annotations

import logging
import os
import signal
import threading
from collections.abc import Callable
from pathlib import Path

from markdown_rag.processes.endpoint import Endpoint, read_endpoint, withdraw_endpoint, write_endpoint

_LOOK_SECONDS = 1.0  # between looks at the endpoint file

log = logging.getLogger(__name__)


class Findable:
    """The endpoint file of this process. Thread-safe, and safe in a signal handler.

    is_ours: whether what this process serves is still in its place, and its own; asked at every look.
    """

    def __init__(self, path: Path, endpoint: Endpoint, is_ours: Callable[[], bool]) -> None:
        """Publish it. Raises OSError."""
        self._path = path
        self._endpoint = endpoint
        self._is_ours = is_ours
        self._withdrawn = False
        self._lock = threading.RLock()  # a signal may come while its own thread withdraws
        write_endpoint(path, endpoint)

    def keep(self, leaving: threading.Event) -> bool:
        """Look after the file until leaving is set; False, earlier, where the place was taken away."""
        while not leaving.wait(_LOOK_SECONDS):
            if not self._is_ours():
                return False
            self.mend()
        return True

    def mend(self) -> None:
        """Publish it again if the file was damaged; not once it was withdrawn."""
        with self._lock:
            if self._withdrawn or read_endpoint(self._path, self._endpoint.kind) == self._endpoint:
                return
            try:
                write_endpoint(self._path, self._endpoint)
            except OSError as error:  # a full disk may have room again at the next look
                log.warning("cannot publish the endpoint: %s", error)

    def withdraw(self) -> None:
        """Be found no more. Safe to call twice."""
        with self._lock:
            self._withdrawn = True
            withdraw_endpoint(self._path, self._endpoint)


def still_names(path: Path, handle: int) -> bool:
    """Whether a path names the file that is open under this handle; True where the disk does not say."""
    try:
        return os.path.samestat(os.fstat(handle), path.stat())
    except (FileNotFoundError, NotADirectoryError):
        return False
    except OSError:
        return True


def end_after(seconds: float) -> None:
    """End the process even if closing takes longer; by a signal where the system has no thread left to watch."""
    watchdog = threading.Timer(seconds, os._exit, args=(0,))
    watchdog.daemon = True
    try:
        watchdog.start()
    except (RuntimeError, MemoryError):
        signal.setitimer(signal.ITIMER_REAL, seconds)
