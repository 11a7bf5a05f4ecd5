"""A run that fails leaves no stage at work.

A stage that goes on is ended by the garbage collector, perhaps in a thread of its own pool, where it waits for itself.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from pathlib import Path

import pytest

from markdown_rag.clock import SystemClock
from markdown_rag.errors import EmbeddingUnavailable

from .conftest import NewBench


class SlowReading(SystemClock):
    """Reading any file but the first takes until the run has ended, or half a second."""

    def __init__(self) -> None:
        self.begun = 0
        self.done = 0
        self.ended = threading.Event()

    def now_ns(self) -> int:
        if threading.current_thread().name.startswith("index-read"):
            self.begun += 1
            if self.begun > 1:
                self.ended.wait(0.5)
            self.done += 1
        return super().now_ns()


@pytest.mark.ends_with("missing")
def test_the_stages_of_a_failed_run_end_before_the_run_does(new_bench: NewBench, tmp_path: Path) -> None:
    clock = SlowReading()
    bench = new_bench(tmp_path / "vault", tmp_path / "state", clock=clock, batch_chunks=1)
    for number in range(6):
        bench.note(f"{number}.md")

    def fail(_texts: Sequence[str]) -> None:
        raise EmbeddingUnavailable("The provider is away.")

    bench.embedder.before = fail
    with pytest.raises(EmbeddingUnavailable):
        bench.run()
    at_work = clock.begun - clock.done
    clock.ended.set()
    assert at_work == 0
