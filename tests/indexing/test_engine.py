"""The whole run over the parts that users have by default: the local model and the embedded engine."""

from __future__ import annotations

from pathlib import Path

from markdown_rag.clock import SystemClock
from markdown_rag.embeddings.cache import VectorCache
from markdown_rag.embeddings.registry import EmbeddingSettings, create_embedder
from markdown_rag.embeddings.retry import BatchPolicy
from markdown_rag.embeddings.service import Embeddings
from markdown_rag.indexing.indexer import Indexer
from markdown_rag.store.base import Model, Where
from markdown_rag.store.opening import StoreSettings, open_store
from tests.doctor import findings

from .parts import Bench
from .reference import ReferenceIndex, stored


def test_index_edit_rename_delete_and_clear_on_the_default_parts(tmp_path: Path) -> None:
    clock = SystemClock()
    state = tmp_path / "state"
    state.mkdir()
    embeddings = Embeddings(
        create_embedder(EmbeddingSettings()),
        BatchPolicy(items=32, concurrent=1),
        VectorCache(state / "v.sqlite3"),
        clock,
    )
    card = embeddings.card
    settings = StoreSettings(str(state / "index.db"), "", "markdown_vectors", 1000, 30.0, state)
    store = open_store(settings, Model(card.provider, card.model, card.dimension))
    bench = Bench(tmp_path / "vault", state, store=store)
    bench.indexer.close()
    bench.indexer = Indexer(store, embeddings, bench.cache, clock)
    reference = ReferenceIndex(bench.root, bench.chunking)

    def holds() -> None:
        reference.run()
        assert stored(store, bench.workspace.id) == reference.index
        assert findings(bench) == []

    try:
        bench.note("wifi.md", "the guest wifi password is hunter2zebra")
        bench.write(
            "valve.md", "# Boiler\n\nOpen the valve slowly and read the pressure.\n\n## More\n\n" + "steam " * 900
        )
        bench.note("it's \\ 100%\n.md", "the hostile name")
        assert bench.run().new == 3
        holds()
        assert bench.run().embedded == 0
        (best,) = store.dense(embeddings.query("wireless access code for visitors"), 1)
        assert best.path == "wifi.md"
        bench.write("valve.md", "# Boiler\n\nOpen the valve quickly.\n")
        (bench.root / "wifi.md").rename(bench.root / "network.md")
        (bench.root / "it's \\ 100%\n.md").unlink()
        report = bench.run()
        assert (report.new, report.modified, report.deleted, report.embedded) == (1, 1, 2, 1)
        holds()
        assert bench.indexer.clear(bench.workspace.id) == 2
        assert store.count(Where(workspaces=(bench.workspace.id,))) == 0
        bench.run()
        holds()
    finally:
        bench.close()
        store.close()
        embeddings.close()
