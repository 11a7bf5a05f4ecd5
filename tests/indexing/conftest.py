"""Fixtures of the index tests."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from .parts import Bench


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    """An empty vault and its index."""
    made = Bench(tmp_path / "vault", tmp_path / "state")
    yield made
    made.close()
