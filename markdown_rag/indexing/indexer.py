"""An index run from end to end: a scope in, a report out.

Survey, guard, then reading and chunking, embedding, and storing side by side, each a batch ahead of the next; then what
is gone goes, and what earlier runs left. Memory does not grow with the vault. A stop is seen within a second and keeps
what is stored; what was paid for is in the vector cache (I13).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import replace
from functools import partial

from markdown_rag.clock import Clock, StopSignal
from markdown_rag.embeddings.service import Embeddings
from markdown_rag.errors import StoreUnavailable
from markdown_rag.indexing.guard import refusal
from markdown_rag.indexing.ignore import ScanPolicy
from markdown_rag.indexing.lending import lend
from markdown_rag.indexing.lookahead import ahead
from markdown_rag.indexing.pipeline import Run, Writer
from markdown_rag.indexing.report import Phase, Problem, ProblemKind, Progress, Report
from markdown_rag.indexing.scan import canonical
from markdown_rag.indexing.stages import Context, Reader, embed, workload
from markdown_rag.indexing.statcache import StatCache
from markdown_rag.indexing.survey import survey
from markdown_rag.indexing.underway import Underway
from markdown_rag.markdown.chunking import ChunkPolicy
from markdown_rag.paths import Scope
from markdown_rag.store.base import Store

BATCH_CHUNKS = 1000
_RUNS = 4  # runs that go on at once before they wait for each other's stages


class Indexer:
    """Brings a collection up to date with a disk. Thread-safe; runs at once over the same files lose nothing.

    batch_chunks: how many chunks are embedded together; best what the provider takes in all its requests at once.
    budget: most tokens that one run may have embedded (0: any number); what is over it waits for the next run.
    underway: which runs go on, here and in other processes.
    """

    def __init__(
        self,
        store: Store,
        embeddings: Embeddings,
        cache: StatCache,
        clock: Clock,
        batch_chunks: int = BATCH_CHUNKS,
        *,
        budget: int = 0,
        underway: Underway | None = None,
    ) -> None:
        self._store = store
        self._embeddings = embeddings
        self._cache = cache
        self._clock = clock
        self._batch_chunks = batch_chunks
        self._budget = budget
        self._underway = underway or Underway()
        self._writer = Writer(store, cache, clock, self._underway)
        # One pool a stage: a stage waits only for the one before it, so a full pool delays and never deadlocks. The
        # threads are kept because SQLite's connections belong to threads.
        self._reading = ThreadPoolExecutor(_RUNS, "index-read")
        self._embedding = ThreadPoolExecutor(_RUNS, "index-embed")

    def run(
        self,
        scope: Scope,
        chunking: ChunkPolicy,
        scanning: ScanPolicy,
        *,
        force: bool = False,
        use_cache: bool = True,
        verify: bool = False,
        confirm_deletions: bool = False,
        progress: Progress,
        stop: StopSignal,
    ) -> Report:
        """Index a scope.

        force: write every file of the scope again. use_cache False: pay for every vector again. verify: hash every
        file, trust no stat. confirm_deletions: go on where most files are gone.
        A collection that is removed meanwhile is filled anew. Raises WorkspaceError (no such root), GuardError,
        EmbeddingError, StoreError, Cancelled; what is stored stays.
        """
        begun = self._clock.monotonic()
        once = partial(
            self._run_once,
            canonical(scope),
            chunking,
            scanning,
            force=force,
            use_cache=use_cache,
            verify=verify,
            confirm_deletions=confirm_deletions,
            progress=progress,
            stop=stop,
        )
        report = once() or once()
        if report is None:
            raise StoreUnavailable("The index was removed twice while it was written.", "Index again.")
        report.seconds["total"] = round(self._clock.monotonic() - begun, 4)
        progress.phase = Phase.DONE
        return report

    def _run_once(
        self,
        scope: Scope,
        chunking: ChunkPolicy,
        scanning: ScanPolicy,
        *,
        force: bool,
        use_cache: bool,
        verify: bool,
        confirm_deletions: bool,
        progress: Progress,
        stop: StopSignal,
    ) -> Report | None:
        """A run over one collection; None if that was removed before the end, and the rows with it."""
        started = self._clock.monotonic()
        progress.phase = Phase.SCAN
        progress.note = "waiting for the store"
        self._store.ensure()
        collection = self._store.identity()
        progress.note = ""
        try:
            found = survey(
                scope,
                scanning,
                chunking.fingerprint,
                stop,
                store=self._store,
                cache=self._cache,
                force=force,
                verify=verify,
            )
            context = Context(progress, stop, self._clock)
            with self._underway.run() as mark:
                run = Run(found, chunking.fingerprint, context, mark)
                _begin(run)
                refused = None if confirm_deletions else refusal(found, stop, store=self._store, clock=self._clock)
                if refused:
                    raise refused
                remains = self._writer.look_for_remains(run)
                context.seconds["delta_scan"] = self._clock.monotonic() - started
                self._write_files(run, chunking, use_cache=use_cache)
                self._finish(run, remains)
        except StoreUnavailable:
            if self._is_still(collection):
                raise
            return None
        if self._store.identity() != collection:
            return None
        run.report.seconds = {name: round(value, 4) for name, value in context.seconds.items()}
        return run.report

    def _is_still(self, collection: str) -> bool:
        """Whether the collection is the one of that identity, as far as the store answers."""
        try:
            return self._store.identity() == collection
        except StoreUnavailable:
            return True

    def clear(self, workspace: str, store: Store | None = None) -> int:
        """Remove every row of a workspace and what is remembered of it; the number of rows. store: another one."""
        writer = self._writer if store is None else replace(self._writer, store=store)
        return writer.clear(workspace)

    def remove_rows(self, ids: Sequence[str]) -> None:
        """Remove rows that stand for nothing, as a plan of repair names them."""
        self._writer.remove_rows(ids)

    def close(self) -> None:
        """End the stages' threads; a run that has not seen its stop yet is not waited for. Safe to call twice."""
        for pool in (self._reading, self._embedding):
            pool.shutdown(wait=False, cancel_futures=True)

    def _write_files(self, run: Run, chunking: ChunkPolicy, *, use_cache: bool) -> None:
        work = run.survey.delta.work
        if not work:
            return
        run.context.progress.phase = Phase.CHUNK
        stop = run.context.stop
        reader = Reader(str(run.survey.scope.workspace.root), chunking, run.context)
        chunked = ahead(self._reading, reader.batches(work, self._batch_chunks), stop)
        prepaid = lend(chunked, self._store, self._embeddings, stop) if use_cache else chunked
        embedded = embed(prepaid, self._embeddings, run.context, use_cache=use_cache, budget=self._budget)
        try:
            with closing(ahead(self._embedding, embedded, stop)) as batches:
                for item in batches:
                    started = self._clock.monotonic()
                    self._writer.store_batch(run, item)
                    run.context.seconds["insert"] += self._clock.monotonic() - started
                    run.context.progress.processed_files += item.batch.files
        finally:
            # An error keeps the stages alive in its traceback. Left to the garbage collector, this one might be ended
            # in a thread of its own pool, and wait there for itself.
            if not stop.stopped:
                chunked.close()

    def _finish(self, run: Run, remains: tuple[str, ...]) -> None:
        run.context.progress.phase = Phase.RECONCILE
        steps: tuple[tuple[str, Callable[[], None]], ...] = (
            ("prune", lambda: self._writer.remove_deleted(run)),
            ("reconcile", lambda: self._writer.reconcile(run, remains)),
            ("flush", lambda: self._writer.flush(run)),
        )
        for name, step in steps:
            run.context.stop.check()
            started = self._clock.monotonic()
            step()
            run.context.seconds[name] = self._clock.monotonic() - started
        trouble = self._cache.take_trouble()
        if trouble:
            run.report.add_problem(Problem("", ProblemKind.STATE, trouble))


def _begin(run: Run) -> None:
    """Everything that is known before the first file is read."""
    scan, delta = run.survey.scan, run.survey.delta
    run.report.left_out.update(scan.left_out)
    for problem in (*scan.problems, *delta.skipped):
        run.report.add_problem(problem)
    run.report.unchanged = len(delta.unchanged) + len(delta.skipped)
    progress = run.context.progress
    progress.total_chunks = progress.processed_chunks = 0  # of a run that starts over
    progress.total_bytes = sum(workload(seen) for seen in scan.files.values())
    progress.processed_bytes = progress.total_bytes - sum(workload(work.seen) for work in delta.work)
    progress.processed_files = run.report.unchanged
    progress.stored_files = len(delta.unchanged)
    progress.total_files = len(scan.files)  # the last: from here on somebody who looks takes the pace
