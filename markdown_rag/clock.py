"""Time as a part that can be exchanged, and the word that stops work.

Everything that waits or stamps asks a Clock, so a test moves time by hand instead of sleeping.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from datetime import UTC, datetime
from typing import Protocol

from markdown_rag.errors import Cancelled


class Clock(Protocol):
    """Where time comes from."""

    def now(self) -> float:
        """Seconds since the epoch, wall clock."""
        ...

    def now_ns(self) -> int:
        """Nanoseconds since the epoch, wall clock."""
        ...

    def monotonic(self) -> float:
        """Seconds that never go back, for measuring."""
        ...

    def wait(self, event: threading.Event, seconds: float) -> bool:
        """Wait until event is set or seconds have passed; whether it is set."""
        ...


class SystemClock:
    """The machine's clock."""

    def now(self) -> float:
        """Seconds since the epoch, wall clock."""
        return time.time()

    def now_ns(self) -> int:
        """Nanoseconds since the epoch, wall clock."""
        return time.time_ns()

    def monotonic(self) -> float:
        """Seconds that never go back, for measuring."""
        return time.monotonic()

    def wait(self, event: threading.Event, seconds: float) -> bool:
        """Wait until event is set or seconds have passed; whether it is set."""
        return event.wait(max(0.0, seconds))


class ManualClock:
    """A clock that moves only when told to, or when somebody waits on it. Starts at 1,000,000 s."""

    def __init__(self, start: float = 1_000_000.0) -> None:
        self._now = start
        self._lock = threading.Lock()

    def now(self) -> float:
        """Seconds since the epoch, as set by hand."""
        with self._lock:
            return self._now

    def now_ns(self) -> int:
        """The same in nanoseconds."""
        return int(self.now() * 1_000_000_000)

    def monotonic(self) -> float:
        """The same clock: it never goes back."""
        return self.now()

    def wait(self, event: threading.Event, seconds: float) -> bool:
        """Move the clock by seconds unless the event is set already."""
        if not event.is_set():
            self.advance(max(0.0, seconds))
        return event.is_set()

    def advance(self, seconds: float) -> None:
        """Move the clock forward."""
        with self._lock:
            self._now += seconds


class StopSignal:
    """A word that stops work: set once, seen by every part that checks it. Thread-safe."""

    def __init__(self) -> None:
        self.event = threading.Event()
        self._reason = ""

    def stop(self, reason: str = "Cancelled on request.") -> None:
        """Ask for the work to stop; the first reason is kept."""
        if not self.event.is_set():
            self._reason = reason
            self.event.set()

    @property
    def stopped(self) -> bool:
        """Whether somebody asked."""
        return self.event.is_set()

    def check(self) -> None:
        """Raise Cancelled with the reason if somebody asked."""
        if self.event.is_set():
            raise Cancelled(self._reason)


_STOP: ContextVar[StopSignal | None] = ContextVar("stop", default=None)


@contextmanager
def stoppable(stop: StopSignal) -> Iterator[None]:
    """Inside, whatever this thread calls may look whether the work it is for was stopped (``current_stop``)."""
    token = _STOP.set(stop)
    try:
        yield
    finally:
        _STOP.reset(token)


def current_stop() -> StopSignal | None:
    """The signal that stops the work of this thread, None where nothing does."""
    return _STOP.get()


def iso(seconds: float | None) -> str | None:
    """Seconds since the epoch as ISO 8601 in UTC ("2026-11-30T06:00:00+00:00"), None of None."""
    return None if seconds is None else datetime.fromtimestamp(seconds, UTC).isoformat(timespec="milliseconds")
