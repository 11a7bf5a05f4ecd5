"""Opens the façade that an agent's settings ask for: a client of the service, or everything in this process."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, cast

from markdown_rag.errors import FastRagError, StartError
from markdown_rag.facade import Facade
from markdown_rag.jobs.owner import this_process
from markdown_rag.processes.endpoint import Connection, read_endpoint
from markdown_rag.service import launcher
from markdown_rag.service.identity import agent_variables, identify, located, service_environment
from markdown_rag.service.wire import Agent
from markdown_rag.settings import Settings, load_settings

if TYPE_CHECKING:
    from markdown_rag.service.client import ServiceClient

_LOOK_SECONDS = 1.0  # between looks whether the service that watches is still there


def open_facade(environ: Mapping[str, str], folder: Path) -> Facade:
    """The façade for an agent with these variables, started in this folder.

    Nothing is started or loaded until the first call, unless MARKDOWN_WATCH asks for work without one. Raises
    SettingsError.
    """
    environ = located(environ, folder)
    settings = load_settings(environ)

    def inside() -> Facade:
        # What the parts import is not needed by an agent that has a service.
        from markdown_rag.app import App  # noqa: PLC0415
        from markdown_rag.wiring import Parts  # noqa: PLC0415

        return App(Parts(settings), settings, folder)

    def find() -> Connection:
        return launcher.connect(identify(settings), service_environment(environ, settings))

    if settings.markdown_rag_service == "off":
        facade = inside()
    else:
        from markdown_rag.service.client import ServiceClient  # noqa: PLC0415 - HTTP, which the other way saves

        agent = Agent(folder, agent_variables(environ), this_process())
        client = ServiceClient(agent, find, lambda: launcher.kill(identify(settings)), inside)
        facade = cast("Facade", client)  # by name, checked in the tests: see methods.METHODS
        if settings.markdown_watch == "on":
            _in_background(lambda: _keep_watched(client, settings))
            return facade
    if settings.markdown_watch == "on":
        _in_background(lambda: _begin(facade))
    return facade


def _in_background(work: Callable[[], None]) -> None:
    threading.Thread(target=work, name="watch", daemon=True).start()


def _begin(facade: Facade) -> None:
    """Any call makes the workspace of its agent watched."""
    with contextlib.suppress(FastRagError):  # the first call that somebody makes says the same
        facade.status()


def _keep_watched(client: ServiceClient, settings: Settings) -> None:
    """Watch also through the services that follow one that died. One that was stopped stays away until a call."""
    facade = cast("Facade", client)
    _begin(facade)
    try:
        ours = identify(settings)
    except StartError:
        return  # everything is done in this process
    while not client.closed:
        time.sleep(_LOOK_SECONDS)
        service = client.service
        # Who leaves in order takes its endpoint along: what is there is of one that died, or of the next one.
        if service is not None and not service.alive and read_endpoint(ours.endpoint, ours.kind) is not None:
            _begin(facade)
