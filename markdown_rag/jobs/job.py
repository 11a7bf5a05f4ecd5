"""An index job as a value, and every change it can go through. Pure: job in, job out, time as an argument.

    queued ──start──> running ──finish──> succeeded | failed | cancelled
       │  └── cancel, abandon ──> cancelled, failed      (abandon: running too)
       └<── adopt, release ── running

A job that has ended never changes again. A cancel, once recorded, decides how the job ends: neither a heartbeat nor a
late result undoes it. ``succeeded`` is said when the whole run, reconcile included, has returned.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any

from markdown_rag.amounts import amount
from markdown_rag.errors import JobError
from markdown_rag.indexing.report import Phase, Progress
from markdown_rag.jobs.lease import GRACE_SECONDS, LEASE_SECONDS
from markdown_rag.jobs.owner import Owner
from markdown_rag.paths import Scope

CANCEL_NOTE = "Cancelled on request."
STOPPED_ERROR = "The server was stopped before the job was done."
GOES_ON_NOTE = "The service ended during this job; the next one goes on from what is stored."


class Status(StrEnum):
    """The words of the old tool, and ``cancelled``."""

    QUEUED = "queued"
    RUNNING = "running"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    CANCELLED = "cancelled"

    @property
    def ended(self) -> bool:
        """Whether nothing will change any more."""
        return self not in {Status.QUEUED, Status.RUNNING}


@dataclass(frozen=True, slots=True)
class IndexRequest:
    """What somebody wants indexed. params: the arguments as the client gave them, shown back in the status.

    target: which store and collection is written; requests for different targets have nothing to do with each other.
    policy: fingerprint of how (chunking, excludes); only a job with the same one does the same work. Both are compared,
    never read. requested_by: who asked, for people to read.
    """

    scope: Scope
    force: bool = False
    use_cache: bool = True
    verify: bool = False
    confirm_deletions: bool = False
    params: Mapping[str, Any] = field(default_factory=dict)
    target: str = ""
    policy: str = ""
    requested_by: str = ""


@dataclass(frozen=True, slots=True)
class Job:
    """One job as the ledger has it. Times: seconds since the epoch, None while the moment has not come.

    number: place in the order of acceptance. progress: a copy. joined: further requests this job answers. follows: id
    of the job whose scope was busy, or "". cancel: the note of whoever asked to stop, or "". resumable: asking for the
    same again, with nothing changed, goes on from what is stored. adoptions: how often a new owner took it over.
    """

    id: str
    number: int
    request: IndexRequest
    owner: Owner
    status: Status
    created_at: float
    updated_at: float
    lease_until: float
    started_at: float | None = None
    finished_at: float | None = None
    suspected: bool = False
    progress: Progress = field(default_factory=Progress)
    joined: int = 0
    follows: str = ""
    cancel: str = ""
    note: str = ""
    error: str = ""
    resumable: bool = False
    result: Mapping[str, Any] | None = None
    adoptions: int = 0


@dataclass(frozen=True, slots=True)
class Done:
    """The run returned: everything is in its place. result must be JSON."""

    result: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Broken:
    """The run ended with an error, told in a sentence fit to read."""

    error: str
    resumable: bool


@dataclass(frozen=True, slots=True)
class Stopped:
    """The run stopped because somebody asked; note says who or why."""

    note: str


Outcome = Done | Broken | Stopped


def accept(request: IndexRequest, owner: Owner, now: float, *, job_id: str, number: int, follows: str) -> Job:
    """A new queued job."""
    return Job(job_id, number, request, owner, Status.QUEUED, now, now, now + LEASE_SECONDS, follows=follows)


def join(job: Job, request: IndexRequest) -> Job:
    """One more asks for the same; request is what the job now has to do, at least what it had."""
    _require(job, "joined", Status.QUEUED)
    return replace(job, request=request, joined=job.joined + 1)


def start(job: Job, now: float) -> Job:
    """The owner begins."""
    _require(job, "started", Status.QUEUED)
    return replace(
        job, status=Status.RUNNING, started_at=now, updated_at=now, lease_until=now + LEASE_SECONDS, suspected=False
    )


def beat(job: Job, progress: Progress, now: float) -> Job:
    """The owner is there and has come this far. Renews the lease, touches neither status nor a recorded cancel."""
    _require(job, "kept", Status.QUEUED, Status.RUNNING)
    updated = job.updated_at if progress == job.progress else now
    return replace(
        job, progress=replace(progress), updated_at=updated, lease_until=now + LEASE_SECONDS, suspected=False
    )


def suspect(job: Job, now: float) -> Job:
    """The lease ran out though the owner seems to be there: one extension."""
    _require(job, "suspected", Status.QUEUED, Status.RUNNING)
    return replace(job, suspected=True, lease_until=now + GRACE_SECONDS)


def ask_to_cancel(job: Job, note: str, now: float) -> Job:
    """Queued: over at once. Running: recorded, and the owner stops. Ended: unchanged."""
    if job.status.ended or job.cancel:
        return job
    asked = replace(job, cancel=note, updated_at=now)
    return _end(asked, Status.CANCELLED, now, note=note) if job.status is Status.QUEUED else asked


def finish(job: Job, outcome: Outcome, progress: Progress, now: float) -> Job:
    """The run is over; progress is where it stood."""
    _require(job, "finished", Status.RUNNING)
    stood = replace(job, progress=replace(progress))
    result = outcome.result if isinstance(outcome, Done) else None
    error = outcome.error if isinstance(outcome, Broken) else ""
    if job.cancel:
        rest = "The run was already complete." if isinstance(outcome, Done) else kept(progress)
        return _end(stood, Status.CANCELLED, now, note=f"{job.cancel} {rest}".rstrip(), result=result, error=error)
    if isinstance(outcome, Done):
        return _end(stood, Status.SUCCEEDED, now, note=progress.note, result=result)
    if isinstance(outcome, Broken):
        return _end(stood, Status.FAILED, now, note=kept(progress), error=error, resumable=outcome.resumable)
    return _end(stood, Status.CANCELLED, now, note=f"{outcome.note} {kept(progress)}".rstrip())


def abandon(job: Job, reason: str, now: float) -> Job:
    """Nobody works on it any more; what it had stored is known from its last progress."""
    _require(job, "abandoned", Status.QUEUED, Status.RUNNING)
    if job.cancel:
        return _end(job, Status.CANCELLED, now, note=f"{job.cancel} {kept(job.progress)}".rstrip())
    note = f"{kept(job.progress)} Ask for the same again to go on.".lstrip()
    return _end(job, Status.FAILED, now, note=note, error=reason, resumable=True)


def adopt(job: Job, owner: Owner, now: float) -> Job:
    """A new owner takes over a job that nobody works on any more: same id, from the start, over what is stored."""
    _require(job, "taken over", Status.QUEUED, Status.RUNNING)
    return replace(_waiting(job, now), owner=owner, lease_until=now + LEASE_SECONDS, adoptions=job.adoptions + 1)


def release(job: Job, now: float) -> Job:
    """The owner stops and leaves the job to whoever takes over next."""
    _require(job, "released", Status.QUEUED, Status.RUNNING)
    if job.cancel:
        return abandon(job, "", now)
    return replace(_waiting(job, now), lease_until=now, suspected=True)


def _waiting(job: Job, now: float) -> Job:
    progress = Progress(note=GOES_ON_NOTE if job.status is Status.RUNNING else job.progress.note)
    return replace(job, status=Status.QUEUED, started_at=None, updated_at=now, suspected=False, progress=progress)


def kept(progress: Progress) -> str:
    """What a run that did not come to its end leaves behind, "" where that is nothing."""
    # "" where it got to nothing: what earlier runs stored is not known then.
    if not progress.stored_files:
        return "What was embedded is kept." if progress.processed_chunks else ""
    return f"What was stored is kept: {progress.stored_files} of {amount(progress.total_files, 'file')}."


def _end(job: Job, status: Status, now: float, **changes: Any) -> Job:
    phase = {Status.SUCCEEDED: Phase.DONE, Status.CANCELLED: Phase.CANCELLED}.get(status, Phase.FAILED)
    progress = replace(job.progress, phase=phase, note="")
    ended = replace(job, status=status, progress=progress, finished_at=now, updated_at=now, suspected=False)
    return replace(ended, **changes)


def _require(job: Job, change: str, *allowed: Status) -> None:
    if job.status not in allowed:
        raise JobError(f"Job {job.id} is {job.status} and cannot be {change}.")
