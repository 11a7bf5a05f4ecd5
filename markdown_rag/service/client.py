"""The façade as a client of the service: calls go out over its socket, typed answers and errors come back.

A service that died or left is started again and the call repeated; what must not be done twice carries an id, or is
told instead. While this client is open, the service stays.
"""

from __future__ import annotations

import json
import logging
import threading
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Any

import httpx2

from markdown_rag.amounts import amount
from markdown_rag.errors import FastRagError, ServiceError, StartError
from markdown_rag.facade import Facade, Json
from markdown_rag.processes.endpoint import Connection
from markdown_rag.service import wire
from markdown_rag.service.methods import METHODS, Method, pack
from markdown_rag.service.siblings import ANSWER_SECONDS, about, http_client

CLOSE_SECONDS = 0.3  # how long closing waits for somebody who looks for a service
ATTEMPTS = 4  # of one call: each found a service that ended before it answered

log = logging.getLogger(__name__)


class _Lost(Exception):
    """The service ended, or was gone, before the answer was complete. sent: it may have done what was asked."""

    def __init__(self, *, sent: bool) -> None:
        super().__init__()
        self.sent = sent


class _Link:
    """One running service: the presence that keeps it, and HTTP."""

    def __init__(self, connection: Connection) -> None:
        self.connection = connection
        self.http = http_client(connection.endpoint)

    def close(self) -> None:
        self.http.close()
        self.connection.close()


class ServiceClient:
    """Speaks the façade by name (``facade.Facade``): every method of ``METHODS``, ``health`` and ``close``.

    find: the running service, started if need be; StartError where that cannot be. heal: ends one that hangs.
    inside: opens the façade in this process, for when no service can be started. Thread-safe.
    """

    def __init__(
        self,
        agent: wire.Agent,
        find: Callable[[], Connection],
        heal: Callable[[], object],
        inside: Callable[[], Facade],
    ) -> None:
        self._agent = agent
        self._find = find
        self._heal = heal
        self._inside = inside
        self._lock = threading.Lock()  # guards what follows; held while a service is looked for
        self._link: _Link | None = None
        self._local: Facade | None = None
        self._reason = ""
        self._closed = False

    def __getattr__(self, name: str) -> Callable[..., Json]:
        if name not in METHODS:
            raise AttributeError(name)
        return partial(self._call, name)

    @property
    def closed(self) -> bool:
        """Whether nobody wants it any more."""
        return self._closed

    @property
    def service(self) -> Connection | None:
        """The service that was found last; it may be gone. None where everything is done in this process."""
        link = self._link
        return None if link is None else link.connection

    def health(self) -> Json:
        """What the installation is made of, the service included."""
        answer = self._call("health")
        service = {"name": "service", "ok": True, "detail": self._told_of_the_service()}
        return {**answer, "checks": [*answer["checks"], service]}

    def _told_of_the_service(self) -> str:
        with self._lock:
            reason, link = self._reason, self._link
        if reason:
            return f"none, everything runs in this process: {reason}"
        try:
            known = None if link is None else about(link.connection.endpoint)
        except ServiceError:
            known = None
        if known is None:
            return "ended after it was asked; the next call starts another one"
        clients = amount(known["clients"], "client")
        return f"process {known['pid']}, version {known['version']}, {clients}, log {known['log']}"

    def close(self) -> None:
        """Let go of the service; its jobs go on. Safe to call twice."""
        self._closed = True
        if not self._lock.acquire(timeout=CLOSE_SECONDS):
            return  # a service is being started: who waits for it lets go of it
        try:
            self._let_go()
        finally:
            self._lock.release()

    def _call(self, name: str, *arguments: Any, **named: Any) -> Json:
        packed, on_progress = pack(name, arguments, named)
        body = wire.request(self._agent, packed)
        for _ in range(ATTEMPTS):
            found = self._found()
            if not isinstance(found, _Link):
                answer: Json = getattr(found, name)(*arguments, **named)
                return answer
            try:
                return self._ask(found, name, body, on_progress)
            except _Lost as lost:
                self._drop(found)
                if lost.sent and METHODS[name].once(packed):
                    raise ServiceError(
                        "The background service ended while it was asked, and may have done it or not.",
                        "Look with get_index_status, then ask again.",
                    ) from lost
        raise ServiceError(
            f"The background service ended {ATTEMPTS} times before it answered.",
            "`markdown-fastrag-mcp service logs` has the details.",
        )

    def _found(self) -> _Link | Facade:
        """The service; the façade of this process where none can be started. It may be closed any moment."""
        with self._lock:
            found = self._link or self._local
            if found is None and not self._closed:
                found = self._open()
            if found is None or self._closed:
                self._let_go()
                raise ServiceError("This client is closed.")
            return found

    def _open(self) -> _Link | Facade:
        try:
            self._link = _Link(self._find())
        except StartError as error:
            self._reason = str(error)
            log.warning("working without a background service: %s", error)
            self._local = self._inside()
            return self._local
        return self._link

    def _let_go(self) -> None:
        """Close what was open; called with the lock held."""
        for part in (self._link, self._local):
            if part is not None:
                part.close()
        self._link = self._local = None

    def _drop(self, link: _Link) -> None:
        with self._lock:
            if self._link is link:
                self._link = None
        link.close()

    def _ask(self, link: _Link, name: str, body: bytes, on_progress: Callable[[Json], None] | None) -> Json:
        """One attempt. Raises the façade's own errors, ServiceError, and _Lost."""
        if not link.connection.alive:
            raise _Lost(sent=False)
        method = METHODS[name]
        timeout = httpx2.Timeout(method.seconds, connect=ANSWER_SECONDS)
        try:
            with link.http.stream("POST", f"/call/{name}", content=body, timeout=timeout) as response:
                return _outcome(response.iter_lines(), on_progress)
        except (httpx2.ConnectError, httpx2.ConnectTimeout, httpx2.PoolTimeout) as error:
            raise _Lost(sent=False) from error
        except httpx2.TimeoutException as error:
            raise self._late(link, name, method) from error
        except (httpx2.TransportError, RuntimeError) as error:  # RuntimeError: closed by another thread's _drop
            raise _Lost(sent=True) from error

    def _late(self, link: _Link, name: str, method: Method) -> Exception:
        """What a missing answer means: a service that hangs is ended, one that works is left to it."""
        try:
            about(link.connection.endpoint)
        except ServiceError:
            log.warning("the background service hangs and is ended")
            self._heal()
            return _Lost(sent=True)
        return ServiceError(
            f"The background service took more than {method.seconds:.0f} s for {name}.",
            "It goes on in the background; ask again in a moment.",
        )


def _outcome(lines: Iterable[str], on_progress: Callable[[Json], None] | None) -> Json:
    """The answer in a response's lines, progress told on the way. Raises the error in them, or _Lost."""
    for text in lines:
        try:
            found: Mapping[str, Any] = json.loads(text)
        except ValueError as error:
            raise _Lost(sent=True) from error
        if "lost" in found:
            raise _Lost(sent=found["lost"]["sent"])
        if "progress" in found:
            if on_progress is not None:
                on_progress(found["progress"])
        elif "error" in found:
            raise _typed(found["error"])
        else:
            answer: Json = found["answer"]
            return answer
    raise _Lost(sent=True)


def _typed(error: Mapping[str, Any]) -> FastRagError:
    return wire.error_from_json(error)
