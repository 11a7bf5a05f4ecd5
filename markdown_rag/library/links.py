"""The graphs of workspaces, built from the index when they are asked for and kept until it changes. Thread-safe."""

from __future__ import annotations

import threading
from collections.abc import Iterable
from pathlib import Path, PurePosixPath

from markdown_rag.library.graph import Graph, Link, build_graph
from markdown_rag.markdown.edges import Edge, unpack
from markdown_rag.search.catalog import Snapshot
from markdown_rag.store.base import FileEntry, Store, Where

_KEPT = 8  # workspaces


class Links:
    """Graphs over one store."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._lock = threading.Lock()
        self._graphs: dict[str, tuple[object, Graph]] = {}

    def graph(self, workspace: str, snapshot: Snapshot) -> Graph:
        """The graph of a workspace as the snapshot has its files."""
        entries = [entry for entry in snapshot.files.values() if entry.workspace == workspace]
        version = len(entries), hash(frozenset((entry.path, entry.gen) for entry in entries))
        with self._lock:
            known = self._graphs.get(workspace)
            if known is None or known[0] != version:
                while len(self._graphs) >= _KEPT and workspace not in self._graphs:
                    self._graphs.pop(next(iter(self._graphs)))
                known = version, build_graph(entries, self._edges(workspace, entries))
                self._graphs[workspace] = known
            return known[1]

    def _edges(self, workspace: str, entries: Iterable[FileEntry]) -> Iterable[tuple[str, Edge]]:
        """The links of the generations that the entries stand for, each with the file that carries it."""
        gens = {entry.path: entry.gen for entry in entries}
        rows = sorted(self._store.links(Where(workspaces=(workspace,))), key=lambda row: row.path)
        return ((row.path, edge) for row in rows if gens.get(row.path) == row.gen for edge in unpack(row.links))


def leads_to_file(root: Path, link: Link) -> bool:
    """Whether a link leads to a file that is there and not indexed."""
    target = link.edge.target
    places = [root / target.lstrip("/")]
    if not target.startswith("/"):
        places.append(root / PurePosixPath(link.source).parent / target)
    try:
        return any(place.exists() for place in places)
    except (OSError, ValueError):
        return False
