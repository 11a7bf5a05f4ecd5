"""What an index run has to do, decided from values: catalog, walk and remembered stats in, a delta out. Pure.

The collection is the truth: a file is unchanged only if the catalog holds its bytes' hash under the present
chunking policy, and a remembered stat merely saves reading the bytes again (I8). Deleted is only what was looked for
and not there (I2).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass

from markdown_rag.amounts import amount, noun
from markdown_rag.errors import GuardError
from markdown_rag.indexing.report import Problem
from markdown_rag.indexing.scan import ScanResult, Seen
from markdown_rag.indexing.statcache import Noted
from markdown_rag.store.base import FileEntry

GUARD_FILES = 20  # up to this many deletions need no confirmation (I2)
_NAMED = 10


@dataclass(frozen=True, slots=True)
class Work:
    """A file to read. current: its newest committed generation, None if it has none.

    always: chunk and store it even if its hash turns out to be the stored one (forced, or another chunking policy).
    """

    seen: Seen
    current: FileEntry | None
    always: bool = False

    @property
    def path(self) -> str:
        """Relative, POSIX."""
        return self.seen.path


@dataclass(frozen=True, slots=True)
class Delta:
    """work: files to read, in path order. unchanged: proven by stat. skipped: proven to have nothing to store, and why.

    deleted: newest generations of files seen to be absent. older: generations a newer committed one has replaced.
    protected: indexed files about which nothing can be said. forgotten: remembered files that are gone.
    """

    work: tuple[Work, ...]
    unchanged: tuple[str, ...]
    skipped: tuple[Problem, ...]
    deleted: tuple[FileEntry, ...]
    older: tuple[FileEntry, ...]
    protected: tuple[str, ...]
    forgotten: tuple[str, ...]


def newest_first(catalog: Iterable[FileEntry]) -> dict[str, list[FileEntry]]:
    """The committed generations of every path, newest first."""
    generations: dict[str, list[FileEntry]] = {}
    for entry in catalog:
        generations.setdefault(entry.path, []).append(entry)
    for entries in generations.values():
        entries.sort(key=lambda entry: entry.gen, reverse=True)
    return generations


def plan(
    catalog: Iterable[FileEntry],
    scan: ScanResult,
    noted: Mapping[str, Noted],
    policy: str,
    *,
    force: bool = False,
    verify: bool = False,
) -> Delta:
    """Compare what is stored with what is there.

    catalog: all generations of the scope. policy: fingerprint of the chunking policy. force: every file is written
    again. verify: no stat is trusted, every file is hashed.
    """
    generations = newest_first(catalog)
    work: list[Work] = []
    unchanged: list[str] = []
    skipped: list[Problem] = []
    for path, seen in scan.files.items():
        current = generations[path][0] if path in generations else None
        known = None if force or verify else _proven(noted.get(path), seen)
        if known is not None and _is_stored(known, current, policy):
            unchanged.append(path)
        elif known is not None and known.skip is not None and current is None and known.policy == policy:
            skipped.append(Problem(path, known.skip.kind, known.skip.reason))
        else:
            work.append(Work(seen, current, always=force or (current is not None and current.policy != policy)))
    absent = [path for path in generations if path not in scan.files]
    protected = frozenset(path for path in absent if scan.protects(path))
    return Delta(
        work=tuple(work),
        unchanged=tuple(unchanged),
        skipped=tuple(skipped),
        deleted=tuple(generations[path][0] for path in absent if path not in protected),
        older=tuple(entry for path, entries in generations.items() if path not in protected for entry in entries[1:]),
        protected=tuple(sorted(protected)),
        forgotten=tuple(path for path in noted if path not in scan.files and not scan.protects(path)),
    )


def moved(deleted: Iterable[FileEntry], waiting: Iterable[Seen], noted: Mapping[str, Noted]) -> frozenset[str]:
    """Deleted paths whose file is one of those that wait to be indexed under another name: they keep their rows.

    A move keeps inode, size and time of change. waiting: files of this run that could not be indexed.
    """
    identities = {(seen.stamp.inode, seen.stamp.size, seen.stamp.mtime_ns) for seen in waiting}
    return frozenset(
        entry.path
        for entry in deleted
        if (known := noted.get(entry.path)) is not None
        and (known.stamp.inode, known.stamp.size, known.stamp.mtime_ns) in identities
    )


def _proven(known: Noted | None, seen: Seen) -> Noted | None:
    return known if known is not None and known.proves(seen.stamp) else None


def _is_stored(known: Noted, current: FileEntry | None, policy: str) -> bool:
    return current is not None and current.file_hash == known.file_hash and current.policy == policy


def is_suspicious(deleted: int, total: int) -> bool:
    """Whether so many deletions ask for a second look: more than GUARD_FILES, and more than half of all."""
    return deleted > GUARD_FILES and deleted * 2 > total


def lost(deleted: Iterable[FileEntry], arrived: Collection[str]) -> tuple[str, ...]:
    """Paths whose bytes are nowhere else: deleted files whose hash is not among those of the new files."""
    return tuple(sorted(entry.path for entry in deleted if entry.file_hash not in arrived))


def refuse_deletions(paths: tuple[str, ...], total: int, root: str) -> GuardError:
    """The error of a run that would remove too much. total: files of the workspace that are indexed."""
    named = ", ".join(paths[:_NAMED]) + (f" and {len(paths) - _NAMED} more" if len(paths) > _NAMED else "")
    gone = f"{amount(total, 'indexed file')} {noun(len(paths), 'is', 'are')} gone"
    return GuardError(
        f"{len(paths)} of {gone} from {root}, or left out now; nothing was removed: {named}.",
        "If that is right, index again with confirm_deletions. If a disk is missing, mount it first.",
        paths,
    )
