"""The embedded index is deleted, or its disk is full, while a run writes it: what the run says is true."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from markdown_rag.errors import StoreError, StoreUnavailable
from markdown_rag.indexing.report import Progress
from markdown_rag.store.base import Store
from markdown_rag.store.endpoint import read_endpoint
from markdown_rag.store.opening import StoreSettings, open_store
from tests.indexing.parts import Bench

from .conftest import MODEL
from .judge import is_settled

FILES = 12
LIMITED = """
import resource, sys
from pathlib import Path
from markdown_rag.store.launcher import connect_engine
resource.setrlimit(resource.RLIMIT_FSIZE, (40_000, 40_000))
connect_engine(Path(sys.argv[1]))
print("there", flush=True)
sys.stdin.readline()
"""


class Watched:
    """A store that does something before its at-th call, or after it."""

    def __init__(self, inner: Store) -> None:
        self.inner = inner
        self.calls = 0
        self.at, self.late = 0, False
        self.act: Callable[[], None] = lambda: None

    def __getattr__(self, name: str) -> Any:
        found = getattr(self.inner, name)
        if not callable(found):
            return found

        def call(*arguments: Any, **options: Any) -> Any:
            self.calls += 1
            now = self.calls == self.at
            if now and not self.late:
                self.act()
            result = found(*arguments, **options)
            if now and self.late:
                self.act()
            return result

        return call


@pytest.fixture
def data_dir(tmp_path: Path) -> Iterator[Path]:
    """Where an index may come and go; whatever engine serves it afterwards is ended."""
    place = tmp_path / "index.db"
    yield place
    endpoint = read_endpoint(place)
    if endpoint is not None and psutil.pid_exists(endpoint.pid):
        os.kill(endpoint.pid, signal.SIGKILL)


@pytest.fixture
def bench(tmp_path: Path, data_dir: Path) -> Iterator[Bench]:
    """A vault over an index of its own."""
    settings = StoreSettings(str(data_dir), "", "t", 1000, 30.0, tmp_path)
    store = Watched(open_store(settings, MODEL))
    made = Bench(tmp_path / "vault", tmp_path / "state", store=store, batch_chunks=4)
    for number in range(FILES):
        made.note(f"{number}.md")
    yield made
    made.close()
    store.inner.close()


def tells_the_truth(bench: Bench) -> None:
    """A run succeeds with everything stored, or fails; the next one succeeds, and no text is paid for twice."""
    try:
        report = bench.run()
        bench.store.at = 0
        assert (report.new + report.modified + report.unchanged, report.failed) == (FILES, 0)
    except StoreUnavailable:
        bench.store.at = 0
        assert bench.run().failed == 0
    is_settled(bench)
    assert len(bench.embedder.sent) == len(set(bench.embedder.sent))


@pytest.mark.parametrize("late", [False, True], ids=["before", "after"])
@pytest.mark.parametrize("at", [4, 7, *(pytest.param(at, marks=pytest.mark.slow) for at in (1, 2, 3, 5, 6))])
def test_a_run_whose_index_is_deleted_meanwhile_stores_all_or_fails(
    bench: Bench, data_dir: Path, at: int, late: bool
) -> None:
    bench.run()
    bench.note("0.md", "edited")
    bench.write("1.md", "# Other\n\nOther words.\n")
    store, done = bench.store, []
    store.calls, store.at, store.late = 0, at, late
    store.act = lambda: done.append(shutil.rmtree(data_dir))
    tells_the_truth(bench)
    assert done


def test_an_index_that_is_deleted_at_the_end_of_a_run_is_made_again_by_that_run(bench: Bench, data_dir: Path) -> None:
    bench.run()
    store = bench.store
    store.calls = 0
    bench.note("0.md", "edited")
    bench.run()
    calls = store.calls
    bench.note("0.md", "edited again")
    store.calls, store.at = 0, calls
    store.act = lambda: shutil.rmtree(data_dir)
    report = bench.run()
    assert (report.new, report.embedded) == (FILES, 0)
    is_settled(bench)


def test_an_index_that_is_deleted_again_and_again_fails_a_run_that_can_be_resumed(bench: Bench, data_dir: Path) -> None:
    bench.run()
    inner = bench.store.inner

    class Stubborn(Watched):
        def __getattr__(self, name: str) -> Any:
            if name == "flush" or (name == "identity" and data_dir.exists()):
                seen = inner.identity()
                shutil.rmtree(data_dir)
                return lambda: seen
            return super().__getattr__(name)

    bench.store = Stubborn(inner)
    bench.restart()
    with pytest.raises(StoreUnavailable):
        bench.run()
    bench.store = Watched(inner)
    bench.restart()
    tells_the_truth(bench)


def test_what_a_run_counts_as_stored_is_stored_when_the_disk_is_full(bench: Bench, data_dir: Path) -> None:
    for number in range(FILES):
        bench.write(f"{number}.md", f"# Note {number}\n\n" + f"Words of note {number}. " * 200)
    command = [sys.executable, "-c", LIMITED, str(data_dir)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as limited:
        assert limited.stdout.readline() == b"there\n"
        progress = Progress()
        with pytest.raises(StoreError, match=r"The disk that holds .* is full. Free some space"):
            bench.run(progress=progress)
        entries = bench.store.catalog()
        assert 0 < progress.processed_files <= len(entries) < FILES
        engine = psutil.Process(read_endpoint(data_dir).pid)
        engine.kill()
        limited.communicate(b"end\n")
    assert {entry.path for entry in bench.store.catalog()} >= {entry.path for entry in entries}
    tells_the_truth(bench)
