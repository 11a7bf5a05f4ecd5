"""What stops a run before files that may merely be out of sight lose their rows (I2)."""

from __future__ import annotations

import hashlib

from markdown_rag.clock import Clock, StopSignal
from markdown_rag.errors import GuardError
from markdown_rag.indexing.delta import is_suspicious, lost, refuse_deletions
from markdown_rag.indexing.reading import Reading, open_and_read
from markdown_rag.indexing.survey import Survey
from markdown_rag.store.base import Store, Where


def refusal(found: Survey, stop: StopSignal, *, store: Store, clock: Clock) -> GuardError | None:
    """Why a run over what was found must not delete what it would, None if it may."""
    scope, deleted = found.scope, found.delta.deleted
    root = str(scope.workspace.root)
    if deleted and found.scan.root_is_empty:
        paths = tuple(sorted(entry.path for entry in deleted))
        return refuse_deletions(paths, len(paths), root)
    total = len({entry.path for entry in found.catalog})
    if not is_suspicious(len(deleted), total):
        return None
    if scope.path or not scope.recursive:
        total = len({entry.path for entry in store.catalog(Where(workspaces=(scope.workspace.id,)))})
    gone = lost(deleted, _arrived(found, stop, clock))
    return refuse_deletions(gone, total, root) if is_suspicious(len(gone), total) else None


def _arrived(found: Survey, stop: StopSignal, clock: Clock) -> set[str]:
    """Hashes of the files that are new: what was moved is not lost."""
    root = str(found.scope.workspace.root)
    hashes = set()
    for work in found.delta.work:
        stop.check()
        if work.current is None:
            reading = open_and_read(root, work.path, work.seen.stamp, clock)
            if isinstance(reading, Reading):
                hashes.add(hashlib.sha256(reading.data).hexdigest())
    return hashes
