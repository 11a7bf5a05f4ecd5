"""Rows that stand for nothing any more: which they are, from values. Pure; ``pipeline`` removes them.

Three kinds, all invisible to readers: generations that a newer committed one has replaced, generations that a crash
left without their ``ord == 0`` row, and intents that were never carried out. Only this workspace and scope are judged,
and never a path whose folder could not be read.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from markdown_rag.indexing.statcache import Intent
from markdown_rag.store.base import FileEntry, RowKey, record_id

# Another machine may be writing rows whose last one is still to come. Writing a file takes seconds; clocks differ by
# minutes at worst.
GRACE_NS = 3_600_000_000_000


@dataclass(frozen=True, slots=True)
class Generation:
    """One generation of a file: rows 0 to rows - 1."""

    path: str
    gen: int
    rows: int


@dataclass(frozen=True, slots=True)
class Remains:
    """ids: rows to remove, none of them committed. young: rows that may be somebody's work in progress."""

    ids: tuple[str, ...]
    young: int


def of_entry(entry: FileEntry) -> Generation:
    """The generation a catalog line speaks of."""
    return Generation(entry.path, entry.gen, entry.chunk_count)


def ids_last_first(workspace: str, generations: Iterable[Generation]) -> tuple[list[str], list[str]]:
    """Ids of the generations: all rows but the committing ones, then those.

    Removed in this order, a generation that goes only half-way is still in the catalog, and the next run sees it.
    """
    rest: list[str] = []
    commits: list[str] = []
    for generation in generations:
        rest += [record_id(workspace, generation.path, generation.gen, i) for i in range(1, generation.rows)]
        commits.append(record_id(workspace, generation.path, generation.gen, 0))
    return rest, commits


def unfinished(intents: Iterable[Intent], catalog: Iterable[FileEntry]) -> list[Generation]:
    """Intended generations that were never committed."""
    committed = {(entry.path, entry.gen) for entry in catalog}
    return [Generation(i.path, i.gen, i.rows) for i in intents if (i.path, i.gen) not in committed]


def sweep(
    keys: Iterable[RowKey], catalog: Iterable[FileEntry], now_ns: int, is_protected: Callable[[str], bool]
) -> Remains:
    """Rows of generations without a committing row. A generation's number is the time of its writing, or later."""
    committed = {(entry.path, entry.gen) for entry in catalog}
    ids: list[str] = []
    young = 0
    for key in keys:
        if (key.path, key.gen) in committed or is_protected(key.path):
            continue
        if now_ns - key.gen < GRACE_NS:
            young += 1
        else:
            ids.append(key.id)
    return Remains(tuple(ids), young)
