"""An index on its way to another place: committed files copied row by row, vectors and all, with nothing embedded.

The same order as everywhere: a file's ``ord == 0`` row goes last, so a copy that is cut off leaves whole files or none,
and the next one goes on from there. A file that the target has newer is left as it is there. Afterwards both sides are
listed and compared: every row's id, and the hash of every file.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from typing import Any

from markdown_rag.clock import StopSignal
from markdown_rag.errors import StoreError
from markdown_rag.indexing.reconcile import ids_last_first, of_entry
from markdown_rag.store.base import FileEntry, Record, Store, Where
from markdown_rag.store.opening import StoreSettings, find_collections, open_store

GROUP_ROWS = 1000  # about as many rows as are held at once

Key = tuple[str, str]
OnFiles = Callable[[int, int], None]


@dataclass(frozen=True, slots=True)
class Migrated:
    """What a copy did, in files and rows. present: files that were there already. newer: that were newer there.

    gone: files that somebody changed at the source while they were copied; the next copy takes them.
    """

    files: int
    rows: int
    present: int
    newer: int
    gone: int


def migrate(source: Store, target: Store, stop: StopSignal, on_files: OnFiles | None = None) -> Migrated:
    """Copy every committed file. on_files: files settled, files in all.

    Raises StoreError (also where the comparison afterwards finds a difference), Cancelled; what is copied stays.
    """
    target.ensure()
    entries, there = _newest(source.catalog()), _newest(target.catalog())
    missing = [entry for key, entry in entries.items() if key not in there or there[key].gen < entry.gen]
    newer = sum(1 for key, entry in entries.items() if key in there and there[key].gen > entry.gen)
    settled, rows = len(entries) - len(missing), 0
    for group in _groups(missing):
        stop.check()
        rows += _copy(source, target, group, there)
        settled += len(group)
        if on_files:
            on_files(settled, len(entries))
    target.flush()
    gone = _compare(source, target, missing)
    return Migrated(len(missing) - gone, rows, len(entries) - len(missing) - newer, newer, gone)


def migrate_all(
    source: StoreSettings, target: StoreSettings, stop: StopSignal, on_progress: Callable[[dict[str, Any]], None] | None
) -> list[dict[str, Any]]:
    """Copy every collection of ours at one place to another; a line each. on_progress: as an index job's status."""
    moved = []
    for info in find_collections(source):

        def report(done: int, total: int, name: str = info.name) -> None:
            if on_progress:
                percent = round(100 * done / max(total, 1), 1)
                on_progress(
                    {
                        "phase": f"copy {name}",
                        "progress_percent": percent,
                        "processed_files": done,
                        "total_files": total,
                    }
                )

        with closing(open_store(source, info.model)) as old, closing(open_store(target, info.model)) as new:
            copied = migrate(old, new, stop, report)
        moved.append(
            {
                "collection": info.name,
                "files": copied.files,
                "rows": copied.rows,
                "present": copied.present,
                "newer": copied.newer,
                "changed": copied.gone,
            }
        )
    return moved


def _newest(catalog: Iterable[FileEntry]) -> dict[Key, FileEntry]:
    found: dict[Key, FileEntry] = {}
    for entry in catalog:
        key = (entry.workspace, entry.path)
        if key not in found or found[key].gen < entry.gen:
            found[key] = entry
    return found


def _groups(entries: Sequence[FileEntry]) -> Iterator[list[FileEntry]]:
    group: list[FileEntry] = []
    rows = 0
    for entry in entries:
        if group and rows + entry.chunk_count > GROUP_ROWS:
            yield group
            group, rows = [], 0
        group.append(entry)
        rows += entry.chunk_count
    if group:
        yield group


def _where(entries: Iterable[FileEntry]) -> Where:
    paths: dict[str, list[str]] = {}
    for entry in entries:
        paths.setdefault(entry.workspace, []).append(entry.path)
    return Where(files=tuple((workspace, tuple(names)) for workspace, names in paths.items()))


def _copy(source: Store, target: Store, group: Sequence[FileEntry], there: dict[Key, FileEntry]) -> int:
    """The rows in, those that commit last; then the older generations out."""
    wanted = {(entry.workspace, entry.path, entry.gen) for entry in group}
    found = [r for r in source.records(_where(group)) if (r.workspace, r.path, r.gen) in wanted]
    rest: list[Record] = [record for record in found if record.ord]
    target.insert(rest)
    whole = _complete(found)
    target.insert([record for record in found if not record.ord and (record.workspace, record.path) in whole])
    for key in whole & there.keys():
        for ids in ids_last_first(key[0], [of_entry(there[key])]):
            target.delete(ids)
    return len(found)


def _complete(records: Iterable[Record]) -> set[Key]:
    """The files whose rows are all there: one may be replaced at the source while it is read."""
    counts: dict[Key, list[int]] = {}
    for record in records:
        seen = counts.setdefault((record.workspace, record.path), [0, record.chunk_count])
        seen[0] += 1
    return {key for key, (seen, wanted) in counts.items() if seen == wanted}


def _compare(source: Store, target: Store, copied: Sequence[FileEntry]) -> int:
    """How many of the copied files the source has replaced meanwhile; StoreError if one of the others differs."""
    gone = 0
    for group in _groups(copied):
        where = _where(group)
        now, there = _newest(source.catalog(where)), _newest(target.catalog(where))
        ids = {key.id for key in target.keys(where)}
        for entry in group:
            key = (entry.workspace, entry.path)
            if now.get(key) != entry:
                gone += 1
                continue
            rest, commits = ids_last_first(entry.workspace, [of_entry(entry)])
            copy = there.get(key)
            if copy is None or copy.file_hash != entry.file_hash or not ids.issuperset((*rest, *commits)):
                raise StoreError(f"The copy of {entry.path} differs from its source.", "Run the same command again.")
    return gone
