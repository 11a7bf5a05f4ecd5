"""A session with a Milvus server or the embedded engine: connecting, calling, and what its exceptions mean.

``pymilvus`` is imported here on first use. Every attempt at a call has a time limit, and so has the wait for a
connection, which is made once for all who wait for it. A call whose connection was lost is repeated on a new one (a
killed engine is started again by it, a server that starts or restarts is waited for), a few times or as long as wait_s
says: everything the store sends can be repeated without harm, since rows are written and deleted by ids that never
change their meaning. No MilvusException and no error of gRPC leaves this module.
"""

from __future__ import annotations

import importlib
import logging
import os
import threading
import time
from collections.abc import Callable, Mapping
from concurrent.futures import Future, wait
from dataclasses import dataclass, field
from typing import Any, TypeVar

from markdown_rag.clock import current_stop
from markdown_rag.errors import StoreAuthError, StoreUnavailable
from markdown_rag.processes.garbage import keep_what_is_loaded
from markdown_rag.processes.starting import START_SECONDS
from markdown_rag.store import columns
from markdown_rag.store.base import Capabilities
from markdown_rag.store.capabilities import capabilities_of
from markdown_rag.store.failures import Failure, Kind, Symptoms, diagnose, illegal_address, speaks_tls
from markdown_rag.store.launcher import EngineConnection, connect_engine
from markdown_rag.store.sockets import checked_ca_file, wants_tls
from markdown_rag.store.symptoms import says_closed, symptoms_of
from markdown_rag.store.target import Target
from markdown_rag.store.together import start_thread

T = TypeVar("T")
_PAUSES = (0.0, 0.3, 1.0)  # before each repetition of a call whose connection was lost; then the last one again
_CONNECT_S = 5.0  # the least that a connection to a server may take
_TICK_S = 0.2  # how late a stop is seen
_VERDICT_S = 1.0  # beyond its limit a connection is waited for, so that the library can say why it failed
_IMPORTING = threading.Lock()
_imported: list[Any] = []


def library() -> Any:
    """pymilvus, imported once, quiet, and without reading a .env file or MILVUS_URI."""
    with _IMPORTING:
        if _imported:
            return _imported[0]
        os.environ["PYTHON_DOTENV_DISABLED"] = "1"
        os.environ.setdefault("GRPC_VERBOSITY", "NONE")  # set before grpc loads
        kept = {name: os.environ.pop(name, None) for name in ("MILVUS_URI", "MILVUS_DEFAULT_CONNECTION")}
        try:
            import pymilvus  # noqa: PLC0415 - 0.5 s and 130 MB
            from pymilvus.client import connection_manager, entity_helper, grpc_handler, types  # noqa: PLC0415
        finally:
            os.environ.update({name: value for name, value in kept.items() if value is not None})
        # Looks at every character of every text (0.1 ms a row), never at its length: rows.py does, in bytes.
        entity_helper.CHECK_STR_ARRAY = False
        columns.put_into(grpc_handler, entity_helper, types.ExtraList)
        # The only one connects, and closes, all clients of a process one after another: a silent server stops them all.
        manager = connection_manager.ConnectionManager
        manager.get_instance = classmethod(lambda cls: cls())
        for name in ("pymilvus", "grpc"):
            logging.getLogger(name).setLevel(logging.CRITICAL + 1)
        _imported.append(pymilvus)
        keep_what_is_loaded()
        return pymilvus


@dataclass(slots=True, eq=False)
class _Connection:
    """A client, made once for all who wait for it. seconds: how long the library may take. engine: the embedded one."""

    seconds: float
    made: Future[Any] = field(default_factory=Future)
    engine: EngineConnection | None = None


class Session:
    """A connection that is made on first use and renewed when it is lost. Thread-safe.

    seconds: limit of an ordinary call; loading and flushing get ten times as much. wait_s: how long a server that does
    not answer is waited for; who comes while it is known to be away waits no more than a moment.
    """

    def __init__(self, target: Target, seconds: float, wait_s: float = 0.0) -> None:
        self.target = target
        self.seconds = seconds
        self._wait_s = 0.0 if target.data_dir is not None else wait_s  # a lost engine is started again instead
        self._away = False
        self._closing = threading.Event()
        self._lock = threading.Lock()  # guards the connection; never held while one is made
        self._connection: _Connection | None = None  # being made, or made; one that could not be made is not kept
        self._capabilities: Capabilities | None = None
        self._generation = 0

    def capabilities(self) -> Capabilities:
        """What the server can do; connects on first use."""
        if self._capabilities is None:
            version = self.call(lambda client, seconds: client.get_server_version(timeout=seconds))
            self._capabilities = capabilities_of(str(version))
        return self._capabilities

    def call(self, operation: Callable[[Any, float], T], *, patient: bool = False) -> T:
        """The result of operation(client, seconds). Raises StoreError; use attempt to tell failures apart."""
        result = self.attempt(operation, patient=patient)
        if isinstance(result, Failure):
            raise result.error
        return result

    def attempt(self, operation: Callable[[Any, float], T], *, patient: bool = False) -> T | Failure:
        """The result of operation(client, seconds), or why it failed for good."""
        seconds, begun = self.seconds * (10 if patient else 1), time.monotonic()
        patience = begun + (0.0 if self._away else self._wait_s)
        pauses = iter(_PAUSES)
        while True:
            generation = self._generation
            outcome = self._stoppable_once(operation, seconds)
            lost = isinstance(outcome, Failure) and outcome.kind is Kind.LOST
            pause = next(pauses, _PAUSES[-1] if time.monotonic() < patience else None)
            if isinstance(outcome, Failure) and outcome.unreached and self.target.data_dir is None:
                lost, pause = True, pause if time.monotonic() < max(patience, begun + sum(_PAUSES)) else None
            if not isinstance(outcome, Failure) or not self._worth_repeating(outcome) or pause is None:
                self._away = lost
                return outcome
            self._pause(pause)
            self._renew(generation)

    def _stoppable_once(self, operation: Callable[[Any, float], T], seconds: float) -> T | Failure:
        """The call in a thread of its own where its work may be stopped: then it is left to itself.

        It may still take effect, as one whose answer was lost.
        """
        stop = current_stop()
        if stop is None:
            return self._once(operation, seconds)
        called: Future[T | Failure] = Future()

        def call() -> None:
            try:
                called.set_result(self._once(operation, seconds))
            except BaseException as error:  # noqa: BLE001 - handed over to who waits
                called.set_exception(error)

        start_thread(call, "store-call")
        while not wait([called], timeout=_TICK_S).done:
            stop.check()
        return called.result()

    def _pause(self, seconds: float) -> None:
        """Wait, unless the store is closed or the work is stopped meanwhile. Raises Cancelled."""
        stop, end = current_stop(), time.monotonic() + seconds
        while not self._closing.wait(max(0.0, min(_TICK_S, end - time.monotonic()))) and time.monotonic() < end:
            if stop is not None:
                stop.check()

    def _worth_repeating(self, failure: Failure) -> bool:
        if self._closing.is_set():
            return False
        stale_token = self.target.data_dir is not None and isinstance(failure.error, StoreAuthError)
        return failure.kind is Kind.LOST or stale_token

    def _once(self, operation: Callable[[Any, float], T], seconds: float) -> T | Failure:
        pymilvus = library()
        grpc = importlib.import_module("grpc")
        remote = self.target.data_dir is None
        connection, client = self._joined(pymilvus), None
        try:
            if not self._is_decided(connection):
                return self._diagnosed(Symptoms("", 0, "DEADLINE_EXCEEDED", connecting=remote), self._limit)
            client = connection.made.result()
            return operation(client, seconds)
        except (pymilvus.MilvusException, grpc.RpcError) as error:
            seen = symptoms_of(error, pymilvus, connecting=client is None and remote)
            failure = self._diagnosed(seen, connection.seconds if seen.connecting else seconds)
            if (
                failure.kind is Kind.LOST
                and self.target.address.startswith("http://")
                and wants_tls(self.target.address)
            ):
                failure = Failure(Kind.FINAL, speaks_tls(self.target.shown, self.target.given))
            failure.error.__cause__ = error
            return failure
        except ValueError as error:  # grpc's word for a channel that another thread has just closed
            if not says_closed(error):
                raise
            return self._diagnosed(Symptoms(str(error), 0, "UNAVAILABLE"), seconds)

    def _diagnosed(self, seen: Symptoms, seconds: float) -> Failure:
        return diagnose(seen, self.target.shown, seconds, self.target.given)

    def _joined(self, pymilvus: Any) -> _Connection:
        """The connection. Who comes while it is made shares its outcome."""
        with self._lock:
            self._require_open()
            if self._connection is None:
                made = _Connection(self._connect_seconds())
                # With the lock held, so that nothing is over before it is known to have begun.
                start_thread(lambda: self._connect(pymilvus, made), "store-connect")
                self._connection = made
            return self._connection

    def _is_decided(self, connection: _Connection) -> bool:
        """Wait for a connection, no longer than the limit of one; whether it was made or refused by then."""
        end = time.monotonic() + self._limit + _VERDICT_S
        while not wait([connection.made], timeout=_TICK_S).done:
            self._require_open()
            if time.monotonic() > end:
                return False
        return True

    @property
    def _limit(self) -> float:
        """How long who asks waits for a connection."""
        return self.seconds + (0.0 if self.target.data_dir is None else START_SECONDS)

    def _require_open(self) -> None:
        if self._closing.is_set():
            raise StoreUnavailable("The store is closed.", "Ask again when the server is back.")

    def _connect(self, pymilvus: Any, connection: _Connection) -> None:
        """Make it, in a thread of its own, for all who wait; let go of it if the store was closed since."""
        client, engine = None, None
        try:
            access, engine = self._access()
            client = self._client_of(pymilvus, access, connection.seconds)
            with self._lock:
                self._require_open()
                connection.engine = engine
                connection.made.set_result(client)
        except BaseException as error:  # noqa: BLE001 - handed over to who waits
            with self._lock:
                self._connection = None
            connection.made.set_exception(error)
            _close(client, engine)

    def _client_of(self, pymilvus: Any, access: dict[str, str], seconds: float) -> Any:
        try:
            client = pymilvus.MilvusClient(**access, timeout=seconds, dedicated=True)
        except ValueError as error:  # the library's word for an address that it does not understand
            if says_closed(error):
                raise
            raise illegal_address(self.target.shown, self.target.given) from error
        connection = client._get_connection()  # noqa: SLF001
        # Tells gRPC the names of all calls: the first of a name on a channel just closed would end the process.
        type(connection._stub)(connection._channel)  # noqa: SLF001
        return client

    def _connect_seconds(self) -> float:
        """How long a connection may take: one that stays silent is waited for like one that is away."""
        if self.target.data_dir is not None:
            return self.seconds
        return min(self.seconds, max(_CONNECT_S, 0.0 if self._away else self._wait_s))

    def _access(self) -> tuple[dict[str, str], EngineConnection | None]:
        """Where the client connects, and as whom; the embedded engine that answers there."""
        target = self.target
        if target.data_dir is not None:
            engine = connect_engine(target.data_dir, target.log_dir, given=target.given)
            return {"uri": engine.uri, "token": engine.token}, engine
        given = {"uri": target.address, "token": target.token, "db_name": target.database}
        if target.ca_file and target.address.lower().startswith("https://"):
            # The library's word for whom to trust; its ca_pem_path is for clients that have certificates too.
            given["server_pem_path"] = checked_ca_file(target.ca_file, target.given)
        return given, None

    def _renew(self, generation: int) -> None:
        """Drop the connection unless another thread has replaced it since."""
        with self._lock:
            if generation == self._generation:
                self._generation += 1
                self._drop()

    def _drop(self) -> None:
        """Let go of the connection, unless it is still being made; the caller holds the lock."""
        connection = self._connection
        if connection is not None and connection.made.done():
            self._connection = None
            _close(connection.made.result(), connection.engine)

    def close(self) -> None:
        """Let go of the connection and the engine. Safe to call twice. One that is being made is let go of then."""
        self._closing.set()
        with self._lock:
            self._drop()

    def describe(self, name: str) -> Mapping[str, Any]:
        """What a server knows of a collection, its properties as a mapping."""
        found: dict[str, Any] = self.call(lambda client, seconds: client.describe_collection(name, timeout=seconds))
        properties = found.get("properties")
        return {**found, "properties": properties if isinstance(properties, Mapping) else {}}


def _close(client: Any, engine: EngineConnection | None) -> None:
    if client is not None:
        client.close()
    if engine is not None:
        engine.close()
