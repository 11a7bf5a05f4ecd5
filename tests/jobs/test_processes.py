"""Several real processes over one state directory, and what becomes of jobs when one is killed."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from markdown_rag.clock import StopSignal, SystemClock
from markdown_rag.indexing.report import Progress
from markdown_rag.jobs.job import Job, Status
from markdown_rag.jobs.ledger import Ledger
from markdown_rag.jobs.queue import JobQueue
from tests.waiting import bounded, eventually, joined

BOUND = 30.0
HELD = 300.0  # how long a job runs that nobody ends
AGENT = """
import sys
from pathlib import Path
from markdown_rag.clock import SystemClock
from markdown_rag.indexing.report import Phase
from markdown_rag.jobs.job import IndexRequest
from markdown_rag.jobs.ledger import open_ledger
from markdown_rag.jobs.queue import JobQueue
from markdown_rag.paths import Scope, Workspace

state, path, seconds = Path(sys.argv[1]), sys.argv[2], float(sys.argv[3])

def say(text):
    sys.stdout.write(f"{text}\\n")  # one write: two threads speak
    sys.stdout.flush()

def run(job, progress, stop):
    progress.phase, progress.total_files, progress.processed_files, progress.processed_chunks = Phase.EMBED, 40, 12, 34
    progress.stored_files = 12
    with open(state / "log", "a") as log:
        log.write("begin\\n")
    say("begun")
    stop.event.wait(seconds)
    stop.check()
    with open(state / "log", "a") as log:
        log.write("end\\n")
    return {}

ledger = open_ledger(state)
queue = JobQueue(ledger, run, SystemClock())
say("ready")
sys.stdin.readline()
job = queue.submit(IndexRequest(Scope(Workspace("notes", state / "notes"), path))).job
say(job.id)
say(queue.wait(job.id, 300.0).job.status)
sys.stdin.readline()
queue.close()
ledger.close()
"""

Agent = subprocess.Popen[str]


@pytest.fixture
def agents(tmp_path: Path) -> Iterator[Callable[..., Agent]]:
    started: list[Agent] = []

    def start(path: str, seconds: float = HELD) -> Agent:
        command = [sys.executable, "-c", AGENT, str(tmp_path), path, str(seconds)]
        started.append(subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True))
        assert heard(started[-1]) == "ready"
        return started[-1]

    yield start
    for process in started:
        process.kill()
        process.communicate()


@pytest.fixture
def here(ledger: Ledger) -> Iterator[JobQueue]:
    def run(_job: Job, _progress: Progress, _stop: StopSignal) -> Mapping[str, Any]:
        return {}

    queue = JobQueue(ledger, run, SystemClock())
    yield queue
    queue.close()


def heard(agent: Agent) -> str:
    assert agent.stdout is not None
    with bounded(agent, 3 * BOUND):
        return agent.stdout.readline().strip()


def tell(agent: Agent) -> None:
    assert agent.stdin is not None
    agent.stdin.write("\n")
    agent.stdin.flush()


def submit(agent: Agent) -> str:
    """Let an agent submit; the id of its job, which has begun."""
    tell(agent)
    lines = {heard(agent), heard(agent)}
    (job_id,) = lines - {"begun"}
    return job_id


def progressed(queue: JobQueue, job_id: str) -> Job:
    """The job once its figures have come through the ledger."""

    def job() -> Job:
        status = queue.wait(job_id, 0.1)
        assert status is not None
        return status.job

    return eventually(job, lambda seen: seen.progress.processed_files)


def test_every_process_reads_the_jobs_of_every_other(agents, here: JobQueue) -> None:
    job_id = submit(agents("a"))
    job = progressed(here, job_id)
    assert (job.status, job.progress.processed_files, job.progress.total_files) == (Status.RUNNING, 12, 40)
    assert here.status().job.id == job_id


def test_the_job_of_a_killed_process_has_failed_and_tells_what_is_kept(agents, here: JobQueue) -> None:
    agent = agents("a")
    job_id = submit(agent)
    progressed(here, job_id)
    agent.kill()
    agent.wait()
    job = here.status(job_id).job
    assert (job.status, job.resumable) == (Status.FAILED, True)
    assert job.error == f"The process that accepted the job (pid {agent.pid}) ended before the job did."
    assert "12 of 40 files" in job.note


def test_the_only_slot_is_free_again_when_its_process_is_killed(agents, here: JobQueue, ask) -> None:
    agent = agents("a")
    submit(agent)
    waiting = here.submit(ask("b"))
    assert here.status(waiting.job.id).as_dict()["note"] == "Waits for its turn: 1 running, 0 waiting before it."
    agent.kill()
    agent.wait()
    assert here.wait(waiting.job.id, BOUND).job.status is Status.SUCCEEDED


def test_a_job_of_another_process_is_cancelled_from_here(agents, here: JobQueue) -> None:
    agent = agents("a")
    job_id = submit(agent)
    assert here.cancel(job_id).accepted
    assert here.wait(job_id, BOUND).job.status is Status.CANCELLED
    assert heard(agent) == "cancelled"


def test_a_busy_folder_is_followed_up_across_processes(agents, here: JobQueue, ask) -> None:
    agent = agents("a")
    job_id = submit(agent)
    follow_up = here.submit(ask("a"))
    assert follow_up.follows == job_id
    here.cancel(job_id)
    assert here.wait(follow_up.job.id, BOUND).job.status is Status.SUCCEEDED


def test_a_server_that_stops_leaves_its_job_resumable(agents, here: JobQueue) -> None:
    agent = agents("a")
    job_id = submit(agent)
    agent.terminate()
    agent.wait()
    assert here.status(job_id).job.resumable


def test_agents_that_ask_in_the_same_instant_never_run_at_once(agents, tmp_path: Path) -> None:
    started = [agents("a", 0.05) for _ in range(4)]
    for agent in started:
        tell(agent)
    for agent in started:
        lines: list[str] = []
        while "succeeded" not in lines:
            lines.append(heard(agent))
            assert lines[-1]
    log = (tmp_path / "log").read_text(encoding="utf-8").split()
    assert log == ["begin", "end"] * (len(log) // 2)
    assert 1 <= len(log) // 2 <= len(started)


def test_two_queues_start_each_job_once(ledger: Ledger, ask) -> None:
    """Both look at the same instant, again and again; a job that ran twice would be begun twice."""
    begun: list[str] = []
    both = threading.Barrier(2)

    def run(job: Job, _progress: Progress, _stop: StopSignal) -> Mapping[str, Any]:
        begun.append(job.id)
        return {}

    queues = [JobQueue(ledger, run, SystemClock(), 2) for _ in range(2)]
    submitted: list[str] = []

    def agent(queue: JobQueue, name: str) -> None:
        for number in range(10):
            both.wait(BOUND)
            submitted.append(queue.submit(ask(f"{name}{number}")).job.id)

    threads = [threading.Thread(target=agent, args=pair) for pair in zip(queues, "ab", strict=True)]
    for thread in threads:
        thread.start()
    joined(*threads, seconds=2 * BOUND)
    for job_id in submitted:
        assert queues[0].wait(job_id, BOUND).job.status is Status.SUCCEEDED
    assert sorted(begun) == sorted(submitted)
    for queue in queues:
        queue.close()
