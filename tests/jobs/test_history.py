"""Random histories of several processes over one ledger: whatever happens, in whatever order, the promises hold."""

from __future__ import annotations

import tempfile
from pathlib import Path

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from markdown_rag.database import Database
from markdown_rag.indexing.report import Progress
from markdown_rag.jobs.admission import Limits, overlaps
from markdown_rag.jobs.job import Broken, Done, IndexRequest, Job, Status, Stopped, ask_to_cancel, beat, finish
from markdown_rag.jobs.lease import LEASE_SECONDS
from markdown_rag.jobs.ledger import FILE_NAME, MIGRATIONS, Ledger
from markdown_rag.jobs.owner import Owner, Presence
from markdown_rag.paths import Scope, Workspace

SLOTS = st.integers(0, 2)
LIMITS = Limits(running=2, queued=4)
FOREVER = 1e9
PLACES = st.sampled_from([("A", ""), ("A", "a"), ("A", "a/b"), ("A", "b"), ("B", "")])
ENDS = st.sampled_from([Done({"n": 1}), Broken("No.", resumable=True), Stopped("Stop.")])


class Histories(RuleBasedStateMachine):
    """Three processes submit, start, progress, finish, cancel, freeze, die and come back."""

    def __init__(self) -> None:
        super().__init__()
        self.directory = tempfile.TemporaryDirectory()
        self.now = 1000.0
        self.births = 0
        self.dead: set[Owner] = set()
        self.frozen: set[Owner] = set()
        self.known: dict[str, None] = {}  # in order of acceptance: ids are random, and a replay must draw the same job
        self.asked_to_stop: set[str] = set()
        self.ends: dict[str, Job] = {}
        path = Path(self.directory.name) / FILE_NAME
        self.ledger = Ledger(
            Database(path, MIGRATIONS), lambda owner: Presence.GONE if owner in self.dead else Presence.PRESENT
        )

    def teardown(self) -> None:
        """When every process is gone, the first look of a new one finds every job at its end."""
        self.dead |= set(self.processes)
        self.ledger.sweep(self.birth(), FOREVER, self.now)
        jobs = [self.ledger.get(job_id) for job_id in self.known]
        assert all(job is not None and job.status.ended for job in jobs)
        self.ledger.close()
        self.directory.cleanup()

    def birth(self) -> Owner:
        self.births += 1
        return Owner(self.births, "boot", str(self.births), f"q{self.births}")

    @initialize()
    def start_processes(self) -> None:
        self.processes = [self.birth() for _ in range(3)]

    def awake(self, slot: int) -> Owner | None:
        owner = self.processes[slot]
        return None if owner in self.frozen else owner

    @rule(slot=SLOTS, place=PLACES, force=st.booleans())
    def submit(self, slot: int, place: tuple[str, str], force: bool) -> None:
        owner = self.awake(slot)
        if owner is None:
            return
        scope = Scope(Workspace(place[0], Path("/", place[0])), place[1])
        _, job = self.ledger.submit(IndexRequest(scope, force=force), owner, LIMITS, self.now)
        if job is not None:
            self.known[job.id] = None

    @rule(slot=SLOTS)
    def look_and_start(self, slot: int) -> None:
        owner = self.awake(slot)
        if owner is None:
            return
        self.ledger.sweep(owner, FOREVER, self.now)
        for job in self.ledger.claim(owner, LIMITS.running, self.now):
            assert job.owner == owner
        assert not any(job.owner in self.dead for job in self.ledger.active())

    @rule(slot=SLOTS, files=st.integers(0, 9))
    def heartbeat(self, slot: int, files: int) -> None:
        owner = self.awake(slot)
        for job in self.ledger.active():
            if job.owner == owner:
                figures = Progress(processed_files=files) if job.status is Status.RUNNING else Progress()
                self.ledger.change(job.id, lambda job, figures=figures: beat(job, figures, self.now))

    @rule(slot=SLOTS, outcome=ENDS)
    def end(self, slot: int, outcome: Done | Broken | Stopped) -> None:
        owner = self.awake(slot)
        running = [job for job in self.ledger.active() if job.owner == owner and job.status is Status.RUNNING]
        for job in running[:1]:
            self.ledger.change(job.id, lambda job: finish(job, outcome, job.progress, self.now))

    @precondition(lambda self: self.known)
    @rule(data=st.data())
    def cancel(self, data: st.DataObject) -> None:
        job_id = data.draw(st.sampled_from(list(self.known)))
        before = self.ledger.get(job_id)
        assert before is not None
        if not before.status.ended:
            self.asked_to_stop.add(job_id)
        self.ledger.change(job_id, lambda job: ask_to_cancel(job, "No.", self.now))

    @rule(slot=SLOTS)
    def die_and_come_back(self, slot: int) -> None:
        self.dead.add(self.processes[slot])
        self.processes[slot] = self.birth()

    @rule(slot=SLOTS)
    def freeze_or_thaw(self, slot: int) -> None:
        self.frozen ^= {self.processes[slot]}

    @rule(seconds=st.sampled_from([0.25, 6.0, LEASE_SECONDS + 1, 3600.0, -3600.0]))
    def time_passes(self, seconds: float) -> None:
        self.now += seconds

    @invariant()
    def never_two_on_the_same_files_nor_more_than_the_limit(self) -> None:
        running = [job for job in self.ledger.active() if job.status is Status.RUNNING]
        assert len(running) <= LIMITS.running
        for i, one in enumerate(running):
            assert not any(overlaps(one.request, other.request) for other in running[i + 1 :])

    @invariant()
    def no_job_is_lost_and_an_end_is_final(self) -> None:
        for job_id in self.known:
            job = self.ledger.get(job_id)
            assert job is not None
            if job.status.ended:
                assert self.ends.setdefault(job_id, job) == job

    @invariant()
    def a_cancel_is_never_undone(self) -> None:
        for job_id in self.asked_to_stop & set(self.ends):
            assert self.ends[job_id].status is Status.CANCELLED


TestHistories = Histories.TestCase
TestHistories.settings = settings(max_examples=40, stateful_step_count=30, deadline=None)
