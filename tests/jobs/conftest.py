"""Parts that the tests of jobs share."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from markdown_rag.jobs.job import IndexRequest
from markdown_rag.jobs.ledger import Ledger, open_ledger
from markdown_rag.paths import Scope, Workspace

Ask = Callable[..., IndexRequest]


@pytest.fixture
def ledger(tmp_path: Path) -> Iterator[Ledger]:
    opened = open_ledger(tmp_path)
    yield opened
    opened.close()


@pytest.fixture
def ask(tmp_path: Path) -> Ask:
    """A request for a path of the workspace "notes"."""

    def build(path: str = "", *, workspace: str = "notes", recursive: bool = True, **more: Any) -> IndexRequest:
        return IndexRequest(Scope(Workspace(workspace, tmp_path / workspace), path, recursive), **more)

    return build
