"""Which generation of a file an answer may show (I3, docs/decisions/0004). Pure.

Facts this rests on: a generation is committed by its ``ord == 0`` row, which is written last; an older generation is
removed only after a newer one is committed. So the newest committed generation is always whole, rows newer than it
are unfinished and hide nothing, and rows older than it are on their way out.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TypeVar

from markdown_rag.store.base import FileEntry, Match, RowKey

Commit = TypeVar("Commit", FileEntry, RowKey)  # what names a committed generation

FileKey = tuple[str, str]  # workspace, path


def key_of(row: Match | FileEntry | RowKey) -> FileKey:
    """Which file a row belongs to."""
    return row.workspace, row.path


def newest(entries: Iterable[Commit]) -> dict[FileKey, Commit]:
    """The newest committed generation of every file."""
    files: dict[FileKey, Commit] = {}
    for entry in entries:
        known = files.get(key_of(entry))
        if known is None or entry.gen > known.gen:
            files[key_of(entry)] = entry
    return files


@dataclass(frozen=True, slots=True)
class Verdict:
    """kept: ids of rows that may be shown. doubtful: files about which more must be asked; none of theirs are kept."""

    kept: frozenset[str]
    doubtful: frozenset[FileKey]


def judge_by_past(rows: Iterable[Match], known: Mapping[FileKey, int]) -> Verdict:
    """Judge rows by the newest generations as they were committed when the legs began.

    What is older was replaced before, so it goes; what is newer, or of a file nobody knew, may or may not be committed.
    """
    groups = _by_file(rows)
    doubtful = {key for key, group in groups.items() if any(row.gen > known.get(key, -1) for row in group)}
    kept = (row.id for key, group in groups.items() if key not in doubtful for row in group if row.gen == known[key])
    return Verdict(frozenset(kept), frozenset(doubtful))


def judge_by_present(rows: Iterable[Match], committed: Mapping[FileKey, int]) -> Verdict:
    """Judge rows by the newest generations asked for after the legs ended.

    What is newer is unfinished; a file without a committed generation is not there. A file that still showed an older
    generation may have been replaced while the legs ran, so they may not have seen its new text: doubtful.
    """
    groups = _by_file(rows)
    doubtful = {
        key for key, group in groups.items() if key in committed and any(row.gen < committed[key] for row in group)
    }
    kept = (
        row.id
        for key, group in groups.items()
        if key in committed and key not in doubtful
        for row in group
        if row.gen == committed[key]
    )
    return Verdict(frozenset(kept), frozenset(doubtful))


def newest_seen(rows: Iterable[Match], committed: Mapping[FileKey, int]) -> frozenset[str]:
    """The last word where files change faster than they can be asked about: old text or new, never nothing.

    Kept is each file's newest generation among the rows that is not newer than its committed one.
    """
    kept: set[str] = set()
    for key, group in _by_file(rows).items():
        gens = [row.gen for row in group if row.gen <= committed.get(key, -1)]
        kept.update(row.id for row in group if gens and row.gen == max(gens))
    return frozenset(kept)


def _by_file(rows: Iterable[Match]) -> dict[FileKey, list[Match]]:
    groups: dict[FileKey, list[Match]] = {}
    for row in rows:
        groups.setdefault(key_of(row), []).append(row)
    return groups
