"""Which folders have been indexed from this machine, and which of them a request means.

The registry remembers id → root, so that hits can be shown with absolute paths and checked against the disk. Losing
it costs only that: ids are computed from roots, never the other way round.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from markdown_rag.clock import Clock
from markdown_rag.database import Database
from markdown_rag.errors import WorkspaceError
from markdown_rag.paths import Scope, Workspace, nfc, open_root, relative_to, workspace_for

MIGRATIONS = ("CREATE TABLE workspaces (id TEXT PRIMARY KEY, root TEXT NOT NULL, seen_at REAL NOT NULL)",)

EVERYTHING = "all"


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

    def all(self) -> list[Workspace]:
        """Every known workspace, the latest first."""
        with self._database.read() as connection:
            rows = connection.execute("SELECT id, root FROM workspaces ORDER BY seen_at DESC, id").fetchall()
        return [Workspace(id_, Path(root)) for id_, root in rows]

    def close(self) -> None:
        """Close the database."""
        self._database.close()


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
        workspace = open_root(locked, shared_id)
        return IndexTarget(Scope(workspace, "", recursive), _set_aside(workspace, given_root, directory))
    workspace = open_root(given_root or str(working_directory), shared_id)
    scope = Scope(workspace, relative_to(workspace, directory) if directory else "", recursive)
    if not scope.absolute.exists():
        raise WorkspaceError(
            f"Directory does not exist! ({scope.absolute})", "Pass directory relative to current_working_directory."
        )
    return IndexTarget(scope)


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
    """Which workspaces a search looks into. ids () means everything; label says it in words for the answer."""

    ids: tuple[str, ...]
    label: str


def search_target(
    asked: str,
    *,
    locked: str,
    shared_id: str,
    working_directory: Path,
    known: Iterable[Workspace],
    indexed: Iterable[str],
) -> Searched:
    """What a search looks into.

    asked: "" for the default, "all", or a workspace's name, id or path. The default is MARKDOWN_WORKSPACE where it is
    set, else the indexed workspace that holds the working directory, else everything. known: the registry; indexed:
    ids that have rows in the store.
    """
    known, indexed = list(known), set(indexed)
    if asked == EVERYTHING:
        return Searched((), "all workspaces")
    if asked:
        return _named(asked, known, indexed)
    if locked:
        workspace = open_root(locked, shared_id)
        return Searched((workspace.id,), f"workspace {workspace.root}")
    for folder in (working_directory, *working_directory.parents):
        workspace = workspace_for(folder, "")
        if workspace.id in indexed:
            return Searched((workspace.id,), f"workspace {workspace.root}")
    if shared_id and shared_id in indexed:
        return Searched((shared_id,), f"workspace {shared_id}")
    return Searched((), "all workspaces")


def _named(asked: str, known: list[Workspace], indexed: set[str]) -> Searched:
    if asked in indexed:
        return Searched((asked,), f"workspace {asked}")
    wanted = nfc(asked).rstrip("/")
    found = [w for w in known if wanted in {nfc(w.name), nfc(str(w.root)), w.id}]
    if not found and ("/" in asked or asked.startswith("~")):
        real = workspace_for(Path(asked).expanduser())
        found = [w for w in known if w.root == real.root]
    if not found:
        names = ", ".join(sorted({w.name for w in known})) or "none yet"
        raise WorkspaceError(
            f"No indexed workspace is called {asked}.",
            f'Use "all", or one of: {names}. Index a folder with index_documents first.',
        )
    return Searched(tuple(w.id for w in found), "workspace " + ", ".join(str(w.root) for w in found))
