"""Questions about what is indexed: search, read, list, follow links. Calls in, JSON answers out; nothing is written.

Which workspaces and folders a call means is settled here, once for all of them; ranking, reading and walking are the
parts' own.
"""

# ruff: noqa: PLC0415 - the imports inside functions load numpy, which a first reply must not wait for

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from markdown_rag.answers import search_answer
from markdown_rag.errors import InputError
from markdown_rag.facade import Json, ListCall, SearchCall
from markdown_rag.jobs.job import Job
from markdown_rag.reading import Reading
from markdown_rag.settings import Settings
from markdown_rag.wiring import Parts
from markdown_rag.workspaces import Searched, within_searched

if TYPE_CHECKING:
    from markdown_rag.search.catalog import Snapshot
    from markdown_rag.search.selection import Selection
    from markdown_rag.store.base import Where


@dataclass(frozen=True, slots=True)
class Asked:
    """Which files a call means. everything: before the selection; where: after it."""

    searched: Searched
    snapshot: Snapshot
    everything: Where
    selection: Selection
    where: Where


class Questions:
    """The read side of the façade. searched: which workspaces a name means, as the agent would say it."""

    def __init__(self, parts: Parts, settings: Settings, searched: Callable[[str, Reading], Searched]) -> None:
        self._parts = parts
        self._settings = settings
        self._searched = searched

    def search(self, call: SearchCall) -> Json:
        """Ranked, bounded, cited passages."""
        from markdown_rag.search.answer import Mode, SearchRequest
        from markdown_rag.search.selection import explain_nothing

        reading = self._parts.reading
        asked = self._asked(reading, call, call.scope_path)
        per_file = 0 if call.every_passage else self._settings.dedup_max_per_file
        answer = reading.searcher.search(SearchRequest(call.query, call.k, asked.where, per_file, Mode(call.mode)))
        if answer.empty and (reason := explain_nothing(asked.selection, asked.snapshot.select(asked.everything))):
            answer = replace(answer, empty=replace(answer.empty, message=reason))
        return search_answer(answer, asked.searched, self._jobs_of(asked.searched), explain=call.explain)

    def places(self, call: SearchCall) -> list[tuple[Searched, str]]:
        """The places a search looks into: workspaces, and a folder or file in them ("" for all)."""
        searched = self._searched(call.workspace, self._parts.reading)
        return self._resolved(call.scope_path, searched) or [(searched, "")]

    def _asked(self, reading: Reading, call: SearchCall | ListCall, scopes: Sequence[str]) -> Asked:
        """What a call means. Raises InputError, WorkspaceError."""
        from markdown_rag.search.selection import Place, narrowed, select
        from markdown_rag.store.base import Where

        searched = self._searched(call.workspace, reading)
        inside = self._resolved(scopes, searched)
        searched = _widened(searched, [other for other, _ in inside])
        outside = self._resolved(call.exclude_path, searched)
        if any(not path and other.ids == searched.ids for other, path in outside):
            raise InputError("exclude_path leaves out everything.", "Name a folder or file inside the workspace.")
        snapshot = reading.catalog.snapshot(searched.ids)

        def places(found: Sequence[tuple[Searched, str]]) -> tuple[Place, ...]:
            return tuple(
                Place(() if other.ids == searched.ids else other.ids, snapshot.spelled(path)) for other, path in found
            )

        within = places(inside)
        everything = Where(workspaces=searched.ids, exclude_paths=snapshot.edge_lists)
        if len(within) == 1 and not within[0].workspaces:
            everything, within = replace(everything, scope=within[0].path), ()
        selection = select(call.tags, call.properties, within, places(outside))
        return Asked(searched, snapshot, everything, selection, narrowed(everything, selection, snapshot))

    def _resolved(self, given: Sequence[str], searched: Searched) -> list[tuple[Searched, str]]:
        """Folders and files as typed, each as the workspaces it lies in and its path there."""
        known = self._parts.workspaces.all()
        return [within_searched(searched, text.strip(), known) for text in given if text.strip()]

    def _jobs_of(self, searched: Searched) -> list[Job]:
        return [job for job in self._parts.queue.active() if concerns(job, searched)]


def _widened(searched: Searched, named: Sequence[Searched]) -> Searched:
    """What is searched when scopes name workspaces themselves: who names a place means it."""
    if all(other.ids == searched.ids for other in named):
        return searched
    ids = dict.fromkeys(id_ for other in named for id_ in other.ids)
    every = any(not other.ids for other in named)
    return Searched(() if every else tuple(ids), ", ".join(dict.fromkeys(other.label for other in named)))


def concerns(job: Job, searched: Searched) -> bool:
    """Whether a job indexes something of what is searched."""
    return not searched.ids or job.request.scope.workspace.id in searched.ids
