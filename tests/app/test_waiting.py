"""Jobs and searches whose store is a server that is not there."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from markdown_rag.app import App
from markdown_rag.errors import StoreUnavailable
from markdown_rag.facade import IndexCall, SearchCall
from markdown_rag.settings import load_settings
from markdown_rag.wiring import Parts
from tests.app.conftest import write
from tests.indexing.parts import HashingEmbedder, embeddings_over
from tests.ports import refusing
from tests.waiting import at_once, eventually


@contextmanager
def listening() -> Iterator[int]:
    """A port that takes connections and never says a word."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        yield listener.getsockname()[1]


@contextmanager
def over(port: int, state_dir: Path, vault: Path, wait_seconds: int) -> Iterator[tuple[App, Parts]]:
    """An application whose store is a Milvus server at that port."""
    variables = {"MARKDOWN_RAG_CACHE_DIR": str(state_dir), "MILVUS_ADDRESS": f"http://127.0.0.1:{port}"}
    settings = load_settings(variables | {"MILVUS_WAIT_SECONDS": str(wait_seconds)})
    with closing(Parts(settings)) as parts:
        parts.once("embeddings", lambda: embeddings_over(HashingEmbedder(), state_dir, parts.clock))
        yield App(parts, settings, vault), parts


@pytest.mark.parametrize("silent", [False, True], ids=["refuses", "is silent"])
def test_a_job_that_waits_for_a_server_that_is_away_is_cancelled_all_the_same(
    state_dir: Path, vault: Path, silent: bool
) -> None:
    write(vault, "a")
    with listening() if silent else refusing() as port, over(port, state_dir, vault, 600) as (app, _):
        job_id = app.index(IndexCall())["job_id"]
        status = eventually(lambda: app.status(job_id, 0.1), lambda seen: seen["note"], seconds=60)
        assert status["status"] == "running"
        assert app.cancel(job_id)["cancelled"]
        assert app.status(job_id, 60.0)["status"] == "cancelled"


@pytest.mark.slow
def test_searches_and_everything_beside_them_wait_for_a_silent_server_together(state_dir: Path, vault: Path) -> None:
    with listening() as port, over(port, state_dir, vault, 8) as (app, parts):
        searches = [lambda: app.search(SearchCall("anything"))] * 4
        failed = at_once(*searches, *[parts.store.count, parts.reading.catalog.snapshot] * 2, seconds=120)
        assert all(isinstance(error, StoreUnavailable) for error in failed), failed
        assert len({id(error.__cause__) for error in failed}) == 2, (
            "one for the collection, and one for what else is there"
        )
        assert {error.message for error in failed} == {f"Milvus at http://127.0.0.1:{port} did not answer within 8 s."}
