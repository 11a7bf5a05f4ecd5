"""What becomes of a request, and which queued job may start: pure judgements over the active jobs.

The same rules run in every process, inside one transaction over the ledger they share, so several processes decide
as one. ``active`` is always the queued and running jobs of all of them, in order of acceptance, abandoned ones ended.

Only a job that has not started is joined. A running one may have passed the file that was edited a moment ago, and
whoever then waits for ``succeeded`` would search an old text; so a request for a busy scope gets a follow-up, and
everybody who comes after joins that one: however many ask, a busy scope is run once more.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from markdown_rag.amounts import amount
from markdown_rag.jobs.job import IndexRequest, Job, Status


@dataclass(frozen=True, slots=True)
class Limits:
    """running: how many jobs at once, over all processes. queued: how many may wait."""

    running: int = 1
    queued: int = 100


@dataclass(frozen=True, slots=True)
class Run:
    """Nothing stands in its way but the number of running jobs."""


@dataclass(frozen=True, slots=True)
class Join:
    """A waiting job does it too; request is what that job then has to do."""

    job_id: str
    request: IndexRequest


@dataclass(frozen=True, slots=True)
class FollowUp:
    """It runs when the job that is busy with the same files has ended."""

    after: str


@dataclass(frozen=True, slots=True)
class Refuse:
    """It is not accepted; reason is fit to read."""

    reason: str


@dataclass(frozen=True, slots=True)
class Repeated:
    """It came before, under its request id; that job may wait, run or have ended. Said by the ledger alone.

    joined: the job was there already when it came first.
    """

    job_id: str
    joined: bool = False


Decision = Run | Join | FollowUp | Refuse


def decide(request: IndexRequest, active: Sequence[Job], limits: Limits) -> Decision:
    """What becomes of the request."""
    waiting = [job for job in active if job.status is Status.QUEUED]
    for job in waiting:
        if covers(job.request, request):
            return Join(job.id, job.request)
    for job in waiting:
        if _same_place(job.request, request):
            return Join(job.id, _both(job.request, request))
    if len(waiting) >= limits.queued:
        return Refuse(
            f"{amount(len(waiting), 'index job is', 'index jobs are')} waiting already, which is the most that may."
        )
    busy = [job for job in active if overlaps(job.request, request)]
    return FollowUp(busy[-1].id) if busy else Run()


def covers(done: IndexRequest, wanted: IndexRequest) -> bool:
    """Whether carrying out the one does all that the other asks."""
    return (
        _same_means(done, wanted)
        and done.scope.covers(wanted.scope)
        and done.force >= wanted.force
        and done.use_cache <= wanted.use_cache
        and (done.verify or done.force) >= wanted.verify
        and done.confirm_deletions >= wanted.confirm_deletions
    )


def overlaps(one: IndexRequest, other: IndexRequest) -> bool:
    """Whether the two could write the same rows."""
    return one.target == other.target and one.scope.overlaps(other.scope)


def startable(active: Sequence[Job], running_limit: int) -> list[Job]:
    """The queued jobs that may start now, whoever owns them: first come first served, never two on the same files.

    A job whose files are busy lets later ones pass, but not those that want the same files.
    """
    ahead = [job for job in active if job.status is Status.RUNNING]
    free = running_limit - len(ahead)
    chosen: list[Job] = []
    for job in active:
        if job.status is not Status.QUEUED:
            continue
        if len(chosen) < free and not any(overlaps(job.request, earlier.request) for earlier in ahead):
            chosen.append(job)
        ahead.append(job)
    return chosen


def obstacle(job: Job, active: Sequence[Job]) -> Job | None:
    """The job a queued one waits for because both want the same files; None if it waits only for its turn."""
    for other in active:
        before = other.status is Status.RUNNING or other.number < job.number
        if before and overlaps(other.request, job.request):
            return other
    return None


def meant(active: Sequence[Job], is_mine: Callable[[Job], bool]) -> Job | None:
    """The job that somebody means who names none; None if none is active.

    First what is theirs, and of that what runs: another's work is not theirs to stop while they have some of their own.
    Of several the one accepted last. Those that were asked to stop come last of all.
    """
    return max(
        active,
        key=lambda job: (not job.cancel, is_mine(job), job.status is Status.RUNNING, job.number),
        default=None,
    )


def repeats(job: Job, other: Job) -> bool:
    """Whether a waiting job is there to do once more what another does."""
    same = job.request.target == other.request.target and job.request.scope == other.request.scope
    return same and job.id != other.id and job.status is Status.QUEUED


def _same_means(one: IndexRequest, other: IndexRequest) -> bool:
    # Two checkouts may share one workspace id (MARKDOWN_WORKSPACE_ID): same rows, other files.
    same_root = one.scope.workspace.root == other.scope.workspace.root
    return same_root and one.target == other.target and one.policy == other.policy


def _same_place(one: IndexRequest, other: IndexRequest) -> bool:
    return _same_means(one, other) and one.scope == other.scope


def _both(one: IndexRequest, other: IndexRequest) -> IndexRequest:
    return replace(
        one,
        force=one.force or other.force,
        use_cache=one.use_cache and other.use_cache,
        verify=one.verify or other.verify,
        confirm_deletions=one.confirm_deletions or other.confirm_deletions,
    )
