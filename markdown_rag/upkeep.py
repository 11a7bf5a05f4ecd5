"""What mends, empties and moves an index: asked for by a person, guarded, and told in JSON."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from markdown_rag.amounts import amount
from markdown_rag.answers import audit_result
from markdown_rag.clock import StopSignal
from markdown_rag.errors import InputError, JobError, StoreAddressError
from markdown_rag.facade import IndexCall, Json
from markdown_rag.freshening import concerns, watches_of
from markdown_rag.jobs.job import IndexRequest, Status
from markdown_rag.paths import Scope, Workspace
from markdown_rag.policies import chunk_policy, scan_policy
from markdown_rag.settings import Settings
from markdown_rag.store.given import OF_TARGET
from markdown_rag.succession import Succession
from markdown_rag.wiring import Parts
from markdown_rag.workspaces import Searched

if TYPE_CHECKING:
    from markdown_rag.indexing.audit import Finding, Repair
    from markdown_rag.store.opening import StoreSettings

REPAIR_SINGLY = 50  # files that a repair indexes one by one; more, and it indexes the whole folder
POLL_S = 60.0


@dataclass(frozen=True, slots=True)
class Upkeep:
    """The chores of one agent. request: an index request for a scope, as this agent would make it."""

    parts: Parts
    settings: Settings
    request: Callable[[Scope, IndexCall], IndexRequest]
    cancel_wait_s: float = 5.0  # how long clearing waits for the workspace's own jobs to stop

    def audit(self, scope: Scope, call: IndexCall, *, repair: bool) -> Json:
        """Compare the index of a scope with the disk; with repair, mend what can be mended without loss."""
        from markdown_rag.indexing.audit import plan_repair  # noqa: PLC0415 - loads numpy

        findings, failures = self._look(scope), list[str]()
        if repair and findings:
            failures = self._repair(scope, call, plan_repair(findings))
            findings = self._look(scope)
        return audit_result(findings, str(scope.absolute), failures)

    def holds(self, workspace: Workspace) -> bool:
        """Whether the chosen model's index has anything of a workspace, or had all of it when there was nothing."""
        from markdown_rag.store.base import Where  # noqa: PLC0415 - loads numpy

        store = self.parts.reading.store  # also where the model cannot be asked
        if self.parts.workspaces.is_complete(workspace.id, store.collection):
            return True
        return store.count(Where(workspaces=(workspace.id,))) > 0

    def _look(self, scope: Scope) -> list[Finding]:
        from markdown_rag.indexing.audit import audit  # noqa: PLC0415 - loads numpy

        parts, settings = self.parts, self.settings
        stop = StopSignal()
        store = parts.reading.store
        return audit(scope, chunk_policy(settings), scan_policy(settings), stop, store=store, clock=parts.clock)

    def _repair(self, scope: Scope, call: IndexCall, plan: Repair) -> list[str]:
        """Carry out a plan; what stopped a part of it."""
        self.parts.indexer.remove_rows(plan.remove)
        runs = []
        if plan.prune:  # an index run is what may judge that files are gone: it has the guard
            runs.append((scope, replace(call, force=False)))
        alone = len(plan.reindex) <= REPAIR_SINGLY
        files = [Scope(scope.workspace, path) for path in plan.reindex] if alone else [scope]
        runs += [(each, replace(call, force=True)) for each in files]
        failures = [self._index_and_wait(self.request(*run)) for run in runs]
        self.parts.reading.catalog.forget()
        return list(dict.fromkeys(filter(None, failures)))

    def _index_and_wait(self, request: IndexRequest) -> str:
        """Index; why it was not done, "" if it was."""
        queue = self.parts.queue
        submission = queue.submit(request)
        if submission.job is None:
            return submission.message
        while (seen := queue.wait(submission.job.id, POLL_S)) is not None and not seen.job.status.ended:
            pass
        return "" if seen is None or seen.job.status is Status.SUCCEEDED else seen.job.error or seen.job.note

    def clear(self, target: Searched, asked: str, *, confirm: bool) -> Json:
        """Remove one workspace from the index; without confirm only say what would go. asked: its name in the call."""
        parts, catalog = self.parts, self.parts.reading.catalog
        former = parts.once("succession", lambda: Succession(parts))
        if len(target.ids) != 1:
            raise InputError(
                f"clear_index removes one workspace, but {asked or 'the default here'} means {target.label}.",
                "Name one workspace by its path; get_index_status and search answers show paths.",
            )
        current = catalog.fresh(target.ids).files.values()
        held = former.holding(target.ids[0])
        files = len({entry.path for entry in current}.union(*(each.paths for each in held)))
        chunks = sum(entry.chunk_count for entry in current) + sum(each.rows for each in held)
        answer: Json = {"cleared": False, "workspace": target.label, "files": files, "chunks": chunks}
        place = "the index" + (f" and from {amount(len(held), 'index', 'indexes')} of former models" if held else "")
        if not confirm:
            message = f"{_amount(files, chunks)} of {target.label} would be removed from {place}."
            return {**answer, "message": f"{message} Pass confirm=true to do it; the files themselves stay."}
        watches_of(parts).forget(target.ids[0])
        self._stop_jobs(target)
        rows = parts.indexer.clear(target.ids[0]) + former.clear(target.ids[0])
        parts.workspaces.forget(target.ids[0])
        catalog.forget()
        message = f"Removed {_amount(files, rows)} of {target.label} from {place}. The files themselves stay."
        return {**answer, "cleared": True, "chunks": rows, "message": message}

    def _stop_jobs(self, target: Searched) -> None:
        """A run that goes on would bring back what is being cleared. JobError where one does not stop."""
        queue = self.parts.queue
        own = [job for job in queue.active() if concerns(job, target)]
        for job in own:
            queue.cancel(job.id)
        for job in own:
            seen = queue.wait(job.id, self.cancel_wait_s)
            if seen is not None and not seen.job.status.ended:
                raise JobError(
                    f"Nothing was cleared: index job {job.id} of {target.label} was asked to stop and still runs.",
                    "Clear again when get_index_status says that it has ended.",
                )

    def migrate(self, address: str, on_progress: Callable[[Json], None] | None) -> Json:
        """Copy every collection of ours to another place. address: a server's, or an absolute path."""
        from markdown_rag.indexing.migration import migrate_all  # noqa: PLC0415 - loads numpy

        source = self.parts.store_settings
        target = another_place(source, address, self.settings)
        try:
            shown = target.target().shown
        except StoreAddressError as error:
            raise InputError(error.message, error.next_step) from error
        if (address, target.database) == (source.address, source.database):
            raise InputError(f"{shown} is no other place than the index's own.", "Name another one.")
        moved = migrate_all(source, target, StopSignal(), on_progress)
        return {"source": source.target().shown, "target": shown, "collections": moved}


def _amount(files: int, chunks: int) -> str:
    return f"{amount(files, 'file')} ({amount(chunks, 'chunk')})"


def another_place(source: StoreSettings, address: str, settings: Settings) -> StoreSettings:
    """Where to copy to. Nothing that proves who we are to the source goes along: the target may be another's."""
    return replace(
        source,
        address=address,
        token=settings.milvus_target_token.get_secret_value(),
        database=settings.milvus_target_database,
        ca_file=settings.milvus_target_ca_file,
        given=OF_TARGET,
    )
