"""One process's queue, with real threads: what an agent that asks, waits, cancels and leaves can rely on."""

from __future__ import annotations

import logging
import queue
import threading
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from markdown_rag.clock import ManualClock, StopSignal, SystemClock
from markdown_rag.database import Database
from markdown_rag.errors import EmbeddingAuthError, EmbeddingUnavailable, JobError, StateError
from markdown_rag.indexing.report import Phase, Progress
from markdown_rag.jobs.job import STOPPED_ERROR, Job, Status
from markdown_rag.jobs.ledger import FILE_NAME, MIGRATIONS, Ledger, open_ledger
from markdown_rag.jobs.owner import Owner
from markdown_rag.jobs.queue import JobQueue
from tests.waiting import eventually

BOUND = 60.0  # seconds after which a test gives up; none waits for it


class Work:
    """A run that tells when it has begun and goes on until it is let go, or stopped unless deaf."""

    def __init__(self, *, deaf: bool = False) -> None:
        self.begun: queue.Queue[Job] = queue.Queue()
        self.go = threading.Event()
        self.deaf = deaf
        self.running = 0
        self.most = 0
        self.lock = threading.Lock()

    def __call__(self, job: Job, progress: Progress, stop: StopSignal) -> Mapping[str, Any]:
        with self.lock:
            self.running += 1
            self.most = max(self.most, self.running)
        progress.phase, progress.total_files = Phase.EMBED, 40
        progress.processed_files, progress.processed_chunks, progress.stored_files = 12, 34, 12
        progress.total_bytes, progress.processed_bytes = 900, 270
        self.begun.put(job)
        try:
            while not self.go.wait(0.005):
                if not self.deaf:
                    stop.check()
        finally:
            with self.lock:
                self.running -= 1
        progress.processed_files = 40
        return {"scope": job.request.scope.path}

    def next(self) -> Job:
        return self.begun.get(timeout=BOUND)


Open = Callable[..., JobQueue]


@pytest.fixture
def opened(ledger: Ledger) -> Iterator[Open]:
    queues: list[JobQueue] = []

    def build(run: Any, max_jobs: int = 1, *, over: Ledger = ledger, clock: Any = None) -> JobQueue:
        queues.append(JobQueue(over, run, clock or SystemClock(), max_jobs))
        return queues[-1]

    yield build
    for made in queues:
        made.close()


def ended(jobs: JobQueue, job_id: str) -> Job:
    status = jobs.wait(job_id, BOUND)
    assert status is not None
    assert status.job.status.ended, status
    return status.job


def test_a_request_is_answered_while_its_job_still_runs_and_the_end_holds_the_result(opened: Open, ask) -> None:
    work = Work()
    jobs = opened(work)
    submission = jobs.submit(ask("a"))
    assert (submission.accepted, submission.joined) == (True, False)
    assert submission.message == "Index job accepted and queued."
    work.next()
    running = jobs.status(submission.job.id)
    assert running.job.status is Status.RUNNING
    work.go.set()
    job = ended(jobs, submission.job.id)
    assert (job.status, job.result, job.progress.phase) == (Status.SUCCEEDED, {"scope": "a"}, Phase.DONE)


def test_figures_of_a_running_job_are_those_of_this_moment(opened: Open, ask) -> None:
    work = Work()
    jobs = opened(work)
    jobs.submit(ask())
    work.next()
    shown = jobs.status().as_dict()
    assert (shown["phase"], shown["processed_files"], shown["progress_percent"]) == ("embed", 12, 30.0)


def test_an_equal_request_joins_what_waits_and_a_busy_folder_is_run_once_more(opened: Open, ask) -> None:
    work = Work()
    jobs = opened(work, 4)
    first = jobs.submit(ask("a"))
    work.next()
    second = jobs.submit(ask("a"))
    assert (second.joined, second.follows) == (False, first.job.id)
    others = [jobs.submit(ask(path)) for path in ("a", "a/b", "a/b/c.md")]
    assert {other.job.id for other in others} == {second.job.id}
    assert all(other.joined for other in others)
    work.go.set()
    assert ended(jobs, second.job.id).joined == 3
    assert work.next().id == second.job.id
    assert work.begun.empty()


def test_different_folders_run_side_by_side_up_to_the_limit(opened: Open, ask) -> None:
    work = Work()
    jobs = opened(work, 2)
    submitted = [jobs.submit(ask(path)).job.id for path in "abcd"]
    assert {work.next().id, work.next().id} == set(submitted[:2])
    work.go.set()
    for job_id in submitted:
        assert ended(jobs, job_id).status is Status.SUCCEEDED
    assert work.most == 2


def test_with_a_limit_of_one_jobs_run_in_the_order_they_came(opened: Open, ask) -> None:
    work = Work()
    work.go.set()
    jobs = opened(work)
    submitted = [jobs.submit(ask(path)).job.id for path in "abcde"]
    assert [work.next().id for _ in submitted] == submitted
    assert work.most == 1


def test_a_running_job_stops_on_cancel_and_keeps_what_it_stored(opened: Open, ask) -> None:
    work = Work()
    jobs = opened(work)
    job_id = jobs.submit(ask()).job.id
    work.next()
    cancellation = jobs.cancel(job_id)
    assert cancellation.accepted
    job = ended(jobs, job_id)
    assert job.status is Status.CANCELLED
    assert job.note == "Cancelled on request. What was stored is kept: 12 of 40 files."


def test_a_waiting_job_is_cancelled_at_once_and_never_runs(opened: Open, ask) -> None:
    work = Work()
    jobs = opened(work)
    jobs.submit(ask("a"))
    work.next()
    waiting = jobs.submit(ask("b")).job
    cancellation = jobs.cancel(waiting.id)
    assert cancellation.job.status is Status.CANCELLED
    assert cancellation.message.startswith(f"Job {waiting.id} is cancelled. Still active: ")
    last = jobs.submit(ask("c")).job
    work.go.set()
    ended(jobs, last.id)
    assert work.next().id == last.id


def test_cancel_without_an_id_stops_what_runs_and_its_follow_up_and_says_what_is_left(opened: Open, ask) -> None:
    work = Work()
    jobs = opened(work)
    running = jobs.submit(ask("a")).job
    work.next()
    again, other = jobs.submit(ask("a")).job, jobs.submit(ask("b")).job
    done = jobs.cancel()
    assert (done.job.id, [job.id for job in done.also], [job.id for job in done.left]) == (
        running.id,
        [again.id],
        [other.id],
    )
    assert f"Job {again.id}, which waited to do the same again, is cancelled too." in done.message
    assert f"Still active: {other.id} ({other.request.scope.absolute}, queued)." in done.message
    assert ended(jobs, running.id).status is ended(jobs, again.id).status is Status.CANCELLED
    assert work.next().id == other.id


def test_cancel_without_an_id_stops_the_callers_job_and_never_anothers_instead(opened: Open, ask) -> None:
    work = Work()
    jobs = opened(work)
    jobs.submit(ask("a"))
    work.next()
    mine = jobs.submit(ask("b")).job
    jobs.submit(ask("c"))
    assert jobs.cancel("", lambda job: job.request.scope.path == "b").job.id == mine.id


def test_cancelling_what_is_over_or_unknown_says_so(opened: Open, ask) -> None:
    work = Work()
    work.go.set()
    jobs = opened(work)
    with pytest.raises(JobError, match="nothing to cancel"):
        jobs.cancel()
    job_id = jobs.submit(ask()).job.id
    ended(jobs, job_id)
    cancellation = jobs.cancel(job_id)
    assert (cancellation.accepted, cancellation.job.status) == (False, Status.SUCCEEDED)
    assert cancellation.message == f"Job {job_id} had ended before: succeeded."
    with pytest.raises(JobError, match="There is no job 00000000"):
        jobs.cancel("00000000")


def test_a_cancel_wins_over_a_result_that_comes_after_it(opened: Open, ask) -> None:
    work = Work(deaf=True)
    jobs = opened(work)
    job_id = jobs.submit(ask()).job.id
    work.next()
    assert jobs.cancel(job_id).message == f"Job {job_id} is being cancelled; what it has stored is kept."
    work.go.set()
    job = ended(jobs, job_id)
    assert (job.status, job.result) == (Status.CANCELLED, {"scope": ""})


@pytest.mark.parametrize(
    ("error", "resumable"),
    [
        (EmbeddingUnavailable("The provider does not answer.", "Ask again later."), True),
        (EmbeddingAuthError("The key is wrong.", "Set EMBEDDING_API_KEY."), False),
    ],
)
def test_a_job_that_breaks_tells_the_error_and_the_next_one_runs(
    opened: Open, ask, error: Exception, resumable: bool
) -> None:
    def run(job: Job, _progress: Progress, _stop: StopSignal) -> dict[str, Any]:
        if job.request.scope.path == "bad":
            raise error
        return {}

    jobs = opened(run)
    bad, good = jobs.submit(ask("bad")).job.id, jobs.submit(ask("good")).job.id
    job = ended(jobs, bad)
    assert (job.status, job.error, job.resumable) == (Status.FAILED, str(error), resumable)
    assert ended(jobs, good).status is Status.SUCCEEDED


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
@pytest.mark.parametrize("result", [ZeroDivisionError("secret text of a note"), {"not": {"json"}}])
def test_a_fault_of_the_program_ends_the_job_without_its_text_and_blocks_nobody(
    opened: Open, ask, result: object
) -> None:
    def run(job: Job, _progress: Progress, _stop: StopSignal) -> Any:
        if job.request.scope.path == "good":
            return {}
        if isinstance(result, Exception):
            raise result
        return result

    jobs = opened(run)
    bad, good = jobs.submit(ask("bad")).job.id, jobs.submit(ask("good")).job.id
    job = ended(jobs, bad)
    assert job.status is Status.FAILED
    assert job.error.startswith("An unexpected ")
    assert "secret" not in job.error
    assert ended(jobs, good).status is Status.SUCCEEDED


def test_waiting_ends_with_the_job_though_the_limit_is_far(opened: Open, ask) -> None:
    work = Work()
    jobs = opened(work)
    job_id = jobs.submit(ask()).job.id
    work.next()
    seen: list[Job] = []
    waiter = threading.Thread(target=lambda: seen.append(ended(jobs, job_id)))
    waiter.start()
    work.go.set()
    waiter.join(BOUND)
    assert [job.status for job in seen] == [Status.SUCCEEDED]


def test_waiting_gives_up_after_its_time_and_answers_with_what_is(opened: Open, ask) -> None:
    work = Work()
    clock = ManualClock()
    jobs = opened(work, clock=clock)
    job_id = jobs.submit(ask()).job.id
    work.next()
    before = clock.now()
    status = jobs.wait(job_id, 10.0)
    assert status.job.status is Status.RUNNING
    assert clock.now() - before == pytest.approx(10.0)


def test_an_unknown_job_is_none_to_status_and_wait(opened: Open) -> None:
    jobs = opened(Work())
    assert jobs.status() is None
    assert jobs.status("00000000") is None
    assert jobs.wait("00000000", BOUND) is None


def test_the_latest_job_is_the_one_accepted_last_and_while_it_waits_the_one_that_runs(opened: Open, ask) -> None:
    work = Work()
    jobs = opened(work)
    first = jobs.submit(ask("a")).job
    work.next()
    last = jobs.submit(ask("a")).job
    assert jobs.status().job.id == first.id
    assert [job.id for job in jobs.status().active] == [first.id, last.id]
    work.go.set()
    ended(jobs, last.id)
    assert jobs.status().job.id == last.id


def test_closing_ends_own_jobs_as_resumable_and_leaves_no_thread(opened: Open, ask) -> None:
    before = set(threading.enumerate())
    work = Work()
    jobs = opened(work)
    running, waiting = jobs.submit(ask("a")).job.id, jobs.submit(ask("b")).job.id
    work.next()
    jobs.close()
    jobs.close()
    for job_id in (running, waiting):
        job = jobs.status(job_id).job
        assert (job.status, job.error, job.resumable) == (Status.FAILED, STOPPED_ERROR, True)
    assert jobs.status(running).job.note.startswith("What was stored is kept: 12 of 40 files")
    ours = {"job-pulse", f"job-{running}", f"job-{waiting}"}
    eventually(
        lambda: [thread for thread in threading.enumerate() if thread.name in ours and thread not in before],
        lambda left: not left,
    )
    with pytest.raises(JobError, match="stopping"):
        jobs.submit(ask("c"))


def test_closing_releases_who_waits_for_a_job_of_this_process_with_its_end(opened: Open, ask) -> None:
    work = Work()
    jobs = opened(work)
    job_id = jobs.submit(ask()).job.id
    work.next()
    seen: list[Job] = []
    waiter = threading.Thread(target=lambda: seen.append(ended(jobs, job_id)))
    waiter.start()
    jobs.close()
    waiter.join(BOUND)
    assert [job.error for job in seen] == [STOPPED_ERROR]


def test_closing_releases_who_waits_for_a_job_of_another_process(opened: Open, ask) -> None:
    work = Work()
    theirs, ours = opened(work), opened(work)
    job_id = theirs.submit(ask()).job.id
    work.next()
    ours.close()
    with pytest.raises(JobError, match="The server is stopping"):
        ours.wait(job_id, BOUND)
    assert theirs.status(job_id).job.status is Status.RUNNING


def test_a_run_that_does_not_stop_holds_up_closing_for_a_bound_and_cannot_change_its_end(opened: Open, ask) -> None:
    work = Work(deaf=True)
    jobs = opened(work)
    job_id = jobs.submit(ask()).job.id
    work.next()
    deaf = next(thread for thread in threading.enumerate() if thread.name == f"job-{job_id}")
    jobs.close(seconds=0.05)
    assert jobs.status(job_id).job.error == STOPPED_ERROR
    work.go.set()
    deaf.join(BOUND)
    assert jobs.status(job_id).job.status is Status.FAILED


def test_what_was_complete_when_the_server_stopped_has_succeeded(opened: Open, ask) -> None:
    begun = threading.Event()

    def run(_job: Job, _progress: Progress, stop: StopSignal) -> dict[str, Any]:
        begun.set()
        stop.event.wait(BOUND)
        return {"complete": True}

    jobs = opened(run)
    job_id = jobs.submit(ask()).job.id
    assert begun.wait(BOUND)
    jobs.close(BOUND)
    assert jobs.status(job_id).job.status is Status.SUCCEEDED


def test_a_cancel_recorded_before_the_server_stopped_stays_a_cancel(opened: Open, ask) -> None:
    work = Work(deaf=True)
    jobs = opened(work)
    job_id = jobs.submit(ask()).job.id
    work.next()
    jobs.cancel(job_id)
    jobs.close(seconds=0.0)
    assert jobs.status(job_id).job.status is Status.CANCELLED
    work.go.set()


class Hiccup(Ledger):
    """A ledger whose disk is full for the next few changes."""

    failures = 0
    claims = True

    def claim(self, owner: Owner, limit: int, now: float) -> list[Job]:
        if not self.claims:
            raise StateError("The disk is full.")
        return super().claim(owner, limit, now)

    def change(self, job_id: str, transition: Callable[[Job], Job]) -> Job | None:
        if self.failures:
            self.failures -= 1
            raise StateError("The disk is full.")
        return super().change(job_id, transition)


@pytest.fixture
def hiccup(tmp_path: Path) -> Iterator[Hiccup]:
    ledger = Hiccup(Database(tmp_path / FILE_NAME, MIGRATIONS))
    yield ledger
    ledger.close()


def test_an_end_that_could_not_be_written_is_written_when_the_disk_takes_it(opened: Open, ask, hiccup: Hiccup) -> None:
    work = Work()
    jobs = opened(work, over=hiccup)
    job_id = jobs.submit(ask()).job.id
    work.next()
    hiccup.failures = 3
    work.go.set()
    assert ended(jobs, job_id).status is Status.SUCCEEDED
    jobs.close()


def test_a_job_that_cannot_be_started_says_why_until_it_is(opened: Open, ask, hiccup: Hiccup) -> None:
    hiccup.claims = False
    work = Work()
    jobs = opened(work, over=hiccup)
    job_id = jobs.submit(ask()).job.id
    eventually(lambda: jobs.status(job_id).as_dict()["note"], lambda note: note == "The disk is full.")
    hiccup.claims = True
    work.next()
    assert jobs.status(job_id).as_dict()["note"] == ""
    work.go.set()
    assert ended(jobs, job_id).status is Status.SUCCEEDED
    jobs.close()


def test_a_job_that_ended_on_a_full_disk_is_nobodys_running_job(opened: Open, ask, hiccup: Hiccup) -> None:
    work = Work()
    jobs = opened(work, over=hiccup)
    job_id = jobs.submit(ask()).job.id
    work.next()
    assert [job.id for job in jobs.active()] == [job_id]
    hiccup.failures = 1_000_000
    work.go.set()
    status = jobs.wait(job_id, BOUND)
    assert status.job.status is Status.SUCCEEDED
    assert hiccup.get(job_id).status is Status.RUNNING
    assert (list(status.active), jobs.active()) == ([], [])
    hiccup.failures = 0
    jobs.close()
    assert hiccup.get(job_id).status is Status.SUCCEEDED


def test_a_job_survives_the_loss_of_the_ledger_while_it_runs(opened: Open, ask, tmp_path: Path) -> None:
    work = Work()
    jobs = opened(work)
    job_id = jobs.submit(ask()).job.id
    work.next()
    other = Database(tmp_path / FILE_NAME, MIGRATIONS)
    with other.write() as connection:
        connection.execute("DELETE FROM job")
    other.close()
    eventually(lambda: jobs.status(job_id) is not None)
    work.go.set()
    assert ended(jobs, job_id).status is Status.SUCCEEDED


def test_the_ledger_of_a_state_directory_holds_the_jobs_of_a_closed_queue(opened: Open, ask, tmp_path: Path) -> None:
    work = Work()
    work.go.set()
    jobs = opened(work)
    job_id = jobs.submit(ask("a", params={"directory": "a"})).job.id
    ended(jobs, job_id)
    again = open_ledger(tmp_path)
    status = opened(work, over=again).status(job_id)
    assert status.as_dict()["params"] == {"directory": "a"}
    assert status.as_dict()["result"] == {"scope": "a"}
    again.close()


def test_a_job_that_gets_no_thread_fails_resumable_and_the_next_one_runs(opened: Open, ask, no_more_threads) -> None:
    jobs = opened(lambda *_: {})
    ended(jobs, jobs.submit(ask("first")).job.id)  # from here on there is a pulse
    with no_more_threads():
        refused = ended(jobs, jobs.submit(ask("a")).job.id)
    assert refused.status is Status.FAILED
    assert refused.resumable
    assert "thread" in refused.error
    assert not jobs.active()
    assert ended(jobs, jobs.submit(ask("a")).job.id).status is Status.SUCCEEDED


def test_a_request_is_refused_with_the_reason_where_no_thread_could_look_after_it(
    opened: Open, ask, no_more_threads
) -> None:
    jobs = opened(lambda *_: {})
    with no_more_threads(), pytest.raises(JobError, match="thread"):
        jobs.submit(ask())
    assert jobs.status() is None
    assert ended(jobs, jobs.submit(ask()).job.id).status is Status.SUCCEEDED


class Unforeseen(Ledger):
    """A ledger in which something fails that nobody foresaw."""

    broken = ""

    def claim(self, owner: Owner, limit: int, now: float) -> list[Job]:
        if self.broken == "before":
            raise MemoryError("no memory")
        claimed = super().claim(owner, limit, now)
        if claimed and self.broken == "after":
            self.broken = ""
            raise MemoryError("no memory")
        return claimed


@pytest.fixture
def unforeseen(tmp_path: Path) -> Iterator[Unforeseen]:
    ledger = Unforeseen(Database(tmp_path / FILE_NAME, MIGRATIONS))
    yield ledger
    ledger.close()


def test_an_unforeseen_fault_of_a_pulse_is_told_and_jobs_run_when_it_has_passed(
    opened: Open, ask, unforeseen: Unforeseen
) -> None:
    unforeseen.broken = "before"
    jobs = opened(lambda *_: {}, over=unforeseen)
    job_id = jobs.submit(ask()).job.id
    eventually(lambda: jobs.status(job_id).as_dict()["note"], lambda note: note == "no memory")
    unforeseen.broken = ""
    assert ended(jobs, job_id).status is Status.SUCCEEDED
    jobs.close()


def test_a_job_that_was_claimed_and_never_began_has_failed_and_can_be_resumed(
    opened: Open, ask, unforeseen: Unforeseen
) -> None:
    unforeseen.broken = "after"
    jobs = opened(lambda *_: {}, over=unforeseen)
    lost = ended(jobs, jobs.submit(ask()).job.id)
    assert (lost.status, lost.resumable) == (Status.FAILED, True)
    assert "thread" not in lost.error  # it was no lack of one
    assert ended(jobs, jobs.submit(ask()).job.id).status is Status.SUCCEEDED
    jobs.close()


def test_one_line_is_logged_for_a_job_that_failed_and_none_for_others(
    opened: Open, ask, caplog: pytest.LogCaptureFixture, tmp_path: Path
) -> None:
    caplog.set_level(logging.INFO)

    def work(job: Job, _progress: Progress, _stop: StopSignal) -> Mapping[str, Any]:
        if job.request.scope.path == "bad":
            raise EmbeddingAuthError("The key is wrong.", "Set another one.")
        return {}

    jobs = opened(work)
    bad, good = (jobs.submit(ask(path)).job.id for path in ("bad", "good"))
    assert [ended(jobs, job_id).status for job_id in (bad, good)] == [Status.FAILED, Status.SUCCEEDED]
    assert caplog.messages == [f"job {bad} of {tmp_path / 'notes' / 'bad'} failed: The key is wrong."]
    assert {record.levelno for record in caplog.records} == {logging.INFO}
