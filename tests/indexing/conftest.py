"""Vaults with an index, each judged by the doctor when its test ends."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.doctor import benches_end_well

from .parts import Bench

NewBench = Callable[..., Bench]


@pytest.fixture
def new_bench(request: pytest.FixtureRequest) -> Iterator[NewBench]:
    """new_bench(vault, state, ...): as Bench; closed with the test, after the doctor was asked."""
    made: list[Bench] = []

    def make(*places: Path, **how: object) -> Bench:
        made.append(Bench(*places, **how))
        return made[-1]

    yield make
    try:
        benches_end_well(request.node, made)
    finally:
        for bench in made:
            bench.close()


@pytest.fixture
def bench(new_bench: NewBench, tmp_path: Path) -> Bench:
    """An empty vault and its index."""
    return new_bench(tmp_path / "vault", tmp_path / "state")
