"""What somebody reads who wrote the wrong address, or whose server is not there."""

from __future__ import annotations

import http.server
import socket
import threading
from collections.abc import Iterator
from concurrent import futures
from pathlib import Path

import pytest

from markdown_rag.errors import StoreFormatError, StoreUnavailable
from markdown_rag.store.opening import StoreSettings, find_collections, open_store
from tests.ports import refusing
from tests.waiting import joined

from .conftest import MODEL


def count_at(address: str, state_dir: Path, seconds: float = 2.0, wait_s: float = 0.0) -> int:
    store = open_store(StoreSettings(address, "", "t", 100, seconds, state_dir, wait_s=wait_s), MODEL)
    try:
        return store.count()
    finally:
        store.close()


@pytest.fixture
def silent_port() -> Iterator[int]:
    """Takes connections and never says a word."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        yield listener.getsockname()[1]


@pytest.fixture
def web_port() -> Iterator[int]:
    server = http.server.HTTPServer(("127.0.0.1", 0), http.server.SimpleHTTPRequestHandler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield server.server_port
    server.shutdown()
    joined(thread)
    server.server_close()


@pytest.fixture
def foreign_port() -> Iterator[int]:
    """Speaks gRPC, but not Milvus."""
    import grpc

    server = grpc.server(futures.ThreadPoolExecutor(max_workers=2))
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    yield port
    server.stop(0).wait()


def test_a_server_that_is_down_is_said_to_be_down_with_its_address_and_without_credentials(tmp_path: Path):
    with refusing() as port:
        address = f"127.0.0.1:{port}"
        with pytest.raises(StoreUnavailable, match=f"{address} does not answer") as raised:
            count_at(f"http://user:secret@{address}", tmp_path)
    assert "secret" not in str(raised.value)
    assert raised.value.__cause__ is not None


def test_a_server_that_never_answers_is_given_up_within_the_time_limit(tmp_path: Path, silent_port: int):
    with pytest.raises(StoreUnavailable, match="did not answer within 2 s"):
        count_at(f"http://127.0.0.1:{silent_port}", tmp_path)


@pytest.mark.parametrize(("wait_s", "waited"), [(0.0, 5), pytest.param(6.0, 6, marks=pytest.mark.slow)])
def test_a_server_that_takes_connections_and_stays_silent_is_waited_for_like_one_that_is_away_and_named(
    tmp_path: Path, silent_port: int, wait_s: float, waited: int
):
    with pytest.raises(StoreUnavailable, match=f"{silent_port} did not answer within {waited} s") as raised:
        count_at(f"http://127.0.0.1:{silent_port}", tmp_path, seconds=30.0, wait_s=wait_s)
    assert "MILVUS_ADDRESS is right" in str(raised.value)
    with pytest.raises(StoreUnavailable, match="MILVUS_ADDRESS is right"):
        find_collections(StoreSettings(f"http://127.0.0.1:{silent_port}", "", "t", 100, 2.0, tmp_path))


def test_a_web_server_is_not_taken_for_milvus(tmp_path: Path, web_port: int):
    with pytest.raises((StoreUnavailable, StoreFormatError)):
        count_at(f"http://127.0.0.1:{web_port}", tmp_path)


def test_another_grpc_service_is_named_as_not_milvus(tmp_path: Path, foreign_port: int):
    with pytest.raises(StoreFormatError, match="is not Milvus"):
        count_at(f"http://127.0.0.1:{foreign_port}", tmp_path)


def test_looking_for_collections_on_a_server_that_is_down_is_the_same_error(tmp_path: Path):
    with refusing() as port, pytest.raises(StoreUnavailable, match="does not answer"):
        find_collections(StoreSettings(f"http://127.0.0.1:{port}", "", "t", 100, 2.0, tmp_path))


def test_a_closed_store_says_so_instead_of_connecting_again(tmp_path: Path):
    store = open_store(StoreSettings(str(tmp_path / "x.db"), "", "t", 100, 2.0, tmp_path), MODEL)
    store.close()
    with pytest.raises(StoreUnavailable, match="closed"):
        store.count()
    assert not (tmp_path / "x.db").exists()
