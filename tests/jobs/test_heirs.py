"""Jobs whose service died: who takes them over, who leaves them alone, and when they end after all."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from markdown_rag.clock import StopSignal, SystemClock
from markdown_rag.database import Database
from markdown_rag.indexing.report import Progress
from markdown_rag.jobs.admission import Limits, Repeated
from markdown_rag.jobs.job import CANCEL_NOTE, GOES_ON_NOTE, Job, Status, ask_to_cancel, start
from markdown_rag.jobs.lease import HEIR_SECONDS, LEASE_SECONDS, MOST_ADOPTIONS, Estate, inherit
from markdown_rag.jobs.ledger import FILE_NAME, MIGRATIONS, Ledger, open_ledger
from markdown_rag.jobs.owner import Owner, Presence, this_process
from markdown_rag.jobs.queue import JobQueue

BOUND = 30.0
TARGET = "store and model"
NOW = 1_000_000.0

TRUTHS: dict[str, tuple[dict[str, Any], Estate]] = {
    "an heir takes over": ({"judge_is_heir": True}, Estate.MINE),
    "an heir takes over however late": ({"judge_is_heir": True, "lease_until": 0.0}, Estate.MINE),
    "an heir takes over what had none": ({"judge_is_heir": True, "has_heirs": False}, Estate.MINE),
    "others leave it to its heir": ({}, Estate.LEFT),
    "not for ever": ({"lease_until": NOW - HEIR_SECONDS}, Estate.ENDS),
    "nor by a clock that was set back": ({"lease_until": NOW + 3 * LEASE_SECONDS}, Estate.ENDS),
    "without heirs it ends": ({"has_heirs": False}, Estate.ENDS),
    "cancelled it ends": ({"judge_is_heir": True, "cancelled": True}, Estate.ENDS),
    "what killed its owners ends": ({"judge_is_heir": True, "adoptions": MOST_ADOPTIONS}, Estate.ENDS),
    "once less it goes on": ({"judge_is_heir": True, "adoptions": MOST_ADOPTIONS - 1}, Estate.MINE),
}


@pytest.mark.parametrize("name", TRUTHS)
def test_what_becomes_of_an_abandoned_job(name: str) -> None:
    given, expected = TRUTHS[name]
    base = {
        "judge_is_heir": False,
        "has_heirs": True,
        "cancelled": False,
        "adoptions": 0,
        "lease_until": NOW,
        "now": NOW,
    }
    assert inherit(**base | given) is expected


@pytest.fixture
def dead(tmp_path: Path) -> Iterator[tuple[Ledger, set[str]]]:
    """A ledger that takes the owners whose queue is in the set for dead."""
    gone: set[str] = set()

    def look(owner: Owner) -> Presence:
        return Presence.GONE if owner.queue in gone else Presence.PRESENT

    ledger = Ledger(Database(tmp_path / FILE_NAME, MIGRATIONS), look)
    yield ledger, gone
    ledger.close()


def orphaned(ledger: Ledger, gone: set[str], request: Any, heir_to: str = TARGET) -> Job:
    """A running job whose owner died."""
    owner = this_process(heir_to)
    _, job = ledger.submit(request, owner, Limits(), NOW)
    assert job is not None
    ledger.change(job.id, lambda queued: start(queued, NOW))
    gone.add(owner.queue)
    return job


def test_an_heir_gets_the_job_under_its_id_and_runs_it_from_the_start(dead, ask) -> None:
    ledger, gone = dead
    job = orphaned(ledger, gone, ask("a", target=TARGET))
    heir = this_process(TARGET)
    ledger.sweep(heir, 1e9, NOW)
    taken = ledger.get(job.id)
    assert (taken.owner, taken.status, taken.adoptions, taken.started_at) == (heir, Status.QUEUED, 1, None)
    assert taken.progress.note == GOES_ON_NOTE
    assert [each.id for each in ledger.claim(heir, 1, NOW)] == [job.id]


@pytest.mark.parametrize("heir_to", ["", "another store"])
def test_others_leave_it_and_its_place_until_its_heir_had_time_to_come(dead, ask, heir_to: str) -> None:
    ledger, gone = dead
    job = orphaned(ledger, gone, ask("a", target=TARGET))
    other = this_process(heir_to)
    ledger.sweep(other, 1e9, NOW + LEASE_SECONDS)
    assert ledger.get(job.id).status is Status.RUNNING
    ledger.sweep(other, 1e9, NOW + LEASE_SECONDS + HEIR_SECONDS)
    assert (ledger.get(job.id).status, ledger.get(job.id).resumable) == (Status.FAILED, True)


def test_a_job_cancelled_while_its_service_was_dead_is_cancelled(dead, ask) -> None:
    ledger, gone = dead
    job = orphaned(ledger, gone, ask("a", target=TARGET))
    ledger.change(job.id, lambda running: ask_to_cancel(running, CANCEL_NOTE, NOW))
    ledger.sweep(this_process(TARGET), 1e9, NOW)
    assert ledger.get(job.id).status is Status.CANCELLED


def test_a_job_that_ends_every_service_that_runs_it_fails_and_says_so(dead, ask) -> None:
    ledger, gone = dead
    job = orphaned(ledger, gone, ask("a", target=TARGET))
    for _ in range(MOST_ADOPTIONS):
        heir = this_process(TARGET)
        ledger.sweep(heir, 1e9, NOW)
        gone.add(heir.queue)
    ledger.sweep(this_process(TARGET), 1e9, NOW)
    failed = ledger.get(job.id)
    assert failed.status is Status.FAILED
    assert failed.error == f"The service ended {MOST_ADOPTIONS + 1} times while this job ran; it may be what ends it."


def test_a_queue_that_closes_leaves_its_jobs_to_the_next_one(ledger: Ledger, ask) -> None:
    begun, finished = threading.Event(), []

    def slow(_job: Job, _progress: Progress, stop: StopSignal) -> Mapping[str, Any]:
        begun.set()
        stop.event.wait(BOUND)
        stop.check()
        return {}

    def quick(job: Job, _progress: Progress, _stop: StopSignal) -> Mapping[str, Any]:
        finished.append(job.id)
        return {"done": True}

    first = JobQueue(ledger, slow, SystemClock(), heir_to=TARGET)
    running = first.submit(ask("a", target=TARGET)).job
    waiting = first.submit(ask("b", target=TARGET)).job
    assert begun.wait(BOUND)
    first.close()
    assert ledger.get(running.id).status is Status.QUEUED
    second = JobQueue(ledger, quick, SystemClock(), heir_to=TARGET)
    ended = [second.wait(job.id, BOUND).job for job in (running, waiting)]
    second.close()
    assert [(job.status, job.result) for job in ended] == [(Status.SUCCEEDED, {"done": True})] * 2
    assert finished == [running.id, waiting.id]


def test_a_cancelled_job_is_not_left_to_the_next_one(ledger: Ledger, ask) -> None:
    begun = threading.Event()

    def stubborn(_job: Job, _progress: Progress, stop: StopSignal) -> Mapping[str, Any]:
        begun.set()
        stop.event.wait(BOUND)
        stop.check()
        return {}

    queue = JobQueue(ledger, stubborn, SystemClock(), heir_to=TARGET)
    job = queue.submit(ask("a", target=TARGET)).job
    assert begun.wait(BOUND)
    queue.cancel(job.id)
    queue.close()
    assert ledger.get(job.id).status is Status.CANCELLED


def test_a_repeated_request_gets_the_job_of_the_first_time_even_when_it_has_ended(ledger: Ledger, ask) -> None:
    def run(_job: Job, _progress: Progress, _stop: StopSignal) -> Mapping[str, Any]:
        return {}

    queue = JobQueue(ledger, run, SystemClock())
    first = queue.submit(ask("a"), "once")
    queue.wait(first.job.id, BOUND)
    again, other = queue.submit(ask("a"), "once"), queue.submit(ask("a"), "another")
    queue.close()
    assert (again.job.id, again.joined) == (first.job.id, False)
    assert again.job.status is Status.SUCCEEDED
    assert "succeeded" in again.message
    assert "waiting" not in again.message
    assert other.job.id != first.job.id


def test_a_repeated_request_whose_job_runs_says_that_it_runs(ledger: Ledger, ask) -> None:
    begun, go_on = threading.Event(), threading.Event()

    def run(_job: Job, _progress: Progress, _stop: StopSignal) -> Mapping[str, Any]:
        begun.set()
        assert go_on.wait(BOUND)
        return {}

    queue = JobQueue(ledger, run, SystemClock())
    first = queue.submit(ask("a"), "once")
    assert begun.wait(BOUND)
    again = queue.submit(ask("a"), "once")
    queue.submit(ask("a"), "another's")
    others = [queue.submit(ask("a"), "a third's") for _ in range(2)]
    go_on.set()
    queue.close()
    assert again.job.id == first.job.id
    assert not again.joined  # it is the caller's own job, to be stopped when the caller is
    assert [each.joined for each in others] == [True, True]
    assert "it is running" in again.message


def test_request_ids_are_forgotten_with_their_jobs(tmp_path: Path, ask) -> None:
    ledger = open_ledger(tmp_path)
    owner = this_process()
    _, job = ledger.submit(ask("a"), owner, Limits(), NOW, "once")
    ledger.change(job.id, lambda queued: ask_to_cancel(queued, CANCEL_NOTE, NOW))
    assert ledger.submit(ask("a"), owner, Limits(), NOW, "once")[0] == Repeated(job.id)
    ledger.sweep(owner, 10.0, NOW + 11)
    decision, fresh = ledger.submit(ask("a"), owner, Limits(), NOW + 11, "once")
    assert fresh.id != job.id
    assert not isinstance(decision, Repeated)
    ledger.close()


def test_a_ledger_of_the_version_before_is_read_on(tmp_path: Path, ask) -> None:
    before = Ledger(Database(tmp_path / FILE_NAME, MIGRATIONS[:1]))
    before.close()
    ledger = open_ledger(tmp_path)
    _, job = ledger.submit(ask("a"), this_process(), Limits(), NOW)
    assert ledger.get(job.id) == replace(job, adoptions=0)
    ledger.close()
