"""Which document a link means, and the graph that all links of a workspace make. Pure over the catalog.

A wikilink names a file by its name alone, wherever it lies; of several the one in the linking file's own folder is
meant, then the one with the shortest path (as Obsidian does), then aliases, ids and titles. A markdown link is a path
from the linking file, or from the root. Case and Unicode form do not matter where nothing matches exactly.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from posixpath import normpath

from markdown_rag.markdown.edges import REQUIRES, Edge
from markdown_rag.markdown.names import EXTENSIONS
from markdown_rag.paths import nfc
from markdown_rag.store.base import FileEntry

INDEX_PAGES = ("index", "_index", "readme")  # what a link to a folder means


@dataclass(frozen=True, slots=True)
class Link:
    """A link whose ends are known. source, target: relative paths; target "" is a broken link."""

    source: str
    target: str
    edge: Edge


@dataclass(frozen=True, slots=True)
class Graph:
    """The links of one workspace by the files they lead from and to."""

    out: Mapping[str, tuple[Link, ...]] = field(default_factory=dict)
    into: Mapping[str, tuple[Link, ...]] = field(default_factory=dict)

    def broken(self) -> list[Link]:
        """Links that lead to no indexed document, in order."""
        return [link for _, links in sorted(self.out.items()) for link in links if not link.target]


class Names:
    """What the documents of one workspace are called."""

    def __init__(self, entries: Iterable[FileEntry]) -> None:
        self._paths: dict[str, list[str]] = defaultdict(list)
        self._stems: dict[str, list[str]] = defaultdict(list)
        self._others: dict[str, list[str]] = defaultdict(list)
        for entry in sorted(entries, key=lambda entry: entry.path):
            path = _folded(entry.path)
            self._paths[path].append(entry.path)
            for name in (path.rpartition("/")[2], _stem(path.rpartition("/")[2])):
                self._stems[name].append(entry.path)
            identity = entry.properties.get("id")
            for other in (*entry.aliases, identity if isinstance(identity, str) else "", entry.title):
                if other:
                    self._others[_folded(other)].append(entry.path)

    def resolve(self, edge: Edge, source: str) -> str:
        """The path a link means, "" where it means no indexed document. source: the file it stands in."""
        folder = source.rpartition("/")[0]
        if edge.kind == "markdown":
            return self._by_path(edge.target, folder) or self._by_name(edge.target, folder)
        return self._by_name(edge.target, folder) or self._by_path(edge.target, folder) or self._by_other(edge, folder)

    def _by_path(self, target: str, folder: str) -> str:
        """A path from the linking file's folder, else from the root."""
        for base in ("",) if target.startswith("/") else (folder, ""):
            path = _joined(base, target)
            for candidate in _candidates(path) if path is not None else ():
                found = self._paths.get(_folded(candidate))
                if found:
                    return candidate if candidate in found else found[0]
        return ""

    def _by_name(self, target: str, folder: str) -> str:
        """A file by its name, or by the last parts of its path."""
        wanted = _folded(target).strip("/")
        if wanted.startswith("."):
            return ""
        found = self._stems.get(wanted.rpartition("/")[2], ())
        if "/" in wanted:
            found = [path for path in found if any(_ends_with(name, wanted) for name in (_folded(path), _stem(path)))]
        return _nearest(found, folder)

    def _by_other(self, edge: Edge, folder: str) -> str:
        return _nearest(self._others.get(_folded(edge.target), ()), folder)


def build_graph(entries: Iterable[FileEntry], links: Iterable[tuple[str, Edge]]) -> Graph:
    """The graph of one workspace. links: each with the file that carries it; its ends are resolved here.

    A link from a file to itself is none; the same two ends with the same kind count once.
    """
    names = Names(entries)
    out: dict[str, dict[tuple[str, str, str], Link]] = defaultdict(dict)
    into: dict[str, dict[tuple[str, str, str], Link]] = defaultdict(dict)
    for carrier, edge in links:
        source = carrier if not edge.source else names.resolve(Edge("markdown", edge.source), carrier)
        target = names.resolve(edge, carrier)
        if not source or source == target or (edge.source and not target):
            continue  # an edge list may speak of ideas that are no files
        link = Link(source, target, edge)
        key = (target or edge.target, edge.kind, edge.place)
        out[source].setdefault(key, link)
        if target:
            into[target].setdefault((source, edge.kind, edge.place), link)
    return Graph(
        {path: tuple(found.values()) for path, found in out.items()},
        {path: tuple(found.values()) for path, found in into.items()},
    )


@dataclass(frozen=True, slots=True)
class Step:
    """A document reached from another. hops: how far; link: the last one on the way; forward: followed as it leads."""

    path: str
    hops: int
    link: Link
    forward: bool


def walk(
    graph: Graph, starts: Iterable[str], *, direction: str, hops: int, kinds: frozenset[str] = frozenset()
) -> list[Step]:
    """What is reached from some documents, nearest first, each once. direction: out, in or both; kinds: () = any."""
    border = list(dict.fromkeys(starts))
    seen, found = set(border), []
    for distance in range(1, hops + 1):
        following = []
        for path in border:
            for step in _steps(graph, path, distance, direction):
                if step.path not in seen and (not kinds or step.link.edge.kind in kinds):
                    seen.add(step.path)
                    following.append(step)
        found += following
        border = [step.path for step in following]
    return found


def neighbours(graph: Graph, start: str, *, direction: str, hops: int) -> list[Step]:
    """What a document's links lead to, nearest first: one way each document once.

    Both ways each link once: all that either way alone would show, and what is reached by going forth and back.
    """
    steps = walk(graph, [start], direction=direction, hops=hops)
    if direction != "both":
        return steps
    each_way = [step for way in ("out", "in") for step in walk(graph, [start], direction=way, hops=hops)]
    met = {step.path for step in each_way}
    found: dict[tuple[str, str, str, str], Step] = {}
    for step in (*each_way, *(step for step in steps if step.path not in met)):
        edge = step.link.edge
        found.setdefault((step.link.source, step.link.target, edge.kind, edge.place), step)
    return sorted(found.values(), key=lambda step: step.hops)


def required(graph: Graph, starts: Iterable[str], hops: int) -> list[Step]:
    """What documents say they require, nearest first."""
    return walk(graph, starts, direction="out", hops=hops, kinds=frozenset({REQUIRES}))


def _steps(graph: Graph, path: str, distance: int, direction: str) -> Iterable[Step]:
    if direction in {"out", "both"}:
        yield from (Step(link.target, distance, link, True) for link in graph.out.get(path, ()) if link.target)
    if direction in {"in", "both"}:
        yield from (Step(link.source, distance, link, False) for link in graph.into.get(path, ()))


def _joined(base: str, target: str) -> str | None:
    """A path inside the root, None where it leads out."""
    path = normpath(f"{base}/{target}".lstrip("/"))
    return None if path == ".." or path.startswith("../") else path


def _candidates(path: str) -> Iterable[str]:
    yield path
    if not path.lower().endswith(EXTENSIONS):
        yield from (path + extension for extension in EXTENSIONS)
        prefix = "" if path == "." else f"{path}/"
        yield from (f"{prefix}{page}.md" for page in INDEX_PAGES)


def _nearest(found: Iterable[str], folder: str) -> str:
    """The one in the linking file's folder, else with the shortest path, else the first by name."""
    return min(
        found, key=lambda path: (path.rpartition("/")[0] != folder, path.count("/"), len(path), path), default=""
    )


def _ends_with(path: str, wanted: str) -> bool:
    return path == wanted or path.endswith("/" + wanted)


def _stem(path: str) -> str:
    folded = _folded(path)
    return next((folded.removesuffix(extension) for extension in EXTENSIONS if folded.endswith(extension)), folded)


def _folded(text: str) -> str:
    return nfc(text).casefold()
