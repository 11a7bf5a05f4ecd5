"""Every change against every status, and what a job says when it has ended."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from markdown_rag.errors import JobError
from markdown_rag.indexing.report import Phase, Progress
from markdown_rag.jobs.job import (
    Broken,
    Done,
    IndexRequest,
    Job,
    Status,
    Stopped,
    abandon,
    accept,
    ask_to_cancel,
    beat,
    finish,
    join,
    kept,
    start,
    suspect,
)
from markdown_rag.jobs.lease import GRACE_SECONDS, LEASE_SECONDS
from markdown_rag.jobs.owner import Owner
from markdown_rag.paths import Scope, Workspace

REQUEST = IndexRequest(Scope(Workspace("notes", Path("/notes")), "a"))
FIGURES = Progress(
    Phase.EMBED,
    total_files=40,
    processed_files=13,
    total_chunks=90,
    processed_chunks=34,
    total_bytes=900,
    processed_bytes=270,
    stored_files=12,
    note="Slow.",
)
NOTHING = Progress()


def queued() -> Job:
    return accept(REQUEST, Owner(7, "boot", "1", "q"), 100.0, job_id="0a1b2c3d", number=1, follows="")


def running() -> Job:
    return start(queued(), 110.0)


def stopping() -> Job:
    return ask_to_cancel(beat(running(), FIGURES, 120.0), "Cancelled on request.", 121.0)


JOBS: dict[str, Callable[[], Job]] = {
    "queued": queued,
    "running": running,
    "stopping": stopping,
    "succeeded": lambda: finish(running(), Done({"n": 1}), FIGURES, 130.0),
    "failed": lambda: finish(running(), Broken("No.", resumable=False), FIGURES, 130.0),
    "cancelled": lambda: ask_to_cancel(queued(), "Cancelled on request.", 130.0),
}
CHANGES: dict[str, Callable[[Job], Job]] = {
    "join": lambda job: join(job, REQUEST),
    "start": lambda job: start(job, 140.0),
    "beat": lambda job: beat(job, FIGURES, 140.0),
    "suspect": lambda job: suspect(job, 140.0),
    "cancel": lambda job: ask_to_cancel(job, "Cancelled on request.", 140.0),
    "done": lambda job: finish(job, Done({}), FIGURES, 140.0),
    "broken": lambda job: finish(job, Broken("No.", resumable=True), FIGURES, 140.0),
    "stopped": lambda job: finish(job, Stopped("Stop."), FIGURES, 140.0),
    "abandon": lambda job: abandon(job, "Gone.", 140.0),
}
TABLE = """
            queued     running    stopping   succeeded  failed     cancelled
join        queued     -          -          -          -          -
start       running    -          -          -          -          -
beat        queued     running    running    -          -          -
suspect     queued     running    running    -          -          -
cancel      cancelled  running    running    succeeded  failed     cancelled
done        -          succeeded  cancelled  -          -          -
broken      -          failed     cancelled  -          -          -
stopped     -          cancelled  cancelled  -          -          -
abandon     failed     failed     cancelled  -          -          -
"""


def cells() -> list[tuple[str, str, str]]:
    header, *rows = [line.split() for line in TABLE.strip().splitlines()]
    return [(change, status, to) for change, *row in rows for status, to in zip(header, row, strict=True)]


@pytest.mark.parametrize(("change", "status", "to"), cells())
def test_a_change_leads_where_the_table_says_or_is_refused(change: str, status: str, to: str) -> None:
    job = JOBS[status]()
    if to == "-":
        with pytest.raises(JobError, match=job.id):
            CHANGES[change](job)
        return
    after = CHANGES[change](job)
    assert after.status == to
    assert (after.finished_at is not None) == after.status.ended
    if job.status.ended:
        assert after == job


def test_a_heartbeat_cannot_undo_a_cancel() -> None:
    beaten = beat(stopping(), FIGURES, 125.0)
    assert beaten.cancel == "Cancelled on request."
    ended = finish(beaten, Done({"n": 1}), FIGURES, 126.0)
    assert ended.status is Status.CANCELLED
    assert ended.note == "Cancelled on request. The run was already complete."
    assert ended.result == {"n": 1}


def test_a_cancelled_job_says_what_it_keeps() -> None:
    ended = finish(stopping(), Stopped("Cancelled on request."), FIGURES, 126.0)
    assert ended.note == "Cancelled on request. What was stored is kept: 12 of 40 files."
    assert ended.progress.processed_files == 13
    assert not ended.resumable


def test_an_abandoned_job_is_resumable_and_tells_the_reason_and_what_it_had_stored() -> None:
    ended = abandon(beat(running(), FIGURES, 120.0), "The process ended.", 130.0)
    assert (ended.status, ended.resumable, ended.error) == (Status.FAILED, True, "The process ended.")
    assert ended.note == "What was stored is kept: 12 of 40 files. Ask for the same again to go on."
    assert abandon(running(), "Gone.", 130.0).note == "Ask for the same again to go on."


@pytest.mark.parametrize(
    ("done", "stored", "chunks", "said"),
    [
        (0, 0, 0, ""),
        (1, 0, 0, ""),
        (1, 0, 3, "What was embedded is kept."),
        (13, 12, 34, "What was stored is kept: 12 of 40 files."),
    ],
    ids=["nothing", "an empty file", "only embedded", "stored"],
)
def test_only_what_is_really_stored_is_said_to_be(done: int, stored: int, chunks: int, said: str) -> None:
    progress = Progress(total_files=40, processed_files=done, stored_files=stored, processed_chunks=chunks)
    assert kept(progress) == said
    assert finish(running(), Broken("No key.", resumable=True), progress, 126.0).note == said


def test_a_request_asks_for_no_more_than_an_ordinary_run_unless_told() -> None:
    assert IndexRequest(REQUEST.scope, False, True, False, False, {}, "", "", "") == REQUEST


def test_an_ended_job_is_in_an_end_phase() -> None:
    assert JOBS["succeeded"]().progress.phase is Phase.DONE
    assert JOBS["failed"]().progress.phase is Phase.FAILED
    assert JOBS["cancelled"]().progress.phase is Phase.CANCELLED
    assert JOBS["succeeded"]().progress.percent == 100.0
    assert JOBS["failed"]().progress.percent == 30.0


def test_a_failure_keeps_its_words_and_whether_it_can_be_resumed() -> None:
    ended = finish(running(), Broken("The provider is away.", resumable=True), FIGURES, 130.0)
    assert (ended.error, ended.resumable, ended.result) == ("The provider is away.", True, None)


def test_the_first_cancel_is_the_one_that_counts() -> None:
    again = ask_to_cancel(stopping(), "Another reason.", 130.0)
    assert again == stopping()


def test_a_lease_is_renewed_by_start_and_heartbeat_and_extended_once_by_suspicion() -> None:
    assert queued().lease_until == 100.0 + LEASE_SECONDS
    assert running().lease_until == 110.0 + LEASE_SECONDS
    doubted = suspect(running(), 200.0)
    assert (doubted.suspected, doubted.lease_until) == (True, 200.0 + GRACE_SECONDS)
    trusted = beat(doubted, NOTHING, 201.0)
    assert (trusted.suspected, trusted.lease_until) == (False, 201.0 + LEASE_SECONDS)


def test_updated_at_moves_with_the_figures_only() -> None:
    moved = beat(running(), FIGURES, 120.0)
    assert moved.updated_at == 120.0
    assert beat(moved, FIGURES, 125.0).updated_at == 120.0


def test_a_job_does_not_change_with_the_live_figures_it_was_told() -> None:
    live = Progress(processed_files=1)
    job = beat(running(), live, 120.0)
    live.processed_files = 2
    assert job.progress.processed_files == 1


def test_joining_counts_who_waits() -> None:
    wider = IndexRequest(REQUEST.scope, force=True)
    job = join(join(queued(), REQUEST), wider)
    assert (job.joined, job.request) == (2, wider)
