"""What a client does when its service dies in the middle of a call, hangs, or cannot be started."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from pathlib import Path
from typing import cast

import anyio
import pytest
from starlette.responses import StreamingResponse

from markdown_rag.errors import ServiceError, SettingsError, StartError
from markdown_rag.facade import Facade, IndexCall, Json, SearchCall, Unusable
from markdown_rag.jobs.owner import this_process
from markdown_rag.processes.endpoint import Connection, Endpoint
from markdown_rag.service import wire
from markdown_rag.service.client import ATTEMPTS, ServiceClient
from markdown_rag.service.host import Host
from tests.waiting import SECONDS, joined


class Scripted:
    """A listener that answers each HTTP connection with the next of its answers; None: it hangs up instead."""

    def __init__(self, *answers: bytes | None) -> None:
        self.requests: list[bytes] = []
        self._answers = list(answers)
        self._closed = threading.Event()
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._pairs: list[socket.socket] = []
        self._thread = threading.Thread(target=self._serve)
        self._thread.start()

    def find(self) -> Connection:
        here = f"tcp:127.0.0.1:{self._listener.getsockname()[1]}"
        ours, theirs = socket.socketpair()
        self._pairs += [ours, theirs]
        return Connection(Endpoint("kind", 0, here, here, "token"), ours)

    def _serve(self) -> None:
        for answer in self._answers:
            connection = self._accept()
            if connection is None:
                return
            with closing(connection):
                self.requests.append(_read_request(connection))
                if answer is not None:
                    head = b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: %d\r\n\r\n" % len(answer)
                    connection.sendall(head + answer)

    def _accept(self) -> socket.socket | None:
        """The next connection, None once there will be no more: closing a listener wakes nobody."""
        self._listener.settimeout(0.05)
        while not self._closed.is_set():
            with suppress(TimeoutError):
                connection, _ = self._listener.accept()
                connection.settimeout(SECONDS)
                return connection
        return None

    def close(self) -> None:
        self._closed.set()
        joined(self._thread, seconds=2 * SECONDS)
        self._listener.close()
        for end in self._pairs:
            end.close()


def _read_request(connection: socket.socket) -> bytes:
    heard = b""
    while b"\r\n\r\n" not in heard:
        heard += _part(connection)
    head, _, body = heard.partition(b"\r\n\r\n")
    lengths = [int(h.split(b":")[1]) for h in head.split(b"\r\n") if h.lower().startswith(b"content-length")]
    length = sum(lengths)
    while len(body) < length:
        body += _part(connection)
    return body


def _part(connection: socket.socket) -> bytes:
    part = connection.recv(65_536)
    assert part, "it hung up in the middle of its request"
    return part


def client_of(service: Scripted) -> Facade:
    agent = wire.Agent(Path("/here"), {}, this_process())
    client = ServiceClient(agent, service.find, lambda: None, lambda: Unusable(SettingsError("unused")))
    return cast("Facade", client)


@pytest.fixture
def scripted() -> Iterator[list[Scripted]]:
    made: list[Scripted] = []
    yield made
    for service in made:
        service.close()


def test_a_call_whose_answer_was_lost_is_repeated_word_for_word(scripted: list[Scripted]) -> None:
    scripted.append(Scripted(None, None, wire.line(answer={"job_id": "1"})))
    client = client_of(scripted[0])
    assert client.index(IndexCall(root="/x")) == {"job_id": "1"}
    assert len(set(scripted[0].requests)) == 1, "with one request id"
    client.close()


def test_half_an_answer_is_no_answer(scripted: list[Scripted]) -> None:
    whole = wire.line(answer={"hits": []})
    scripted.append(Scripted(whole[:-4], b"", whole))
    client = client_of(scripted[0])
    assert client.search(SearchCall("x")) == {"hits": []}
    client.close()


def test_a_cancel_that_names_no_job_is_not_repeated(scripted: list[Scripted]) -> None:
    scripted.append(Scripted(None))
    client = client_of(scripted[0])
    with pytest.raises(ServiceError, match="may have done it or not"):
        client.cancel()
    client.close()


def test_a_cancel_that_names_its_job_is(scripted: list[Scripted]) -> None:
    scripted.append(Scripted(None, wire.line(answer={"cancelled": True})))
    client = client_of(scripted[0])
    assert client.cancel("1234abcd") == {"cancelled": True}
    client.close()


def test_a_service_that_keeps_dying_is_an_error_in_words(scripted: list[Scripted]) -> None:
    scripted.append(Scripted(*[None] * ATTEMPTS))
    client = client_of(scripted[0])
    with pytest.raises(ServiceError, match=f"ended {ATTEMPTS} times"):
        client.search(SearchCall("x"))
    client.close()


def test_progress_comes_before_the_answer(scripted: list[Scripted]) -> None:
    told: list[Json] = []
    lines = wire.line(progress={"n": 1}) + wire.line(progress={"n": 2}) + wire.line(answer={"n": 3})
    scripted.append(Scripted(lines))
    client = client_of(scripted[0])
    assert client.status("", 1.0, told.append) == {"n": 3}
    assert told == [{"n": 1}, {"n": 2}]
    client.close()


def test_a_migration_goes_on_to_its_end_when_its_client_goes() -> None:
    gone, ended = threading.Event(), list[bool]()

    class Migrating(Unusable):
        def migrate(self, address: str, on_progress: Callable[[Json], None] | None = None) -> Json:
            assert on_progress
            on_progress({"address": address})
            gone.wait()
            for step in range(100):  # each one passes through the loop, which closes the stream meanwhile
                on_progress({"step": step})
            ended.append(True)
            return {}

    async def ask(body: bytes) -> None:
        host = Host(lambda _: cast("Facade", Migrating(SettingsError("unused"))))
        response = await host.answer("migrate", body)
        with anyio.CancelScope() as client:
            async for _ in cast("StreamingResponse", response).body_iterator:
                client.cancel()
                gone.set()

    agent = wire.Agent(Path("/here"), {}, this_process())
    anyio.run(ask, wire.request(agent, {"address": "x"}))
    assert ended


def test_where_no_process_may_be_started_the_calls_are_answered_inside_and_that_is_kept() -> None:
    """The fault is injected where a service is found: a machine that forbids new processes answers just so."""
    looked, opened = [], []

    def find() -> Connection:
        looked.append(1)
        raise StartError("The background service could not be started: not permitted.")

    class Inside(Unusable):
        def __init__(self) -> None:
            super().__init__(SettingsError("unused"))
            opened.append(self)

        def search(self, call: SearchCall) -> Json:
            return {"hits": [], "query": call.query}

        def health(self) -> Json:
            return {"ok": True, "checks": []}

    client = ServiceClient(wire.Agent(Path("/here"), {}, this_process()), find, lambda: None, Inside)
    assert client.search(SearchCall("x")) == {"hits": [], "query": "x"}
    assert client.search(SearchCall("y")) == {"hits": [], "query": "y"}
    assert (len(looked), len(opened)) == (1, 1)
    assert "not permitted" in client.health()["checks"][0]["detail"]
    client.close()


def test_a_call_inside_is_answered_though_the_client_is_closed_meanwhile() -> None:
    def find() -> Connection:
        raise StartError("The background service could not be started: not permitted.")

    class Inside(Unusable):
        def search(self, call: SearchCall) -> Json:
            return {"query": call.query}

        def close(self) -> None:
            pass

    class ClosedByAnother(ServiceClient):
        def _found(self):  # type: ignore[no-untyped-def]
            found = super()._found()
            self.close()
            return found

    agent = wire.Agent(Path("/here"), {}, this_process())
    client = ClosedByAnother(agent, find, lambda: None, lambda: cast("Facade", Inside(SettingsError("unused"))))
    assert client.search(SearchCall("x")) == {"query": "x"}
    with pytest.raises(ServiceError, match="closed"):
        client.search(SearchCall("y"))


def test_health_is_told_though_the_service_ends_between_two_questions(scripted: list[Scripted]) -> None:
    scripted.append(Scripted(wire.line(answer={"ok": True, "checks": []}), None))
    client = client_of(scripted[0])
    (service,) = client.health()["checks"]
    assert "ended" in service["detail"]
    client.close()


def test_closing_does_not_wait_for_a_service_that_is_being_started(scripted: list[Scripted]) -> None:
    scripted.append(Scripted())
    looking, found = threading.Event(), threading.Event()
    links: list[Connection] = []

    def find() -> Connection:
        looking.set()
        assert found.wait(SECONDS)
        links.append(scripted[0].find())
        return links[0]

    client = ServiceClient(
        wire.Agent(Path("/here"), {}, this_process()), find, lambda: None, lambda: Unusable(SettingsError("unused"))
    )
    refused: list[ServiceError] = []

    def ask() -> None:
        try:
            client.status()
        except ServiceError as error:
            refused.append(error)

    caller = threading.Thread(target=ask)
    caller.start()
    assert looking.wait(SECONDS)
    client.close()
    assert caller.is_alive(), "closed while the service was still being started"
    found.set()
    joined(caller)
    assert "closed" in str(refused[0])
    assert not links[0].alive, "nobody holds the service that was found too late"


def test_the_client_has_the_facades_methods_and_no_others() -> None:
    client = ServiceClient(
        wire.Agent(Path("/here"), {}, this_process()), Scripted.find, lambda: None, lambda: Unusable(SettingsError("x"))
    )  # type: ignore[arg-type]
    for name in vars(Facade):
        if not name.startswith("_"):
            assert callable(getattr(client, name))
    with pytest.raises(AttributeError):
        client.forget_everything  # noqa: B018
