"""The façade in this process: requests in, the parts asked, JSON answers out.

Building the parts is ``wiring``'s, rules are the parts' own; here stands only who is asked for what, in which order.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

from markdown_rag.answers import FINDINGS, not_indexed, preview_result
from markdown_rag.clock import StopSignal
from markdown_rag.errors import StateError
from markdown_rag.facade import IndexCall, Json, LinksCall, ListCall, ReadCall, SearchCall
from markdown_rag.freshening import Attendant, concerns
from markdown_rag.health import health
from markdown_rag.jobs.job import IndexRequest, Job
from markdown_rag.jobs.owner import Owner, this_process
from markdown_rag.jobs.status import no_status
from markdown_rag.nearby import Call, seen_from
from markdown_rag.paths import Scope, Workspace, names_server
from markdown_rag.policies import chunk_policy, job_policy, scan_policy
from markdown_rag.precedence import goes_first
from markdown_rag.questions import Questions
from markdown_rag.reading import Reading
from markdown_rag.settings import Settings
from markdown_rag.upkeep import Upkeep
from markdown_rag.wiring import Parts
from markdown_rag.workspaces import (
    IndexTarget,
    Searched,
    index_target,
    overlap_warning,
    round_about,
    search_target,
)

NEXT_POLL = "Poll get_index_status(job_id, wait_seconds=25) until it has ended; searching works meanwhile."
PROGRESS_S = 0.5  # between two reports to a client that waits


class App:
    """Everything, in this process, for one agent. Nothing is opened until it is asked for.

    parts: what all agents of the process share. settings: the agent's own (workspace, exclusions, chunking, hits a
    file). working_directory: where the agent was started; the default place to index and to search, and what
    relative paths start from. asked_by: who the agent is, for people to read; process: its process, by default this.
    """

    def __init__(
        self,
        parts: Parts,
        settings: Settings,
        working_directory: Path,
        asked_by: str = "",
        process: Owner | None = None,
    ) -> None:
        self._parts = parts
        self._settings = settings
        self._cwd = working_directory
        self._asked_by = asked_by
        self._questions = Questions(parts, settings, self._searched)
        self._upkeep = Upkeep(parts, settings, self._request)
        locked = self._from_here(settings.markdown_workspace)
        self._attendant = Attendant(
            parts, settings, working_directory, locked, asked_by=asked_by, owner=process or this_process()
        )

    def index(self, call: IndexCall) -> Json:
        """Accept an index job, or join one. Of the disk only the folder it names is looked at, and the ledger."""
        target = self._target(call)
        self._attendant.watch(target.scope.workspace)
        submission = self._parts.queue.submit(self._request(target.scope, call), call.request_id)
        answer: Json = {"message": submission.message, "target_path": str(target.scope.absolute)}
        if warning := " ".join(filter(None, (target.warning, self._overlap(target.scope.workspace)))):
            answer["warning"] = warning
        if submission.job is None:
            current = next((job.id for job in self._parts.queue.active()), None)
            return {**answer, "accepted": False, "status": "rejected", "job_id": None, "current_job": current}
        status = self._parts.queue.status(submission.job.id)
        shown = status.as_dict() if status else {}
        return {
            **answer,
            "accepted": True,
            "status": submission.job.status.value,
            "job_id": submission.job.id,
            "started_at": shown.get("started_at"),
            "created_at": shown.get("created_at"),
            "joined": submission.joined,
            "next": NEXT_POLL,
        }

    def preview(self, call: IndexCall) -> Json:
        """What an index run would do and cost; nothing is written."""
        from markdown_rag.indexing.preview import preview  # noqa: PLC0415 - loads numpy

        parts, scope = self._parts, self._target(call).scope
        seen = preview(
            scope,
            chunk_policy(self._settings),
            scan_policy(self._settings),
            StopSignal(),
            store=parts.store,
            embeddings=parts.embeddings,
            cache=parts.stat_cache,
            clock=self._parts.clock,
            force=call.force,
            use_cache=call.use_cache,
            verify=call.verify,
            confirm_deletions=call.confirm_deletions,
        )
        return preview_result(seen, str(scope.absolute), parts.cost(seen.tokens_to_embed))

    def status(
        self, job_id: str = "", wait_seconds: float = 0.0, on_progress: Callable[[Json], None] | None = None
    ) -> Json:
        """A job's status, "" for the latest, or for what runs while that waits; wait_seconds: for its end."""
        self._attendant.watch()
        queue = self._parts.queue
        deadline = self._parts.clock.monotonic() + wait_seconds
        seen = queue.status(job_id, self._works_here)
        while seen is not None and not seen.job.status.ended and (left := deadline - self._parts.clock.monotonic()) > 0:
            if on_progress:
                on_progress(seen.as_dict())
            # Not "until it moves": counts move all the time, and every look costs what a search could use.
            seen = queue.wait(seen.job.id, min(left, PROGRESS_S))
        return seen.as_dict() if seen else no_status(len(queue.active()), job_id)

    def cancel(self, job_id: str = "") -> Json:
        """Ask a job to stop; what it stored stays."""
        cancelled = self._parts.queue.cancel(job_id, self._works_here)
        return {
            "cancelled": cancelled.accepted,
            "job_id": cancelled.job.id,
            "status": cancelled.job.status.value,
            "message": cancelled.message,
            "also_cancelled": [job.id for job in cancelled.also],
            "active_jobs": len(cancelled.left),
        }

    def search(self, call: SearchCall) -> Json:
        """Ranked, bounded, cited passages."""
        self._attendant.watch()
        questions, call = self._questions, self._as_typed(call)
        late = ""
        if call.wait_for_fresh:
            late = self._attendant.bring_up_to_date(questions.places(call))
        answer = questions.search(call)
        return {**answer, "note": f"{late} {answer.get('note', '')}".strip()} if late else answer

    def read(self, call: ReadCall) -> Json:
        """The text of a document or of a part of it."""
        return self._questions.read(self._as_typed(call))

    def list_documents(self, call: ListCall) -> Json:
        """What is indexed, and what was left out."""
        return self._questions.list_documents(self._as_typed(call))

    def follow_links(self, call: LinksCall) -> Json:
        """What a document links to, and what links to it."""
        return self._questions.follow_links(self._as_typed(call))

    def clear(self, workspace: str = "", *, confirm: bool = False) -> Json:
        """Remove one workspace from the index; without confirm only say what would go."""
        return self._upkeep.clear(self._questions.meant(workspace, now=True), workspace, confirm=confirm)

    def audit(self, call: IndexCall, *, repair: bool = False) -> Json:
        """Compare the index with the disk; with repair, mend what can be mended without loss.

        A folder that was never indexed is said to be none, which is no fault unless the call names it.
        """
        scope = self._audited(call)
        if not repair and not self._upkeep.holds(scope.workspace):
            own = Searched((scope.workspace.id,), "")
            job = next((job for job in self._parts.queue.active() if concerns(job, own)), None)
            return not_indexed(str(scope.workspace.root), ok=not (call.root or call.directory), job=job)
        found = self._upkeep.audit(scope, call, repair=repair)
        broken = self._questions.broken_links(scope.workspace, scope.path)
        return {**found, "broken_links": broken[:FINDINGS]}

    def migrate(self, address: str, on_progress: Callable[[Json], None] | None = None) -> Json:
        """Copy every collection of ours to another place; what is there already is not copied again."""
        given = address if names_server(address) else self._from_here(address)
        return self._upkeep.migrate(given, on_progress)

    def health(self) -> Json:
        """What this installation is made of, and whether each part works."""
        return health(self._parts, self._settings.markdown_workspace, self._cwd)

    def close(self) -> None:
        """Stop own jobs, keep what is stored, let go of everything. Safe to call twice."""
        self._parts.close()

    def _target(self, call: IndexCall) -> IndexTarget:
        return index_target(
            locked=self._from_here(self._settings.markdown_workspace),
            shared_id=self._settings.markdown_workspace_id,
            working_directory=self._cwd,
            given_root=self._from_here(call.root),
            directory=call.directory,
            recursive=call.recursive,
        )

    def _overlap(self, workspace: Workspace) -> str:
        """What to know of a folder that lies in an indexed one or round one; "" where that cannot be told."""
        try:
            return overlap_warning(workspace, self._parts.workspaces.all())
        except StateError:
            return ""

    def _audited(self, call: IndexCall) -> Scope:
        """What an audit looks at: where nothing is named, the indexed folder that a search from here looks into."""
        settings = self._settings
        named = call.root or call.directory or settings.markdown_workspace or settings.markdown_workspace_id
        if not named:
            indexed = {workspace_id for workspace_id, _ in self._parts.reading.catalog.snapshot().files}
            if holding := round_about(self._cwd, indexed):
                return Scope(holding)
        return self._target(call).scope

    def _works_here(self, job: Job) -> bool:
        """Whether a job indexes the folder that this agent works in."""
        here = Path(os.path.realpath(self._from_here(self._settings.markdown_workspace) or self._cwd))
        return job.request.scope.workspace.root in (here, *here.parents)

    def _request(self, scope: Scope, call: IndexCall) -> IndexRequest:
        return IndexRequest(
            scope=scope,
            force=call.force,
            use_cache=call.use_cache,
            verify=call.verify,
            confirm_deletions=call.confirm_deletions,
            params=call.params,
            target=self._parts.job_target,
            policy=job_policy(self._settings),
            requested_by=self._asked_by,
        )

    def _from_here(self, path: str) -> str:
        """A path as the agent means it, wherever this process runs; "" stays ""."""
        return str(self._cwd / os.path.expanduser(path)) if path else ""

    @goes_first
    def _as_typed(self, call: Call) -> Call:
        """A call whose paths mean the same wherever they were typed."""
        if not call.from_here:
            return call
        return seen_from(self._cwd, call, self._questions.meant(call.workspace), self._parts.workspaces.all())

    def _searched(self, workspace: str, reading: Reading) -> Searched:
        def indexed() -> set[str]:
            return {workspace_id for workspace_id, _ in reading.catalog.snapshot().files}

        return search_target(
            self._from_here(workspace) if "/" in workspace else workspace,
            locked=self._from_here(self._settings.markdown_workspace),
            shared_id=self._settings.markdown_workspace_id,
            working_directory=self._cwd,
            known=self._parts.workspaces.all(),
            indexed=indexed,
        )
