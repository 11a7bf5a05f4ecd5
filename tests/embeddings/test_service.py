"""Texts to vectors for the rest of the program: each text paid for once, by any road."""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest
from stub_embeddings import StubServer

from markdown_rag.clock import Clock, ManualClock, StopSignal, SystemClock
from markdown_rag.embeddings.base import Embedder
from markdown_rag.embeddings.batching import BatchPolicy
from markdown_rag.embeddings.cache import VectorCache
from markdown_rag.embeddings.service import DocumentOutcome, Embeddings
from markdown_rag.errors import (
    Cancelled,
    EmbeddingAuthError,
    EmbeddingMismatch,
    EmbeddingRefused,
    EmbeddingUnavailable,
    FastRagError,
)
from tests.embeddings.conftest import KEY, When
from tests.waiting import eventually, joined

Make = Callable[..., Embedder]
Open = Callable[..., Embeddings]
TEXTS = [f"note {i}" for i in range(20)]


def names(texts: list[str]) -> list[str]:
    return [hashlib.sha256(text.encode()).hexdigest() for text in texts]


def requests_under_way() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name == "embedding-request"]


def embed(service: Embeddings, texts: list[str], **more: bool) -> DocumentOutcome:
    return service.documents(texts, names(texts), StopSignal(), **more)


@pytest.fixture
def start(make: Make, tmp_path: Path) -> Iterator[Open]:
    """start(**settings): a service on the same cache file, as after a restart."""
    opened: list[Embeddings] = []

    def build(provider: str = "openai-compatible", clock: Clock | None = None, **more: object) -> Embeddings:
        policy = BatchPolicy(items=5, concurrent=1)
        service = Embeddings(make(provider, **more), policy, VectorCache(tmp_path / "v.db"), clock or ManualClock())
        opened.append(service)
        return service

    yield build
    for service in opened:
        service.close()


def test_why_a_provider_does_not_answer_is_told_at_once_and_taken_back_when_it_does(
    stub: StubServer, start: Open
) -> None:
    stub.control(fail_first=2, fail_status=503, echo_key=True)
    told: list[str] = []
    start(dimension=16).documents(TEXTS[:5], names(TEXTS[:5]), StopSignal(), on_trouble=told.append)
    assert [bool(trouble) for trouble in told] == [True, True, False]
    assert told[0].startswith("The embedding server answered 503")
    assert KEY not in "".join(told)


def test_a_text_is_paid_for_once_across_runs_and_restarts(stub: StubServer, start: Open) -> None:
    first = embed(start(dimension=16), TEXTS)
    assert (first.embedded, first.cached) == (20, 0)
    again = start(dimension=16)
    second = embed(again, TEXTS[::-1])
    assert (second.embedded, second.cached) == (0, 20)
    assert again.known(names([*TEXTS, "new"])) == set(names(TEXTS))
    assert stub.stats()["texts"] == 20
    for a, b in zip(first.vectors, second.vectors[::-1], strict=True):
        assert a is not None
        assert b is not None
        assert np.array_equal(a, b)


def test_equal_texts_are_embedded_once_and_all_get_the_vector(stub: StubServer, start: Open) -> None:
    settled: list[int] = []
    texts = ["a", "b", "a", "a", "b"]
    outcome = start(dimension=16).documents(texts, names(texts), StopSignal(), settled.append)
    assert stub.stats()["texts"] == 2
    assert outcome.embedded == 2
    assert sum(settled) == 5
    assert outcome.vectors[0] is not None
    assert np.array_equal(outcome.vectors[0], outcome.vectors[3])  # type: ignore[arg-type]


def test_a_rebuild_without_the_cache_embeds_again_and_renews_it(stub: StubServer, start: Open) -> None:
    service = start(dimension=16)
    embed(service, TEXTS)
    assert embed(service, TEXTS, use_cache=False).embedded == 20
    assert embed(service, TEXTS).cached == 20
    assert stub.stats()["texts"] == 40


def test_a_refused_text_is_named_for_each_place_it_stands_in(stub: StubServer, start: Open) -> None:
    stub.control(poison="bad")
    outcome = embed(start(dimension=16), ["good", "bad", "fine", "bad"])
    assert sorted(outcome.refused) == [1, 3]
    assert outcome.vectors[1] is None
    assert outcome.vectors[2] is not None
    assert outcome.embedded == 2


@pytest.mark.parametrize(("status", "error"), [(401, EmbeddingAuthError), (503, EmbeddingUnavailable)])
def test_a_run_that_fails_late_loses_nothing_and_the_next_goes_on(
    stub: StubServer, start: Open, status: int, error: type[Exception]
) -> None:
    service = start(dimension=16)
    stub.control(fail_after=3, fail_status=status)
    with pytest.raises(error):
        embed(service, TEXTS)
    stub.control(fail_after=0)
    stub.reset()
    outcome = embed(start(dimension=16), TEXTS)
    assert (outcome.cached, outcome.embedded) == (15, 5)
    assert stub.stats()["texts"] == 5


def test_what_a_cancelled_run_still_receives_is_kept(stub: StubServer, start: Open) -> None:
    service = start(clock=SystemClock(), dimension=16)
    stub.control(hang=True)
    stop = StopSignal()
    asked = When(stub, stop.stop)
    with pytest.raises(Cancelled):
        service.documents(TEXTS, names(TEXTS), stop)
    asked.check()
    stub.control(hang=False)
    joined(*requests_under_way())
    assert service.known(names(TEXTS)) == set(names(TEXTS[:5]))


def test_closing_ends_a_hung_request_at_once(stub: StubServer, start: Open) -> None:
    service = start(clock=SystemClock(), dimension=16, timeout_s=600.0)
    stub.control(hang=True)
    ended: list[FastRagError] = []

    def ask() -> None:
        try:
            service.query("anything")
        except FastRagError as error:
            ended.append(error)

    asking = threading.Thread(target=ask)
    asking.start()
    eventually(lambda: stub.state.now == 1)
    service.close()
    joined(asking, *requests_under_way())  # long before the request's own time is up
    assert len(ended) == 1
    assert stub.stats()["requests"] == 1


def test_a_query_is_asked_once_however_it_is_spaced_or_composed(stub: StubServer, start: Open) -> None:
    service = start(dimension=16)
    first = service.query("where is  the caf\u00e9 ")
    assert np.linalg.norm(first) == pytest.approx(1, abs=1e-6)
    assert np.array_equal(start(dimension=16).query("where is the cafe\u0301"), first)
    assert stub.stats()["texts"] == 1


def test_a_query_and_a_document_of_the_same_words_do_not_share_a_vector(stub: StubServer, start: Open) -> None:
    service = start("voyage", dimension=16)
    embed(service, ["same words"])
    assert stub.state.last_request["input_type"] == "document"
    service.query("same words")
    assert stub.state.last_request["input_type"] == "query"
    assert stub.stats()["texts"] == 2


def test_a_blank_query_is_refused_without_asking(stub: StubServer, start: Open) -> None:
    with pytest.raises(EmbeddingRefused, match="blank"):
        start(dimension=16).query(" \n ")
    assert stub.stats()["texts"] == 0


def test_a_long_query_is_embedded_whole(stub: StubServer, start: Open) -> None:
    stub.control(max_tokens_text=8_192)
    assert len(start("openai", dimension=16).query("word " * 40_000)) == 16


def test_an_unknown_dimension_is_asked_for_once_and_remembered(stub: StubServer, start: Open) -> None:
    service = start()
    assert service.card.dimension == 16
    assert service.card.model.startswith("text-embedding-3-small@"), "a server nobody named a model for"
    assert stub.state.last_request["model"] == "text-embedding-3-small"
    assert start().card.dimension == 16
    assert stub.stats()["requests"] == 1
    assert "dimensions" not in stub.state.last_request


def test_a_model_that_changed_its_dimension_is_an_error_until_a_restart_and_then_asked_again(
    stub: StubServer, start: Open
) -> None:
    service = start()
    embed(service, TEXTS[:2])
    stub.control(force_dim=24)
    for _ in range(2):  # the collection that this process has open is of the former dimension
        with pytest.raises(EmbeddingMismatch, match=r"restart the agent, then index again") as caught:
            embed(service, TEXTS)
        assert "EMBEDDING_DIM" not in str(caught.value), "nobody set it"
    again = start()
    assert again.card.dimension == 24
    assert embed(again, TEXTS).embedded == 20  # nothing of the old dimension is used


def test_a_provider_that_is_down_ends_a_question_for_its_model_in_bounded_time(stub: StubServer, start: Open) -> None:
    stub.control(status=503)
    clock = ManualClock()
    service = start(clock=clock)
    before = clock.monotonic()
    with pytest.raises(EmbeddingUnavailable):
        _ = service.card
    assert clock.monotonic() - before <= 8


def test_known_models_ask_nobody_for_their_dimension(stub: StubServer, start: Open) -> None:
    assert start("openai").card.dimension == 1_536
    assert start("voyage").card.dimension == 1_024
    assert start("gemini").card.dimension == 3_072
    assert start("vertex").card.dimension == 768
    assert stub.stats()["requests"] == 0
