"""Why an answer is empty, in words that lead on, never to what was just done. Pure over a snapshot of the catalog."""

from __future__ import annotations

import difflib

from markdown_rag.amounts import amount
from markdown_rag.paths import nfc
from markdown_rag.search.answer import Empty, EmptyReason
from markdown_rag.search.catalog import Snapshot
from markdown_rag.store.base import Where

_STALE = " What was written since the last index run is not seen: index_documents, or wait_for_fresh=true."


def explain(snapshot: Snapshot, where: Where, argument: str = "scope_path", *, waited: bool = False) -> Empty:
    """The reason for an empty answer to a search of where.

    argument: what names the scope. waited: what changed was indexed just before.
    """
    if not snapshot.files:
        wider = ', or widen the search with workspace="all"' if where.workspaces else ""
        message = f"Nothing is indexed in what was searched. Call index_documents first{wider}."
        return Empty(EmptyReason.NOTHING_INDEXED, message)
    files = snapshot.select(where)
    if not files and where.scope and not snapshot.select(Where(scope=where.scope)):
        nearest = nearest_scope(snapshot, where.scope)
        hint = f"The nearest indexed one is {nearest!r}." if nearest else f"Leave {argument} empty for everything."
        return Empty(EmptyReason.UNKNOWN_SCOPE, f"No indexed file lies in scope {where.scope!r}. {hint}")
    if not files:
        return Empty(EmptyReason.NO_MATCH, "No indexed file meets all the filters. Leave one out.")
    chunks = sum(entry.chunk_count for entry in files)
    return Empty(
        EmptyReason.NO_MATCH,
        f"No match among {amount(chunks, 'chunk')} of {amount(len(files), 'file')}. "
        f"Try other words{_elsewhere(where)}.{'' if waited else _STALE}",
    )


def nothing_relevant(snapshot: Snapshot, where: Where, best_score: float, *, waited: bool = False) -> Empty:
    """The answer to a query about something else. waited: what changed was indexed just before."""
    chunks = sum(entry.chunk_count for entry in snapshot.select(where))
    return Empty(
        EmptyReason.NOTHING_RELEVANT,
        f"Nothing relevant among {amount(chunks, 'chunk')}: the surest one scores {best_score:.2f} of 1 and none "
        f"stands out. Ask in other words or by an exact name{_elsewhere(where)}.{'' if waited else _STALE}",
    )


def _elsewhere(where: Where) -> str:
    """Where else to look; "" after a search of everything."""
    if where.scope or where.within or where.files:
        return ", or in a wider scope"
    return ', or with workspace="all"' if where.workspaces else ""


def nearest_scope(snapshot: Snapshot, scope: str) -> str:
    """The indexed folder or file most like a scope that holds nothing, or "".

    Each part of the path is followed while it exists; where it ends, a sibling spelled alike is preferred to stopping.
    """
    children = _children(snapshot)
    at = ""
    for part in scope.split("/"):
        names = children.get(at, {})
        name = names.get(nfc(part)) or _alike(nfc(part), names)
        if not name:
            break
        at = f"{at}/{name}" if at else name
    return at


def _alike(part: str, names: dict[str, str]) -> str:
    folded = {name.casefold(): original for name, original in names.items()}
    close = difflib.get_close_matches(part.casefold(), list(folded), n=1, cutoff=0.7)
    return folded[close[0]] if close else ""


def _children(snapshot: Snapshot) -> dict[str, dict[str, str]]:
    """Folder → its entries, NFC name → name as on disk."""
    children: dict[str, dict[str, str]] = {}
    for _, path in snapshot.files:
        at = ""
        for part in path.split("/"):
            children.setdefault(at, {})[nfc(part)] = part
            at = f"{at}/{part}" if at else part
    return children
