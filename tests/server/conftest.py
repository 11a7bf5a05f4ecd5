"""A real server over a real app, for tests of the edge."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from markdown_rag.app import App
from markdown_rag.settings import load_settings
from markdown_rag.wiring import Parts

NOTES = {
    "guests.md": "---\ntags: [office]\naliases: [visitors]\n---\n# Guests\n\n## Wifi\n\n"
    "The guest password changes every Monday.\n",
    "backup/plan.md": "# Backups\n\n## Restore\n\nA restore is rehearsed on the first day of every quarter.\n",
    "backup/ERR.md": "# Errors\n\nThe code ERR_0x80070005 means that the disk refused the backup.\n",
}


@pytest.fixture
def vault(tmp_path: Path) -> Path:
    for name, text in NOTES.items():
        path = tmp_path / "vault" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return tmp_path / "vault"


@pytest.fixture
def app(state_dir: Path, vault: Path) -> Iterator[App]:
    settings = load_settings({"MARKDOWN_RAG_CACHE_DIR": str(state_dir)})
    parts = Parts(settings)
    yield App(parts, settings, vault)
    parts.close()
