"""Bringing what changed up to date without being told what: before an answer, or while somebody watches.

Both look first (one walk against the catalog) and ask for an index job only where something differs, so that nothing
changed means nothing written, and both go through the queue and its guards like any other request.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from markdown_rag.clock import StopSignal
from markdown_rag.errors import Cancelled, FastRagError
from markdown_rag.jobs.job import IndexRequest, Job, Status
from markdown_rag.jobs.owner import Owner, Presence, presence
from markdown_rag.paths import Scope, Workspace, open_root
from markdown_rag.policies import job_policy, policies_of
from markdown_rag.settings import Settings
from markdown_rag.succession import Succession
from markdown_rag.watching import Watch, Watched
from markdown_rag.wiring import Parts
from markdown_rag.workspaces import LOCK, Searched

FRESH_SECONDS = 10.0  # how long an answer is held back for what changed
AGAIN_SECONDS = 60.0  # before the same differences are tried again


def is_indexed(parts: Parts, workspace: str) -> bool:
    """Whether a workspace is brought up to date: it has files in an index, also a former model's, or was indexed whole.

    Of any other nobody has asked for more than a job that stored nothing.
    """
    if workspace in parts.workspaces.complete():
        return True
    succession = parts.once("succession", lambda: Succession(parts))
    return workspace in succession.indexed()


def refresh(parts: Parts, scope: Scope, policy: str, asked_by: str, stop: StopSignal) -> Job | None:
    """Ask for an index run over a scope if anything in it differs from the index; the job, None if nothing does.

    policy: of chunking and excludes, see ``policies``. Raises FastRagError, Cancelled.
    """
    if not _differences(parts, scope, policy, stop):
        return None
    return _submit(parts, scope, policy, asked_by)


def _submit(parts: Parts, scope: Scope, policy: str, asked_by: str) -> Job | None:
    request = IndexRequest(scope=scope, target=parts.job_target, policy=policy, requested_by=asked_by)
    return parts.queue.submit(request).job


def _differences(parts: Parts, scope: Scope, policy: str, stop: StopSignal) -> tuple[str, ...]:
    """What differs, in words that change when the files do again; () if nothing does."""
    from markdown_rag.indexing.scan import canonical  # noqa: PLC0415 - loads numpy
    from markdown_rag.indexing.survey import survey  # noqa: PLC0415

    chunking, scanning = policies_of(policy)
    found = survey(canonical(scope), scanning, chunking.fingerprint, stop, store=parts.store, cache=parts.stat_cache)
    changed = [f"{work.path} {work.seen.stamp}" for work in found.delta.work]
    return (*changed, *(entry.path for entry in found.delta.deleted))


def bring_up_to_date(parts: Parts, scopes: Sequence[Scope], policy: str, asked_by: str) -> str:
    """Index what changed in the scopes, within FRESH_SECONDS; what could not be done, in a sentence, or ""."""
    stop = StopSignal()
    clock = parts.clock
    deadline = clock.monotonic() + FRESH_SECONDS
    timer = threading.Timer(FRESH_SECONDS, stop.stop)
    timer.daemon = True
    timer.start()
    try:
        jobs = [refresh(parts, _existing(scope), policy, asked_by, stop) for scope in scopes]
        for job in filter(None, jobs):
            status = parts.queue.wait(job.id, max(0.0, deadline - clock.monotonic()))
            if status is not None and status.job.status is not Status.SUCCEEDED:
                return _unfinished(status.job)
    except Cancelled:
        return f"Looking for changes took more than {FRESH_SECONDS:.0f} s; what is indexed was searched."
    except FastRagError as error:
        return f"What changed could not be indexed first: {error}"
    finally:
        timer.cancel()
        timer.join()
        parts.reading.catalog.forget()
    return ""


def _unfinished(job: Job) -> str:
    if job.status.ended:
        return f"What changed could not be indexed first: {job.error or job.note}"
    return f"What changed is still being indexed (job {job.id}); what is there already was searched."


def _existing(scope: Scope) -> Scope:
    """The scope, or the nearest folder round it that exists: what is gone is noticed from there."""
    path = scope.path
    while path and not (scope.workspace.root / path).exists():
        path = path.rpartition("/")[0]
    return Scope(scope.workspace, path, recursive=True)


@dataclass(slots=True)
class _Entry:
    watch: Watch
    look: _Look
    wanted_by: set[Owner]

    def close(self) -> None:
        """End it; from here on it asks for no run, even where a look goes on for longer than anybody waits."""
        self.look.end()
        self.watch.close()


class Watches:
    """The folders that are watched in this process, each for as long as a process that wants it lives."""

    def __init__(self, parts: Parts) -> None:
        self._parts = parts
        self._lock = threading.Lock()
        self._entries: dict[tuple[Workspace, str], _Entry] = {}
        self._cleared: set[str] = set()
        self._closed = False

    def want(self, workspace: Workspace, policy: str, owner: Owner, *, asked: bool, locked: bool) -> None:
        """Watch a workspace under a policy, for a process; one that is watched already has one process more.

        asked: somebody wants it indexed; else one that was cleared stays cleared. locked: it is a MARKDOWN_WORKSPACE,
        and is brought into the index by watching alone, whoever watched it before; else its first job does that.
        """
        key = (workspace, policy)
        with self._lock:
            if asked:
                self._cleared.discard(workspace.id)
            if self._closed or workspace.id in self._cleared:
                return
            known = self._entries.get(key)
            if known is not None and not known.watch.over:
                known.wanted_by.add(owner)
                known.look.locked |= locked
                return
            owners = {owner}
            look = _Look(self._parts, workspace, policy, locked=locked)
            watch = Watch(
                workspace.root,
                look,
                lambda: self._wanted(owners),
                self._parts.clock,
                owed=look.owed,
                dot_folders=_dot_folders(policy),
            )
            self._entries[key] = _Entry(watch, look, owners)

    def _wanted(self, owners: set[Owner]) -> bool:
        with self._lock:
            known = tuple(owners)
        return any(presence(owner) is not Presence.GONE for owner in known)  # not under the lock: it may ask ps

    def state(self) -> list[Watched]:
        """How each is going."""
        with self._lock:
            return [entry.watch.state for entry in self._entries.values() if not entry.watch.over]

    def forget(self, workspace_id: str) -> None:
        """End those of a workspace that is cleared: it would be indexed again at once.

        What they asked for until then is in the queue, and after it they ask for nothing.
        """
        with self._lock:
            self._cleared.add(workspace_id)
            keys = [key for key in self._entries if key[0].id == workspace_id]
            entries = [self._entries.pop(key) for key in keys]
        for entry in entries:
            entry.close()

    def close(self) -> None:
        """End them all."""
        with self._lock:
            entries, self._entries, self._closed = list(self._entries.values()), {}, True
        for entry in entries:
            entry.close()


def _dot_folders(policy: str) -> frozenset[str]:
    """The dot folders that a policy takes back, by name or path."""
    from markdown_rag.indexing.ignore import name_rules  # noqa: PLC0415 - loads pathspec

    return name_rules(policies_of(policy)[1]).kept_folders


class _Look:
    """What a watch does when something may have changed: look, and ask for a run unless the same was just tried.

    locked: also where it is not indexed yet. Called by one thread, locked and ended by any.
    """

    def __init__(self, parts: Parts, workspace: Workspace, policy: str, *, locked: bool) -> None:
        self._parts = parts
        self._workspace = workspace
        self._policy = policy
        self.locked = locked
        self._missed = False  # something may have changed while it was not looked at
        self._tried: tuple[str, ...] = ()
        self._tried_at = 0.0
        self._stop = StopSignal()
        self._submitting = threading.Lock()  # held from "still watched" until the job is in the queue

    def end(self) -> None:
        """Stop looking, and ask for nothing any more."""
        with self._submitting:
            self._stop.stop("The folder is watched no more.")

    def __call__(self, folder: str) -> None:
        if not self.locked and not is_indexed(self._parts, self._workspace.id):
            self._missed = True  # its first job has stored nothing yet, or was cancelled before it did
            return
        if not folder:
            self._missed = False
        scope = _existing(Scope(self._workspace, folder))
        try:
            found = _differences(self._parts, scope, self._policy, self._stop)
        except Cancelled:
            return
        now = self._parts.clock.monotonic()
        if not found or (found == self._tried and now - self._tried_at < AGAIN_SECONDS):
            return
        self._tried, self._tried_at = found, now
        with self._submitting:
            if not self._stop.stopped:
                _submit(self._parts, scope, self._policy, f"watching {self._workspace.root}")

    def owed(self) -> bool:
        """Whether to look at all of it without an event: it was left alone, and is indexed whole or locked since.

        Where its first job was cancelled halfway, that stands until something changes, or the next look beside events.
        """
        return self._missed and (self.locked or self._workspace.id in self._parts.workspaces.complete())


class Attendant:
    """What one agent's calls keep fresh. locked: its MARKDOWN_WORKSPACE as an absolute path, or ""."""

    def __init__(
        self, parts: Parts, settings: Settings, folder: Path, locked: str, *, asked_by: str, owner: Owner
    ) -> None:
        self._parts = parts
        self._settings = settings
        self._folder = folder
        self._locked = locked
        self._asked_by = asked_by
        self._owner = owner

    def watch(self, *workspaces: Workspace) -> None:
        """Watch these from now on, by default those the agent works in, if it asked for watching."""
        if self._settings.markdown_watch == "off":
            return
        watches, policy, asked = watches_of(self._parts), job_policy(self._settings), bool(workspaces)
        for workspace in workspaces or self._here():
            watches.want(workspace, policy, self._owner, asked=asked, locked=bool(self._locked))

    def _here(self) -> list[Workspace]:
        known = self._parts.workspaces.all()
        if not self._locked:
            return [w for w in known if w.root in (self._folder, *self._folder.parents)]
        return [open_root(self._locked, self._settings.markdown_workspace_id, argument=LOCK)]

    def bring_up_to_date(self, named: Sequence[tuple[Searched, str]]) -> str:
        """Index what changed in the places a search names; what could not be done, in a sentence, or ""."""
        known = [workspace for workspace in self._parts.workspaces.all() if is_indexed(self._parts, workspace.id)]
        scopes = {
            Scope(workspace, path)
            for searched, path in named
            for workspace in known
            if not searched.ids or workspace.id in searched.ids
        }
        here = [scope for scope in sorted(scopes, key=lambda scope: str(scope.absolute)) if _is_here(scope)]
        return bring_up_to_date(self._parts, here, job_policy(self._settings), self._asked_by)


def _is_here(scope: Scope) -> bool:
    """Whether the workspace is on this machine now; one that is not mounted is nobody's to judge."""
    return scope.workspace.root.is_dir()


def watches_of(parts: Parts) -> Watches:
    """The watches of a process's parts, closed with them."""
    return parts.once("watches", lambda: Watches(parts))


def concerns(job: Job, searched: Searched) -> bool:
    """Whether a job indexes something of what is searched."""
    return not searched.ids or job.request.scope.workspace.id in searched.ids
