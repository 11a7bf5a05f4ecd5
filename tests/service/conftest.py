"""Services for tests: each over a state directory of its own, ended with the test."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

import psutil
import pytest

from markdown_rag.facade import Facade, IndexCall, Json
from markdown_rag.service import control
from markdown_rag.service.opening import open_facade
from markdown_rag.settings import load_settings
from markdown_rag.wiring import Parts
from tests.data.stub_embeddings import StubServer
from tests.doctor import folders_end_well, known_folders
from tests.waiting import eventually

BOUND = 60.0
NOTES = {
    "guests.md": "# Guests\n\n## Wifi\n\nThe guest password changes every Monday.\n",
    "backup/plan.md": "# Backups\n\n## Restore\n\nA restore is rehearsed on the first day of every quarter.\n",
}

Environ = dict[str, str]
Opener = Callable[..., Facade]


def write_notes(folder: Path, notes: dict[str, str] = NOTES) -> Path:
    for name, text in notes.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return folder


def many_notes(folder: Path, count: int) -> Path:
    """A folder whose first index run takes a while: every text is another one."""
    words = ("river", "window", "copper", "meadow", "signal", "lantern", "harbour", "violet", "engine", "pepper")
    return write_notes(
        folder,
        {
            f"part{n % 7}/note{n:04}.md": f"# Note {n}\n\nThe {words[n % 10]} of {words[n // 10 % 10]} number {n}.\n"
            for n in range(count)
        },
    )


def environ_for(state: Path, **more: str) -> Environ:
    """The variables of an agent whose service leaves with its last client."""
    ours = {"MARKDOWN_RAG_CACHE_DIR": str(state), "MARKDOWN_RAG_SERVICE": "on", "MARKDOWN_RAG_IDLE_MINUTES": "0"}
    return {name: os.environ[name] for name in ("PATH", "HOME") if name in os.environ} | ours | more


def end_services(state: Path) -> None:
    control.stop(load_settings({"MARKDOWN_RAG_CACHE_DIR": str(state)}))


def processes_of(state: Path, module: str) -> list[psutil.Process]:
    """Living processes of ours over a state directory."""
    found = []
    for process in psutil.process_iter():
        try:
            command = process.cmdline()
            if module in command and any(str(state) in word for word in command) and lives(process):
                found.append(process)
        except psutil.Error:
            continue
    return found


def lives(process: psutil.Process) -> bool:
    """Whether it is there, and more than an entry for whoever started it."""
    try:
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def services_of(state: Path) -> list[psutil.Process]:
    return processes_of(state, "markdown_rag.service.process")


def engines_of(state: Path) -> list[psutil.Process]:
    return processes_of(state, "markdown_rag.store.daemon")


def only_service(state: Path) -> int:
    """The one service of a state directory, once those that came too late have left."""
    (found,) = eventually(lambda: services_of(state), lambda living: len(living) == 1, seconds=BOUND)
    return found.pid


def hang(pid: int) -> None:
    """Stop a process, and wait until each of its threads has stopped: one that runs may still answer."""
    process = psutil.Process(pid)
    process.suspend()
    eventually(process.status, lambda status: status == psutil.STATUS_STOPPED)
    tasks = Path(f"/proc/{pid}/task")
    if tasks.exists():
        eventually(
            lambda: {path.read_text().rpartition(")")[2].split()[0] for path in tasks.glob("*/stat")},
            lambda states: states == {"T"},
        )


def only_engine(state: Path) -> psutil.Process:
    """The one engine of a state directory, once those that came too late have left."""
    (found,) = eventually(lambda: engines_of(state), lambda living: len(living) == 1, seconds=BOUND)
    return found


def finish(facade: Facade, job_id: str) -> Json:
    """The status of a job once it has ended."""
    return eventually(
        lambda: facade.status(job_id, 20.0),
        lambda status: status.get("status") not in {"queued", "running"},
        seconds=4 * BOUND,
    )


def indexed(facade: Facade, folder: Path) -> Json:
    return finish(facade, facade.index(IndexCall(root=str(folder)))["job_id"])


def indexed_folders(state: Path) -> list[Path]:
    """As the services of a state directory know them."""
    with closing(Parts(load_settings({"MARKDOWN_RAG_CACHE_DIR": str(state)}))) as parts:
        return known_folders(parts)


@pytest.fixture
def environ(state_dir: Path) -> Environ:
    return environ_for(state_dir)


@pytest.fixture
def agent(environ: Environ, state_dir: Path, tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Opener]:
    """Opens clients of one service; all of it ends with the test.

    Where something is indexed, one more client, with the variables of the last one, asks the doctor first.
    """
    opened: list[Facade] = []
    variables: list[Environ] = []

    def start(folder: Path = tmp_path, **more: str) -> Facade:
        variables.append(more)
        opened.append(open_facade({**environ, **more}, folder))
        return opened[-1]

    yield start
    try:
        if folders := indexed_folders(state_dir):
            folders_end_well(request.node, start(**variables[-1]), folders)
    finally:
        for facade in opened:
            facade.close()
        end_services(state_dir)


@dataclass(frozen=True)
class Held:
    """A folder whose index job is well under way and does not end before the last of its texts is let go."""

    folder: Path
    files: int
    variables: Environ
    _stub: StubServer

    def let_go(self) -> None:
        self._stub.control(hold_word="")

    def under_way(self, facade: Facade, job_id: str) -> int:
        """The process that runs the job, once it has embedded something."""
        status = eventually(lambda: facade.status(job_id, 0.05), lambda seen: seen["processed_chunks"], seconds=BOUND)
        assert status["status"] == "running", status
        pid: int = status["pid"]
        return pid


@pytest.fixture
def held(tmp_path: Path) -> Iterator[Held]:
    files = 120
    with StubServer(dim=16, hold_word=f"number {files - 1}.") as stub:
        variables = {
            "EMBEDDING_PROVIDER": "openai-compatible",
            "EMBEDDING_BASE_URL": stub.url,
            "EMBEDDING_DIM": "16",
            "EMBEDDING_BATCH_SIZE": "8",
        }
        yield Held(many_notes(tmp_path / "vault", files), files, variables, stub)


@pytest.fixture
def vault(tmp_path: Path) -> Path:
    return write_notes(tmp_path / "vault")
