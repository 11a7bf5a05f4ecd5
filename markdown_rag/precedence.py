"""Who goes first where questions are answered and indexes are made at once: questions do.

All Python of a process shares one interpreter lock, and all processes of an index run the same processors, so a search
waits for both again and again while a run works. The run therefore gives way between two steps while anybody waits for
an answer: in the process that answers, in the one that chunks for it (which sees a ``Sign``), and in the engine, where
searches of all processes meet. Under questions without end it still has its turns: a fifth of the time, in the engine a
third. And the interpreter passes from thread to thread in short turns (``take_short_turns``), which nothing else in a
process that indexes changes.
"""

from __future__ import annotations

import functools
import math
import os
import sys
import tempfile
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import ParamSpec, TypeVar

from markdown_rag.clock import Clock, SystemClock

MOST_SECONDS = 0.2  # that background work waits,
TURN_SECONDS = 0.05  # and how long it then goes on unasked
SWITCH_SECONDS = 0.0005
LOOK_SECONDS = 0.002  # between two looks at a sign
_ASKED, _QUIET = b"\1", b"\0"

P = ParamSpec("P")
R = TypeVar("R")


class _GivingWay(ABC):
    """How long background work waits for questions, and how long it then goes on."""

    def __init__(self, clock: Clock, turn: float = TURN_SECONDS) -> None:
        self._clock = clock
        self._turn = turn
        self._turn_ends = -math.inf
        self._never = threading.Event()

    def give_way(self) -> bool:
        """Between two steps of background work: wait while somebody asks; whether nobody does."""
        began = now = self._clock.monotonic()
        if now < self._turn_ends:
            return self._busy(now) <= 0
        while (left := began + MOST_SECONDS - now) > 0:
            if (busy := self._busy(now)) <= 0:
                return True
            self._rest(min(left, busy))
            now = self._clock.monotonic()
        self._turn_ends = now + self._turn
        return False

    @abstractmethod
    def _busy(self, now: float) -> float:
        """For how many seconds somebody asks, as far as is known."""

    def _rest(self, seconds: float) -> None:
        self._clock.wait(self._never, seconds)


class Sign(_GivingWay):
    """Says to other processes whether somebody waits for an answer: a byte of a file that has no name.

    fd: the file's descriptor, to be handed on to a process that follows it.
    """

    def __init__(self, fd: int) -> None:
        super().__init__(SystemClock())
        self.fd = fd

    @classmethod
    def create(cls) -> Sign:
        """A sign that nobody follows yet. Raises OSError where no file can be made."""
        with tempfile.TemporaryFile(buffering=0) as file:
            file.write(_QUIET)  # not mapped: a disk without room for it would end the process
            return cls(os.dup(file.fileno()))

    def show(self, *, somebody_asks: bool) -> None:
        """Change what it says."""
        os.pwrite(self.fd, _ASKED if somebody_asks else _QUIET, 0)

    def _busy(self, now: float) -> float:  # noqa: ARG002
        return LOOK_SECONDS if os.pread(self.fd, 1, 0) == _ASKED else 0.0


class Precedence(_GivingWay):
    """The questions under way. Thread-safe.

    linger: seconds after a question during which its next one is waited for, where an answer takes several. turn: for
    how many seconds background work goes on after it has waited.
    """

    def __init__(self, clock: Clock, linger: float = 0.0, turn: float = TURN_SECONDS) -> None:
        super().__init__(clock, turn)
        self._linger = linger
        self._lock = threading.Lock()
        self._asking = 0
        self._nobody_asks = threading.Event()
        self._nobody_asks.set()
        self._last = -math.inf  # when the last answer was given
        self._sign: Sign | None = None

    @contextmanager
    def question(self) -> Iterator[None]:
        """Inside, somebody waits for an answer."""
        with self._lock:
            self._asking += 1
            self._tell()
        try:
            yield
        finally:
            with self._lock:
                self._asking -= 1
                self._last = self._clock.monotonic()
                self._tell()

    def _tell(self) -> None:
        """Let everybody know; the caller holds the lock."""
        if self._asking:
            self._nobody_asks.clear()
        else:
            self._nobody_asks.set()
        if self._sign is not None:
            with suppress(OSError):  # a disk that fails: the other process gives way too seldom or too often
                self._sign.show(somebody_asks=bool(self._asking))

    def sign(self) -> Sign:
        """What another process is to follow. Raises OSError where none can be made."""
        with self._lock:
            if self._sign is None:
                self._sign = Sign.create()
                self._tell()
            return self._sign

    def _busy(self, now: float) -> float:
        return self._last + self._linger - now if self._nobody_asks.is_set() else math.inf

    def _rest(self, seconds: float) -> None:
        self._clock.wait(self._never if self._nobody_asks.is_set() else self._nobody_asks, seconds)


PRECEDENCE = Precedence(SystemClock())  # of this process, as the interpreter lock is


def goes_first(answer: Callable[P, R]) -> Callable[P, R]:
    """A function that answers somebody who waits."""

    @functools.wraps(answer)
    def first(*arguments: P.args, **options: P.kwargs) -> R:
        with PRECEDENCE.question():
            return answer(*arguments, **options)

    return first


def take_short_turns() -> None:
    """From here on whoever returns from a wait gets the interpreter ten times as soon as by default.

    It holds for the whole process, so it is said by who owns one: a background process when it starts, any other when
    it first indexes. Searches beside an index run are 17 % quicker, the run takes as long.
    """
    sys.setswitchinterval(SWITCH_SECONDS)
