"""Questions about what is indexed: search, read, list, follow links. Calls in, JSON answers out; nothing is written.

Which places a call means is settled here, once for all; ranking, reading and walking are the parts' own.
"""

# ruff: noqa: PLC0415 - the imports inside functions load numpy, which a first reply must not wait for

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from markdown_rag.absent import explained
from markdown_rag.budget import bounded, budget, clamped, noted, said
from markdown_rag.citing import NAMES, added_answers, broken_link, links_answer, marked, read_answer, search_answer
from markdown_rag.errors import InputError, NotFound
from markdown_rag.facade import Json, LinksCall, ListCall, ReadCall, SearchCall
from markdown_rag.freshening import concerns
from markdown_rag.jobs.job import Job
from markdown_rag.listings import list_answer, workspaces_answer
from markdown_rag.paths import Workspace, is_within
from markdown_rag.policies import chunk_policy, scan_policy
from markdown_rag.precedence import goes_first
from markdown_rag.readcalls import request_of, settled
from markdown_rag.reading import Reading
from markdown_rag.settings import Settings
from markdown_rag.succession import Answering, Succession
from markdown_rag.wiring import Parts
from markdown_rag.workspaces import Searched, widened, within_searched

if TYPE_CHECKING:
    from pathlib import Path

    from markdown_rag.library.departed import Meant
    from markdown_rag.library.passages import Continuation, PassageId
    from markdown_rag.library.reader import Reader
    from markdown_rag.search.answer import Hit, SearchRequest
    from markdown_rag.search.catalog import Snapshot
    from markdown_rag.search.selection import Selection
    from markdown_rag.store.base import Where

EXPANSIONS = ("requires", "links")
DIRECTIONS = ("out", "in", "both")
MAX_HOPS = 3


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
        self._succession: Succession = parts.once("succession", lambda: Succession(parts))

    def _answering(self, workspace: str, scopes: Sequence[str] = (), argument: str = "scope_path") -> Answering:
        """The collection that answers about a workspace, and places in it or elsewhere, as the call names them."""
        return self._succession.answering(lambda reading: self._looked_into(reading, workspace, scopes, argument)[0])

    def _looked_into(
        self, reading: Reading, workspace: str, scopes: Sequence[str], argument: str
    ) -> tuple[Searched, list[tuple[Searched, str]]]:
        """What a call searches, and the places in it that it names."""
        searched = self._searched(workspace, reading)
        inside = self._resolved(scopes, searched, argument)
        return widened(searched, [other for other, _ in inside]), inside

    def meant(self, workspace: str, *, now: bool = False) -> Searched:
        """The workspaces that a name means, in whichever index they are; now: also in one made a moment ago."""
        if now:
            self._succession.there()
        return self._searched(workspace, self._answering(workspace).reading)

    def _reading_with(self, workspace: str, named: PassageId | Continuation | None) -> Reading:
        """The collection that answers, or the one whose document an id names."""
        from markdown_rag.library.finding import by_digest

        reading = self._answering(workspace).reading
        if named is None:
            return reading
        others = [each for each in self._succession.former() if each is not reading]
        holding = (each for each in (reading, *others) if by_digest(each.catalog.snapshot(), named.file))
        return next(holding, reading)

    @goes_first
    def search(self, call: SearchCall) -> Json:
        """Ranked, bounded, cited passages."""
        from markdown_rag.search.answer import Mode, SearchRequest
        from markdown_rag.search.selection import explain_nothing, names_files_alone

        answering = self._answering(call.workspace, call.scope_path)
        reading = answering.reading
        asked = self._asked(reading, call, call.scope_path)
        if call.max_tokens:
            budget(call.max_tokens)  # refused before anything is asked of the model
        every = call.every_passage or names_files_alone(asked.everything, asked.selection, asked.snapshot)
        per_file = 0 if every else self._settings.dedup_max_per_file
        fresh = call.wait_for_fresh
        request = SearchRequest(call.query, call.k, asked.where, per_file, Mode(call.mode), call.diverse, waited=fresh)
        answer = reading.searcher.search(request)
        if answer.empty and (reason := explain_nothing(asked.selection, asked.snapshot.select(asked.everything))):
            answer = replace(answer, empty=replace(answer.empty, message=reason))
        added = self._added(reading, asked, request, answer.hits, call.expand)
        active = self._jobs_of(asked.searched)
        scopes = [place.path for place in asked.selection.within]
        found = search_answer(answer, asked.searched, active, explain=call.explain, scopes=scopes, added=added)
        found = marked(found, answering.note)
        return bounded(found, "hits", call.max_tokens) if call.max_tokens else found

    def _added(
        self, reading: Reading, asked: Asked, request: SearchRequest, hits: Sequence[Hit], expand: Sequence[str]
    ) -> list[Json]:
        """What follows the hits: documents they require, neighbours that answer too."""
        from markdown_rag.library.expansion import Expander
        from markdown_rag.search.selection import Selection

        if unknown := [word for word in expand if word not in EXPANSIONS]:
            raise InputError(f"expand: {unknown[0]!r} is not known.", f"Use {' or '.join(EXPANSIONS)}.")
        if not expand or not hits:
            return []
        expander = Expander(
            self._reader(reading),
            reading.searcher,
            asked.snapshot,
            lambda workspace: reading.links.graph(workspace, asked.snapshot),
            self._parts.root_of,
            Selection(outside=asked.selection.outside),
        )
        return added_answers(expander, request, hits, expand, self._roots())

    def _reader(self, reading: Reading) -> Reader:
        from markdown_rag.library.reader import Reader

        return Reader(reading.store, reading.catalog, chunk_policy(self._settings))

    def places(self, call: SearchCall) -> list[tuple[Searched, str]]:
        """The places a search looks into: workspaces, and a folder or file in them ("" for all)."""
        searched = self.meant(call.workspace)
        return self._resolved(call.scope_path, searched) or [(searched, "")]

    @goes_first
    def read(self, call: ReadCall) -> Json:
        """The text of a document or of a part of it, from the file where it is here, else from the index."""
        from markdown_rag.library.passages import parse_continuation, parse_id
        from markdown_rag.markdown.tokens import count

        call, note = settled(call)
        named = parse_continuation(call.continue_from) or parse_id(call.id)
        reading = self._reading_with(call.workspace, named)
        meant = self._document(reading, call, named)
        request = request_of(call, named, meant.entry)
        root = self._parts.root_of(request.entry.workspace)
        return noted(read_answer(meant.read(self._reader(reading), request, root), root, count), note)

    @goes_first
    def follow_links(self, call: LinksCall) -> Json:
        """What a document links to, and what links to it."""
        from markdown_rag.library.graph import neighbours
        from markdown_rag.library.passages import parse_uri

        budget(call.max_tokens)
        hops, note = clamped("hops", call.hops, 1, MAX_HOPS)
        if call.direction not in DIRECTIONS:
            raise InputError(f"direction: {call.direction!r} is not known.", f"Use {', '.join(DIRECTIONS)}.")
        named = parse_uri(call.path)
        reading = self._reading_with(call.workspace, named)
        entry = self._document(reading, call, named).entry
        snapshot = reading.catalog.snapshot((entry.workspace,))
        graph = reading.links.graph(entry.workspace, snapshot)
        steps = neighbours(graph, entry.path, direction=call.direction, hops=hops)
        broken = [link for link in graph.out.get(entry.path, ()) if not link.target]
        titles = {each.path: each.title for each in snapshot.files.values()}
        return noted(bounded(links_answer(entry, steps, broken, titles), "links", call.max_tokens), note)

    def broken_links(self, workspace: Workspace, scope: str) -> list[Json]:
        """The links in a part of a workspace that lead to nothing: no indexed document, no file on disk."""
        from markdown_rag.library.links import leads_to_file

        reading = self._parts.reading
        graph = reading.links.graph(workspace.id, reading.catalog.fresh((workspace.id,)))
        return [
            broken_link(link)
            for link in graph.broken()
            if is_within(link.source, scope) and not leads_to_file(workspace.root, link)
        ]

    def _document(self, reading: Reading, call: ReadCall | LinksCall, named: PassageId | Continuation | None) -> Meant:
        """The document a call means. Raises InputError."""
        from markdown_rag.library.departed import Meant, by_id
        from markdown_rag.library.finding import by_path

        if named is not None:
            meant = by_id(named, reading.catalog, reading.store, lambda: self._parts.stat_cache)
            if meant is None:
                raise NotFound(
                    "The document of this id is not in the index any more: it was deleted or renamed.",
                    "Search again, or name it by path; list_documents shows what is indexed.",
                )
            return meant
        if not call.path.strip():
            raise InputError("Nothing is named to read.", "Pass the id of a hit, or the path of a document.")
        searched = self._searched(call.workspace, reading)
        searched, path = within_searched(searched, call.path.strip(), self._parts.workspaces.all(), "path")
        try:
            return Meant(by_path(reading.catalog.fresh(searched.ids), searched.ids, path, self._roots().get))
        except NotFound as error:
            raise explained(error, path, searched, self._parts.workspaces, scan_policy(self._settings)) from None

    @goes_first
    def list_documents(self, call: ListCall) -> Json:
        """What is indexed, by folder, and what was left out."""
        from markdown_rag.library.listing import MAX_LIMIT, page_of, room
        from markdown_rag.library.vocabulary import vocabulary
        from markdown_rag.store.base import Where

        call = replace(call, path="" if call.path.strip() == "/" else call.path)  # the root, as answers call it
        tokens, note = budget(call.max_tokens)
        limit, less = clamped("limit", call.limit, 1, MAX_LIMIT)
        reading = self._answering(call.workspace, (call.path,), "path").reading
        asked = self._asked(reading, call, (call.path,), "path")
        active = self._jobs_of(asked.searched)
        ids = {entry.workspace for entry in asked.snapshot.select(asked.everything)}
        if len(asked.searched.ids) != 1 and len(ids) != 1:
            documents = asked.snapshot.select(Where(exclude_paths=asked.snapshot.edge_lists))
            return noted(workspaces_answer(documents, self._roots(), asked.searched, active), said(less, note))
        (workspace,) = ids or asked.searched.ids
        root = self._parts.root_of(workspace)
        entries = asked.snapshot.select(asked.where)
        filtered = bool(asked.selection.tags or asked.selection.conditions)
        page = page_of(
            entries,
            asked.everything.scope,
            recursive=call.recursive or filtered,
            after=call.after,
            limit=limit,
            fits=room(tokens, NAMES),
        )
        is_start = not (asked.everything.scope or call.after) and asked.selection.is_empty
        skipped = self._parts.workspaces.skipped(workspace)
        words = vocabulary(entries) if is_start else None
        found = list_answer(page, asked.searched, skipped, root, active=active, vocabulary=words)
        return noted(found, said("" if entries else self._why_empty(asked), less, note))

    def _asked(
        self, reading: Reading, call: SearchCall | ListCall, scopes: Sequence[str], argument: str = "scope_path"
    ) -> Asked:
        """What a call means. argument: what names the scopes. Raises InputError, WorkspaceError."""
        from markdown_rag.search.selection import Place, narrowed, select
        from markdown_rag.store.base import Where

        searched, inside = self._looked_into(reading, call.workspace, scopes, argument)
        outside = self._resolved(call.exclude_path, searched, "exclude_path")
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

    def _resolved(
        self, given: Sequence[str], searched: Searched, argument: str = "scope_path"
    ) -> list[tuple[Searched, str]]:
        """Folders and files as typed, each as the workspaces it lies in and its path there."""
        known = self._parts.workspaces.all()
        return [within_searched(searched, text.strip(), known, argument) for text in given if text.strip()]

    def _why_empty(self, asked: Asked) -> str:
        from markdown_rag.search.emptiness import explain
        from markdown_rag.search.selection import explain_nothing

        reason = explain_nothing(asked.selection, asked.snapshot.select(asked.everything))
        return reason or explain(asked.snapshot, asked.where, "path").message

    def _roots(self) -> dict[str, Path]:
        """Where the workspaces of this machine are, by id."""
        return {workspace.id: workspace.root for workspace in self._parts.workspaces.all()}

    def _jobs_of(self, searched: Searched) -> list[Job]:
        return [job for job in self._parts.queue.active() if concerns(job, searched)]
