"""Finds the service of an agent's settings, starts it where none runs, ends one that hangs.

A service holds its life lock while it lives. One that holds it and greets nobody for HANG_SECONDS neither starts nor
leaves any more (both take less): it is killed, which costs nothing that is stored, and the next one takes its place.
"""

from __future__ import annotations

import contextlib
import json
import logging
import os
import signal
import time
from collections.abc import Mapping

from markdown_rag.jobs.owner import Owner, Presence, presence
from markdown_rag.processes.endpoint import Connection
from markdown_rag.processes.starting import Program, find_or_start
from markdown_rag.service.identity import Identity

START_SECONDS = 30.0  # hosts give a call 60 s: there must be time left for the call itself
HANG_SECONDS = 12.0

log = logging.getLogger(__name__)


def connect(
    identity: Identity,
    environment: Mapping[str, str],
    *,
    seconds: float = START_SECONDS,
    hang_seconds: float = HANG_SECONDS,
    loopback: bool = False,
) -> Connection:
    """The running service, started if need be.

    environment: what a new one is given besides what every process needs. hang_seconds: how long one may hold its place
    without answering. loopback: serve there even where unix sockets work. Raises StartError for whatever keeps it from
    running.
    """
    held = _Held(identity, hang_seconds)
    program = _program(identity, environment, loopback=loopback)
    return find_or_start(program, time.monotonic() + seconds, held.look)


def _program(identity: Identity, environment: Mapping[str, str], *, loopback: bool) -> Program:
    arguments = ["--folder", str(identity.folder), "--fingerprint", identity.fingerprint, "--version", identity.version]
    arguments += ["--loopback"] if loopback else []
    return Program(
        name="The background service",
        endpoint=identity.endpoint,
        kind=identity.kind,
        lock=identity.start_lock,
        log=identity.log,
        module="markdown_rag.service.process",
        arguments=tuple(arguments),
        folder=identity.folder,
        environment=environment,
    )


def kill(identity: Identity) -> bool:
    """End the process that holds the life lock, whatever it is doing; whether there was one."""
    owner = holder(identity)
    if owner is None or presence(owner, now=True) is not Presence.PRESENT:
        return False
    with contextlib.suppress(ProcessLookupError):
        os.kill(owner.pid, signal.SIGKILL)
    return True


def holder(identity: Identity) -> Owner | None:
    """The process that took the life lock last; it may be gone."""
    try:
        return Owner(**json.loads(identity.life_lock.read_bytes()))
    except (OSError, ValueError, TypeError):
        return None


class _Held:
    """Watches a place that is held and does not answer."""

    def __init__(self, identity: Identity, hang_seconds: float) -> None:
        self._identity = identity
        self._hang_seconds = hang_seconds
        self._since: float | None = None
        self._owner: Owner | None = None

    def look(self) -> None:
        """Called while it does not answer; kills a holder that stayed the same for too long."""
        owner, now = holder(self._identity), time.monotonic()
        if self._since is None or owner != self._owner:
            self._since, self._owner = now, owner
        elif now - self._since > self._hang_seconds and kill(self._identity):
            log.warning("the background service did not answer for %.0f s and was ended", now - self._since)
            self._since = None
