"""What a user can rely on about time and stopping."""

import threading

import pytest

from markdown_rag.clock import ManualClock, StopSignal, SystemClock, iso
from markdown_rag.errors import Cancelled


def test_a_stop_is_seen_by_everyone_who_checks_and_keeps_the_first_reason() -> None:
    stop = StopSignal()
    stop.check()
    stop.stop("the user asked")
    stop.stop("too late")
    assert stop.stopped
    with pytest.raises(Cancelled, match="the user asked"):
        stop.check()


def test_a_manual_clock_moves_only_by_hand_or_by_waiting() -> None:
    clock, event = ManualClock(100.0), threading.Event()
    assert clock.now() == clock.monotonic() == 100.0
    assert not clock.wait(event, 5)
    assert clock.now_ns() == 105 * 10**9
    event.set()
    assert clock.wait(event, 5)
    assert clock.now() == 105


def test_the_system_clock_returns_at_once_when_the_event_is_set() -> None:
    event = threading.Event()
    event.set()
    assert SystemClock().wait(event, 60)
    assert not SystemClock().wait(threading.Event(), -1)


def test_times_are_told_in_utc() -> None:
    assert iso(0) == "1970-01-01T00:00:00.000+00:00"
    assert iso(None) is None
