"""The façade over HTTP: requests in, calls carried out in worker threads, answers out. No rule of the work is here.

Each lane of ``methods`` has threads of its own, so a search never waits for index work, nor anything for callers that
sleep. Who calls must hold the token; who asks is told by the request, whose variables are checked by the same code that
checks a process's own.
"""

from __future__ import annotations

import contextlib
import logging
import math
import secrets
import threading
from collections import OrderedDict
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import anyio
import anyio.from_thread
import anyio.lowlevel
import anyio.to_thread
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import Route

from markdown_rag.errors import FastRagError, InputError, ServiceError
from markdown_rag.facade import Facade, Json
from markdown_rag.service import wire
from markdown_rag.service.methods import METHODS, PROGRESS, Lane, takes_progress, unpack

LANE_THREADS = {Lane.QUICK: 8, Lane.WAIT: 128, Lane.SEARCH: 16, Lane.WORK: 16}
AGENTS = 256  # façades kept; an agent whose was dropped gets a new one

log = logging.getLogger(__name__)

Open = Callable[[wire.Agent], Facade]


@dataclass(frozen=True, slots=True)
class Controls:
    """What can be asked of the process itself. about: facts to show; leave: end now; retire: end when unused."""

    about: Callable[[], Json]
    leave: Callable[[], None]
    retire: Callable[[], None]


class Host:
    """Carries out calls. open_facade: the façade of an agent; raises SettingsError for its variables.

    is_ours: whether the state directory is still the one that is served here. Where it is not, a caller is sent to the
    next service, which starts anew: nothing of this one was kept.
    """

    def __init__(self, open_facade: Open, is_ours: Callable[[], bool] = lambda: True) -> None:
        self._open = open_facade
        self._is_ours = is_ours
        self._facades: OrderedDict[str, Facade] = OrderedDict()
        self._lock = threading.Lock()
        self._limiters = {lane: anyio.CapacityLimiter(count) for lane, count in LANE_THREADS.items()}

    def facade(self, agent: wire.Agent) -> Facade:
        """The façade of an agent, kept for its next call."""
        key = repr((agent.folder, sorted(agent.variables.items()), agent.process))
        with self._lock:
            found = self._facades.get(key) or self._open(agent)
            self._facades[key] = found
            self._facades.move_to_end(key)
            while len(self._facades) > AGENTS:
                self._facades.popitem(last=False)
        return found

    def perform(self, name: str, agent: wire.Agent, packed: Json, named: Mapping[str, Any]) -> bytes:
        """Carry out one call; the answer's last line. Faults of ours are raised."""
        if not self._is_ours():
            return wire.line(lost={"sent": False})
        try:
            arguments = unpack(name, packed)
            answer = getattr(self.facade(agent), name)(**arguments, **named)
        except FastRagError as error:
            if not self._is_ours():
                return wire.line(lost={"sent": True})
            return wire.line(error=wire.error_to_json(error))
        return wire.line(answer=answer)

    async def answer(self, name: str, body: bytes) -> Response:
        """The response to one call."""
        if name not in METHODS:
            unknown = InputError(f"There is no method {name}.", "Client and service are of different versions.")
            return Response(wire.line(error=wire.error_to_json(unknown)))
        try:
            agent, packed = wire.read_request(body)
        except FastRagError as error:
            return Response(wire.line(error=wire.error_to_json(error)))
        if takes_progress(name):
            return StreamingResponse(self._stream(name, agent, packed), media_type="application/x-ndjson")
        work = partial(self.perform, name, agent, packed, {})
        limiter = self._limiters[METHODS[name].lane_for(packed)]
        return Response(await anyio.to_thread.run_sync(work, limiter=limiter, abandon_on_cancel=True))

    async def _stream(self, name: str, agent: wire.Agent, packed: Json) -> AsyncIterator[bytes]:
        """Progress as it comes, then the answer."""
        send, receive = anyio.create_memory_object_stream[bytes](math.inf)
        token = anyio.lowlevel.current_token()

        def report(status: Json) -> None:
            # A client that has gone, or a service that is ending, is no reason to end the work with a fault.
            with contextlib.suppress(anyio.BrokenResourceError, anyio.ClosedResourceError, anyio.RunFinishedError):
                anyio.from_thread.run_sync(send.send_nowait, wire.line(progress=status), token=token)

        async def work() -> None:
            async with send:
                call = partial(self.perform, name, agent, packed, {PROGRESS: report})
                limiter = self._limiters[METHODS[name].lane_for(packed)]
                await send.send(await anyio.to_thread.run_sync(call, limiter=limiter))

        async with anyio.create_task_group() as tasks, receive:
            tasks.start_soon(work)
            async for piece in receive:
                yield piece


def application(host: Host, controls: Controls, token: str) -> Starlette:
    """The HTTP application."""
    expected = f"Bearer {token}"

    def allowed(request: Request) -> bool:
        return secrets.compare_digest(request.headers.get("authorization", ""), expected)

    async def call(request: Request) -> Response:
        if not allowed(request):
            return Response(status_code=401)
        return await host.answer(request.path_params["name"], await request.body())

    async def about(request: Request) -> Response:
        if not allowed(request):
            return Response(status_code=401)
        return Response(wire.line(answer=await anyio.to_thread.run_sync(controls.about)))

    async def leave(request: Request) -> Response:
        if not allowed(request):
            return Response(status_code=401)
        (controls.retire if request.query_params.get("when") == "unused" else controls.leave)()
        return Response(wire.line(answer={}))

    async def fault(_request: Request, error: Exception) -> Response:
        name = type(error).__name__
        failed = ServiceError(
            f"The background service failed with {name}.",
            "`markdown-fastrag-mcp service logs` has the details; please report it.",
        )
        return Response(wire.line(error=wire.error_to_json(failed)), 500)

    return Starlette(
        routes=[
            Route("/call/{name}", call, methods=["POST"]),
            Route("/about", about),
            Route("/leave", leave, methods=["POST"]),
        ],
        exception_handlers={Exception: fault},
    )
