"""The jobs that one process accepted, carried out: heartbeats, figures, starts, stops and ends.

One thread pulses while the process has jobs and sleeps when it has none; each running job has a thread of its own.
A pulse writes only what changed: figures at most once in PULSE_SECONDS, a lease when it is due.
"""

from __future__ import annotations

import contextlib
import logging
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace

from markdown_rag.clock import Clock
from markdown_rag.errors import FastRagError, JobError
from markdown_rag.indexing.report import Progress
from markdown_rag.jobs.job import STOPPED_ERROR, Broken, Done, Job, Outcome, Status, abandon, beat, finish, release
from markdown_rag.jobs.lease import is_due
from markdown_rag.jobs.ledger import Ledger
from markdown_rag.jobs.owner import Owner
from markdown_rag.jobs.runs import NO_THREAD, NOT_BEGUN, LiveRun, RunJob, at_shutdown

PULSE_SECONDS = 0.25
_GATE_SECONDS = 0.2  # how long close waits for a transaction under way
_LOST_NOTE = "Another process took this job for abandoned."

log = logging.getLogger(__name__)


class Worker:
    """Runs what its owner accepted. Thread-safe.

    running_limit: jobs at once, over all processes. ttl: seconds an ended job is remembered.
    """

    def __init__(
        self, ledger: Ledger, run: RunJob, owner: Owner, clock: Clock, *, running_limit: int, ttl: float
    ) -> None:
        self.owner = owner
        self._ledger = ledger
        self._run = run
        self._clock = clock
        self._running_limit = running_limit
        self._ttl = ttl
        self._live: dict[str, LiveRun] = {}
        self._lock = threading.Lock()  # guards _live and _listeners
        self._gate = threading.Lock()  # held while jobs are accepted, looked after and ended: none slips past close
        self._listeners: set[threading.Event] = set()
        self._pulse: threading.Thread | None = None
        self._trouble = ""  # why the last pulse could not write
        self._wake = threading.Event()
        self._closed = threading.Event()
        self._settled = threading.Event()

    @property
    def closed(self) -> bool:
        """Whether close was called."""
        return self._closed.is_set()

    @property
    def settled(self) -> bool:
        """Whether close has written how the jobs of this owner ended."""
        return self._settled.is_set()

    def accept(self, write: Callable[[], Job | None]) -> Job | None:
        """Let a job be written for this owner and see to it. Raises JobError once closed, or where no thread starts."""
        with self._gate:
            if self.closed:
                raise JobError("The server is stopping and takes no new index jobs.", "Ask again when it is back.")
            if not self._start_pulse():  # before the job is written: nobody would run it
                raise JobError("The system lets this process start no further thread.", "Ask again in a moment.")
            job = write()
        self._wake.set()
        return job

    def attend(self) -> None:
        """Take over the jobs that this owner is heir to, now and whenever somebody asks about jobs."""
        if not self.owner.heir_to:
            return
        with self._gate:
            if not self.closed:
                self._start_pulse()
        self._wake.set()

    def _start_pulse(self) -> bool:
        """See to it that there is a pulse; whether there is one."""
        if self._pulse is None or not self._pulse.is_alive():
            pulse = threading.Thread(target=self._pulse_loop, name="job-pulse", daemon=True)
            try:
                pulse.start()
            except (RuntimeError, MemoryError) as error:
                log.warning("jobs cannot be looked after now: %s", error)
                return False
            self._pulse = pulse
        return True

    def freshest(self, job: Job) -> Job:
        """The job with the figures of this moment if it runs here, with those of the last pulse else.

        While nothing can be written down (a full disk), one that has ended here is shown as ended, and one that cannot
        be started says why.
        """
        with self._lock:
            run = self._live.get(job.id)
        if self._trouble and job.status is Status.QUEUED and job.owner == self.owner:
            return replace(job, progress=replace(job.progress, note=self._trouble))
        if run is None or job.status is not Status.RUNNING:
            return job
        if run.unwritten and run.outcome is not None and not self.closed:
            return finish(job, run.outcome, run.progress, self._clock.now())
        return replace(job, progress=replace(run.progress))

    def pass_on_cancel(self, job: Job) -> None:
        """Stop the run of a job whose cancel is recorded, if it runs here."""
        with self._lock:
            run = self._live.get(job.id)
        if run is not None and job.cancel:
            run.stop.stop(job.cancel)
        self._tell_listeners()

    @contextlib.contextmanager
    def listening(self) -> Iterator[threading.Event]:
        """An event that is set whenever a job of this process may have ended, and when the worker closes."""
        event = threading.Event()
        with self._lock:
            self._listeners.add(event)
        try:
            yield event
        finally:
            with self._lock:
                self._listeners.discard(event)

    def close(self, seconds: float) -> None:
        """Stop the runs, wait at most about seconds for them, and write how every job of this owner ended.

        After it no thread of this worker touches the ledger.
        """
        self._closed.set()
        self._wake.set()
        deadline = self._clock.monotonic() + seconds
        self._stop_runs()
        if self._pulse is not None:
            self._pulse.join(max(0.0, deadline - self._clock.monotonic()))
        for run in self._stop_runs():  # also those that the last pulse started
            if run.thread is not None:
                run.thread.join(max(0.0, deadline - self._clock.monotonic()))
        self._settle()
        self._tell_listeners()

    def _stop_runs(self) -> list[LiveRun]:
        with self._lock:
            live = list(self._live.values())
        for run in live:
            run.stop.stop(STOPPED_ERROR)
        return live

    def _settle(self) -> None:
        held = self._gate.acquire(timeout=_GATE_SECONDS)
        try:
            if held and not self.settled:
                self._end_what_is_left()
        except Exception as error:  # noqa: BLE001 - whatever it is, it is told and the jobs go on
            # Whatever it is, closing goes on: others read the same from our process being gone.
            _tell(error, "the ends of jobs could not be written")
        finally:
            self._settled.set()
            if held:
                self._gate.release()

    def _pulse_loop(self) -> None:
        while not self.closed:
            self._wake.clear()
            try:
                with self._gate:
                    self._start_jobs()
                    busy = not self.closed and self._look_after_jobs()
                self._trouble = ""
            except Exception as error:  # noqa: BLE001 - a full disk, no memory: it may pass, and leases outlast pulses
                busy = True
                if str(error) != self._trouble:
                    _tell(error, "jobs could not be looked after")
                self._trouble = str(error) or type(error).__name__
            # Real time on purpose: this paces the thread; what it does is stamped by the clock.
            self._wake.wait(PULSE_SECONDS if busy or self._live else None)

    def _look_after_jobs(self) -> bool:
        """Cancels, figures, leases and unwritten ends of this owner's jobs, once; whether it has any."""
        now = self._clock.now()
        mine = {job.id: job for job in self._ledger.active() if job.owner == self.owner}
        with self._lock:
            live = dict(self._live)
        for job in mine.values():
            run = live.get(job.id)
            if run is not None and job.cancel:
                run.stop.stop(job.cancel)
            progress = job.progress if run is None else replace(run.progress)
            if run is None and job.status is Status.RUNNING:  # claimed, and something failed before it began
                self._change(job.id, lambda current: finish(current, NOT_BEGUN, current.progress, now))
            elif is_due(job.lease_until, now) or job.suspected or progress != job.progress:
                self._beat(job, progress, now)
        for run in live.values():
            if run.outcome is not None:
                self._record(run, run.outcome)
            elif run.job.id not in mine:
                self._recover(run)
        return bool(mine)

    def _beat(self, job: Job, progress: Progress, now: float) -> None:
        self._change(job.id, lambda current: beat(current, progress, now))

    def _start_jobs(self) -> None:
        if self.closed:
            return
        self._ledger.sweep(self.owner, self._ttl, self._clock.now())
        for job in self._ledger.claim(self.owner, self._running_limit, self._clock.now()):
            run = LiveRun(job)
            with self._lock:
                self._live[job.id] = run
            try:
                run.launch(self._run, self._ended)
            except (RuntimeError, MemoryError) as error:
                log.warning("job %s has no thread to run in: %s", job.id, error)
                self._ended_here(run, NO_THREAD)

    def _ended(self, run: LiveRun, outcome: Outcome) -> None:
        """In the run's own thread, as its last act."""
        with self._gate:
            if not self.settled:  # else its end is written, and the ledger may be closed
                self._ended_here(run, outcome)
        self._wake.set()
        self._tell_listeners()

    def _ended_here(self, run: LiveRun, outcome: Outcome) -> None:
        """Write down how a run ended; the caller holds the gate. The pulse, or close, tries again what fails."""
        run.outcome = outcome
        try:
            self._record(run, outcome)
        except Exception as error:  # noqa: BLE001 - whatever it is, it is told and the jobs go on
            run.unwritten = True
            _tell(error, "the end of a job could not be written")

    def _record(self, run: LiveRun, outcome: Outcome | None) -> None:
        now = self._clock.now()
        if self.closed and self.owner.heir_to and not isinstance(outcome, Done | Broken):
            self._change(run.job.id, lambda job: release(job, now))
        else:
            final = at_shutdown(outcome) if self.closed or outcome is None else outcome
            self._change(run.job.id, lambda job: finish(job, final, run.progress, now))
        with self._lock:
            self._live.pop(run.job.id, None)

    def _recover(self, run: LiveRun) -> None:
        """A run whose job is not active any more: judged by others, or the ledger was lost and made anew."""
        if self._ledger.get(run.job.id) is None:
            self._ledger.restore(run.job)
        else:
            run.stop.stop(_LOST_NOTE)

    def _change(self, job_id: str, transition: Callable[[Job], Job]) -> None:
        """Change a job that is still active and still this owner's; else others have judged it, and that stands."""
        self._ledger.change(
            job_id, lambda job: transition(job) if job.owner == self.owner and not job.status.ended else job
        )

    def _end_what_is_left(self) -> None:
        """Runs that did not stop in time, ends that could not be written before, and jobs still queued."""
        with self._lock:
            live = list(self._live.values())
        for run in live:
            self._record(run, run.outcome)
        now = self._clock.now()
        for job in self._ledger.active():
            if job.owner == self.owner:
                self._change(job.id, lambda current: self._leave(current, now))

    def _leave(self, job: Job, now: float) -> Job:
        return release(job, now) if self.owner.heir_to else abandon(job, STOPPED_ERROR, now)

    def _tell_listeners(self) -> None:
        with self._lock:
            listeners = list(self._listeners)
        for listener in listeners:
            listener.set()


def _tell(error: Exception, what: str) -> None:
    """Into the log: with its traceback where it is a fault of this program."""
    log.warning("%s: %s", what, error, exc_info=None if isinstance(error, FastRagError) else error)
