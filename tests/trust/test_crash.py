"""Processes killed at any moment of real index runs: nothing lost, nothing doubled, nothing paid for twice."""

from __future__ import annotations

import contextlib
import os
import random
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import psutil
import pytest

from markdown_rag.app import App
from markdown_rag.facade import IndexCall, Json
from markdown_rag.markdown.chunking import ChunkPolicy
from markdown_rag.policies import chunk_policy
from markdown_rag.settings import load_settings
from markdown_rag.store.base import Where
from markdown_rag.store.endpoint import read_endpoint
from markdown_rag.wiring import Parts
from tests.data.stub_embeddings import StubServer
from tests.indexing.reference import ReferenceIndex, Rows, stored
from tests.waiting import eventually

CUTS = int(os.environ.get("MARKDOWN_RAG_TEST_CUTS", "200"))
SECONDS = 60.0
BATCH, AT_ONCE = 8, 2  # texts of a request, requests at once: what can be under way when a process dies
COMMAND = [sys.executable, "-c", "from markdown_rag.server.guard import main; main()", "index"]


@dataclass
class Loop:
    """A vault that is edited and indexed again and again, by processes that are killed."""

    vault: Path
    environ: dict[str, str]
    stub: StubServer
    chance: random.Random
    agents_killed: int = 0
    outcomes: Counter[str] = field(default_factory=Counter)  # who was killed, and how the job ended

    def __post_init__(self) -> None:
        settings = load_settings(self.environ)
        self.parts = Parts(settings)
        self.app = App(self.parts, settings, self.vault)
        self.policy: ChunkPolicy = chunk_policy(settings)
        self.edits = 0

    def picture(self) -> dict[str, Rows]:
        reference = ReferenceIndex(self.vault, self.policy)
        reference.run()
        return reference.index

    @property
    def workspace(self) -> str:
        (known,) = self.parts.workspaces.all()
        return known.id

    def as_read(self) -> dict[str, Rows]:
        """What readers see: of every file the rows of its newest committed generation."""
        where = Where(workspaces=(self.workspace,))
        newest: dict[str, int] = {}
        for entry in self.parts.store.catalog(where):
            newest[entry.path] = max(entry.gen, newest.get(entry.path, 0))
        seen: dict[str, Rows] = {path: [] for path in newest}
        for row in sorted(self.parts.store.rows(where), key=lambda row: row.ord):
            if row.gen == newest.get(row.path):
                seen[row.path].append((row.start_byte, row.end_byte, row.text, row.text_hash))
        return seen

    def write(self, name: str) -> None:
        self.edits += 1
        text = f"# {name}\n\n" + "".join(
            f"## Part {part}\n\nedit {self.edits} of part {part} in {name} " + "and so on " * 60 + "\n\n"
            for part in range(3)
        )
        (self.vault / name).write_text(text)

    def edit(self) -> None:
        """Some files change, one goes, one comes, one moves."""
        names = sorted(path.name for path in self.vault.glob("*.md"))
        for name in self.chance.sample(names, 8):
            self.write(name)
        self.write(f"new{self.edits}.md")
        gone, moved = self.chance.sample(names, 2)
        (self.vault / gone).unlink()
        (self.vault / moved).rename(self.vault / f"moved{self.edits}.md")

    def indexed_here(self) -> Json:
        job = self.app.index(IndexCall(root=str(self.vault)))
        status = self.app.status(job["job_id"], SECONDS)
        assert status["status"] == "succeeded", status
        return status

    def agent(self) -> subprocess.Popen[bytes]:
        """Another process that indexes the vault."""
        return subprocess.Popen(
            [*COMMAND, str(self.vault)], env=self.environ, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )

    def engine(self) -> psutil.Process | None:
        data_dir = self.parts.settings.state_directory / "milvus_markdown.db"
        endpoint = read_endpoint(data_dir)
        with contextlib.suppress(psutil.NoSuchProcess):
            return psutil.Process(endpoint.pid) if endpoint else None
        return None

    def cut(self) -> None:
        """One index run that is cut, what must hold at once, and what must hold after the next run."""
        before = self.picture()
        self.edit()
        after = self.picture()
        process = self.agent()
        job_id = self.wait_until_it_works(process)
        time.sleep(self.chance.uniform(0.0, 0.6))  # the moment of the cut is the point of the test
        kind = self.chance.choice(("agent", "engine", "both")) if self.engine() else "agent"
        if kind != "agent" and (engine := self.engine()) is not None:
            with contextlib.suppress(psutil.NoSuchProcess):
                engine.kill()
        if kind != "engine":
            process.kill()
            self.agents_killed += 1
        process.wait(SECONDS)
        self.nothing_is_lost(before, after)
        ended = self.how_its_job_ended(process, job_id, killed=kind != "engine")
        self.outcomes[f"{kind}: {ended}"] += 1
        self.indexed_here()
        assert stored(self.parts.store, self.workspace) == after
        stats = self.stub.stats()
        assert stats["texts"] - stats["distinct_texts"] <= self.agents_killed * BATCH * AT_ONCE

    def wait_until_it_works(self, process: subprocess.Popen[bytes]) -> str:
        """The process's job; of one that has ended meanwhile the latest, which is its own."""

        def job() -> str:
            ended = process.poll() is not None
            active = [job.id for job in self.parts.queue.active() if job.owner.pid == process.pid]
            return active[0] if active else str(self.app.status()["job_id"]) if ended else ""

        return eventually(job, seconds=2 * SECONDS)

    def nothing_is_lost(self, before: dict[str, Rows], after: dict[str, Rows]) -> None:
        seen = self.as_read()
        for path in before.keys() & after.keys():
            assert seen[path] in (before[path], after[path]), path
        moved = [path for path in after.keys() - before.keys() if path.startswith("moved")]
        assert all(path in seen for path in moved) or (before.keys() - after.keys()) & seen.keys()

    def how_its_job_ended(self, process: subprocess.Popen[bytes], job_id: str, *, killed: bool) -> str:
        status = eventually(
            lambda: self.app.status(job_id, SECONDS),
            lambda seen: seen["status"] not in {"queued", "running"},
            seconds=2 * SECONDS,
        )
        assert status["pid"] == process.pid
        if killed:
            assert status["status"] == "succeeded" or status["resumable"], status
        return str(status["status"])

    def close(self) -> None:
        self.app.close()


@pytest.fixture
def loop(state_dir: Path, tmp_path: Path) -> Iterator[Callable[[int], Loop]]:
    made: list[Loop] = []
    with StubServer(dim=64, latency_ms=40) as stub:

        def make(seed: int, **more: str) -> Loop:
            vault = tmp_path / "vault"
            vault.mkdir()
            environ = {
                "PATH": os.environ["PATH"],
                "HOME": os.environ["HOME"],
                "MARKDOWN_RAG_CACHE_DIR": str(state_dir),
                "MARKDOWN_RAG_SERVICE": "off",
                "EMBEDDING_PROVIDER": "openai-compatible",
                "EMBEDDING_BASE_URL": stub.url,
                "EMBEDDING_DIM": "64",
                "EMBEDDING_BATCH_SIZE": str(BATCH),
                "EMBEDDING_CONCURRENT_BATCHES": str(AT_ONCE),
                "MARKDOWN_CHUNK_SIZE": "128",
                **more,
            } | {name: value for name, value in os.environ.items() if name.startswith("MARKDOWN_RAG_TEST")}
            made.append(Loop(vault, environ, stub, random.Random(seed)))
            for number in range(12):
                made[-1].write(f"{number}.md")
            made[-1].indexed_here()
            return made[-1]

        yield make
        for one in made:
            one.close()


def run_cuts(loop: Loop, cuts: int) -> None:
    for _ in range(cuts):
        loop.cut()
    print(f"{cuts} cuts: {dict(loop.outcomes)}")
    findings = loop.app.audit(IndexCall(root=str(loop.vault)))
    assert findings["ok"], findings
    again = loop.indexed_here()["result"]
    assert (again["delta_counts"], again["embedded"]) == ({"new": 0, "modified": 0, "deleted": 0}, 0)


def test_a_killed_process_or_engine_loses_doubles_and_repeats_nothing(loop: Callable[[int], Loop]) -> None:
    run_cuts(loop(1), 2)


@pytest.mark.server
def test_a_killed_client_of_a_server_loses_doubles_and_repeats_nothing(
    loop: Callable[..., Loop], milvus_server: str
) -> None:
    run_cuts(loop(7, MILVUS_ADDRESS=milvus_server, MARKDOWN_COLLECTION=f"crash{os.getpid()}"), 3)


@pytest.mark.slow
def test_cuts_at_25_moments_lose_double_and_repeat_nothing(loop: Callable[[int], Loop]) -> None:
    run_cuts(loop(2), 25)


@pytest.mark.slow
@pytest.mark.skipif("MARKDOWN_RAG_TEST_CUTS" not in os.environ, reason="set MARKDOWN_RAG_TEST_CUTS=200 (half an hour)")
def test_cuts_at_many_moments_lose_double_and_repeat_nothing(loop: Callable[[int], Loop]) -> None:
    run_cuts(loop(3), CUTS)


@pytest.mark.parametrize("harm", ["deleted", "truncated", "garbage"])
def test_a_state_file_that_is_lost_or_damaged_costs_a_rescan_and_nothing_else(
    loop: Callable[[int], Loop], state_dir: Path, harm: str
) -> None:
    here = loop(4)
    here.close()
    paid = here.stub.stats()["texts"]
    for file in [file for file in state_dir.iterdir() if file.suffix in {".sqlite3", ".db"} and file.is_file()]:
        if harm == "deleted":
            file.unlink()
        else:
            file.write_bytes(file.read_bytes()[:1500] if harm == "truncated" else b"garbage" * 500)
    here.__post_init__()
    result = here.indexed_here()["result"]
    assert (result["delta_counts"], result["embedded"]) == ({"new": 0, "modified": 0, "deleted": 0}, 0)
    assert here.stub.stats()["texts"] == paid
    assert stored(here.parts.store, here.workspace) == here.picture()
    assert here.app.audit(IndexCall(root=str(here.vault)))["ok"]


def test_a_disk_that_is_full_is_said_and_the_next_run_puts_all_right(
    loop: Callable[[int], Loop], tmp_path: Path
) -> None:
    here = loop(5)
    before = here.picture()
    for number in range(40):
        here.write(f"more{number}.md")
    after = here.picture()
    limit = "import resource; resource.setrlimit(resource.RLIMIT_FSIZE, (150_000, 150_000)); "
    command = [sys.executable, "-c", limit + COMMAND[2], "index", str(here.vault)]
    log = tmp_path / "said"
    reasons = (b"Error: ", b"failed: ", b"cannot be used")
    with log.open("wb") as file:
        process = subprocess.Popen(command, env=here.environ, stdout=subprocess.DEVNULL, stderr=file)
    try:
        eventually(lambda: process.poll() is not None or any(words in log.read_bytes() for words in reasons))
        code = process.wait(5.0)
    except subprocess.TimeoutExpired:  # not even the start of a job can be written down
        code = 1
    finally:
        process.kill()
        process.wait(SECONDS)
    said = log.read_bytes()
    assert b"Traceback" not in said
    assert code == 0 or any(words in said for words in reasons), said
    here.nothing_is_lost(before, after)
    here.indexed_here()
    assert stored(here.parts.store, here.workspace) == after
    assert here.app.audit(IndexCall(root=str(here.vault)))["ok"]


def test_a_state_directory_that_cannot_be_written_is_said_with_the_way_out(loop: Callable[[int], Loop]) -> None:
    here = loop(6)
    environ = here.environ | {"MARKDOWN_RAG_CACHE_DIR": "/proc/nowhere"}
    ended = subprocess.run(
        [*COMMAND, str(here.vault)], env=environ, capture_output=True, text=True, timeout=SECONDS, check=False
    )
    assert ended.returncode == 1
    assert "/proc/nowhere" in ended.stderr
    assert "MARKDOWN_RAG_CACHE_DIR" in ended.stderr
    assert "Traceback" not in ended.stderr
