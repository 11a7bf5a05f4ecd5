"""Which folders have been indexed from this machine, and which of them a request means.

The registry remembers id → root, so that hits can be shown with absolute paths and checked against the disk. Losing
it costs only that: ids are computed from roots, never the other way round.
"""

from __future__ import annotations

import json
import os
import sqlite3
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from markdown_rag.clock import Clock, iso
from markdown_rag.database import Database
from markdown_rag.errors import InputError, NotFound, WorkspaceError
from markdown_rag.paths import Scope, Workspace, nfc, open_root, printable, relative_to, workspace_for

MIGRATIONS = (
    "CREATE TABLE workspaces (id TEXT PRIMARY KEY, root TEXT NOT NULL, seen_at REAL NOT NULL)",
    "CREATE TABLE skipped (workspace TEXT PRIMARY KEY, told_at REAL NOT NULL, told TEXT NOT NULL)",
    "CREATE TABLE complete (workspace TEXT NOT NULL, collection TEXT NOT NULL, PRIMARY KEY (workspace, collection))",
)

EVERYTHING = "all"
LOCK = "MARKDOWN_WORKSPACE"
NAMED = 8  # workspaces that a message names one by one


class WorkspaceRegistry:
    """id → root of every workspace indexed from this machine."""

    def __init__(self, database: Database, clock: Clock) -> None:
        self._database = database
        self._clock = clock

    def remember(self, workspace: Workspace) -> None:
        """Record where a workspace is."""
        with self._database.write() as connection:
            connection.execute(
                "INSERT INTO workspaces VALUES (?, ?, ?) "
                "ON CONFLICT (id) DO UPDATE SET root = excluded.root, seen_at = excluded.seen_at",
                (workspace.id, str(workspace.root), self._clock.now()),
            )

    def forget(self, workspace_id: str) -> None:
        """Drop a workspace that was cleared."""
        with self._database.write() as connection:
            connection.execute("DELETE FROM workspaces WHERE id = ?", (workspace_id,))
            connection.execute("DELETE FROM skipped WHERE workspace = ?", (workspace_id,))
            connection.execute("DELETE FROM complete WHERE workspace = ?", (workspace_id,))

    def mark_complete(self, workspace_id: str, collection: str) -> None:
        """Record that a run has brought all of a workspace into a collection."""
        with self._database.write() as connection:
            connection.execute("INSERT OR IGNORE INTO complete VALUES (?, ?)", (workspace_id, collection))

    def knows(self, workspace_id: str) -> bool:
        """Whether a workspace is recorded here."""
        with self._database.read() as connection:
            query = "SELECT 1 FROM workspaces WHERE id = ?"
            return connection.execute(query, (workspace_id,)).fetchone() is not None

    def complete(self) -> set[str]:
        """The ids of those that a run from here has brought whole into some collection, also if without a file."""
        with self._database.read() as connection:
            return {row[0] for row in connection.execute("SELECT DISTINCT workspace FROM complete")}

    def is_complete(self, workspace_id: str, collection: str) -> bool:
        """Whether a run from here has brought all of a workspace into a collection."""
        with self._database.read() as connection:
            query = "SELECT 1 FROM complete WHERE workspace = ? AND collection = ?"
            return connection.execute(query, (workspace_id, collection)).fetchone() is not None

    def keep_skipped(self, workspace_id: str, tell: Callable[[dict[str, Any]], Mapping[str, Any]]) -> None:
        """Record what the latest run left out of a workspace. tell: from what was known to what is to be kept."""
        with self._database.write() as connection:
            row = workspace_id, self._clock.now(), json.dumps(tell(_told(connection, workspace_id)), ensure_ascii=True)
            connection.execute("INSERT OR REPLACE INTO skipped VALUES (?, ?, ?)", row)

    def skipped(self, workspace_id: str) -> dict[str, Any]:
        """What the latest run left out, and when (``told_at``); {} where no run from here said anything."""
        with self._database.read() as connection:
            return _told(connection, workspace_id)

    def all(self) -> list[Workspace]:
        """Every known workspace, the latest first."""
        with self._database.read() as connection:
            rows = connection.execute("SELECT id, root FROM workspaces ORDER BY seen_at DESC, id").fetchall()
        return [Workspace(id_, Path(root)) for id_, root in rows]

    def close(self) -> None:
        """Close the database."""
        self._database.close()


def _told(connection: sqlite3.Connection, workspace_id: str) -> dict[str, Any]:
    found = connection.execute("SELECT told_at, told FROM skipped WHERE workspace = ?", (workspace_id,)).fetchone()
    return {**json.loads(found[1]), "told_at": iso(found[0])} if found else {}


@dataclass(frozen=True, slots=True)
class IndexTarget:
    """What an index request means. warning: what of the request was set aside, "" if nothing."""

    scope: Scope
    warning: str = ""


def index_target(
    *, locked: str, shared_id: str, working_directory: Path, given_root: str, directory: str, recursive: bool
) -> IndexTarget:
    """The scope of an index request.

    locked: MARKDOWN_WORKSPACE; where it is set, the root and the directory asked for are ignored, as ever. Otherwise
    the root is given_root, or the server's own working directory, and directory is a part of it. Raises
    WorkspaceError for what does not exist or is refused, InputError for what lies outside.
    """
    if locked:
        workspace = open_root(locked, shared_id, argument=LOCK)
        return IndexTarget(Scope(workspace, "", recursive), _set_aside(workspace, given_root, directory))
    workspace = open_root(given_root or str(working_directory), shared_id)
    scope = Scope(workspace, relative_to(workspace, directory) if directory else "", recursive)
    if not os.path.exists(scope.absolute):
        raise WorkspaceError(
            f"Directory does not exist! ({scope.absolute})", "Pass directory relative to current_working_directory."
        )
    return IndexTarget(scope)


def overlap_warning(workspace: Workspace, known: Sequence[Workspace]) -> str:
    """What to know of indexing a folder in an indexed one, or round one, "" where neither is so.

    They stay apart: each holds the shared files once more, and a search, a link or a name stays inside its own.
    """
    others = [other for other in known if other.id != workspace.id]
    outer = [other for other in others if other.root in workspace.root.parents]
    inner = [other for other in others if workspace.root in other.root.parents]
    said = []
    if outer:
        nearest = max(outer, key=lambda other: len(other.root.parts))
        said.append(
            f"{workspace.root} lies in the indexed folder {nearest.root} and gets an index of its own: what is asked "
            f"from there looks into that one only. To keep one index, call "
            f"index_documents(current_working_directory={nearest.root}, "
            f"directory={workspace.root.relative_to(nearest.root).as_posix()}) instead, and remove this one with "
            f"clear_index(workspace={workspace.root})."
        )
    if inner:
        roots = ", ".join(str(other.root) for other in inner[:NAMED])
        said.append(
            f"Inside {workspace.root} these have an index of their own: {roots}. What is asked from there looks into "
            f"that one only; clear_index(workspace={inner[0].root}) removes one and leaves that of {workspace.root}."
        )
    return " ".join(said)


def _set_aside(workspace: Workspace, given_root: str, directory: str) -> str:
    """A sentence when a request names something else than the locked workspace."""
    if not given_root and not directory:
        return ""
    base = Path(given_root).expanduser() if given_root else workspace.root
    if workspace_for(base / directory).root == workspace.root:
        return ""
    return (
        f"MARKDOWN_WORKSPACE is set: {workspace.root} is indexed; current_working_directory and directory are ignored."
    )


@dataclass(frozen=True, slots=True)
class Searched:
    """Which workspaces a search looks into, () for all; label: in words; instead_of: a folder that is in no index."""

    ids: tuple[str, ...]
    label: str
    instead_of: Path | None = None


EVERY_WORKSPACE = Searched((), "all workspaces")


def search_target(
    asked: str,
    *,
    locked: str,
    shared_id: str,
    working_directory: Path,
    known: Sequence[Workspace],
    indexed: Callable[[], Collection[str]],
) -> Searched:
    """What a search looks into.

    asked: "" for the default, "all", or a workspace's name, id or path. The default is MARKDOWN_WORKSPACE where it is
    set, else the indexed workspace that holds the working directory, else everything. known: the registry; indexed:
    tells the ids that have rows in the store, asked only where it decides. Raises NotFound for an unknown name.
    """
    if asked == EVERYTHING:
        return EVERY_WORKSPACE
    if asked:
        return _named(asked, known, indexed())
    if locked:
        workspace = open_root(locked, shared_id, argument=LOCK)
        return Searched((workspace.id,), f"workspace {workspace.root}")
    here = indexed()
    if shared_id and shared_id in here:
        return Searched((shared_id,), f"workspace {shared_id}")
    holding = round_about(working_directory, here)
    if holding:
        return Searched((holding.id,), f"workspace {holding.root}")
    label = f"every indexed folder, since {printable(str(working_directory))} is not indexed"
    return Searched((), label, Path(os.path.realpath(working_directory)))


def round_about(folder: Path, ids: Collection[str]) -> Workspace | None:
    """The innermost workspace with one of these ids that holds a folder, None if none does."""
    each = (workspace_for(place) for place in (folder, *folder.parents))
    return next((workspace for workspace in each if workspace.id in ids), None)


def _named(asked: str, known: Sequence[Workspace], indexed: Collection[str]) -> Searched:
    if asked in indexed:
        root = next((str(w.root) for w in known if w.id == asked), asked)
        return Searched((asked,), f"workspace {root}")
    wanted = nfc(asked).rstrip("/")
    found = [w for w in known if wanted in {nfc(w.name), nfc(str(w.root)), w.id}]
    if not found and ("/" in asked or asked.startswith("~")):
        real = workspace_for(Path(asked).expanduser())
        found = [w for w in known if w.root == real.root]
        if not found and real.id in indexed:
            found = [real]
    if not found:
        raise NotFound(f"No indexed workspace is called {asked}.", _known(known))
    return Searched(tuple(w.id for w in found), "workspace " + ", ".join(str(w.root) for w in found))


def _known(known: Sequence[Workspace]) -> str:
    if not known:
        return "Nothing is indexed from this machine yet: index a folder with index_documents."
    names = [f"{w.name} ({w.root})" for w in known[:NAMED]]
    more = f" and {len(known) - NAMED} more" if len(known) > NAMED else ""
    return f"Indexed are: {', '.join(names)}{more}. index_documents adds another."


def within_searched(
    searched: Searched, scope_path: str, known: Sequence[Workspace], argument: str = "scope_path"
) -> tuple[Searched, str]:
    """What is searched and the relative scope in it, for a folder or file as a user typed it.

    A relative path is taken from the root of each workspace that is searched. An absolute one belongs to the searched
    workspace that holds it, or else to any known one: who names a place means it. NotFound where none holds it.
    """
    if not scope_path:
        return searched, ""
    mine = [w for w in known if not searched.ids or w.id in searched.ids]
    if not scope_path.startswith(("/", "~")):
        return searched, _relative(scope_path, mine)
    for candidates in (mine, known):
        holding = [w for w in candidates if holds(w, scope_path)]
        if holding:
            workspace = max(holding, key=lambda w: len(str(w.root)))
            label = searched.label if candidates is mine and searched.ids else f"workspace {workspace.root}"
            return Searched((workspace.id,), label), relative_to(workspace, scope_path)
    roots = ", ".join(str(w.root) for w in mine) or "none on this machine"
    raise NotFound(
        f"{argument} must be under an indexed folder ({roots}). Got: {scope_path}",
        "Give a folder or file inside one of them, absolute or relative to it.",
    )


def _relative(scope_path: str, workspaces: Sequence[Workspace]) -> str:
    if len(workspaces) == 1:
        try:
            return relative_to(workspaces[0], scope_path)
        except InputError as error:
            raise NotFound(error.message, error.next_step) from error
    plain = os.path.normpath(scope_path).replace(os.sep, "/")
    if plain == ".." or plain.startswith("../"):
        raise NotFound(f"{scope_path} leaves the workspace.", "Name a folder or file inside it.")
    return "" if plain == "." else plain


def holds(workspace: Workspace, scope_path: str) -> bool:
    """Whether a folder or file as a user typed it lies in a workspace."""
    try:
        relative_to(workspace, scope_path)
    except InputError:
        return False
    return True


def widened(searched: Searched, named: Sequence[Searched]) -> Searched:
    """What is searched when scopes name workspaces themselves: who names a place means it."""
    if all(other.ids == searched.ids for other in named):
        return searched
    ids = dict.fromkeys(id_ for other in named for id_ in other.ids)
    every = any(not other.ids for other in named)
    return Searched(() if every else tuple(ids), ", ".join(dict.fromkeys(other.label for other in named)))
