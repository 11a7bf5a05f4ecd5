"""Vectors come back from the collection exactly enough, from whole generations only, and then cost nothing."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from markdown_rag.clock import StopSignal
from markdown_rag.errors import Cancelled
from markdown_rag.indexing.lending import choose, stored_vectors
from markdown_rag.indexing.preview import preview
from markdown_rag.indexing.vectors import own_vectors, with_document
from markdown_rag.store.base import Model, record_id
from markdown_rag.store.memory import MemoryStore

from .conftest import NewBench
from .parts import DIMENSION, Bench

LONG = "# Top\n\n" + "".join(f"## Part {i}\n\npart {i} " + "and so on " * 100 + "\n\n" for i in range(5))


def unit(seed: int, rows: int, dimension: int) -> np.ndarray:
    made = np.random.default_rng(seed).normal(size=(rows, dimension)).astype(np.float32)
    return made / np.linalg.norm(made, axis=1, keepdims=True)


@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.integers(0, 10**6), st.integers(1, 40), st.sampled_from([0.0, 0.25, 0.5, 0.9]))
def test_stored_vectors_give_back_what_they_were_made_of(seed: int, rows: int, weight: float) -> None:
    own = unit(seed, rows, 24)
    back = own_vectors(with_document(own, weight), weight)
    assert back is not None
    assert np.allclose(back, own, atol=1e-5)


@pytest.mark.parametrize("weight", [0.25, 0.5])
def test_vectors_of_half_a_file_are_recognised_and_not_used(weight: float) -> None:
    assert own_vectors(with_document(unit(1, 6, 24), weight)[1:], weight) is None


def test_vectors_that_hold_nothing_of_the_chunk_cannot_be_used() -> None:
    assert own_vectors(with_document(unit(1, 6, 24), 1.0), 1.0) is None


def test_few_generations_are_read_for_many_texts() -> None:
    holders = {("w", "a", 1): {"1", "2"}, ("w", "b", 1): {"1", "2", "3"}, ("w", "c", 1): {"4"}, ("w", "d", 1): {"5"}}
    assert choose(holders, frozenset("1234")) == [("w", "b", 1), ("w", "c", 1)]
    assert choose(holders, frozenset()) == []


@pytest.fixture(params=[0.0, 0.5], ids=["chunk alone", "with document"])
def store(request: pytest.FixtureRequest) -> MemoryStore:
    return MemoryStore(Model("test", "hashing", DIMENSION, request.param))


@pytest.fixture
def two(new_bench: NewBench, store: MemoryStore, tmp_path: Path):
    """Two machines with states and folders of their own over one store."""
    return [new_bench(tmp_path / name / "vault", tmp_path / name / "state", store=store) for name in ("one", "two")]


def test_a_second_machine_embeds_nothing_that_the_first_has(two: list[Bench]) -> None:
    first, second = two
    for bench in two:
        bench.write("a.md", LONG)
        bench.note("b.md", "the same words")
    first.run()
    assert second.run().embedded == 0
    assert second.embedder.sent == []
    rows = {bench.workspace.id: {} for bench in two}
    for key, text_hash, vector in first.store.vectors(first.everything.__class__()):
        rows[key.workspace][key.path, text_hash] = vector
    mine, theirs = rows.values()
    assert mine.keys() == theirs.keys()
    for name, vector in mine.items():
        assert np.allclose(vector, theirs[name], atol=1e-6)


def test_an_edited_file_embeds_only_what_is_new_after_the_cache_was_lost(two: list[Bench]) -> None:
    bench, _ = two
    bench.write("a.md", LONG)
    bench.run()
    bench.restart(keep_state=False)
    bench.embedder.sent.clear()
    bench.write("a.md", LONG.replace("part 3", "another part"))
    assert bench.run().embedded == 1
    assert len(bench.embedder.sent) == 1


@pytest.mark.ends_with("missing")
def test_a_dry_run_knows_what_the_collection_holds(two: list[Bench]) -> None:
    first, second = two
    for bench in two:
        bench.write("a.md", LONG)
    second.note("own.md")
    first.run()
    seen = preview(
        second.scope(),
        second.chunking,
        second.scanning,
        StopSignal(),
        store=second.store,
        embeddings=second.embeddings,
        cache=second.cache,
        clock=second.clock,
    )
    assert (seen.texts_to_embed, seen.cached) == (1, seen.chunks - 1)
    assert second.embeddings.known([text_hash for _, text_hash, _ in first.store.vectors(first.everything)]) == set()


def test_paying_again_on_request_takes_nothing_from_the_collection(two: list[Bench]) -> None:
    first, second = two
    for bench in two:
        bench.note("a.md", "the same words")
    first.run()
    assert second.run(use_cache=False).embedded == 1


def test_texts_of_unfinished_or_damaged_generations_are_not_taken(two: list[Bench]) -> None:
    bench, _ = two
    bench.write("a.md", LONG)
    bench.write("b.md", LONG.replace("part", "piece"))
    bench.run()
    gens = {entry.path: entry for entry in bench.store.catalog()}
    wanted = {text_hash for _, text_hash, _ in bench.store.vectors(bench.everything)}
    bench.store.delete([record_id(bench.workspace.id, "a.md", gens["a.md"].gen, 0)])
    bench.store.delete([record_id(bench.workspace.id, "b.md", gens["b.md"].gen, 1)])
    assert stored_vectors(bench.store, wanted, StopSignal()) == {}
    bench.run(force=True)  # as a repair does: no other run looks for single rows


def test_a_text_is_found_in_another_file_when_the_first_one_is_damaged(two: list[Bench]) -> None:
    bench, _ = two
    bench.write("a.md", LONG)
    bench.write("sub/a.md", LONG)
    bench.run()
    gens = {entry.path: entry for entry in bench.store.catalog()}
    wanted = {text_hash for _, text_hash, _ in bench.store.vectors(bench.everything)}
    bench.store.delete([record_id(bench.workspace.id, "a.md", gens["a.md"].gen, 1)])
    assert stored_vectors(bench.store, wanted, StopSignal()).keys() == wanted
    bench.run(force=True)


def test_looking_for_vectors_ends_when_the_run_is_stopped(two: list[Bench]) -> None:
    bench, _ = two
    bench.note("a.md")
    bench.run()
    wanted = {text_hash for _, text_hash, _ in bench.store.vectors(bench.everything)}
    stop = StopSignal()
    stop.stop()
    with pytest.raises(Cancelled):
        stored_vectors(bench.store, wanted, stop)
