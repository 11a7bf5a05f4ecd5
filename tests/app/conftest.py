"""An app of real parts over a store in memory and a small model."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest

from markdown_rag.app import App
from markdown_rag.facade import IndexCall, Json
from markdown_rag.settings import load_settings
from markdown_rag.store.base import Model, Record
from markdown_rag.store.memory import MemoryStore
from markdown_rag.wiring import Parts
from tests.doctor import folders_end_well, known_folders
from tests.indexing.parts import DIMENSION, HashingEmbedder, embeddings_over


class HoldingStore(MemoryStore):
    """A store whose inserts wait until they are let go. reached: one waits."""

    def __init__(self) -> None:
        super().__init__(Model("test", "hashing", DIMENSION))
        self.reached, self.go_on = threading.Event(), threading.Event()
        self.go_on.set()

    def insert(self, records: Sequence[Record]) -> None:
        self.reached.set()
        assert self.go_on.wait(60.0)
        super().insert(records)


@pytest.fixture
def store() -> HoldingStore:
    return HoldingStore()


@pytest.fixture
def parts(state_dir: Path, store: HoldingStore) -> Iterator[Parts]:
    made = Parts(load_settings({"MARKDOWN_RAG_CACHE_DIR": str(state_dir)}))
    made.once("store", lambda: store)
    made.once("embeddings", lambda: embeddings_over(HashingEmbedder(), state_dir, made.clock))
    yield made
    store.go_on.set()
    made.close()


@pytest.fixture
def vault(tmp_path: Path) -> Path:
    folder = tmp_path / "vault"
    folder.mkdir()
    return folder


@pytest.fixture
def agent(
    parts: Parts, store: HoldingStore, vault: Path, request: pytest.FixtureRequest
) -> Iterator[Callable[..., App]]:
    """Makes an agent that was started in the vault; variables are its own. kind: which class of app.

    Once the jobs have ended the doctor is asked with the settings of the last one.
    """
    latest = [parts.settings]

    def start(kind: type[App] = App, **variables: str) -> App:
        known = {"MARKDOWN_RAG_CACHE_DIR": str(parts.settings.state_directory)}
        latest.append(load_settings({**known, **variables}))
        return kind(parts, latest[-1], vault)

    yield start
    store.go_on.set()
    for job in parts.queue.active():
        parts.queue.wait(job.id, 60.0)
    folders_end_well(request.node, App(parts, latest[-1], vault), known_folders(parts))


def write(vault: Path, *names: str, words: str = "") -> None:
    for name in names:
        (vault / f"{name}.md").write_text(f"# {name}\n\nThe words of {name} are {words or name}.\n", encoding="utf-8")


def indexed(app: App, call: IndexCall | None = None) -> Json:
    status = app.status(app.index(call or IndexCall())["job_id"], 60.0)
    assert status["status"] == "succeeded", status
    return status
