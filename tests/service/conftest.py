"""Services for tests: each over a state directory of its own, ended with the test."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest

from markdown_rag.facade import Facade, IndexCall, Json
from markdown_rag.service import control
from markdown_rag.service.opening import open_facade
from markdown_rag.settings import load_settings

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
            if module in command and any(str(state) in word for word in command):
                found.append(process)
        except psutil.Error:
            continue
    return [process for process in found if process.is_running() and process.status() != psutil.STATUS_ZOMBIE]


def services_of(state: Path) -> list[psutil.Process]:
    return processes_of(state, "markdown_rag.service.process")


def only_service(state: Path) -> int:
    """The one service of a state directory, once those that came too late have left."""
    deadline = time.monotonic() + BOUND
    while len(found := services_of(state)) != 1:
        assert time.monotonic() < deadline, found
        psutil.wait_procs(found, 0.05)
    return found[0].pid


def finish(facade: Facade, job_id: str) -> Json:
    """The status of a job once it has ended."""
    while True:
        status = facade.status(job_id, 20.0)
        if status.get("status") not in {"queued", "running"}:
            return status


def indexed(facade: Facade, folder: Path) -> Json:
    return finish(facade, facade.index(IndexCall(root=str(folder)))["job_id"])


@pytest.fixture
def environ(state_dir: Path) -> Environ:
    return environ_for(state_dir)


@pytest.fixture
def agent(environ: Environ, state_dir: Path, tmp_path: Path) -> Iterator[Opener]:
    """Opens clients of one service; all of it ends with the test."""
    opened: list[Facade] = []

    def start(folder: Path = tmp_path, **more: str) -> Facade:
        opened.append(open_facade({**environ, **more}, folder))
        return opened[-1]

    yield start
    for facade in opened:
        facade.close()
    end_services(state_dir)


@pytest.fixture
def vault(tmp_path: Path) -> Path:
    return write_notes(tmp_path / "vault")
