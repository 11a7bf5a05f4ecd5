"""Look before acting: a scope in; the walk, the catalog and the delta between them out. Reads only."""

from __future__ import annotations

from dataclasses import dataclass

from markdown_rag.clock import StopSignal
from markdown_rag.indexing.delta import Delta, plan
from markdown_rag.indexing.ignore import ScanPolicy
from markdown_rag.indexing.scan import ScanResult, scan
from markdown_rag.indexing.statcache import Noted, StatCache
from markdown_rag.paths import Scope
from markdown_rag.store.base import FileEntry, Store, Where


@dataclass(frozen=True, slots=True)
class Survey:
    """What is on disk, what is stored, and what lies between. catalog: all committed generations of the scope."""

    scope: Scope
    scan: ScanResult
    catalog: tuple[FileEntry, ...]
    noted: dict[str, Noted]
    delta: Delta


def where(scope: Scope) -> Where:
    """The rows of a scope."""
    return Where(workspaces=(scope.workspace.id,), scope=scope.path, recursive=scope.recursive)


def survey(
    scope: Scope,
    scan_policy: ScanPolicy,
    policy: str,
    stop: StopSignal,
    *,
    store: Store,
    cache: StatCache,
    force: bool = False,
    verify: bool = False,
) -> Survey:
    """List, walk, compare. policy: the chunking policy's fingerprint. Raises WorkspaceError, StoreError, Cancelled."""
    # The catalog first: a file that somebody else adds and indexes in between is read twice, not taken for deleted.
    catalog = tuple(store.catalog(where(scope)))
    walked = scan(scope, scan_policy, stop)
    noted = {path: n for path, n in cache.load(scope).items() if _in_scope(scope, path)}
    delta = plan(catalog, walked, noted, policy, force=force, verify=verify)
    return Survey(scope, walked, catalog, noted, delta)


def _in_scope(scope: Scope, path: str) -> bool:
    return scope.recursive or scope.path in {path, path.rpartition("/")[0]}
