"""A job whose store is a server that is not there."""

from __future__ import annotations

import socket
from contextlib import closing
from pathlib import Path

import pytest

from markdown_rag.app import App
from markdown_rag.facade import IndexCall
from markdown_rag.settings import load_settings
from markdown_rag.wiring import Parts
from tests.app.conftest import write
from tests.indexing.parts import HashingEmbedder, embeddings_over


@pytest.mark.parametrize("silent", [False, True], ids=["refuses", "is silent"])
def test_a_job_that_waits_for_a_server_that_is_away_is_cancelled_all_the_same(
    state_dir: Path, vault: Path, silent: bool
) -> None:
    write(vault, "a")
    with socket.create_server(("127.0.0.1", 0)) as listener:
        address = f"http://127.0.0.1:{listener.getsockname()[1]}"
        if not silent:
            listener.close()
        settings = load_settings(
            {"MARKDOWN_RAG_CACHE_DIR": str(state_dir), "MILVUS_ADDRESS": address, "MILVUS_WAIT_SECONDS": "600"}
        )
        with closing(Parts(settings)) as parts:
            parts.once("embeddings", lambda: embeddings_over(HashingEmbedder(), state_dir, parts.clock))
            app = App(parts, settings, vault)
            job_id = app.index(IndexCall())["job_id"]
            while not app.status(job_id)["note"]:
                assert app.status(job_id, 0.1)["status"] in {"queued", "running"}
            assert app.cancel(job_id)["cancelled"]
            assert app.status(job_id, 60.0)["status"] == "cancelled"
