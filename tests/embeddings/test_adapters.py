"""The contract of every hosted provider, kept by the real SDK against the stub."""

from __future__ import annotations

import contextlib
import logging
import traceback
from collections.abc import Callable

import numpy as np
import pytest
from stub_embeddings import StubServer

from markdown_rag.clock import ManualClock, StopSignal
from markdown_rag.embeddings.base import Embedder, Role
from markdown_rag.embeddings.batching import Batcher, BatchPolicy
from markdown_rag.embeddings.vendor import retry_after
from markdown_rag.errors import (
    EmbeddingAuthError,
    EmbeddingError,
    EmbeddingMismatch,
    EmbeddingRefused,
    EmbeddingThrottled,
    EmbeddingUnavailable,
)
from tests.embeddings.conftest import When
from tests.ports import refusing
from tests.waiting import eventually

KEY = "sk-test-0123456789abcdefSECRET"
HOSTED = ("openai", "openai-compatible", "voyage", "gemini", "vertex")
Make = Callable[..., Embedder]
Hosted = Callable[[str], Embedder]

every_provider = pytest.mark.parametrize("provider", HOSTED)


def failure(embedder: Embedder, texts: tuple[str, ...] = ("one text", "another")) -> EmbeddingError:
    with pytest.raises(EmbeddingError) as caught:
        embedder.embed(texts, Role.DOCUMENT)
    return caught.value


@every_provider
def test_one_request_brings_one_row_a_text_in_order(stub: StubServer, make: Make, provider: str) -> None:
    texts = ["first", "second 한국어", "third 🦆", "first"]
    rows = make(provider, dimension=24).embed(texts, Role.DOCUMENT)
    assert rows.dtype == np.float32
    assert rows.shape == (4, 24)
    assert all(np.allclose(row, stub.state.vector(text, 24), atol=1e-6) for row, text in zip(rows, texts, strict=True))
    assert stub.stats()["requests"] == 1


@every_provider
def test_a_dimension_is_sent_only_where_one_is_set(stub: StubServer, hosted: Hosted, provider: str) -> None:
    assert hosted(provider).embed(["a"], Role.QUERY).shape == (1, 16)  # the stub's own
    assert "imension" not in str(stub.state.last_request).replace("'output_dimension': None", "")


@every_provider
@pytest.mark.parametrize(
    ("status", "kind"),
    [
        (400, EmbeddingRefused),
        (401, EmbeddingAuthError),
        (403, EmbeddingAuthError),
        (404, EmbeddingRefused),
        (408, EmbeddingUnavailable),
        (413, EmbeddingRefused),
        (422, EmbeddingRefused),
        (429, EmbeddingThrottled),
        (500, EmbeddingUnavailable),
        (502, EmbeddingUnavailable),
        (503, EmbeddingUnavailable),
    ],
)
def test_every_status_has_its_error_and_no_sdk_tries_again_by_itself(
    stub: StubServer, hosted: Hosted, provider: str, status: int, kind: type[EmbeddingError]
) -> None:
    stub.control(status=status)
    error = failure(hosted(provider))
    assert type(error) is kind
    assert str(status) in str(error)
    assert error.next_step
    assert stub.stats()["requests"] == 1


@every_provider
@pytest.mark.parametrize("status", [429, 503])
def test_the_time_to_wait_is_passed_on(stub: StubServer, hosted: Hosted, provider: str, status: int) -> None:
    stub.control(status=status, retry_after="7")
    error = failure(hosted(provider))
    assert isinstance(error, EmbeddingUnavailable)
    assert error.retry_after == 7
    stub.control(retry_after="")
    error = failure(hosted(provider))
    assert isinstance(error, EmbeddingUnavailable)
    assert error.retry_after is None


@every_provider
def test_a_hung_request_ends_with_its_timeout(stub: StubServer, make: Make, provider: str) -> None:
    embedder = make(provider, timeout_s=0.3)

    def connects() -> bool:
        """And fetches a token where one is needed; a busy machine may need more than one try."""
        with contextlib.suppress(EmbeddingUnavailable):
            return len(embedder.embed(["one text"], Role.DOCUMENT)) == 1
        return False

    eventually(connects)
    stub.control(hang=True)
    assert isinstance(failure(embedder), EmbeddingUnavailable)


@every_provider
def test_closing_breaks_a_hung_request_off_and_the_next_one_connects_again(
    stub: StubServer, make: Make, provider: str
) -> None:
    embedder = make(provider, timeout_s=600.0)
    embedder.embed(["connects and fetches a token where one is needed"], Role.DOCUMENT)
    stub.reset()
    stub.control(hang=True)
    asked = When(stub, embedder.close)
    assert isinstance(failure(embedder), EmbeddingUnavailable)
    asked.check()
    stub.control(hang=False)
    assert len(embedder.embed(["again"], Role.DOCUMENT)) == 1


@every_provider
def test_a_dropped_connection_is_a_passing_failure(stub: StubServer, hosted: Hosted, provider: str) -> None:
    stub.control(drop=True)
    assert isinstance(failure(hosted(provider)), EmbeddingUnavailable)


@every_provider
def test_nobody_listening_is_a_passing_failure_that_says_so_and_names_the_address_to_check(
    make: Make, provider: str
) -> None:
    with refusing() as port:
        error = failure(make(provider, base_url=f"http://127.0.0.1:{port}/v1"))
    assert isinstance(error, EmbeddingUnavailable)
    assert "(Connection refused)" in error.message
    assert "EMBEDDING_BASE_URL" in str(error)


@every_provider
@pytest.mark.parametrize("fault", [{"short_by": 1}, {"short_by": 2}, {"garbage": True}, {"force_dim": 5}])
def test_an_answer_that_is_not_what_was_asked_is_an_error(
    stub: StubServer, hosted: Hosted, provider: str, fault: dict[str, object]
) -> None:
    stub.control(**fault)
    batcher = Batcher(hosted(provider), BatchPolicy(), ManualClock())
    with pytest.raises(EmbeddingMismatch):
        batcher.embed(["one text", "another"], Role.DOCUMENT, StopSignal(), dimension=16)


@pytest.mark.parametrize(
    "body",
    [
        "[" * 200_000,
        '{"data": [{"index": 1e999, "embedding": [0.5]}]}',
        '{"data": [{"index": 0, "embedding": [%s]}]}' % ("9" * 400),
        '{"data": [{"index": "first", "embedding": [0.5]}]}',
        '{"data": [{"index": 0, "embedding": "AAA"}]}',
        '{"data": ["vector"]}',
        '{"data": [{"index"',
    ],
    ids=["nested", "infinite index", "huge number", "word for an index", "half a number", "no object", "cut off"],
)
def test_whatever_a_server_answers_is_vectors_or_an_error_of_ours(stub: StubServer, make: Make, body: str) -> None:
    stub.control(body=body)
    assert isinstance(failure(make("openai-compatible"), ("one text",)), EmbeddingMismatch)


@every_provider
def test_a_vector_of_nan_refuses_its_text_alone(stub: StubServer, hosted: Hosted, provider: str) -> None:
    stub.control(nan_on="another")
    batcher = Batcher(hosted(provider), BatchPolicy(), ManualClock())
    assert list(batcher.embed(["one text", "another"], Role.DOCUMENT, StopSignal()).refused) == [1]


@every_provider
@pytest.mark.parametrize("status", [200, 400, 401, 403, 404, 429, 500, 503])
def test_the_key_is_in_no_error_no_chain_and_no_log(
    stub: StubServer, hosted: Hosted, provider: str, status: int, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    secret = KEY if provider != "vertex" else stub.state.token
    stub.control(status=status, echo_key=True, garbage=status == 200)
    error = failure(hosted(provider), ("A text nobody else may read, ever.",))
    said = "".join(traceback.format_exception(error)) + repr(error) + str(error) + repr(error.__cause__)
    assert secret not in said
    assert "nobody else may read" not in said
    assert secret not in caplog.text


@every_provider
def test_the_key_is_in_no_picture_of_the_adapter(make: Make, provider: str) -> None:
    embedder = make(provider)
    assert KEY not in repr(embedder) + repr(vars(embedder))


@pytest.mark.parametrize(
    ("provider", "variable"), [("openai", "OPENAI_API_KEY"), ("voyage", "VOYAGE_API_KEY"), ("gemini", "GEMINI_API_KEY")]
)
@pytest.mark.parametrize("key", ["", "  ", "two\nlines", "has blank", "smart”quote"])
def test_a_missing_or_impossible_key_is_named_at_first_use_and_sent_to_nobody(
    stub: StubServer, make: Make, provider: str, variable: str, key: str
) -> None:
    error = failure(make(provider, api_key=key))
    assert isinstance(error, EmbeddingAuthError)
    assert variable in str(error)
    assert not key.strip() or key not in "".join(traceback.format_exception(error))
    assert stub.stats()["requests"] == 0


@pytest.mark.parametrize("provider", ["openai", "voyage", "gemini"])
def test_the_key_is_sent(stub: StubServer, make: Make, provider: str) -> None:
    stub.control(need_key=KEY)
    assert len(make(provider, api_key=f" {KEY}\n").embed(["a"], Role.DOCUMENT)) == 1


def test_vertex_fetches_a_token_with_the_credentials_file(stub: StubServer, make: Make) -> None:
    stub.control(need_key=stub.state.token)
    assert len(make("vertex").embed(["a"], Role.DOCUMENT)) == 1
    assert "/projects/notes-project/locations/us-central1/" in stub.state.last_path


def test_vertex_without_credentials_names_the_variable(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    embedder = make("vertex")
    monkeypatch.setenv("GOOGLE_APPLICATION_CREDENTIALS", "/nowhere/account.json")
    error = failure(embedder)
    assert isinstance(error, EmbeddingAuthError)
    assert "GOOGLE_APPLICATION_CREDENTIALS" in str(error)


def test_a_server_without_keys_is_asked_without_one_and_learns_nothing_of_the_users_account(
    stub: StubServer, make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-belongs-to-openai-only")
    monkeypatch.setenv("OPENAI_ORG_ID", "org-private")
    make("openai-compatible", api_key="").embed(["a"], Role.DOCUMENT)
    assert "sk-belongs" not in str(stub.state.last_headers)
    assert "org-private" not in str(stub.state.last_headers)


@pytest.mark.parametrize(
    ("provider", "field", "document", "query"),
    [
        ("voyage", "input_type", "document", "query"),
        ("gemini", "taskType", "RETRIEVAL_DOCUMENT", "RETRIEVAL_QUERY"),
        ("vertex", "task_type", "RETRIEVAL_DOCUMENT", "RETRIEVAL_QUERY"),
    ],
)
def test_documents_and_queries_are_embedded_as_what_they_are(  # noqa: PLR0917
    stub: StubServer, hosted: Hosted, provider: str, field: str, document: str, query: str
) -> None:
    embedder = hosted(provider)
    embedder.embed(["a"], Role.DOCUMENT)
    assert f"'{field}': '{document}'" in str(stub.state.last_request)
    embedder.embed(["a"], Role.QUERY)
    assert f"'{field}': '{query}'" in str(stub.state.last_request)


def test_the_second_gemini_model_is_told_the_role_in_the_text_and_keeps_texts_apart(
    stub: StubServer, make: Make
) -> None:
    embedder = make("gemini", model="gemini-embedding-2")
    assert len(embedder.embed(["a", "b"], Role.DOCUMENT)) == 2
    assert stub.state.last_texts == ["title: none | text: a", "title: none | text: b"]
    embedder.embed(["a"], Role.QUERY)
    assert stub.state.last_texts == ["task: search result | query: a"]
    assert "taskType" not in str(stub.state.last_request)


def test_gemini_models_on_vertex_get_one_text_a_request(stub: StubServer, make: Make) -> None:
    batcher = Batcher(make("vertex", model="gemini-embedding-001", dimension=8), BatchPolicy(), ManualClock())
    outcome = batcher.embed(["a", "b", "c"], Role.DOCUMENT, StopSignal())
    assert not outcome.refused
    assert stub.stats()["max_texts_seen"] == 1
    assert stub.state.last_path.endswith(":embedContent")


@pytest.mark.parametrize("provider", ["voyage", "vertex"])
def test_nothing_is_truncated_in_silence(stub: StubServer, hosted: Hosted, provider: str) -> None:
    hosted(provider).embed(["a"], Role.DOCUMENT)
    request = str(stub.state.last_request)
    assert "'truncation': False" in request or "'autoTruncate': False" in request


@pytest.mark.parametrize(
    ("provider", "model", "items", "request_tokens", "text_tokens"),
    [
        ("openai", "", 2_048, 300_000, 8_192),
        ("openai-compatible", "", 0, 0, 0),
        ("gemini", "", 100, 0, 2_048),
        ("gemini", "gemini-embedding-2", 100, 0, 8_192),
        ("vertex", "text-embedding-005", 250, 20_000, 2_048),
        ("vertex", "gemini-embedding-001", 1, 20_000, 2_048),
        ("voyage", "voyage-3.5-lite", 1_000, 1_000_000, 32_000),
        ("voyage", "voyage-3.5", 1_000, 320_000, 32_000),
        ("voyage", "voyage-code-3", 1_000, 120_000, 32_000),
        ("voyage", "unheard-of", 1_000, 120_000, 32_000),
    ],
)
def test_batches_are_packed_to_the_documented_limits(  # noqa: PLR0917
    make: Make, provider: str, model: str, items: int, request_tokens: int, text_tokens: int
) -> None:
    limits = make(provider, model=model).limits
    assert (limits.items, limits.request_tokens, limits.text_tokens) == (items, request_tokens, text_tokens)


def test_a_server_that_takes_no_dimension_says_so(stub: StubServer, make: Make) -> None:
    stub.control(refuse_fields="dimensions")
    error = failure(make("openai-compatible", dimension=8))
    assert isinstance(error, EmbeddingRefused)
    assert "EMBEDDING_DIM" in error.next_step


def test_a_server_that_knows_no_base64_is_asked_for_numbers_from_then_on(stub: StubServer, make: Make) -> None:
    embedder = make("openai-compatible")
    stub.control(refuse_encoding="base64")
    assert len(embedder.embed(["a", "b"], Role.DOCUMENT)) == 2
    assert len(embedder.embed(["c"], Role.DOCUMENT)) == 1
    assert stub.stats()["requests"] == 3


@pytest.mark.parametrize("left_out", ["zero", "always"])
@pytest.mark.parametrize("texts", [["a"], ["a", "b", "c"]])
def test_a_server_that_leaves_the_index_of_a_vector_out_is_understood(
    stub: StubServer, make: Make, left_out: str, texts: list[str]
) -> None:
    stub.control(no_index=left_out, shuffle=left_out == "zero")
    rows = make("openai-compatible").embed(texts, Role.QUERY)
    assert all(np.allclose(row, stub.state.vector(text, 16), atol=1e-6) for row, text in zip(rows, texts, strict=True))


def test_an_account_without_credit_is_no_reason_to_wait(stub: StubServer, make: Make) -> None:
    stub.control(status=429, error_code="insufficient_quota")
    assert isinstance(failure(make("openai")), EmbeddingAuthError)


def test_a_key_that_gemini_calls_invalid_is_a_wrong_key(stub: StubServer, make: Make) -> None:
    stub.control(status=400, google_reason="API_KEY_INVALID")
    assert isinstance(failure(make("gemini")), EmbeddingAuthError)


def test_a_model_that_voyages_library_would_download_is_refused(stub: StubServer, make: Make) -> None:
    assert isinstance(failure(make("voyage", model="voyage-4-nano")), EmbeddingRefused)
    assert stub.stats()["requests"] == 0


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({}, None),
        ({"retry-after": "2.5"}, 2.5),
        ({"retry-after": "-4"}, 0.0),
        ({"retry-after": "soon"}, None),
        ({"retry-after-ms": "1500", "retry-after": "9"}, 1.5),
        ({"retry-after-ms": "soon", "retry-after": "9"}, 9.0),
        ({"retry-after-ms": "soon"}, None),
        ({"retry-after": "inf"}, None),
        ({"retry-after": "nan"}, None),
        ({"retry-after": "1e400"}, None),
        ({"retry-after-ms": "-inf", "retry-after": "9"}, 9.0),
        ({"retry-after": "Fri, 01 Jan 99999999999999999999 00:00:00 GMT"}, None),
        ({"retry-after": "Wed, 21 Oct 2015 07:28:00 GMT"}, 0.0),
    ],
)
def test_every_form_of_retry_after_is_read(headers: dict[str, str], seconds: float | None) -> None:
    assert retry_after(headers) == seconds


def test_a_date_to_come_is_read_as_seconds() -> None:
    assert (retry_after({"retry-after": "Fri, 01 Jan 2100 00:00:00 GMT"}) or 0) > 1e9
