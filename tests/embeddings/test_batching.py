"""Many texts through a real SDK to the stub provider, and everything that can go wrong on the way."""

from __future__ import annotations

import re
import sys
import threading
from collections.abc import Callable, Sequence
from contextlib import ExitStack

import numpy as np
import pytest
from stub_embeddings import StubServer

from markdown_rag.clock import ManualClock, StopSignal, SystemClock
from markdown_rag.embeddings.answers import check
from markdown_rag.embeddings.assembly import Assembly
from markdown_rag.embeddings.base import Embedder, Role, Vector
from markdown_rag.embeddings.batch import Report
from markdown_rag.embeddings.batching import Batcher, BatchPolicy
from markdown_rag.embeddings.line import Line
from markdown_rag.embeddings.pace import Ticket
from markdown_rag.embeddings.run import Run
from markdown_rag.errors import (
    Cancelled,
    EmbeddingAuthError,
    EmbeddingError,
    EmbeddingMismatch,
    EmbeddingRefused,
    EmbeddingUnavailable,
)
from tests.embeddings.conftest import When
from tests.waiting import SECONDS, eventually, joined

Make = Callable[..., Embedder]
TEXTS = [f"text number {i}" for i in range(40)]


def batcher(embedder: Embedder, **policy: float) -> Batcher:
    """Waits cost no time: the clock moves whenever somebody waits on it."""
    return Batcher(embedder, BatchPolicy(**{"items": 5, "concurrent": 4, **policy}), ManualClock())  # type: ignore[arg-type]


def documents(b: Batcher, texts: list[str] = TEXTS, stop: StopSignal | None = None) -> list[Vector | None]:
    outcome = b.embed(texts, Role.DOCUMENT, stop or StopSignal())
    assert not outcome.refused
    return outcome.vectors


def same(vector: Vector | None, stub: StubServer, text: str) -> bool:
    return vector is not None and bool(np.allclose(vector, stub.state.vector(text, len(vector)), atol=1e-6))


def test_vectors_come_back_in_the_order_of_the_texts(stub: StubServer, make: Make) -> None:
    stub.control(shuffle=True)
    vectors = documents(batcher(make()))
    assert all(same(vector, stub, text) for vector, text in zip(vectors, TEXTS, strict=True))
    assert stub.stats()["requests"] == 8
    assert stub.stats()["max_texts_seen"] == 5


def test_any_unicode_arrives_as_it_is_and_a_lone_surrogate_harms_nobody(stub: StubServer, make: Make) -> None:
    texts = ["한국어 문서", "日本語", "emoji 🦆", "nul \0 char", "\ufeffbom", "line\u2028sep", "lone \ud800 surrogate"]
    vectors = documents(batcher(make()), texts)
    assert all(same(vector, stub, text) for vector, text in zip(vectors[:-1], texts[:-1], strict=True))
    assert vectors[-1] is not None


def test_nothing_to_embed_asks_nobody(stub: StubServer, make: Make) -> None:
    assert documents(batcher(make()), []) == []
    outcome = batcher(make()).embed(["", " \n"], Role.DOCUMENT, StopSignal())
    assert sorted(outcome.refused) == [0, 1]
    assert stub.stats()["requests"] == 0


def test_no_more_requests_are_under_way_than_allowed_and_all_places_are_used(stub: StubServer, make: Make) -> None:
    stub.control(hang=True)
    release = When(stub, lambda: stub.control(hang=False), requests=3)
    documents(batcher(make(), concurrent=3))
    release.check()
    assert stub.stats()["max_concurrent_seen"] == 3


def test_one_slow_batch_holds_up_no_other(stub: StubServer, make: Make) -> None:
    stub.control(hold_word="number 0")
    order: list[int] = []

    def arrived(indices: Sequence[int], _vectors: object) -> None:
        order.extend(indices)
        if len(order) == 35:
            stub.control(hold_word="")

    batcher(make(), concurrent=2).embed(TEXTS, Role.DOCUMENT, StopSignal(), on_vectors=arrived)
    assert sorted(order) == list(range(40))
    assert order[-5:] == [0, 1, 2, 3, 4]


def test_progress_counts_every_text_once(stub: StubServer, make: Make) -> None:
    stub.control(poison="number 7", fail_first=2, fail_status=503)
    seen: list[int] = []
    b = batcher(make())
    b.embed([*TEXTS, " "], Role.DOCUMENT, StopSignal(), seen.append)
    assert sum(seen) == 41


@pytest.mark.parametrize("status", [429, 500, 503])
def test_a_passing_failure_costs_a_second_try_and_no_text(stub: StubServer, make: Make, status: int) -> None:
    stub.control(fail_first=3, fail_status=status)
    vectors = documents(batcher(make()))
    assert all(same(vector, stub, text) for vector, text in zip(vectors, TEXTS, strict=True))
    assert stub.stats()["ok"] == 8


def test_the_time_a_provider_names_is_waited_for(stub: StubServer, make: Make) -> None:
    clock = ManualClock()
    b = Batcher(make(), BatchPolicy(items=5, concurrent=1), clock)
    stub.control(fail_first=1, retry_after="14")
    started = clock.monotonic()
    documents(b, TEXTS[:5])
    assert 14 <= clock.monotonic() - started < 20


def test_a_time_longer_than_our_patience_ends_the_run_at_once_and_names_it(stub: StubServer, make: Make) -> None:
    stub.control(status=429, retry_after="9000")
    with pytest.raises(EmbeddingUnavailable) as caught:
        documents(batcher(make(), concurrent=1))
    assert caught.value.retry_after == 9000
    assert stub.stats()["requests"] == 1


def test_advice_during_a_pause_that_a_provider_asked_for_is_to_wait_and_not_to_look_for_it(
    stub: StubServer, make: Make
) -> None:
    stub.control(status=429, retry_after="9000")
    asking = batcher(make())
    for _ in range(2):  # the second is not sent at all
        with pytest.raises(EmbeddingUnavailable) as caught:
            asking.embed(["query"], Role.QUERY, StopSignal())
        assert "EMBEDDING_CONCURRENT_BATCHES" in caught.value.next_step
        assert "reachable" not in caught.value.next_step
        assert not re.search(r"\b(run|kept)\b", caught.value.next_step), "a question keeps nothing to go on from"


def test_rate_limits_lose_no_text_and_slow_the_pace(stub: StubServer, make: Make) -> None:
    b = batcher(make(), items=1, concurrent=8)
    stub.control(fail_first=3, max_concurrent=2, latency_ms=10)
    places: list[float] = []
    outcome = b.embed(TEXTS, Role.DOCUMENT, StopSignal(), on_vectors=lambda *_: places.append(b.places))
    assert all(same(vector, stub, text) for vector, text in zip(outcome.vectors, TEXTS, strict=True))
    assert min(places) < 8
    assert stub.stats()["ok"] == 40


@pytest.mark.parametrize("status", [400, 413, 422])
def test_a_refused_text_is_named_and_all_others_are_embedded(stub: StubServer, make: Make, status: int) -> None:
    stub.control(poison="number 17", poison_status=status)
    outcome = batcher(make()).embed(TEXTS, Role.DOCUMENT, StopSignal())
    assert list(outcome.refused) == [17]
    assert "this input cannot be embedded" in outcome.refused[17]
    assert sum(vector is not None for vector in outcome.vectors) == 39


def test_a_text_on_which_a_working_provider_breaks_is_left_out_in_the_end(stub: StubServer, make: Make) -> None:
    stub.control(poison="number 17", poison_status=500)
    outcome = batcher(make()).embed(TEXTS, Role.DOCUMENT, StopSignal())
    assert list(outcome.refused) == [17]
    assert sum(vector is not None for vector in outcome.vectors) == 39


def test_a_vector_of_nan_spoils_only_its_own_text(stub: StubServer, make: Make) -> None:
    stub.control(nan_on="number 3")
    outcome = batcher(make()).embed(TEXTS, Role.DOCUMENT, StopSignal())
    assert sorted(outcome.refused) == [3, *range(30, 40)]


def test_a_request_that_can_never_work_is_found_out_with_one_probe(stub: StubServer, make: Make) -> None:
    stub.control(status=404)
    with pytest.raises(EmbeddingRefused, match="EMBEDDING_MODEL"):
        documents(batcher(make(), concurrent=1))
    assert stub.stats()["requests"] == 2


def test_the_batch_size_a_server_takes_is_learned_from_its_refusal(stub: StubServer, make: Make) -> None:
    stub.control(max_texts=3)
    b = batcher(make(), items=20, concurrent=1)
    vectors = documents(b)
    assert all(same(vector, stub, text) for vector, text in zip(vectors, TEXTS, strict=True))
    assert b.largest <= 3
    refusals = stub.stats()["by_status"]["400"]
    documents(b)
    assert stub.stats()["by_status"]["400"] == refusals


def test_a_wrong_key_stops_at_once_and_keeps_what_is_there(stub: StubServer, make: Make) -> None:
    stub.control(fail_after=3, fail_status=401)
    kept: list[int] = []
    with pytest.raises(EmbeddingAuthError, match="EMBEDDING_API_KEY"):
        batcher(make(), concurrent=1).embed(
            TEXTS, Role.DOCUMENT, StopSignal(), on_vectors=lambda indices, _: kept.extend(indices)
        )
    assert kept == list(range(15))
    assert stub.stats()["requests"] == 4


@pytest.mark.parametrize("fault", [{"short_by": 1}, {"garbage": True}])
def test_an_unusable_answer_is_asked_for_once_more_then_is_an_error(
    stub: StubServer, make: Make, fault: dict[str, object]
) -> None:
    stub.control(**fault)
    with pytest.raises(EmbeddingMismatch):
        documents(batcher(make(), concurrent=1))
    assert stub.stats()["requests"] == 2


class AtOnce(Line):
    """Its requests are over before the run looks again."""

    def spawn(self, work: Callable[[], None]) -> None:
        work()


@pytest.mark.parametrize(("fault", "requests"), [({"garbage": True}, 2), ({"status": 401}, 1), ({"status": 404}, 2)])
def test_nothing_more_is_sent_before_a_failure_has_been_looked_at(
    stub: StubServer, make: Make, fault: dict[str, object], requests: int
) -> None:
    stub.control(**fault)
    at_once = AtOnce(make(), BatchPolicy(items=5, concurrent=1), ManualClock())
    run = Run(at_once, Role.DOCUMENT, StopSignal(), None, None, 0, Assembly(TEXTS, at_once.embedder.limits))
    with pytest.raises(EmbeddingError):
        run.go()
    assert stub.stats()["requests"] == requests


def test_the_wrong_dimension_is_an_error_that_names_both(stub: StubServer, make: Make) -> None:
    stub.control(force_dim=8)
    with pytest.raises(EmbeddingMismatch, match=r"8 dimensions, not the 16"):
        batcher(make()).embed(TEXTS, Role.DOCUMENT, StopSignal(), dimension=16)


@pytest.mark.parametrize("fault", [{"drop": True}, {"status": 503}])
def test_a_provider_that_never_answers_is_given_up_within_the_first_patience(
    stub: StubServer, make: Make, fault: dict[str, object]
) -> None:
    stub.control(**fault)
    clock = ManualClock()
    b = Batcher(make(), BatchPolicy(items=5, first_patience_s=15), clock)
    started = clock.monotonic()
    with pytest.raises(EmbeddingUnavailable):
        documents(b)
    assert clock.monotonic() - started < 30


def test_a_stop_is_obeyed_while_the_provider_hangs(stub: StubServer, make: Make) -> None:
    stub.control(hang=True)
    embedder = make(timeout_s=60.0)
    b = Batcher(embedder, BatchPolicy(items=5), SystemClock())
    stop = StopSignal()
    asked = When(stub, lambda: stop.stop("Enough."))
    with pytest.raises(Cancelled, match="Enough"):
        documents(b, stop=stop)
    asked.check()
    assert stub.stats()["ok"] == 0
    embedder.close()  # breaks off what would hang for a minute
    assert b.join(SECONDS)


def test_what_arrives_after_a_stop_is_still_handed_over(stub: StubServer, make: Make) -> None:
    stub.control(hang=True)
    b = Batcher(make(), BatchPolicy(items=20, concurrent=2), SystemClock())
    stop, kept = StopSignal(), []
    asked = When(stub, stop.stop)
    with pytest.raises(Cancelled):
        b.embed(TEXTS, Role.DOCUMENT, stop, on_vectors=lambda indices, _: kept.extend(indices))
    asked.check()
    stub.control(hang=False)
    assert b.join(SECONDS)
    assert sorted(kept) in (list(range(20)), list(range(40)))


def test_a_query_is_answered_while_documents_hold_every_place(stub: StubServer, make: Make) -> None:
    stub.control(hold_word="number")
    embedder = make()
    b = Batcher(embedder, BatchPolicy(items=5, concurrent=2), SystemClock())
    stop = StopSignal()
    caught: list[BaseException] = []

    def index() -> None:
        try:
            documents(b, stop=stop)
        except Cancelled as error:
            caught.append(error)

    running = threading.Thread(target=index)
    running.start()
    eventually(lambda: stub.state.now == 2)
    outcome = b.embed(["where is it?"], Role.QUERY, StopSignal())
    assert stub.state.now == 2
    stop.stop()
    joined(running)
    stub.control(hold_word="")
    assert same(outcome.vectors[0], stub, "where is it?")
    assert len(caught) == 1
    embedder.close()


def test_only_one_query_waits_for_a_provider_that_is_down(stub: StubServer, make: Make) -> None:
    stub.control(status=503)
    clock = ManualClock()
    b = Batcher(make(), BatchPolicy(), clock)
    waited = []
    for _ in range(3):
        before = clock.monotonic()
        with pytest.raises(EmbeddingUnavailable):
            b.embed(["q"], Role.QUERY, StopSignal())
        waited.append(clock.monotonic() - before)
    assert 2 < waited[0] <= 8
    assert max(waited[1:]) <= 1
    stub.control(status=200)
    assert b.embed(["q"], Role.QUERY, StopSignal()).vectors[0] is not None


def test_a_text_longer_than_the_model_reads_is_embedded_whole_in_pieces(stub: StubServer, make: Make) -> None:
    long = " ".join(f"word{i}" for i in range(20_000))
    outcome = batcher(make("openai")).embed(["short", long, "end"], Role.DOCUMENT, StopSignal())
    assert all(v is not None and np.linalg.norm(v) == pytest.approx(1, abs=1e-5) for v in outcome.vectors)
    assert same(outcome.vectors[0], stub, "short")
    assert stub.stats()["chars"] >= len(long)
    assert stub.stats()["max_chars_seen"] < 8_192 * 4


def test_a_pause_between_batches_is_kept(make: Make) -> None:
    clock = ManualClock()
    b = Batcher(make(), BatchPolicy(items=10, concurrent=1, delay_s=3.0), clock)
    started = clock.monotonic()
    documents(b)
    assert 9 <= clock.monotonic() - started < 13


def requests_threads() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name == "embedding-request"]


def test_what_has_arrived_is_handed_over_also_where_a_pause_then_ends_the_run(make: Make) -> None:
    clock = ManualClock()
    line = Line(make(), BatchPolicy(items=5, patience_s=1.0, deadline_s=1.0), clock)
    handed: list[int] = []
    texts = Assembly(TEXTS, line.embedder.limits)
    run = Run(line, Role.DOCUMENT, StopSignal(), None, lambda indices, _: handed.extend(indices), 0, texts)
    assert run.ready
    sent = run.ready.popleft()
    run.flying, run.progress_at = 1, clock.monotonic()
    ticket = line.pace.start(Role.DOCUMENT)
    assert isinstance(ticket, Ticket)
    line.pace.slow_down(ticket, 3_600.0)
    vectors = line.embedder.embed(TEXTS[:5], Role.DOCUMENT)
    with pytest.raises(EmbeddingUnavailable, match="pause"):
        run._settle(Report(sent, check(vectors, 5, 0)))
    assert handed == sent.pieces


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_a_request_that_ends_badly_takes_no_other_one_with_it(make: Make) -> None:
    line = Line(make(), BatchPolicy(), SystemClock())
    for _ in range(3):
        line.spawn(lambda: sys.exit("never to be seen"))
        assert line.join(SECONDS)
        done = threading.Event()
        line.spawn(done.set)
        assert done.wait(SECONDS)
    assert line.join(SECONDS)


def test_threads_that_the_system_refuses_cost_time_and_no_place_at_the_provider(
    stub: StubServer, make: Make, no_more_threads
) -> None:
    asking = batcher(make())
    documents(asking)  # the provider works, so that failures could be laid to the texts
    eventually(lambda: not requests_threads(), what="threads without work were left")
    for role in (Role.DOCUMENT, Role.QUERY):
        with no_more_threads(), pytest.raises(EmbeddingUnavailable, match="thread"):
            asking.embed(TEXTS, role, StopSignal())
    assert asking.join(0.0)
    vectors = documents(asking)
    assert all(same(vector, stub, text) for vector, text in zip(vectors, TEXTS, strict=True))
    assert asking.join(10.0)


def test_a_thread_that_is_refused_for_a_moment_costs_no_text(stub: StubServer, make: Make, no_more_threads) -> None:
    refused = ExitStack()
    refused.enter_context(no_more_threads())
    waits = 0

    class Passing(ManualClock):
        """Threads are there again when the run has waited a few times."""

        def wait(self, event: threading.Event, seconds: float) -> bool:
            nonlocal waits
            waits += 1
            if waits == 8:
                refused.close()
            return super().wait(event, seconds)

    with refused:
        asking = Batcher(make(), BatchPolicy(items=5, concurrent=4), Passing())
        vectors = documents(asking)
    assert all(same(vector, stub, text) for vector, text in zip(vectors, TEXTS, strict=True))
    assert asking.join(10.0)
