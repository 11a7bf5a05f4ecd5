"""Rows that may be shown: what the legs found, without replaced and unfinished generations.

Where the catalog is proven current this costs nothing; while others write, one bounded question follows the legs, and
files that were replaced in between are searched once more, alone. A file is never lost between its generations.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from dataclasses import replace

from markdown_rag.search import generations
from markdown_rag.search.catalog import Catalog
from markdown_rag.search.generations import FileKey, key_of
from markdown_rag.search.legs import Found, Legs
from markdown_rag.store.base import Match, Where

_ROUNDS = 3


def settled(legs: Legs, catalog: Catalog, where: Where, limit: int) -> Found:
    """At most limit rows of each leg, of newest committed generations only."""
    current = catalog.current(where.workspaces)
    known: Mapping[FileKey, int] | None = None if current is None else current.gens
    found = legs.find(where, limit)
    rows, kept = found.rows(), set[str]()
    for _ in range(_ROUNDS):
        unclear = {key_of(row) for row in rows}
        if known is not None:
            verdict = generations.judge_by_past(rows, known)
            kept |= verdict.kept
            unclear = set(verdict.doubtful)
        if not unclear:
            return found.only(kept)
        rows = [row for row in rows if key_of(row) in unclear]
        known = catalog.newest(unclear)
        verdict = generations.judge_by_present(rows, known)
        kept |= verdict.kept
        if not verdict.doubtful:
            return found.only(kept)
        again = legs.find(replace(where, paths=tuple(sorted({path for _, path in verdict.doubtful}))), limit)
        found = found.joined(again)
        rows = [row for row in found.rows() if key_of(row) in verdict.doubtful]
    return found.only(kept | generations.newest_seen(rows, known or {}))


def one_workspace_a_file(found: Found, file_of: Callable[[Match], Hashable]) -> Found:
    """Where nested workspaces hold the same file on disk, only the workspace that indexed it last."""
    latest: dict[Hashable, tuple[int, str]] = {}
    if len({row.workspace for row in (*found.dense, *found.lexical)}) < 2:
        return found
    rows = [(row, file_of(row)) for row in found.rows()]
    for row, file in rows:
        mine = (row.gen, row.workspace)
        latest[file] = max(latest.get(file, mine), mine)
    return found.only({row.id for row, file in rows if latest[file][1] == row.workspace})
