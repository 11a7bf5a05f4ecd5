"""What a client is shown of a job: the dictionary of the old tool, field for field, and what is new beside it. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from markdown_rag.amounts import amount
from markdown_rag.clock import iso
from markdown_rag.jobs.admission import obstacle
from markdown_rag.jobs.job import Job, Status
from markdown_rag.paths import printable

NO_JOB_MESSAGE = "No indexing jobs found."


@dataclass(frozen=True, slots=True)
class JobStatus:
    """A job, the queued and running jobs of all processes in order of acceptance, and when that was so."""

    job: Job
    active: tuple[Job, ...]
    now: float

    def as_dict(self) -> dict[str, Any]:
        """The dictionary that clients get."""
        return to_status(self.job, self.active, self.now)


def to_status(job: Job, active_jobs: Sequence[Job], now: float) -> dict[str, Any]:
    """A job as JSON: times in ISO 8601 (UTC), durations in seconds, null where a moment has not come.

    New beside the old fields: resumable, queue_position (1 = next, 0 = not queued), waits_for (id of the job that holds
    the same files, or ""), follows, joined, cancel_requested, requested_by, pid.
    """
    progress = job.progress
    blocker = obstacle(job, active_jobs) if job.status is Status.QUEUED else None
    return {
        "found": True,
        "job_id": job.id,
        "status": job.status.value,
        "phase": progress.phase.value,
        "progress_percent": progress.percent,
        "processed_files": progress.processed_files,
        "total_files": progress.total_files,
        "processed_chunks": progress.processed_chunks,
        "total_chunks": progress.total_chunks,
        "target_path": printable(str(job.request.scope.absolute)),
        "params": dict(job.request.params),
        "note": _note(job, blocker, active_jobs),
        "result": None if job.result is None else dict(job.result),
        "error": job.error or None,
        "resumable": job.resumable,
        "created_at": iso(job.created_at),
        "started_at": iso(job.started_at),
        "finished_at": iso(job.finished_at),
        "updated_at": iso(job.updated_at),
        "elapsed_seconds": _elapsed(job, now),
        "active_jobs": len(active_jobs),
        "queue_position": queue_position(job, active_jobs),
        "waits_for": "" if blocker is None else blocker.id,
        "follows": job.follows,
        "joined": job.joined,
        "cancel_requested": bool(job.cancel),
        "requested_by": job.request.requested_by,
        "pid": job.owner.pid,
    }


def no_status(active_jobs: int, job_id: str = "") -> dict[str, Any]:
    """The answer for an id that nobody knows (or no longer), and for a ledger without jobs ("")."""
    message = NO_JOB_MESSAGE
    if job_id:
        message = (
            f"{message[:-1]} with the id {job_id}: it is misspelled, or the job ended long ago. Ask without an id for "
            "the latest."
        )
    return {"found": False, "message": message, "job_id": None, "active_jobs": active_jobs}


def queue_position(job: Job, active_jobs: Sequence[Job]) -> int:
    """1 for the queued job accepted first, 0 for one that is not queued."""
    if job.status is not Status.QUEUED:
        return 0
    return 1 + sum(other.status is Status.QUEUED and other.number < job.number for other in active_jobs)


def _note(job: Job, blocker: Job | None, active_jobs: Sequence[Job]) -> str:
    if job.status.ended:
        return job.note
    if job.cancel:
        return f"{job.cancel} Stopping; what is stored is kept."
    if job.status is Status.RUNNING:
        return job.progress.note
    if job.progress.note:  # what keeps it from being started
        return job.progress.note
    if blocker is not None:
        return f"Waits for job {blocker.id}, which works on the same files ({_stand(blocker)})."
    running = sum(other.status is Status.RUNNING for other in active_jobs)
    ahead = queue_position(job, active_jobs) - 1
    return f"Waits for its turn: {running} running, {ahead} waiting before it." if running or ahead else ""


def _stand(job: Job) -> str:
    if job.status is Status.QUEUED:
        return "queued"
    return f"{job.progress.processed_files:,} of {amount(job.progress.total_files, 'file')} done"


def _elapsed(job: Job, now: float) -> float:
    """Seconds since the start, up to the end; 0 while queued. Never negative, whatever the wall clock did."""
    if job.started_at is None:
        return 0.0
    return round(max(0.0, (now if job.finished_at is None else job.finished_at) - job.started_at), 3)
