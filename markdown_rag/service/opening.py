"""Opens the façade that an agent's settings ask for: a client of the service, or everything in this process."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from pathlib import Path
from typing import cast

from markdown_rag.errors import FastRagError
from markdown_rag.facade import Facade
from markdown_rag.jobs.owner import this_process
from markdown_rag.processes.endpoint import Connection
from markdown_rag.service import launcher
from markdown_rag.service.identity import agent_variables, identify, located, service_environment
from markdown_rag.service.wire import Agent
from markdown_rag.settings import load_settings


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
        threading.Thread(target=_begin, args=(facade,), name="watch", daemon=True).start()
    return facade


def _begin(facade: Facade) -> None:
    """Any call makes the workspace of its agent watched."""
    try:
        facade.status()
    except FastRagError:
        return  # the first call that somebody makes says the same
