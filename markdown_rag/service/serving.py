"""A service from its first socket to its end: HTTP and presence, what it says of itself, how it leaves."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import secrets
import socket
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path

import uvicorn

from markdown_rag import __version__
from markdown_rag.facade import Json
from markdown_rag.processes import sockets
from markdown_rag.processes.endpoint import Endpoint
from markdown_rag.processes.findable import Findable, end_after, still_names
from markdown_rag.processes.presence import Presence
from markdown_rag.service.host import Controls, Host, application
from markdown_rag.service.identity import Identity
from markdown_rag.service.shared import Shared
from markdown_rag.service.siblings import retire_older

CLOSE_SECONDS = 8.0  # then the process ends: whatever still runs is repeated by the next one
GRACE_SECONDS = 2  # for answers under way
KEEP_ALIVE_SECONDS = 75  # longer than clients keep an unused connection

log = logging.getLogger("markdown_rag.service")


class _Server(uvicorn.Server):
    """A server that leaves signals to the process, and tells when it begins to leave."""

    def __init__(self, config: uvicorn.Config, leaving: Callable[[], None]) -> None:
        super().__init__(config)
        self._leaving = leaving

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Nobody is counted any more; then answers under way are finished."""
        self._leaving()
        await super().shutdown(sockets)

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


class Service:
    """One service. environ: its variables, the agents' own left out. life: the open life lock, which it holds."""

    def __init__(self, identity: Identity, environ: Mapping[str, str], life: int, *, loopback: bool = False) -> None:
        """Open the sockets and publish the endpoint. Raises SettingsError, OSError."""
        self._identity = identity
        self._started = time.time()
        self._left = threading.Event()
        self._shared = Shared(environ)
        token = secrets.token_hex(32)
        base = None if loopback else sockets.socket_base(identity.endpoint)
        if base is not None:
            sockets.remove_stale(base)
        self._http, address = sockets.listen(base, "h")
        listener, presence = sockets.listen(base, "p")
        self._paths = [Path(place.partition(":")[2]) for place in (address, presence) if place.startswith("unix:")]
        self._presence = Presence(
            listener,
            token,
            identity.kind,
            self.leave,
            linger=self._shared.settings.markdown_rag_idle_minutes * 60.0,
            may_leave=self._shared.is_unused,
        )
        is_ours = partial(still_names, identity.life_lock, life)
        controls = Controls(self.about, self.leave, self._presence.retire)
        self._server = _Server(
            uvicorn.Config(
                application(Host(self._shared.open, is_ours), controls, token),
                log_config=None,
                access_log=False,
                lifespan="off",
                ws="none",
                timeout_keep_alive=KEEP_ALIVE_SECONDS,
                timeout_graceful_shutdown=GRACE_SECONDS,
            ),
            self._say_goodbye,
        )
        self.endpoint = Endpoint(identity.kind, os.getpid(), address, presence, token)
        self._findable = Findable(identity.endpoint, self.endpoint, is_ours)

    def about(self) -> Json:
        """What it says of itself."""
        return {
            "pid": os.getpid(),
            "version": __version__,
            "started_at": self._started,
            "clients": self._presence.clients,
            "busy": not self._shared.is_unused(),
            "address": self.endpoint.address,
            "log": str(self._identity.log),
        }

    def _stay_findable(self) -> None:
        """End if the state directory itself was taken away, or another one is in its place."""
        if not self._findable.keep(self._left):
            log.warning("the state directory was removed")
            self.leave()

    def leave(self) -> None:
        """Ask it to end, which it does in bounded time; safe in a signal handler and in any thread."""
        self._left.set()
        self._server.should_exit = True
        end_after(CLOSE_SECONDS)  # before anything that a disk without an answer could hold up
        self._findable.withdraw()

    def serve(self) -> None:
        """Serve until the last client has gone or leave was called, then close everything."""
        log.info("serving %s, version %s", self._identity.stem, __version__)
        self._presence.start()
        for work in (self._shared.start_engine, self._begin, self._stay_findable):
            threading.Thread(target=work, name=work.__name__, daemon=True).start()
        asyncio.run(self._server.serve(sockets=[self._http]))
        self._shared.close()
        sockets.remove(self._paths)

    def _say_goodbye(self) -> None:
        log.info("leaving")
        self._presence.stop()

    def _begin(self) -> None:
        retire_older(self._identity)
        self._shared.begin()
