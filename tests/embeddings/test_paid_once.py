"""A whole index job over every provider while it answers 429 now and then: no text is paid for twice."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "data"))

from stub_embeddings import StubServer

from markdown_rag.clock import StopSignal, SystemClock
from markdown_rag.database import Database
from markdown_rag.embeddings.base import Embedder
from markdown_rag.embeddings.cache import VectorCache
from markdown_rag.embeddings.retry import BatchPolicy
from markdown_rag.embeddings.service import Embeddings
from markdown_rag.indexing import statcache
from markdown_rag.indexing.ignore import ScanPolicy
from markdown_rag.indexing.indexer import Indexer
from markdown_rag.indexing.report import Progress, Report
from markdown_rag.indexing.statcache import StatCache
from markdown_rag.markdown.chunking import ChunkPolicy
from markdown_rag.paths import Scope, workspace_for
from markdown_rag.store.base import Model
from markdown_rag.store.memory import MemoryStore

FILES = 40


def index(vault: Path, state: Path, embedder: Embedder) -> Report:
    clock = SystemClock()
    state.mkdir(exist_ok=True)
    database = Database(state / "files.sqlite3", statcache.MIGRATIONS)
    cache = VectorCache(state / "vectors.sqlite3")
    embeddings = Embeddings(embedder, BatchPolicy(items=4, concurrent=3), cache, clock)
    card = embeddings.card
    store = MemoryStore(Model(card.provider, card.model, card.dimension, 0.0))
    indexer = Indexer(store, embeddings, StatCache(database), clock)
    try:
        return indexer.run(
            Scope(workspace_for(vault)), ChunkPolicy(), ScanPolicy(), progress=Progress(), stop=StopSignal()
        )
    finally:
        indexer.close()
        embeddings.close()
        database.close()


@pytest.mark.parametrize("provider", ["openai-compatible", "openai", "gemini", "vertex", "voyage"])
@pytest.mark.parametrize("retry_after", ["", "0"])
def test_a_job_through_a_provider_that_answers_429_again_and_again_pays_for_each_text_once(
    provider: str, retry_after: str, stub: StubServer, make: Callable[..., Embedder], tmp_path: Path
) -> None:
    vault, state = tmp_path / "vault", tmp_path / "state"
    vault.mkdir()
    state.mkdir()
    for number in range(FILES):
        (vault / f"{number:02}.md").write_text(f"# Note {number}\n\nThe words of note number {number}.\n")
    embedder = make(provider, dimension=16)
    stub.control(fail_every=4, retry_after=retry_after)
    report = index(vault, state, embedder)
    stats = stub.stats()
    assert (report.new, report.failed) == (FILES, 0)
    assert stats["by_status"]["429"] > 0
    assert stats["answered_texts"] == stats["distinct_texts"] == FILES
