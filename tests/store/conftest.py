"""Stores for the contract suite: in memory, on the embedded engine, and on a real Milvus server."""

from __future__ import annotations

import contextlib
import itertools
import os
import signal
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import numpy as np
import psutil
import pytest

from markdown_rag.store.base import Model, Record, Store
from markdown_rag.store.endpoint import read_endpoint
from markdown_rag.store.launcher import connect_engine
from markdown_rag.store.memory import MemoryStore
from markdown_rag.store.opening import StoreSettings, open_store
from tests.waiting import SECONDS, eventually

DIMENSION = 16
MODEL = Model("local", "test-model", DIMENSION)
_numbers = itertools.count()

Opener = Callable[..., Store]


def vector(seed: int, dimension: int = DIMENSION) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=dimension).astype(np.float32)


def record(path: str = "a.md", ord_: int = 0, **given) -> Record:
    values = {
        "workspace": "w1",
        "path": path,
        "ord": ord_,
        "chunk_count": 1,
        "gen": 1,
        "title": "A title",
        "heading_path": "One › Two",
        "text": f"text of {path} {ord_}",
        "prefix": "",
        "lexical": f"text of part{ord_}",
        "tags": ("alpha", "beta/gamma"),
        "aliases": ("other name",),
        "properties": {"status": "open", "rank": 3, "nested": {"x": [1, 2.5, None, True]}},
        "start_line": 1,
        "end_line": 3,
        "start_byte": 0,
        "end_byte": 42,
        "file_hash": "f" * 64,
        "text_hash": f"{ord_:064d}",
        "policy": "p" * 16,
        "vector": vector(ord_),
    } | given
    return Record(**values)


def settles(store: Store, look: Callable[[], object], wanted: object) -> None:
    """Searches on a server may lag behind a write for a moment; the other engines answer at once."""
    if store.capabilities().embedded:
        assert look() == wanted
    else:
        eventually(look, lambda found: found == wanted)


@pytest.fixture(scope="session")
def engine_dir(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A data directory whose engine stays for the whole session."""
    data_dir = tmp_path_factory.mktemp("engine") / "index.db"
    connection = connect_engine(data_dir)
    yield data_dir
    connection.close()
    wait_until_gone(connection.pid)


@pytest.fixture
def data_dir(tmp_path: Path) -> Iterator[Path]:
    """A directory of its own; whatever engine still serves it afterwards is ended."""
    place = tmp_path / "state" / "index.db"
    place.parent.mkdir()
    yield place
    endpoint = read_endpoint(place)
    if endpoint is not None and psutil.pid_exists(endpoint.pid):
        with contextlib.suppress(ProcessLookupError):
            os.kill(endpoint.pid, signal.SIGKILL)
        wait_until_gone(endpoint.pid)


def wait_until_gone(pid: int, seconds: float = SECONDS) -> None:
    """Engines are nobody's children, so there is nothing to wait on but their absence."""
    eventually(lambda: _lives(pid), lambda alive: not alive, seconds=seconds, what=f"the engine {pid} is still there")


def _lives(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


@pytest.fixture(params=["memory", "embedded", pytest.param("server", marks=pytest.mark.server)])
def open_another(request: pytest.FixtureRequest) -> Iterator[Opener]:
    """Opens stores over one fresh collection: call it again for a second client of the same rows."""
    prefix = f"t{os.getpid()}_{next(_numbers)}"  # a server may outlive a run of the tests
    shared: dict[Model, MemoryStore] = {}
    with ExitStack() as stack:

        def opener(model: Model = MODEL, insert_batch: int = 100) -> Store:
            if request.param == "memory":
                return shared.setdefault(model, MemoryStore(model, prefix))
            if request.param == "embedded":
                data_dir = request.getfixturevalue("engine_dir")
                address, state_dir = str(data_dir), data_dir.parent
            else:
                address, state_dir = request.getfixturevalue("milvus_server"), Path("unused")
            store = open_store(StoreSettings(address, "", prefix, insert_batch, 30.0, state_dir), model)
            stack.callback(store.close)
            return store

        yield opener


@pytest.fixture
def store(open_another: Opener) -> Store:
    return open_another()
