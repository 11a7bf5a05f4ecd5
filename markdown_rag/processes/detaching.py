"""The first steps of a background process: detach, mask, log; and how it tells its launcher how the start went."""

from __future__ import annotations

import contextlib
import json
import logging
import logging.handlers
import os
import signal
from pathlib import Path
from typing import Any

LOG_BYTES = 1_000_000


def detach() -> bool:
    """Leave session and terminal: False in the process that was started (it should return), True in the lasting one.

    To be called before any thread exists.
    """
    if os.fork():
        return False
    os.setsid()
    os.umask(0o077)
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    return True


class RotatingLog(logging.handlers.RotatingFileHandler):
    """The log file, at most two of a megabyte; what C libraries write to standard output and error goes there too."""

    def __init__(self, path: Path) -> None:
        super().__init__(path, maxBytes=LOG_BYTES, backupCount=1, encoding="utf-8")
        self.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(name)s %(message)s"))
        if path.stat().st_size > self.maxBytes:
            self.doRollover()
        self._divert()

    def doRollover(self) -> None:  # noqa: N802 - the library's name
        """Start a new file, and send the standard streams there."""
        super().doRollover()
        self._divert()

    def _divert(self) -> None:
        if self.stream is not None:
            for number in (1, 2):
                os.dup2(self.stream.fileno(), number)


class Reporter:
    """Tells the launcher, which may be gone, by lines of JSON on a file descriptor (-1: nobody listens)."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor

    def say(self, **values: Any) -> None:
        """One line."""
        if self._descriptor >= 0:
            with contextlib.suppress(OSError):
                os.write(self._descriptor, json.dumps(values).encode() + b"\n")

    def close(self) -> None:
        """No more to say."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1
