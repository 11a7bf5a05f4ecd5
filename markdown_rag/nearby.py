"""Paths typed in a folder: what is there, in what is searched, is meant; anything else is taken from the workspace."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

from markdown_rag.facade import LinksCall, ListCall, ReadCall, SearchCall
from markdown_rag.paths import Workspace
from markdown_rag.workspaces import Searched, holds

Call = TypeVar("Call", SearchCall, ReadCall, ListCall, LinksCall)
_PATHS = ("path", "scope_path", "exclude_path")


def seen_from(folder: Path, call: Call, searched: Searched, known: Sequence[Workspace]) -> Call:
    """A call whose relative paths are absolute where something is there, seen from a folder, and is searched.

    A document is a file: where its name is that of a folder there, it is still looked up as a name.
    """
    mine = [workspace for workspace in known if not searched.ids or workspace.id in searched.ids]
    is_there = os.path.isfile if isinstance(call, ReadCall | LinksCall) else os.path.exists

    def seen(given: str) -> str:
        place = os.path.join(folder, given.strip())
        found = given.strip() and is_there(place) and any(holds(workspace, place) for workspace in mine)
        return place if found else given

    changed: dict[str, Any] = {}
    for name in _PATHS:
        given = getattr(call, name, "")
        changed |= {name: seen(given) if isinstance(given, str) else tuple(map(seen, given))} if given else {}
    return replace(call, **changed)
