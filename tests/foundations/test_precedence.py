"""Who goes first in a process that answers and indexes at once."""

from __future__ import annotations

import contextlib
import threading

import pytest

from markdown_rag.clock import ManualClock, SystemClock
from markdown_rag.precedence import MOST_SECONDS, TURN_SECONDS, Precedence


def test_a_step_waits_for_nobody_where_nobody_asks() -> None:
    precedence = Precedence(SystemClock())
    assert precedence.give_way()
    with precedence.question(), precedence.question():
        pass
    assert precedence.give_way(), "every question has been answered"


def test_a_step_waits_while_somebody_asks_and_goes_on_all_the_same() -> None:
    precedence = Precedence(SystemClock())
    with precedence.question():
        with precedence.question():
            assert not precedence.give_way()
        assert not precedence.give_way(), "one question is still open"


def test_a_step_goes_on_as_soon_as_the_answer_is_there() -> None:
    precedence = Precedence(SystemClock())
    asked, answered = threading.Event(), threading.Event()

    def ask() -> None:
        with precedence.question():
            asked.set()
            answered.wait()

    thread = threading.Thread(target=ask)
    thread.start()
    asked.wait()
    assert not precedence.give_way()
    answered.set()
    thread.join()
    assert precedence.give_way()


def test_a_question_that_fails_holds_nobody_up() -> None:
    precedence = Precedence(SystemClock())
    with contextlib.suppress(ZeroDivisionError), precedence.question():
        _ = 1 // 0
    assert precedence.give_way()


def test_under_questions_without_end_steps_have_their_turns() -> None:
    clock = ManualClock()
    precedence = Precedence(clock)
    with precedence.question():
        waited = []
        for _ in range(3):
            started = clock.monotonic()
            assert not precedence.give_way()
            waited.append(clock.monotonic() - started)
            clock.advance(TURN_SECONDS * 0.6)
    assert waited == pytest.approx([MOST_SECONDS, 0.0, MOST_SECONDS])
