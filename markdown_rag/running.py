"""Carrying out an index job with the parts of this process, and what this machine remembers of it."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Iterator
from typing import TYPE_CHECKING, Protocol

from markdown_rag.answers import job_result, skipped
from markdown_rag.clock import StopSignal
from markdown_rag.errors import FastRagError, StateError
from markdown_rag.facade import Json
from markdown_rag.indexing.report import Phase, Progress
from markdown_rag.jobs.job import IndexRequest, Job
from markdown_rag.policies import policies_of

if TYPE_CHECKING:
    from markdown_rag.indexing.indexer import Indexer
    from markdown_rag.jobs.queue import JobQueue
    from markdown_rag.reading import Reading
    from markdown_rag.store.base import Store
    from markdown_rag.workspaces import WorkspaceRegistry

log = logging.getLogger(__name__)


class Needed(Protocol):
    """The parts that an index job needs, each opened when it is asked for."""

    @property
    def workspaces(self) -> WorkspaceRegistry:
        """Which folders were indexed from here."""
        ...

    @property
    def queue(self) -> JobQueue:
        """The index jobs of all processes."""
        ...

    @property
    def indexer(self) -> Indexer:
        """Folders to rows."""
        ...

    @property
    def store(self) -> Store:
        """The collection that is written to."""
        ...

    @property
    def reading(self) -> Reading:
        """What questions are answered from."""
        ...

    def cost(self, tokens: int) -> float | None:
        """US dollars for tokens, None where the price is not known."""
        ...


def carry_out(parts: Needed, job: Job, progress: Progress, stop: StopSignal) -> Json:
    """Carry out an index job in its own thread; its result. Raises FastRagError, Cancelled."""
    workspace, was_known = job.request.scope.workspace, True
    progress.phase, progress.note = Phase.SCAN, "opening the index"
    with _forgoing("which folders were indexed"):
        was_known = parts.workspaces.knows(workspace.id)
        parts.workspaces.remember(workspace)
    try:
        return _indexed(parts, job.request, progress, stop)
    except FastRagError:
        if not was_known and not progress.processed_files:
            _forget(parts, job)
        raise


def _forget(parts: Needed, job: Job) -> None:
    """A folder whose first job stored nothing was not indexed; unless another job is at it."""
    workspace = job.request.scope.workspace.id
    with contextlib.suppress(StateError):  # a search asks the index itself which folders it holds
        others = (each for each in parts.queue.active() if each.id != job.id)
        if all(each.request.scope.workspace.id != workspace for each in others):
            parts.workspaces.forget(workspace)


def _indexed(parts: Needed, request: IndexRequest, progress: Progress, stop: StopSignal) -> Json:
    indexer = parts.indexer
    progress.note = ""
    chunking, scanning = policies_of(request.policy)
    report = indexer.run(
        request.scope,
        chunking,
        scanning,
        force=request.force,
        use_cache=request.use_cache,
        verify=request.verify,
        confirm_deletions=request.confirm_deletions,
        progress=progress,
        stop=stop,
    )
    parts.reading.catalog.forget()
    workspace = request.scope.workspace.id
    whole = not request.scope.path and request.scope.recursive and not report.postponed
    with _forgoing("that a workspace is complete"):
        if whole:
            parts.workspaces.mark_complete(workspace, parts.store.collection)
    with _forgoing("what was left out"):
        parts.workspaces.keep_skipped(workspace, lambda known: skipped(report, request.scope, known))
    return job_result(report, parts.cost(report.tokens))


@contextlib.contextmanager
def _forgoing(what: str) -> Iterator[None]:
    """A state file that fails costs what it would have told, never a job."""
    try:
        yield
    except StateError as error:
        log.warning("%s is not remembered: %s", what, error)
