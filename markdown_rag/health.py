"""What an installation is made of, and whether each part works: one check a part, each with its reason.

A part that fails does not keep the others from being looked at. Nothing is created but the state
directory, and the embedded engine is started, where it is the store.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable
from pathlib import Path

from markdown_rag.amounts import amount
from markdown_rag.errors import FastRagError, StateError
from markdown_rag.facade import Json
from markdown_rag.freshening import watches_of
from markdown_rag.succession import Succession
from markdown_rag.watching import describe
from markdown_rag.wiring import Parts


def health(parts: Parts, locked: str, working_directory: Path) -> Json:
    """All checks in order, and whether all of them passed. locked: the agent's MARKDOWN_WORKSPACE, or ""."""
    looks: dict[str, Callable[[], str]] = {
        "state directory": lambda: _state_directory(parts.settings.state_directory),
        "workspaces": lambda: _workspaces(parts, locked, working_directory),
        "embeddings": lambda: _embeddings(parts),
        "jobs": lambda: f"{len(parts.queue.active())} queued or running",
        "watching": lambda: "; ".join(map(describe, watches_of(parts).state())) or "nothing",
    }
    checks = [_check(name, look) for name, look in looks.items()]
    checks[3:3] = [*_store(parts), _check("former models", lambda: _former(parts))]
    return {"ok": all(check["ok"] for check in checks), "checks": checks}


def _check(name: str, look: Callable[[], str]) -> Json:
    try:
        return {"name": name, "ok": True, "detail": look()}
    except FastRagError as error:
        return {"name": name, "ok": False, "detail": str(error)}


def _state_directory(path: Path) -> str:
    try:
        with tempfile.TemporaryFile(dir=path) as probe:
            probe.write(b"x")
        free = os.statvfs(path)
    except OSError as error:
        raise StateError(f"{path} cannot be written: {error}.", "Point MARKDOWN_RAG_CACHE_DIR elsewhere.") from error
    return f"{path}, {free.f_bavail * free.f_frsize // 2**20:,} MiB free"


def _workspaces(parts: Parts, locked: str, working_directory: Path) -> str:
    known = parts.workspaces.all()
    here = f"MARKDOWN_WORKSPACE={locked}" if locked else f"started in {working_directory}"
    return f"{here}; indexed from here: " + (", ".join(str(w.root) for w in known) or "none yet")


def _embeddings(parts: Parts) -> str:
    card = parts.embeddings.card
    parts.embeddings.query("markdown")
    return f"{card.provider}, {card.model}, {card.dimension} dimensions: answers"


def _former(parts: Parts) -> str:
    """The collections that a change of the model left behind."""
    former = parts.once("succession", lambda: Succession(parts)).there()
    shown = [f"{reading.store.collection} ({amount(reading.store.count(), 'row')})" for reading in former]
    return f"{'; '.join(shown)}: clear_index removes a folder from them too" if shown else "none"


def _store(parts: Parts) -> list[Json]:
    """A check a step of the way, up to the first that fails."""
    from markdown_rag.store.checkup import check  # noqa: PLC0415 - loads numpy

    try:
        model = parts.store.model
    except FastRagError:  # said by the check of the embeddings
        model = None
    return [
        {"name": f"store: {step.name}", "ok": step.ok, "detail": step.detail}
        for step in check(parts.store_settings, model)
    ]
