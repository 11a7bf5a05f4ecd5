"""Requests in, jobs carried out: the queue of one process over the ledger that all processes share.

Guarantees: ``submit`` writes one row and returns; a job is run by the process that accepted it as soon as the rules of
``admission`` let it start; a cancel is seen within a pulse, whichever process asked; every process sees every job. The
interface is synchronous; an event loop calls it from threads.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from markdown_rag.clock import Clock
from markdown_rag.errors import JobError
from markdown_rag.jobs.admission import Decision, FollowUp, Join, Limits, Refuse, Repeated, meant, repeats
from markdown_rag.jobs.job import CANCEL_NOTE, IndexRequest, Job, Status, ask_to_cancel
from markdown_rag.jobs.ledger import Ledger
from markdown_rag.jobs.owner import Owner, this_process
from markdown_rag.jobs.runs import RunJob
from markdown_rag.jobs.status import JobStatus
from markdown_rag.jobs.worker import Worker
from markdown_rag.paths import printable

CLOSE_SECONDS = 0.8
NAMED = 5  # jobs that a message names one by one
_LOOK_SECONDS = 0.1  # how often a waiting caller looks for what other processes wrote
_OWN_LOOK_SECONDS = 1.0  # and at a job of this process, whose end wakes it; a look costs 3 ms of what runs could use


def _anybodys(_: Job) -> bool:
    """Every job is as near to the caller as another."""
    return True


@dataclass(frozen=True, slots=True)
class Submission:
    """What became of a request. job: the one that does it, as accepted or joined; None when refused.

    joined: it was there already when the request first came. follows: id of the busy job it runs after, or "".
    message: fit to read.
    """

    job: Job | None
    joined: bool
    follows: str
    message: str

    @property
    def accepted(self) -> bool:
        """Whether a job does what was asked."""
        return self.job is not None


@dataclass(frozen=True, slots=True)
class Cancellation:
    """What became of a cancel. job: as it is now. accepted: it is or will be ``cancelled``. message: fit to read.

    also: the waiting jobs that were cancelled with it. left: those that are active and that nobody asked to stop.
    """

    job: Job
    accepted: bool
    message: str
    also: tuple[Job, ...] = ()
    left: tuple[Job, ...] = ()


class JobQueue:
    """Accepts, runs, shows and stops jobs. Thread-safe; but for wait and close, calls take one small transaction.

    run: carries a job out, writes its figures into the Progress, checks the StopSignal well under a second apart and
    returns the result as JSON. max_jobs: how many run at once, over all processes. ttl_s: how long an ended job is
    remembered. heir_to: the target whose jobs are taken over when their owner has died, and left to the next heir when
    this one closes. The ledger stays the caller's to close, after the queue.
    """

    def __init__(
        self,
        ledger: Ledger,
        run: RunJob,
        clock: Clock,
        max_jobs: int = 1,
        ttl_s: float = 1800.0,
        *,
        heir_to: str = "",
    ) -> None:
        self._ledger = ledger
        self._clock = clock
        self._ttl = ttl_s
        self._limits = Limits(running=max_jobs)
        self._worker = Worker(ledger, run, this_process(heir_to), clock, running_limit=max_jobs, ttl=ttl_s)
        self._worker.attend()

    @property
    def owner(self) -> Owner:
        """Who accepts here, as written into every job."""
        return self._worker.owner

    def submit(self, request: IndexRequest, request_id: str = "") -> Submission:
        """Accept, join or refuse a request. Raises JobError once the queue is closed, StateError.

        request_id: names a request that may have to be repeated; the repetition gets the job of the first time.
        """
        decisions: list[Decision | Repeated] = []

        def write() -> Job | None:
            decision, job = self._ledger.submit(request, self.owner, self._limits, self._clock.now(), request_id)
            decisions.append(decision)
            return job

        job = self._worker.accept(write)
        return _submission(decisions[0], job and self._worker.freshest(job))

    def status(self, job_id: str = "", is_mine: Callable[[Job], bool] = _anybodys) -> JobStatus | None:
        """A job of any process by its id; None if there is no such job.

        "": the one accepted last, or while that one waits, the active one that is meant (``admission.meant``).
        """
        now = self._sweep()
        job = self._ledger.get(job_id) if job_id else self._ledger.latest()
        if job is None:
            return None
        active = self.active()
        if not job_id and job.status is Status.QUEUED:
            job = meant(active, is_mine) or job
        return JobStatus(self._worker.freshest(job), tuple(active), now)

    def active(self) -> list[Job]:
        """The queued and running jobs of all processes, in order of acceptance; none that status calls ended."""
        jobs = map(self._worker.freshest, self._ledger.active())
        return [job for job in jobs if not job.status.ended]

    def cancel(self, job_id: str = "", is_mine: Callable[[Job], bool] = _anybodys) -> Cancellation:
        """Stop a job of any process. Raises JobError if there is no such job.

        "": the active one that is meant (``admission.meant``), and what waits to do the same once more. is_mine:
        whether a job indexes where the caller works.
        """
        now = self._sweep()
        also: list[Job] = []
        if not job_id:
            active = self._ledger.active()
            chosen = meant(active, is_mine)
            if chosen is None:
                raise JobError("No index job is queued or running.", "There is nothing to cancel.")
            job_id = chosen.id
            # First what waits: it would start as soon as the other has stopped.
            also = [self._ask_to_cancel(each.id, now) for each in active if repeats(each, chosen)]
        job = self._ask_to_cancel(job_id, now)
        left = tuple(each for each in self.active() if not each.cancel)
        return _cancellation(job, tuple(also), left)

    def _ask_to_cancel(self, job_id: str, now: float) -> Job:
        job = self._ledger.change(job_id, lambda job: ask_to_cancel(job, CANCEL_NOTE, now))
        if job is None:
            raise JobError(f"There is no job {job_id}.", "Ask for the status without an id to see the latest.")
        self._worker.pass_on_cancel(job)
        return job

    def wait(self, job_id: str, seconds: float) -> JobStatus | None:
        """The job's status when it has ended, or after seconds; None if there is no such job.

        Raises JobError if the queue is closed while the job, one of another process, goes on; StateError.
        """
        deadline = self._clock.monotonic() + seconds
        with self._worker.listening() as event:
            while True:
                event.clear()
                status = self.status(job_id)
                if status is None or status.job.status.ended:
                    return status
                left = deadline - self._clock.monotonic()
                if left <= 0:
                    return status
                if self._worker.settled:
                    raise JobError("The server is stopping.", f"Job {status.job.id} goes on; ask when it is back.")
                job_id = status.job.id  # "" means the job that was the latest at the first look
                is_told = status.job.owner == self.owner
                self._clock.wait(event, min(left, _OWN_LOOK_SECONDS if is_told else _LOOK_SECONDS))

    def close(self, seconds: float = CLOSE_SECONDS) -> None:
        """Stop this process's jobs and its threads. Safe to call twice.

        Jobs that are not done end failed and resumable; those of an heir are left, queued under their ids, to the next
        one. Waits at most about seconds for runs to see their StopSignal; one that does not is left to its thread.
        """
        self._worker.close(seconds)

    def _sweep(self) -> float:
        """Judge the jobs of all processes as of now; returns now."""
        now = self._clock.now()
        self._ledger.sweep(self.owner, self._ttl, now)
        self._worker.attend()
        return now


def _submission(decision: Decision | Repeated, job: Job | None) -> Submission:
    if isinstance(decision, Refuse):
        return Submission(None, False, "", f"{decision.reason} Wait until one has ended, or cancel one.")
    if isinstance(decision, Repeated) and job is not None:
        message = f"Job {job.id} was accepted for this very request before; it is {job.status}."
        return Submission(job, decision.joined, "", message)
    if isinstance(decision, Join):
        return Submission(job, True, "", f"Job {decision.job_id} is waiting to do the same; joined it.")
    if isinstance(decision, FollowUp):
        message = f"Index job accepted; it runs after job {decision.after}, which works on the same files."
        return Submission(job, False, decision.after, message)
    return Submission(job, False, "", "Index job accepted and queued.")


def _cancellation(job: Job, also: tuple[Job, ...], left: tuple[Job, ...]) -> Cancellation:
    stopped = job.status is Status.CANCELLED or not job.status.ended
    said = [_what_became(job)]
    said += [f"Job {each.id}, which waited to do the same again, is cancelled too." for each in also]
    if left:
        said.append(f"Still active: {_named(left)}.")
    return Cancellation(job, stopped, " ".join(said), also, left)


def _what_became(job: Job) -> str:
    if job.status is Status.CANCELLED:
        return f"Job {job.id} is cancelled. {job.note.removeprefix(CANCEL_NOTE).strip()}".strip()
    if job.status.ended:
        return f"Job {job.id} had ended before: {job.status}."
    return f"Job {job.id} is being cancelled; what it has stored is kept."


def _named(jobs: Sequence[Job]) -> str:
    shown = [f"{job.id} ({printable(str(job.request.scope.absolute))}, {job.status})" for job in jobs[:NAMED]]
    return ", ".join([*shown, f"{len(jobs) - NAMED} more"] if len(jobs) > NAMED else shown)
