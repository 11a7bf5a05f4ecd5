"""What all agents of a service share: one set of parts, opened once, and a façade over it for each agent."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Mapping
from pathlib import Path

from markdown_rag.app import App
from markdown_rag.errors import FastRagError
from markdown_rag.facade import SearchCall
from markdown_rag.paths import names_server
from markdown_rag.service.identity import AGENT_VARIABLES
from markdown_rag.service.wire import Agent
from markdown_rag.settings import load_settings
from markdown_rag.store.launcher import EngineConnection, connect_engine
from markdown_rag.wiring import Parts

WARMING_QUERY = "markdown"

log = logging.getLogger(__name__)


class Shared:
    """The parts, and who uses them. environ: the process-wide variables. Raises SettingsError for a bad one."""

    def __init__(self, environ: Mapping[str, str]) -> None:
        self._environ = {name: value for name, value in environ.items() if name not in AGENT_VARIABLES}
        self.settings = load_settings(self._environ)
        self._parts = Parts(self.settings, heir=True)
        self._engine: EngineConnection | None = None

    def open(self, agent: Agent) -> App:
        """The façade of one agent. Raises SettingsError, in the words that the agent's own process would use."""
        own = {name: value for name, value in agent.variables.items() if name in AGENT_VARIABLES}
        settings = load_settings({**self._environ, **own})
        return App(self._parts, settings, agent.folder, f"process {agent.process.pid} in {agent.folder}", agent.process)

    def start_engine(self) -> None:
        """Start the embedded engine while this process still loads what asks it; it stays as long as the service."""
        address = self.settings.store_address
        if names_server(address) or not Path(address).is_dir():
            return  # a server, or nothing is indexed yet
        with contextlib.suppress(FastRagError):  # the first call that needs it says the same
            self._engine = connect_engine(Path(address), self.settings.state_directory)

    def begin(self) -> None:
        """Take over jobs that a service before left, and load model, store and postings before somebody waits."""
        with contextlib.suppress(FastRagError):  # the first call that needs it says the same
            self._parts.queue.status()
            if not self._parts.workspaces.all():
                return  # nothing is indexed yet: an agent that never asks shall not cost a model and an engine
            nobody = App(self._parts, self.settings, self.settings.state_directory)
            nobody.search(SearchCall(WARMING_QUERY, workspace="all"))

    def is_unused(self) -> bool:
        """Whether no job of this process is queued or running."""
        queue = self._parts.queue
        try:
            return all(job.owner != queue.owner for job in queue.active())
        except FastRagError:
            return True  # the ledger cannot be read, so nobody can wait for a job of ours

    def close(self) -> None:
        """Stop the jobs, which the next service goes on with, and let go of everything."""
        self._parts.close()
        if self._engine is not None:
            self._engine.close()
