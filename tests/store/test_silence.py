"""A server that takes connections and never says a word: who waits for it waits once, together, and not beyond a close.

How long that takes is told by the errors: all who waited for one attempt are told of it by the same error.
"""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from markdown_rag.clock import StopSignal, SystemClock, stoppable
from markdown_rag.errors import Cancelled, StoreError, StoreUnavailable
from markdown_rag.search.catalog import Catalog
from markdown_rag.store.base import Store
from markdown_rag.store.opening import StoreSettings, open_store
from tests.ports import refusing
from tests.waiting import at_once, eventually, joined

from .conftest import MODEL, record
from .test_waiting import milvus_like


@contextlib.contextmanager
def silent() -> Iterator[socket.socket]:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        yield listener


def settings(listener: socket.socket, folder: Path, seconds: float, wait_s: float = 0.0) -> StoreSettings:
    return StoreSettings(f"http://127.0.0.1:{listener.getsockname()[1]}", "", "t", 100, seconds, folder, wait_s=wait_s)


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    """The store of a silent server, whose calls take up to 2 s."""
    with silent() as listener, contextlib.closing(open_store(settings(listener, tmp_path, 2.0), MODEL)) as opened:
        yield opened


def errors_of(*asks: Callable[[], object]) -> list[StoreError]:
    """What each was told; all ask at once."""
    failed = at_once(*asks)
    assert all(isinstance(error, StoreError) for error in failed), failed
    return failed  # type: ignore[return-value]


def attempts(errors: list[StoreError]) -> int:
    """How many connections these errors tell of."""
    return len({id(error.__cause__) for error in errors})


def is_open(connection: socket.socket) -> bool:
    """Whether who connected has not hung up."""
    connection.setblocking(False)
    with contextlib.suppress(BlockingIOError):
        while connection.recv(4096):
            pass
        return False
    return True


def test_readers_and_writers_of_a_silent_server_fail_together(store: Store) -> None:
    ensuring = [store.ensure, lambda: store.insert([record()]), lambda: store.delete(["k"])]
    assert attempts(errors_of(*[store.count] * 4, *ensuring)) == 1


def test_a_catalog_of_a_silent_server_fails_everybody_together(store: Store) -> None:
    catalog = Catalog(store, SystemClock())
    asks = [catalog.snapshot, catalog.fresh, lambda: catalog.snapshot(("w1",)), store.count, store.health]
    assert attempts(errors_of(*asks, *asks)) == 1


def test_who_waits_for_anothers_turn_at_a_silent_server_is_stopped_all_the_same(tmp_path: Path) -> None:
    with silent() as listener, contextlib.closing(open_store(settings(listener, tmp_path, 600.0, 600.0), MODEL)) as one:
        stop, told = StopSignal(), list[str]()

        def wait_in_vain() -> None:
            with contextlib.suppress(StoreUnavailable):
                one.count()

        def ask() -> None:
            with stoppable(stop):
                try:
                    one.count()
                except Cancelled as error:
                    told.append(error.message)

        waiting, asking = threading.Thread(target=wait_in_vain), threading.Thread(target=ask, daemon=True)
        waiting.start()
        asking.start()
        stop.stop("enough")
        joined(asking)
        one.close()
        joined(waiting)
    assert told == ["enough"]


def test_closing_a_store_ends_the_wait_for_a_silent_server(tmp_path: Path) -> None:
    with silent() as listener:
        session, told = settings(listener, tmp_path, 600.0, 600.0).session(), list[str]()

        def ask() -> None:
            try:
                session.capabilities()
            except StoreUnavailable as error:
                told.append(error.message)

        asking = threading.Thread(target=ask, daemon=True)
        asking.start()
        with listener.accept()[0]:  # it is being connected to
            session.close()
            joined(asking)
        assert told == ["The store is closed."], "and not that nobody answered, which the library says in the end"


def test_a_silent_server_holds_up_no_connection_to_another_one(tmp_path: Path) -> None:
    with silent() as listener, refusing() as port, contextlib.ExitStack() as opened:
        mute = settings(listener, tmp_path, 600.0, 600.0).session()
        other = StoreSettings(f"http://127.0.0.1:{port}", "", "t", 100, 30.0, tmp_path).session()
        server = milvus_like(port)
        opened.callback(server.stop, 0)

        def ask() -> None:
            with contextlib.suppress(StoreUnavailable):
                mute.capabilities()

        asking = threading.Thread(target=ask, daemon=True)
        asking.start()
        opened.callback(joined, asking)
        opened.callback(mute.close)
        with listener.accept()[0] as connecting:
            found = list[str]()
            beside = threading.Thread(target=lambda: found.append(other.capabilities().version))
            beside.start()
            opened.callback(other.close)
            eventually(lambda: found)
            assert is_open(connecting), "the silent one was still waited for, and had not been given up"
            other.close()


def test_all_who_waited_for_a_silent_server_are_told_how_long(tmp_path: Path) -> None:
    with silent() as listener:
        session = settings(listener, tmp_path, 30.0, 7.0).session()
        try:
            told = {error.message for error in errors_of(*[session.capabilities] * 4)}
        finally:
            session.close()
    assert len(told) == 1
    assert next(iter(told)).endswith("did not answer within 7 s.")


@pytest.mark.parametrize("refusal", [RuntimeError("can't start new thread"), MemoryError("no memory")])
@pytest.mark.parametrize("stoppably", [False, True], ids=["plain", "stoppable"])
def test_a_call_that_gets_no_thread_is_an_error_of_ours(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, refusal: Exception, stoppably: bool
) -> None:
    """The system's refusal is injected where a thread is started."""

    def refuse(_: threading.Thread) -> None:
        raise refusal

    with silent() as listener, contextlib.closing(settings(listener, tmp_path, 2.0).session()) as session:
        monkeypatch.setattr(threading.Thread, "start", refuse)
        with (
            stoppable(StopSignal()) if stoppably else contextlib.nullcontext(),
            pytest.raises(StoreUnavailable, match="no thread"),
        ):
            session.capabilities()
