"""The running services of a state directory, as a person at a shell sees them: status, stop, logs."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from markdown_rag import __version__
from markdown_rag.errors import FastRagError, ServiceError
from markdown_rag.jobs.owner import Presence, presence
from markdown_rag.processes.endpoint import find
from markdown_rag.service import siblings
from markdown_rag.service.identity import Identity
from markdown_rag.service.launcher import holder, kill
from markdown_rag.settings import Settings

log = logging.getLogger(__name__)

STOP_SECONDS = 12.0  # more than a service takes to close; then it is killed
KILL_SECONDS = 5.0
LOG_LINES = 200
_LOOK_SECONDS = 0.05


def services(settings: Settings) -> Iterator[Identity]:
    """Every service of the state directory that ever took its life lock there, whatever its version and settings."""
    for path in sorted((settings.state_directory / "service").glob("*.life")):
        fingerprint, _, version = path.stem.partition("-")
        yield Identity(path.parent, fingerprint, version or __version__)


def status(settings: Settings) -> list[dict[str, Any]]:
    """What each living service says of itself; ``answers`` is false for one that lives and does not answer."""
    shown = []
    for identity in services(settings):
        owner = holder(identity)
        if owner is None or presence(owner) is not Presence.PRESENT:
            continue
        facts: dict[str, Any] = {"pid": owner.pid, "version": identity.version, "log": str(identity.log)}
        connection = find(identity.endpoint, identity.kind)
        if connection is not None:
            try:
                facts |= siblings.about(connection.endpoint)
                facts["clients"] -= 1  # us
            except ServiceError:
                log.warning("process %d greets and does not answer", owner.pid)
            finally:
                connection.close()
        shown.append({"answers": "clients" in facts, **facts})
    return shown


def stop(settings: Settings) -> int:
    """End every service of the state directory, and wait until they are gone; how many there were.

    Their jobs are kept, and go on when a service is started again. ServiceError for one that outlives being killed, or
    of which it cannot be told whether it has ended.
    """
    living = [
        (identity, owner)
        for identity in services(settings)
        if (owner := holder(identity)) is not None and presence(owner) is Presence.PRESENT
    ]
    for identity, _ in living:
        connection = find(identity.endpoint, identity.kind)
        if connection is None:
            kill(identity)
            continue
        try:
            siblings.leave(connection.endpoint)
        except FastRagError:
            kill(identity)
        finally:
            connection.close()
    deadline = time.monotonic() + STOP_SECONDS
    for identity, owner in living:
        while (seen := presence(owner)) is not Presence.GONE:
            if time.monotonic() > deadline + KILL_SECONDS:
                raise _outlived(owner.pid, seen)
            if time.monotonic() > deadline:
                kill(identity)
            time.sleep(_LOOK_SECONDS)
    return len(living)


def _outlived(pid: int, seen: Presence) -> ServiceError:
    if seen is Presence.UNKNOWN:
        return ServiceError(
            f"It cannot be told whether process {pid} has ended: ps does not answer for it.",
            "Look at it with ps, and stop again later.",
        )
    return ServiceError(
        f"Process {pid} was killed and is still there.",
        "It may wait for a disk that does not answer; look at it with ps, and stop again later.",
    )


def logs(settings: Settings) -> str:
    """The last lines of each service's log."""
    found = sorted((settings.state_directory / "service").glob("*.log"))
    return "\n".join(f"== {path}\n{_tail(path)}" for path in found) or "No service has run here."


def _tail(path: Path) -> str:
    return "\n".join(path.read_text(encoding="utf-8", errors="replace").splitlines()[-LOG_LINES:])
