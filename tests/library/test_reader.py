"""What is read while documents change."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from markdown_rag.clock import SystemClock
from markdown_rag.library.reader import Reader, ReadRequest
from markdown_rag.markdown.chunking import ChunkPolicy
from markdown_rag.search.catalog import Catalog
from tests.indexing.parts import Bench


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    made = Bench(
        tmp_path / "vault", tmp_path / "state", chunking=ChunkPolicy(max_tokens=64, min_tokens=16, min_final=8)
    )
    yield made
    made.close()


def document(parts: int, word: str) -> str:
    return "# Top\n\n" + "".join(f"## Part {i}\n\n{word} {i} " + "and so on " * 20 + "\n\n" for i in range(parts))


@pytest.mark.parametrize(("before", "after"), [(2, 6), (6, 2)])
def test_a_document_that_was_indexed_anew_after_it_was_found_is_read_whole(
    bench: Bench, before: int, after: int
) -> None:
    bench.write("a.md", document(before, "amber"))
    bench.run()
    catalog = Catalog(bench.store, SystemClock())
    (found,) = catalog.snapshot().files.values()
    bench.write("a.md", document(after, "birch"))
    bench.run()
    (now,) = bench.store.catalog()
    assert now.chunk_count != found.chunk_count
    answer = Reader(bench.store, catalog, bench.chunking).read(ReadRequest(found, max_tokens=50_000), None)
    assert answer.text == document(after, "birch")
    assert answer.continuation is None
