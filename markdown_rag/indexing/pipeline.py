"""The order of writes, and the only place that writes rows. Embedded batches in, rows and remembered stats out.

For every file: intent noted, rows in, the row with ``ord == 0`` last (it commits the generation), older generations out
by id, stat noted. Deleted files go after all new ones are in, so a rename is never missing. A stop or an error at any
point leaves the old or the new text findable (I3); what it leaves behind the next run removes.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from operator import attrgetter

from markdown_rag.clock import Clock, StopSignal
from markdown_rag.embeddings.base import Vector
from markdown_rag.embeddings.service import DocumentOutcome
from markdown_rag.errors import StoreLimitError
from markdown_rag.indexing import reconcile
from markdown_rag.indexing.delta import moved, newest_first
from markdown_rag.indexing.departures import departures
from markdown_rag.indexing.reconcile import Generation
from markdown_rag.indexing.records import records
from markdown_rag.indexing.report import Exclusion, Phase, Problem, ProblemKind, Report
from markdown_rag.indexing.stages import Batch, Context, Embedded, Prepared
from markdown_rag.indexing.statcache import Intent, StatCache
from markdown_rag.indexing.survey import Survey, where
from markdown_rag.indexing.underway import Underway
from markdown_rag.store.base import FileEntry, Record, RowKey, Store, Where

SLICE_ROWS = 100  # rows between two pauses
FLUSH_ROWS = 200  # a search pays about 80 us for each row that was not flushed; a flush costs 0.3 s and more


@dataclass(slots=True)
class Run:
    """What one run carries along; only its own thread writes to it.

    policy: fingerprint of the chunking policy. mark: what its intents are signed with. generations: what is stored of a
    path, as far as not removed yet. written: rows inserted or removed. arrived: path to hash of the files it stored.
    waiting: files that could not be indexed.
    """

    survey: Survey
    policy: str
    context: Context
    mark: str = ""
    report: Report = field(default_factory=Report)
    written: int = 0
    arrived: dict[str, str] = field(default_factory=dict)
    waiting: set[str] = field(default_factory=set)
    generations: dict[str, list[FileEntry]] = field(init=False)

    def __post_init__(self) -> None:
        self.generations = newest_first(self.survey.catalog)

    @property
    def workspace(self) -> str:
        """The workspace's id."""
        return self.survey.scope.workspace.id


@dataclass(frozen=True, slots=True)
class Writer:
    """Writes what a run has found out. Raises StoreError and Cancelled; a failing state file costs nothing here."""

    store: Store
    cache: StatCache
    clock: Clock
    underway: Underway = field(default_factory=Underway)

    def look_for_remains(self, run: Run) -> tuple[str, ...]:
        """Ids of uncommitted rows, before anything is written; looked for only where intents may have been lost."""
        scope, scan = run.survey.scope, run.survey.scan
        if self.cache.is_swept(run.workspace, self.store.collection):
            return ()
        keys = _until_stopped(self.store.keys(where(scope)), run.context.stop)
        remains = reconcile.sweep(keys, run.survey.catalog, self.clock.now_ns(), scan.protects)
        if not (remains.young or scan.unreadable or scope.path) and scope.recursive:
            self.cache.mark_swept(run.workspace, self.store.collection)
        return remains.ids

    def store_batch(self, run: Run, item: Embedded) -> None:
        """Store a batch's files and account for all of them."""
        batch = item.batch
        run.report.tokens += item.tokens
        if item.outcome is not None:
            self._store_files(run, batch.prepared, item.outcome)
        # A file that holds no words any more: nothing is left to be found under its name.
        self._remove_paths(run, (work.path for work, _, _ in batch.skipped))
        readable = batch.same + [(work, noted) for work, noted, _ in batch.skipped]
        self.cache.note(run.workspace, {work.path: noted for work, noted in readable})
        _account(run, batch)

    def remove_deleted(self, run: Run) -> None:
        """Remove what was seen to be absent, and forget its stats; not what is only moved and not indexed yet."""
        delta, found = run.survey.delta, run.survey.scan.files
        kept = moved(delta.deleted, (found[path] for path in run.waiting), run.survey.noted)
        deleted = [entry for entry in delta.deleted if entry.path not in kept]
        if deleted:
            staying = {path: entries[0].file_hash for path, entries in run.generations.items()} | run.arrived
            others = {path: file_hash for path, file_hash in staying.items() if path not in {e.path for e in deleted}}
            self.cache.depart(departures(deleted, others, self.store, run.arrived))
        self._remove_paths(run, (entry.path for entry in deleted))
        self.cache.forget(run.workspace, (path for path in delta.forgotten if path not in kept))
        run.report.deleted = len(deleted)
        for entry in deleted:
            run.report.add_file(entry.path)

    def reconcile(self, run: Run, remains: Sequence[str]) -> None:
        """Remove what earlier runs left: replaced generations, intents never carried out, uncommitted rows."""
        older = [entry for entry in run.survey.delta.older if entry.path in run.generations]
        now = self.clock.now_ns()
        intents = [
            intent
            for intent in self.cache.unfinished(run.survey.scope, self.store.collection)
            if intent.run == run.mark or not self.underway.may_be_written(intent, now)
        ]
        begun = self._never_committed(run, intents)
        rows = self._remove(run, [reconcile.of_entry(entry) for entry in older] + begun)
        self.store.delete(remains)
        self.cache.note(run.workspace, {}, intents, self.store.collection)
        run.report.orphans += rows + len(remains)

    def remove_rows(self, ids: Sequence[str]) -> None:
        """Remove rows that an audit found to stand for nothing: of a generation the committing one is named last."""
        self.store.delete([*ids])

    def _never_committed(self, run: Run, intents: Sequence[Intent]) -> list[Generation]:
        """Intended generations that are not committed now: this run's own may be, and their note have failed."""
        begun = reconcile.unfinished(intents, run.survey.catalog)
        if not begun:
            return []
        paths = tuple(sorted({generation.path for generation in begun}))
        now = self.store.catalog(Where(workspaces=(run.workspace,), paths=paths))
        return reconcile.unfinished(intents, [*run.survey.catalog, *now])

    def flush(self, run: Run) -> None:
        """Make what the run wrote quick to search, if there is enough of it to feel."""
        if run.written >= FLUSH_ROWS:
            self.store.flush()

    def clear(self, workspace: str) -> int:
        """Remove every row of a workspace and all that is remembered of it; the number of rows.

        The committing rows go first, so that no file is left with half of its rows. What a clearing leaves that is cut
        short is noted as intended and never committed: the next run removes it.
        """
        keys = list(self.store.keys(Where(workspaces=(workspace,))))
        self.cache.forget_workspace(workspace)
        with self.underway.run() as mark:
            rows = {(key.path, key.gen): key.ord + 1 for key in sorted(keys, key=attrgetter("ord"))}
            going = [Intent(path, gen, count, mark) for (path, gen), count in rows.items()]
            self.cache.intend(workspace, self.store.collection, going)
            self.store.delete([key.id for key in keys if key.ord == 0])
            self.store.delete([key.id for key in keys if key.ord != 0])
            self.cache.note(workspace, {}, going, self.store.collection)
        if len(keys) >= FLUSH_ROWS:
            self.store.flush()
        return len(keys)

    def _store_files(self, run: Run, files: Sequence[Prepared], outcome: DocumentOutcome) -> None:
        """Rows in, older generations out, stats noted: for all files of a batch whose texts have vectors."""
        run.context.progress.phase = Phase.INSERT
        run.report.embedded += outcome.embedded
        run.report.cached += outcome.cached
        ready = self._with_rows(run, files, outcome)
        intents = {p.work.path: Intent(p.work.path, rows[0].gen, len(rows), run.mark) for p, rows in ready}
        self.cache.intend(run.workspace, self.store.collection, intents.values())
        stored = self._insert(run, ready)
        self._remove_paths(run, (prepared.work.path for prepared, _ in stored))
        self.cache.note(
            run.workspace,
            {prepared.work.path: prepared.noted for prepared, _ in stored},
            [intents[prepared.work.path] for prepared, _ in stored],
            self.store.collection,
        )
        run.arrived |= {prepared.work.path: prepared.noted.file_hash for prepared, _ in stored}
        run.context.progress.stored_files += len(stored)
        for prepared, rows in stored:
            _account_stored(run.report, prepared, len(rows))

    def _with_rows(
        self, run: Run, files: Sequence[Prepared], outcome: DocumentOutcome
    ) -> list[tuple[Prepared, list[Record]]]:
        """The files whose chunks all have vectors, with their rows; the others fail and keep what is stored of them."""
        ready = []
        end = 0
        for prepared in files:
            start, end = end, end + len(prepared.document.chunks)
            vectors = [vector for vector in outcome.vectors[start:end] if vector is not None]
            if len(vectors) == end - start:
                run.context.pause()
                ready.append((prepared, self._rows(run, prepared, vectors)))
            else:
                why = next(
                    (outcome.refused[i] for i in range(start, end) if i in outcome.refused), "no vector came back"
                )
                _fail(run, prepared.work.path, f"the embedding provider refuses a text: {why}")
        return ready

    def _rows(self, run: Run, prepared: Prepared, vectors: Sequence[Vector]) -> list[Record]:
        current = prepared.work.current
        return records(
            run.workspace,
            prepared.work.path,
            max(self.clock.now_ns(), current.gen + 1 if current else 0),
            prepared.document,
            vectors,
            file_hash=prepared.noted.file_hash,
            policy=run.policy,
            document_weight=self.store.model.document_weight,
        )

    def _insert(
        self, run: Run, ready: Sequence[tuple[Prepared, list[Record]]]
    ) -> Sequence[tuple[Prepared, list[Record]]]:
        """Insert all rows; those files that the store took. A row over the store's limits fails its own file only."""
        try:
            self._insert_rows(run, [row for _, rows in ready for row in rows])
        except StoreLimitError:
            return [item for item in ready if self._insert_alone(run, *item)]
        return ready

    def _insert_alone(self, run: Run, prepared: Prepared, rows: Sequence[Record]) -> bool:
        try:
            self._insert_rows(run, rows)
        except StoreLimitError as error:
            _fail(run, prepared.work.path, str(error))
            return False
        return True

    def _insert_rows(self, run: Run, rows: Sequence[Record]) -> None:
        for start in range(0, len(rows), SLICE_ROWS):
            run.context.stop.check()  # the store gives way by itself
            piece = rows[start : start + SLICE_ROWS]
            self.store.insert(piece)
            run.written += len(piece)

    def _remove_paths(self, run: Run, paths: Iterable[str]) -> None:
        """Remove every generation that was stored of these paths when the run began."""
        self._remove(run, [reconcile.of_entry(e) for path in paths for e in run.generations.pop(path, ())])

    def _remove(self, run: Run, generations: Sequence[Generation]) -> int:
        rest, commits = reconcile.ids_last_first(run.workspace, generations)
        for ids in (rest, commits):
            if ids:
                self.store.delete(ids)
        run.written += len(rest) + len(commits)
        return len(rest) + len(commits)


def _until_stopped(keys: Iterable[RowKey], stop: StopSignal) -> Iterator[RowKey]:
    for key in keys:
        stop.check()
        yield key


def _fail(run: Run, path: str, reason: str) -> None:
    run.waiting.add(path)
    run.report.failed += 1
    run.report.add_problem(Problem(path, ProblemKind.REFUSED, reason))


def _account_stored(report: Report, prepared: Prepared, rows: int) -> None:
    path, document = prepared.work.path, prepared.document
    if prepared.work.current is None:
        report.new += 1
    else:
        report.modified += 1
    report.add_file(path)
    report.chunks += rows
    report.inserted += rows
    for excluded in document.excluded:
        report.add_exclusion(Exclusion(path, excluded.start_byte, excluded.end_byte, excluded.reason))
    for warning in document.warnings:
        report.add_problem(Problem(path, ProblemKind.WARNING, warning))


def _account(run: Run, batch: Batch) -> None:
    """Count the files of a batch that needed no rows."""
    report = run.report
    run.context.progress.stored_files += len(batch.same)
    for work, _, skip in batch.skipped:
        report.add_problem(Problem(work.path, skip.kind, skip.reason))
        if work.current is None:
            report.unchanged += 1
        else:
            report.modified += 1
            report.add_file(work.path)
    report.failed += len(batch.failed)
    report.postponed += len(batch.postponed)
    for problem in (*batch.failed, *batch.postponed):
        run.waiting.add(problem.path)
        report.add_problem(problem)
    for work, noted in batch.same:
        known = run.survey.noted.get(work.path)
        touched = known is not None and known.stamp != noted.stamp
        report.touched += touched
        report.unchanged += not touched
