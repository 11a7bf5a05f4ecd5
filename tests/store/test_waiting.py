"""What every failure to connect is called, and how long a server that is away is waited for; no server needed."""

from __future__ import annotations

import contextlib
import http.server
import socket
import ssl
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from markdown_rag.errors import (
    StoreAddressError,
    StoreAuthError,
    StoreError,
    StoreFormatError,
    StoreUnavailable,
)
from markdown_rag.store import capabilities as engines
from markdown_rag.store.base import Capabilities
from markdown_rag.store.checkup import check
from markdown_rag.store.failures import Kind, Symptoms, diagnose
from markdown_rag.store.milvus import Session
from markdown_rag.store.opening import StoreSettings
from markdown_rag.store.sockets import place_of, wants_tls
from tests.ports import refusing
from tests.waiting import joined


@pytest.mark.parametrize(
    ("status", "details", "kind", "error", "says"),
    [
        (
            "UNAVAILABLE",
            "Tls handshake failed: SSL routines:CERTIFICATE_VERIFY_FAILED: unable to get local issuer certificate: OK",
            Kind.FINAL,
            StoreAddressError,
            "not trusted: unable to get local issuer certificate. Set MILVUS_CA_FILE",
        ),
        (
            "UNAVAILABLE",
            "Custom verification check failed with error: UNAUTHENTICATED: Hostname Verification Check failed.",
            Kind.FINAL,
            StoreAddressError,
            "another name",
        ),
        ("UNAVAILABLE", "OPENSSL_internal:WRONG_VERSION_NUMBER", Kind.FINAL, StoreAddressError, "http:// instead"),
        (
            "UNAVAILABLE",
            "Failed parsing HTTP/2 (Expected SETTINGS frame as the first frame)",
            Kind.FINAL,
            StoreFormatError,
            "another protocol",
        ),
        ("UNAVAILABLE", "Connection refused", Kind.LOST, StoreUnavailable, "nothing listens there"),
        ("UNAVAILABLE", "address lookup failed for nowhere", Kind.LOST, StoreUnavailable, "nobody knows that name"),
        ("UNAVAILABLE", "Socket closed", Kind.LOST, StoreUnavailable, "does not answer"),
        ("UNAUTHENTICATED", "missing authorization in header", Kind.FINAL, StoreAuthError, "MILVUS_TOKEN is not set"),
        ("UNAUTHENTICATED", "auth check failure", Kind.FINAL, StoreAuthError, "refuses these credentials"),
        ("PERMISSION_DENIED", "PrivilegeQuery", Kind.FINAL, StoreAuthError, "no right"),
    ],
)
def test_grpcs_own_words_decide_what_is_wrong(
    status: str, details: str, kind: Kind, error: type[StoreError], says: str
) -> None:
    seen = Symptoms("Fail connecting to server on host:19530, illegal connection params", 2, status, details=details)
    failure = diagnose(seen, "https://host:19530", 30)
    assert (failure.kind, type(failure.error)) == (kind, error)
    assert says in str(failure.error)


@pytest.mark.parametrize(
    ("text", "code", "kind", "error"),
    [
        ("database not found[database=nodb]", 800, Kind.FINAL, StoreAddressError),
        ("database 'nodb' does not exist", 1, Kind.FINAL, StoreAddressError),
        ("collection not found[database=default][collection=x]", 100, Kind.MISSING, StoreUnavailable),
        ("Milvus Proxy is not ready yet. please wait", 65535, Kind.LOST, StoreUnavailable),
    ],
)
def test_a_database_that_is_not_there_is_no_missing_index(
    text: str, code: int, kind: Kind, error: type[StoreError]
) -> None:
    failure = diagnose(Symptoms(text, code, ""), "http://host:19530", 30)
    assert (failure.kind, type(failure.error)) == (kind, error)


@pytest.mark.parametrize("said", ["Cannot invoke RPC on closed channel!", "Cannot invoke RPC: Channel closed!"])
def test_a_call_on_a_connection_that_another_caller_closed_counts_as_lost_in_both_of_grpcs_wordings(said: str) -> None:
    seen = Symptoms(f"<MilvusException: (code=1, message=Unexpected error, message=<{said}>)>", 1, "")
    assert diagnose(seen, "http://host:19530", 30).kind is Kind.LOST


@pytest.mark.parametrize(
    ("version", "shown", "lexical", "name_index", "certain"),
    [
        ("milvus_lite-3.2.2", "3.2.2", True, None, True),
        ("v2.3.5-lite", "2.3.5", False, "Trie", True),
        ("2.4.0", "2.4.0", False, "INVERTED", True),
        ("v2.5.1", "2.5.1", True, "INVERTED", True),
        ("2.6.16", "2.6.16", True, "INVERTED", True),
        ("v10.0.0", "10.0.0", True, "INVERTED", True),
        (
            "Zilliz Cloud Vector Database(Compatible with Milvus 2.4)",
            "Zilliz Cloud Vector Database(Compatible with Milvus 2.4)",
            True,
            "",
            False,
        ),
        ("", "", True, "", False),
    ],
)
def test_a_version_tells_what_a_server_can_do_or_that_it_has_to_be_tried(
    version: str, shown: str, lexical: bool, name_index: str | None, certain: bool
) -> None:
    found = engines.capabilities_of(version)
    assert (found.version, found.lexical) == (shown, lexical)
    assert engines.profile(found).name_index == name_index
    assert engines.is_certain(found) is certain


def test_a_collection_made_without_keywords_gets_no_index_for_them() -> None:
    newer, made_long_ago = (Capabilities("milvus", "2.6.0", lexical=words, embedded=False) for words in (True, False))
    assert {index.field for index in engines.indexes(newer)} == {"vector", "path", "workspace", "sparse"}
    assert {index.field for index in engines.indexes(made_long_ago)} == {"vector", "path", "workspace"}


def settings(address: str, folder: Path, **more: object) -> StoreSettings:
    return StoreSettings(address, "", "t", 100, 5.0, folder, **more)  # type: ignore[arg-type]


@contextlib.contextmanager
def connecting(given: StoreSettings) -> Iterator[Session]:
    session = given.session()
    try:
        yield session
    finally:
        session.close()


def milvus_like(port: int) -> Any:
    """A server on that port that answers a client's first greeting and the question for its version."""
    import grpc
    from pymilvus.grpc_gen import common_pb2, milvus_pb2, milvus_pb2_grpc

    class Servicer(milvus_pb2_grpc.MilvusServiceServicer):
        def Connect(self, request, context):  # noqa: N802, ARG002
            return milvus_pb2.ConnectResponse(status=common_pb2.Status(), server_info=common_pb2.ServerInfo())

        def GetVersion(self, request, context):  # noqa: N802, ARG002
            return milvus_pb2.GetVersionResponse(status=common_pb2.Status(), version="v2.6.1")

    from concurrent import futures

    server = grpc.server(futures.ThreadPoolExecutor(2), options=[("grpc.so_reuseport", 1)])
    milvus_pb2_grpc.add_MilvusServiceServicer_to_server(Servicer(), server)
    server.add_insecure_port(f"127.0.0.1:{port}")
    server.start()
    return server


def test_a_server_that_comes_up_late_is_waited_for(tmp_path: Path) -> None:
    found: list[str] = []
    with refusing() as port, connecting(settings(f"http://127.0.0.1:{port}", tmp_path, wait_s=120.0)) as session:
        asking = threading.Thread(target=lambda: found.append(session.capabilities().version))
        asking.start()
        asking.join(2.0)  # longer than a call without patience
        assert not found
        server = milvus_like(port)
        joined(asking, seconds=60)
        server.stop(0).wait()
    assert found == ["2.6.1"]


def test_closing_a_store_ends_the_wait_for_its_server_at_once(tmp_path: Path) -> None:
    ended = threading.Event()
    with refusing() as port, connecting(settings(f"http://127.0.0.1:{port}", tmp_path, wait_s=600.0)) as session:

        def ask() -> None:
            with contextlib.suppress(StoreUnavailable):
                session.capabilities()
            ended.set()

        asking = threading.Thread(target=ask)
        asking.start()
        asking.join(0.5)
        session.close()
        joined(asking)  # a call under way may take its own 5 s and some
        assert ended.is_set()


def test_all_who_wait_for_a_connection_share_its_outcome_and_none_waits_for_the_others_in_turn(tmp_path: Path) -> None:
    gate, failed = threading.Barrier(8), list[StoreError]()
    with socket.create_server(("127.0.0.1", 0)) as silent:  # takes connections and says nothing
        given = StoreSettings(f"http://127.0.0.1:{silent.getsockname()[1]}", "", "t", 100, 2.0, tmp_path)
        with connecting(given) as session:

            def ask() -> None:
                gate.wait()
                outcome = session.attempt(lambda client, _: client)
                failed.append(outcome.error)

            askers = [threading.Thread(target=ask) for _ in range(8)]
            for asker in askers:
                asker.start()
            for asker in askers:
                asker.join()
    assert len(failed) == 8
    assert len({id(error.__cause__) for error in failed}) == 1, "of one connection that was made for all"


def test_a_connection_that_gets_no_thread_is_an_error_of_ours_and_the_next_call_connects(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The system's refusal is injected where a thread is started."""
    with refusing() as port, connecting(settings(f"http://127.0.0.1:{port}", tmp_path)) as session:
        server = milvus_like(port)
        with monkeypatch.context() as patched:

            def refuse(_: threading.Thread) -> None:
                raise RuntimeError("can't start new thread")

            patched.setattr(threading.Thread, "start", refuse)
            with pytest.raises(StoreUnavailable, match="no thread"):
                session.capabilities()
        assert session.capabilities().version == "2.6.1"
        server.stop(0).wait()


@pytest.fixture
def tls_port(tmp_path: Path) -> Iterator[int]:
    """A port that speaks TLS with a certificate nobody signed."""
    from .test_secured import write_certificates

    write_certificates(tmp_path)
    server = http.server.HTTPServer(("127.0.0.1", 0), http.server.BaseHTTPRequestHandler)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(tmp_path / "server.pem", tmp_path / "server.key")
    server.socket = context.wrap_socket(server.socket, server_side=True, do_handshake_on_connect=True)
    server.handle_error = lambda *_: None  # type: ignore[method-assign]
    thread = threading.Thread(target=server.serve_forever, args=(0.05,))
    thread.start()
    yield server.server_port
    server.shutdown()
    joined(thread)
    server.server_close()


def test_an_address_without_tls_to_a_server_with_it_is_told_the_scheme(tmp_path: Path, tls_port: int) -> None:
    assert wants_tls(f"http://127.0.0.1:{tls_port}")
    given = settings(f"http://127.0.0.1:{tls_port}", tmp_path)
    with connecting(given) as session, pytest.raises(StoreAddressError, match="https://"):
        session.capabilities()


def test_a_certificate_is_trusted_by_the_file_that_signed_it_alone(tmp_path: Path, tls_port: int) -> None:
    def tls(ca_file: str) -> str:
        given = settings(f"https://127.0.0.1:{tls_port}", tmp_path, ca_file=ca_file)
        return next(step for step in check(given, None) if step.name == "TLS").detail

    assert "trusted until" in tls(str(tmp_path / "ca.pem"))
    assert "not trusted" in tls(str(tmp_path / "other.pem"))
    assert "not trusted" in tls("")


@pytest.mark.parametrize("content", [None, "no certificate"])
def test_a_file_of_certificates_that_is_none_is_named(tmp_path: Path, content: str | None) -> None:
    path = tmp_path / "authorities.pem"
    if content is not None:
        path.write_text(content)
    words = r"MILVUS_CA_FILE=.*authorities\.pem"
    with (
        refusing() as port,
        connecting(settings(f"https://127.0.0.1:{port}", tmp_path, ca_file=str(path))) as session,
        pytest.raises(StoreAddressError, match=words),
    ):
        session.capabilities()


def test_a_check_ends_at_the_step_that_fails(tmp_path: Path) -> None:
    def names(address: str) -> list[tuple[str, bool]]:
        return [(step.name, step.ok) for step in check(settings(address, tmp_path), None)]

    assert names("localhost:19530") == [("address", False)]
    with refusing() as port:
        assert names(f"http://127.0.0.1:{port}") == [("address", True), ("network", False)]
    assert names(str(tmp_path / "new.db"))[:2] == [("address", True), ("credentials", True)]


@pytest.mark.parametrize(
    ("address", "place"),
    [
        ("http://host:1", ("host", 1)),
        ("http://host", ("host", 19530)),
        ("https://host", ("host", 443)),
        ("https://u:p@host:7/db", ("host", 7)),
        ("tcp://[::1]:5", ("::1", 5)),
    ],
)
def test_an_address_names_a_host_and_a_port(address: str, place: tuple[str, int]) -> None:
    assert place_of(address) == place
