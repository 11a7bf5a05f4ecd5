"""Stores of every kind for machines that share one, and vaults with an index on them."""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from markdown_rag.store.base import Model, Store
from markdown_rag.store.launcher import connect_engine
from markdown_rag.store.memory import MemoryStore
from markdown_rag.store.opening import StoreSettings, open_store
from tests.doctor import findings
from tests.indexing.parts import DIMENSION, Bench

MODEL = Model("test", "hashing", DIMENSION)
_numbers = itertools.count()

OpenStore = Callable[[], Store]
Machine = Callable[..., Bench]


@pytest.fixture(scope="session")
def engine_dir(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A data directory whose engine stays for the whole run."""
    data_dir = tmp_path_factory.mktemp("engine") / "index.db"
    connection = connect_engine(data_dir)
    yield data_dir
    connection.close()


@pytest.fixture(params=["memory", "embedded", pytest.param("server", marks=pytest.mark.server)])
def another_client(request: pytest.FixtureRequest) -> Iterator[OpenStore]:
    """Opens clients of one fresh collection, on each engine."""
    prefix = f"trust{os.getpid()}_{next(_numbers)}"
    memory = MemoryStore(MODEL, prefix)
    with ExitStack() as stack:

        def opener() -> Store:
            if request.param == "memory":
                return memory
            if request.param == "embedded":
                address = str(request.getfixturevalue("engine_dir"))
            else:
                address = request.getfixturevalue("milvus_server")
            store = open_store(StoreSettings(address, "", prefix, 1000, 30.0, Path("unused")), MODEL)
            stack.callback(store.close)
            return store

        yield opener


@pytest.fixture
def machine(tmp_path: Path, another_client: OpenStore) -> Iterator[Machine]:
    """machine(name): a host of that name with a vault and a state directory of its own, on the shared store."""
    made: list[Bench] = []

    def make(name: str, **how: object) -> Bench:
        base = tmp_path / name
        made.append(Bench(base / "vault", base / "state", store=another_client(), host=name, **how))
        return made[-1]

    yield make
    for bench in made:
        assert findings(bench) == []
        bench.close()
