"""A cross-encoder reorders the first hits, and a search does not depend on it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from markdown_rag.embeddings.reranker import CrossEncoder
from markdown_rag.errors import EmbeddingRefused
from markdown_rag.search.answer import Mode, SearchRequest
from markdown_rag.search.policy import SearchPolicy
from markdown_rag.search.searcher import Searcher


class ByLength:
    """Prefers long passages. down: it cannot be used. read: the texts it was given."""

    def __init__(self, *, down: bool = False) -> None:
        self.down = down
        self.read: list[str] = []

    def scores(self, query: str, texts: Sequence[str]) -> list[float]:
        if self.down:
            raise EmbeddingRefused(f"No model for {query}.", "Install one.")
        self.read = list(texts)
        return [min(1.0, len(text) / 100) for text in texts]


def searcher(library, model: ByLength, **policy: float) -> Searcher:
    return Searcher(
        library.store,
        library.vectors,
        library.catalog,
        roots=library.roots.get,
        policy=SearchPolicy(**policy),
        reranker=model,
    )


@pytest.fixture
def shelf(library):
    library.add("short.md", "alpha beta", title="Short")
    library.add("long.md", "alpha beta " + "gamma " * 20, title="Long")
    return library


def paths(made: Searcher, mode: Mode = Mode.HYBRID, k: int = 2) -> list[str]:
    try:
        return [hit.path for hit in made.search(SearchRequest("alpha beta", k, mode=mode)).hits]
    finally:
        made.close()


def test_the_model_reorders_what_was_found(shelf) -> None:
    model = ByLength()
    assert shelf.paths("alpha beta") == ["short.md", "long.md"]
    assert paths(searcher(shelf, model, rerank_weight=2.0)) == ["long.md", "short.md"]
    assert model.read[0].startswith("Short\nalpha beta")


def test_more_is_read_than_is_shown(shelf) -> None:
    assert paths(searcher(shelf, ByLength(), rerank_weight=2.0), k=1) == ["long.md"]


def test_one_way_of_searching_alone_is_not_reordered(shelf) -> None:
    model = ByLength()
    assert paths(searcher(shelf, model, rerank_weight=2.0), Mode.LEXICAL) == ["short.md", "long.md"]
    assert model.read == []


def test_only_the_first_chunks_are_read(shelf) -> None:
    model = ByLength()
    assert paths(searcher(shelf, model, rerank_weight=2.0, rerank_top=1)) == ["short.md", "long.md"]
    assert model.read == []


def test_a_model_that_cannot_be_used_leaves_the_order_and_is_named(shelf) -> None:
    made = searcher(shelf, ByLength(down=True))
    answer = made.search(SearchRequest("alpha beta", 2))
    made.close()
    assert [hit.path for hit in answer.hits] == ["short.md", "long.md"]
    assert "Not reranked: No model for alpha beta." in " ".join(answer.notes)


def test_a_folder_without_a_model_is_refused_with_what_is_missing(tmp_path: Path) -> None:
    encoder = CrossEncoder(str(tmp_path), 1, tmp_path, download=False)
    with pytest.raises(EmbeddingRefused, match=r"model\.onnx is missing"):
        encoder.scores("a", ["b", "c"])
    encoder.close()


def test_a_name_that_is_not_on_this_machine_is_refused_without_reaching_out(tmp_path: Path) -> None:
    encoder = CrossEncoder("Xenova/ms-marco-MiniLM-L-6-v2", 1, tmp_path, download=False)
    with pytest.raises(EmbeddingRefused, match="RERANK_MODEL"):
        encoder.scores("a", ["b", "c"])
