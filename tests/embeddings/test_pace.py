"""How many requests are under way."""

from __future__ import annotations

import math
from queue import SimpleQueue

import pytest
from hypothesis import given
from hypothesis import strategies as st

from markdown_rag.clock import ManualClock
from markdown_rag.embeddings.base import Role
from markdown_rag.embeddings.pace import ASK_LATER, PAUSE_MOST_S, Pace, Ticket


def take(pace: Pace, role: Role = Role.DOCUMENT) -> Ticket:
    ticket = pace.start(role)
    assert isinstance(ticket, Ticket)
    return ticket


def test_no_more_documents_are_under_way_than_allowed() -> None:
    pace = Pace(2, 0, ManualClock())
    first = take(pace)
    take(pace)
    assert pace.start(Role.DOCUMENT) == ASK_LATER
    pace.end(first)
    take(pace)


def test_a_query_finds_a_place_when_documents_hold_all_of_theirs() -> None:
    pace = Pace(2, 0, ManualClock())
    take(pace)
    take(pace)
    take(pace, Role.QUERY)
    assert pace.start(Role.QUERY) == ASK_LATER


def test_documents_stay_back_while_a_query_waits() -> None:
    pace = Pace(1, 0, ManualClock())
    pace.query_waits(1)
    assert pace.start(Role.DOCUMENT) == ASK_LATER
    pace.query_waits(-1)
    take(pace)


def test_too_many_requests_halve_the_places_once_and_answers_bring_them_back() -> None:
    clock = ManualClock()
    pace = Pace(8, 0, clock)
    tickets = [take(pace) for _ in range(8)]
    clock.advance(1)
    for ticket in tickets:
        pace.slow_down(ticket, None)
        pace.end(ticket)
    assert pace.limit == 4
    pace.speed_up()
    assert pace.limit == 5, "back to near where it was too much, by a place an answer"
    pace.speed_up()
    assert 5 < pace.limit < 6, "carefully from there"
    for _ in range(60):
        pace.speed_up()
    assert pace.limit == 8


@pytest.mark.parametrize("role", list(Role))
def test_retry_after_makes_everybody_wait_that_long(role: Role) -> None:
    clock = ManualClock()
    pace = Pace(4, 0, clock)
    pace.slow_down(take(pace), 12.0)
    assert pace.start(role) == pytest.approx(12.0)
    clock.advance(12.0)
    take(pace, role)


@pytest.mark.parametrize("asked", [1e9, math.inf, math.nan, -math.inf])
def test_no_provider_stops_everybody_for_longer_than_some_minutes(asked: float) -> None:
    clock = ManualClock()
    pace = Pace(4, 0, clock)
    ticket = take(pace)
    pace.slow_down(ticket, asked)
    pace.end(ticket)
    clock.advance(PAUSE_MOST_S)
    take(pace, Role.QUERY)


def test_pauses_without_a_named_time_grow() -> None:
    clock = ManualClock()
    pace = Pace(4, 0, clock)
    waits = []
    for _ in range(8):
        ticket = take(pace)
        clock.advance(0.1)
        pace.slow_down(ticket, None)
        pace.end(ticket)
        wait = pace.start(Role.DOCUMENT)
        assert isinstance(wait, float)
        waits.append(wait)
        clock.advance(wait)
    assert waits == sorted(waits)
    assert waits[0] < 1 < waits[-1] <= 30


def test_a_place_rests_after_a_document_where_a_delay_is_set() -> None:
    clock = ManualClock()
    pace = Pace(1, 2.0, clock)
    pace.end(take(pace))
    assert pace.start(Role.DOCUMENT) == pytest.approx(2.0)
    pace.end(take(pace, Role.QUERY))
    clock.advance(2.0)
    take(pace)


def test_who_listens_hears_of_a_free_place() -> None:
    pace, inbox = Pace(1, 0, ManualClock()), SimpleQueue[None]()
    pace.listen(inbox)
    pace.end(take(pace))
    assert inbox.get_nowait() is None
    pace.unlisten(inbox)
    pace.end(take(pace))
    assert inbox.empty()


@given(steps=st.lists(st.sampled_from(["start", "query", "end", "slow", "fast", "time"]), max_size=60))
def test_the_places_stay_within_their_bounds_whatever_happens(steps: list[str]) -> None:
    clock = ManualClock()
    pace = Pace(3, 0, clock)
    held: list[Ticket] = []
    for step in steps:
        if step in ("start", "query"):
            ticket = pace.start(Role.QUERY if step == "query" else Role.DOCUMENT)
            held += [ticket] if isinstance(ticket, Ticket) else []
        elif step == "end" and held:
            pace.end(held.pop())
        elif step == "slow" and held:
            pace.slow_down(held[-1], None)
        elif step == "fast":
            pace.speed_up()
        elif step == "time":
            clock.advance(40)
        assert 1 <= pace.limit <= 3
        assert sum(t.role is Role.DOCUMENT for t in held) <= 3
        assert len(held) <= 4
    for ticket in held:
        pace.end(ticket)
    clock.advance(40)
    take(pace)
