"""Carrying out an index job with the parts of this process, and what this machine remembers of it."""

from __future__ import annotations

import contextlib
import logging
import threading
from collections.abc import Callable, Iterator
from functools import partial
from typing import TYPE_CHECKING, Protocol, TypeVar

from markdown_rag.answers import job_result, skipped
from markdown_rag.clock import StopSignal, stoppable
from markdown_rag.errors import FastRagError, StateError
from markdown_rag.facade import Json
from markdown_rag.indexing.report import Phase, Progress
from markdown_rag.jobs.job import STOPPED_ERROR, IndexRequest, Job
from markdown_rag.policies import policies_of

if TYPE_CHECKING:
    from markdown_rag.indexing.indexer import Indexer
    from markdown_rag.jobs.queue import JobQueue
    from markdown_rag.reading import Reading
    from markdown_rag.store.base import Store
    from markdown_rag.store.opening import StoreSettings
    from markdown_rag.workspaces import WorkspaceRegistry

ASK_SECONDS = 5.0  # how long a job that did not succeed may ask whether anything of its folder is stored

T = TypeVar("T")
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
    def store_settings(self) -> StoreSettings:
        """Where the store is."""
        ...

    @property
    def reading(self) -> Reading:
        """What questions are answered from."""
        ...

    def once(self, name: str, build: Callable[[], T]) -> T:
        """A part by its name, built if it is not there yet."""
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
        indexer = parts.indexer
    except FastRagError:
        if not was_known:
            _forget(parts, job)
        raise
    try:
        return _indexed(parts, indexer, job.request, progress, stop)
    except FastRagError as error:
        # While the process stops its store is closed under us: who comes next judges.
        if str(error) != STOPPED_ERROR and _holds_nothing(parts, workspace.id):
            _forget(parts, job)
        raise


def _holds_nothing(parts: Needed, workspace: str) -> bool:
    """Whether it is certain that no file of a workspace is stored and that none of its runs came to its end.

    The figures of a run do not tell: they count a batch once all of it is stored, and a run before this one may have
    stored what this one did not.
    """
    from markdown_rag.store.base import Where  # noqa: PLC0415 - loads numpy
    from markdown_rag.store.opening import find_collections, open_store  # noqa: PLC0415

    enough = StopSignal()  # the run's own may be what ended it
    timer = threading.Timer(ASK_SECONDS, enough.stop)
    timer.daemon = True
    try:
        if workspace in parts.workspaces.complete():
            return False
        timer.start()
        with stoppable(enough):
            settings, current, where = parts.store_settings, parts.store, Where(workspaces=(workspace,))
            if current.commits(where):
                return False
            for found in find_collections(settings):
                if found.name == current.collection:
                    continue
                former = parts.once(f"store {found.model}", partial(open_store, settings, found.model))
                if former.commits(where):
                    return False
            return True
    except (FastRagError, RuntimeError):  # not to be told now, or no thread for the timer: who is in doubt keeps
        return False
    finally:
        timer.cancel()


def _forget(parts: Needed, job: Job) -> None:
    """A folder of which nothing is stored was not indexed; unless another job is at it."""
    workspace = job.request.scope.workspace.id
    with contextlib.suppress(StateError):  # a search asks the index itself which folders it holds
        others = (each for each in parts.queue.active() if each.id != job.id)
        if all(each.request.scope.workspace.id != workspace for each in others):
            parts.workspaces.forget(workspace)


def _indexed(parts: Needed, indexer: Indexer, request: IndexRequest, progress: Progress, stop: StopSignal) -> Json:
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
    parts.reading.catalog.written()
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
