"""Compare the collection with the disk: a scope in, findings out, each exact and typed. Reads only.

Two passes. The keys of all rows tell what is doubled, orphaned, uncommitted or incomplete. Then every file is read, and
where its bytes are the stored ones it is chunked again: its rows must be those that chunking gives.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum

from markdown_rag.amounts import amount
from markdown_rag.clock import Clock, StopSignal
from markdown_rag.indexing.delta import newest_first
from markdown_rag.indexing.ignore import ScanPolicy
from markdown_rag.indexing.reading import Reading, open_and_read
from markdown_rag.indexing.reconcile import GRACE_NS
from markdown_rag.indexing.scan import ScanResult, canonical, scan
from markdown_rag.indexing.survey import where
from markdown_rag.markdown.chunking import Chunk, ChunkPolicy, Document
from markdown_rag.markdown.documents import to_document
from markdown_rag.paths import Scope
from markdown_rag.store.base import FileEntry, Match, RowKey, Store, Where

_FILES_A_READ = 50


class FindingKind(StrEnum):
    """What can be wrong between store and disk."""

    MISSING = "missing"  # a file with words on disk, no generation in the store
    STALE = "stale"  # the newest generation holds other bytes
    ORPHANED = "orphaned"  # a generation of a file that is not there
    DOUBLED = "doubled"  # a generation that a newer one has replaced
    UNCOMMITTED = "uncommitted"  # rows whose generation has no ``ord == 0``
    INCOMPLETE = "incomplete"  # the newest generation lacks rows
    OTHER_POLICY = "other_policy"  # chunked by other settings or an older version
    WRONG_HASH = "wrong_hash"  # a row's hash is not that of its file or text
    BROKEN_SPAN = "broken_span"  # a row's text, lines or bytes are not those of the file


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that is wrong. detail: a sentence part. ids: the rows that are wrong, where removing them is safe."""

    kind: FindingKind
    path: str
    detail: str
    ids: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Repair:
    """What mends findings without loss: rows to remove, files to index again (with force).

    prune: index the scope too, which removes what is orphaned; only a run that sees much of it gone at once can stop.
    """

    remove: tuple[str, ...]
    reindex: tuple[str, ...]
    prune: bool


def audit(
    scope: Scope, chunking: ChunkPolicy, scanning: ScanPolicy, stop: StopSignal, *, store: Store, clock: Clock
) -> list[Finding]:
    """Everything that is wrong in a scope, in path order. Raises WorkspaceError, StoreError, Cancelled.

    Uncommitted rows younger than an hour are left alone: somebody may be writing them.
    """
    scope = canonical(scope)
    generations = newest_first(store.catalog(where(scope)))
    walked = scan(scope, scanning, stop)
    rows: dict[tuple[str, int], list[RowKey]] = {}
    for key in store.keys(where(scope)):
        rows.setdefault((key.path, key.gen), []).append(key)
    findings = list(_from_keys(rows, generations, walked, clock.now_ns()))
    root = str(scope.workspace.root)
    paths = list(walked.files)
    for start in range(0, len(paths), _FILES_A_READ):
        some = paths[start : start + _FILES_A_READ]
        stored = _newest_rows(store, scope, some, generations)
        for path in some:
            stop.check()
            reading = open_and_read(root, path, walked.files[path].stamp, clock)
            if isinstance(reading, Reading):
                current = generations[path][0] if path in generations else None
                findings += _from_file(path, reading.data, chunking, current, stored.get(path, []))
    return sorted(findings, key=lambda finding: (finding.path, finding.kind))


def plan_repair(findings: Iterable[Finding]) -> Repair:
    """What to remove and what to index again. Removed are only rows that no reader sees."""
    unseen = {FindingKind.DOUBLED, FindingKind.UNCOMMITTED}
    findings = list(findings)
    orphaned = [finding for finding in findings if finding.kind is FindingKind.ORPHANED]
    return Repair(
        remove=tuple(id_ for finding in findings if finding.kind in unseen for id_ in finding.ids),
        reindex=tuple(sorted({f.path for f in findings if f.kind not in unseen | {FindingKind.ORPHANED}})),
        prune=bool(orphaned),
    )


def _from_keys(
    rows: dict[tuple[str, int], list[RowKey]],
    generations: dict[str, list[FileEntry]],
    walked: ScanResult,
    now_ns: int,
) -> Iterator[Finding]:
    for (path, gen), keys in rows.items():
        entries = generations.get(path, [])
        entry = next((entry for entry in entries if entry.gen == gen), None)
        # The committing row last, as everywhere.
        ids = tuple(key.id for key in sorted(keys, key=lambda key: key.ord, reverse=True))
        count = f"{amount(len(keys), 'row')} of generation {gen}"
        if entry is None:
            if now_ns - gen >= GRACE_NS:
                yield Finding(FindingKind.UNCOMMITTED, path, f"{count}, never committed", ids)
        elif path not in walked.files:
            if not walked.protects(path):
                yield Finding(FindingKind.ORPHANED, path, f"{count}, but there is no such file", ids)
        elif entry is not entries[0]:
            yield Finding(FindingKind.DOUBLED, path, f"{count} beside a newer one", ids)
        elif {key.ord for key in keys} != set(range(entry.chunk_count)):
            yield Finding(FindingKind.INCOMPLETE, path, f"{len(keys)} of {amount(entry.chunk_count, 'row')} stored")


def _newest_rows(
    store: Store, scope: Scope, paths: Sequence[str], generations: dict[str, list[FileEntry]]
) -> dict[str, list[Match]]:
    """The rows of the newest generations of some files, in order."""
    found: dict[str, list[Match]] = {}
    for match in store.rows(Where(workspaces=(scope.workspace.id,), paths=tuple(paths))):
        if match.path in generations and match.gen == generations[match.path][0].gen:
            found.setdefault(match.path, []).append(match)
    for rows in found.values():
        rows.sort(key=lambda match: match.ord)
    return found


def _from_file(
    path: str, data: bytes, chunking: ChunkPolicy, current: FileEntry | None, rows: Sequence[Match]
) -> Iterator[Finding]:
    """Compare one file's bytes with the rows of its newest generation."""
    document = to_document(data, path, chunking)
    if current is None:
        if isinstance(document, Document) and document.chunks:
            yield Finding(FindingKind.MISSING, path, f"{amount(len(document.chunks), 'chunk')}, none stored")
        return
    digest = hashlib.sha256(data).hexdigest()
    if current.file_hash != digest:
        yield Finding(FindingKind.STALE, path, "the file has changed since it was indexed")
    elif current.policy != chunking.fingerprint:
        yield Finding(FindingKind.OTHER_POLICY, path, f"chunked under {current.policy}, now {chunking.fingerprint}")
    elif isinstance(document, Document):
        yield from _from_rows(path, digest, document, rows)


def _from_rows(path: str, digest: str, document: Document, rows: Sequence[Match]) -> Iterator[Finding]:
    """Compare the rows of unchanged bytes with what chunking gives."""
    for row in rows:
        if row.ord >= len(document.chunks):
            yield Finding(FindingKind.BROKEN_SPAN, path, f"row {row.ord} of {amount(len(document.chunks), 'chunk')}")
            continue
        chunk = document.chunks[row.ord]
        if row.file_hash != digest or row.text_hash != chunk.text_hash:
            yield Finding(FindingKind.WRONG_HASH, path, f"row {row.ord} has another hash than its text")
        if _span(row) != _span(chunk):
            yield Finding(FindingKind.BROKEN_SPAN, path, f"row {row.ord} is not what stands at its place")


def _span(row: Match | Chunk) -> tuple[int, int, int, int, str]:
    return row.start_line, row.end_line, row.start_byte, row.end_byte, row.text
