"""Why a file that is on this machine is in no index: what the latest run said of it, or the rule that leaves it out."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from markdown_rag.clock import StopSignal
from markdown_rag.errors import FastRagError, NotFound
from markdown_rag.paths import Scope, Workspace, nfc, relative_to

if TYPE_CHECKING:
    from markdown_rag.indexing.ignore import ScanPolicy
    from markdown_rag.workspaces import Searched, WorkspaceRegistry


def explained(
    error: NotFound, path: str, searched: Searched, registry: WorkspaceRegistry, policy: ScanPolicy
) -> NotFound:
    """The error for a path that is not indexed: why the file was left out, where one is there; else as it was."""
    workspaces = [each for each in registry.all() if not searched.ids or each.id in searched.ids]
    why = _reason(path, workspaces, registry, policy)
    return NotFound(why, "list_documents shows what else was.") if why else error


def _reason(given: str, workspaces: Iterable[Workspace], registry: WorkspaceRegistry, policy: ScanPolicy) -> str:
    """Why the file at a path in one of these workspaces was left out, in a sentence; "" where none is known."""
    from markdown_rag.indexing.scan import scan  # noqa: PLC0415 - loads numpy

    for workspace in workspaces:
        try:
            path = relative_to(workspace, given)
            if not path or not (workspace.root / path).is_file():
                continue
            known = {nfc(each["path"]): each["reason"] for each in registry.skipped(workspace.id).get("problems", ())}
            why = known.get(nfc(path)) or next(
                (each.reason for each in scan(Scope(workspace, path), policy, StopSignal()).problems), ""
            )
        except (FastRagError, OSError, ValueError):
            continue
        if why:
            return f"{path} is there and left out of the index: {why}."
    return ""
