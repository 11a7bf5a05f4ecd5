"""Finds the engine of a data directory, or starts it: one a directory, however many look at once.

The library's own lock on the data decides in the end: an engine that cannot get it leaves, and its launcher goes on
looking for the one that has it.
"""

from __future__ import annotations

import os
import time
from dataclasses import dataclass
from pathlib import Path

from markdown_rag.errors import StartError, StoreFormatError, StoreUnavailable
from markdown_rag.paths import make_private, missing_state
from markdown_rag.processes.endpoint import Connection, find
from markdown_rag.processes.starting import START_SECONDS, Program, find_or_start
from markdown_rag.store.disk import disk_failure
from markdown_rag.store.endpoint import ENDPOINT_FILE, KIND
from markdown_rag.store.given import OF_INDEX, Given

_LOCK_FILE = "engine.lock"
_LOG_FILE = "engine.log"

_ENVIRONMENT = {
    "PYTHON_DOTENV_DISABLED": "1",  # pymilvus reads a .env beside the installation otherwise
    "GRPC_VERBOSITY": "NONE",
    # One search is one pass over memory: more threads gain nothing, and wait for each other on a busy machine.
    **dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1"),
}


@dataclass(frozen=True, slots=True)
class EngineConnection:
    """A living engine that stays as long as this is open. uri and token are for a Milvus client."""

    connection: Connection

    @property
    def uri(self) -> str:
        """Its address."""
        address = self.connection.endpoint.address
        return address if address.startswith("unix:") else f"http://{address}"

    @property
    def token(self) -> str:
        """What it wants to see."""
        return self.connection.endpoint.token

    @property
    def pid(self) -> int:
        """Its process id."""
        return self.connection.endpoint.pid

    def close(self) -> None:
        """Let go of the engine. Safe to call twice."""
        self.connection.close()


def connect_engine(
    data_dir: Path,
    log_dir: Path | None = None,
    *,
    seconds: float = START_SECONDS,
    loopback: bool = False,
    given: Given = OF_INDEX,
) -> EngineConnection:
    """The engine of the directory, started if it does not run.

    data_dir: made if missing. log_dir: where engine.log is written, which must be there (default: beside data_dir).
    loopback: start it on the loopback interface even where unix sockets work. given: what messages call the settings.
    Raises StoreFormatError for an old single-file database and StoreUnavailable for everything else that keeps an
    engine from answering within seconds.
    """
    deadline = time.monotonic() + seconds
    found = find(data_dir / ENDPOINT_FILE, KIND)
    while found is None:
        log_dir = log_dir or data_dir.parent
        _prepare(data_dir, log_dir, given)
        try:
            found = find_or_start(_program(data_dir, log_dir, given, loopback=loopback), deadline)
        except StartError as error:
            if data_dir.exists() or time.monotonic() > deadline:  # else it was removed between two steps
                words = StoreUnavailable(error.message, error.next_step)
                raise disk_failure(error.message, str(data_dir), given) or words from error
    return EngineConnection(found)


def _program(data_dir: Path, log_dir: Path, given: Given, *, loopback: bool) -> Program:
    return Program(
        name=f"The embedded engine of {data_dir}",
        endpoint=data_dir / ENDPOINT_FILE,
        kind=KIND,
        lock=data_dir / _LOCK_FILE,
        log=log_dir / _LOG_FILE,
        module="markdown_rag.store.daemon",
        arguments=(str(data_dir), *(["--loopback"] if loopback else [])),
        folder=data_dir,
        environment=_ENVIRONMENT,
        held=f"The index in {data_dir} is in use by another program.",
        way_out=f"End the program that holds it open, or set {given.address} to another place.",
    )


def _prepare(data_dir: Path, log_dir: Path, given: Given) -> None:
    if data_dir.is_file():
        raise StoreFormatError(
            f"{data_dir} is a single-file database of an older Milvus Lite, which cannot be read any more.",
            f"Move it away (the index is made anew from your files) or set {given.address} to another place.",
        )
    if not log_dir.is_dir():
        raise StoreUnavailable(*missing_state(log_dir))
    try:
        make_private(data_dir)
    except OSError as error:
        raise _unwritable(data_dir, error, given) from error
    if not os.access(data_dir, os.W_OK | os.X_OK):
        raise _unwritable(data_dir, PermissionError("permission denied"), given)


def _unwritable(data_dir: Path, error: OSError, given: Given) -> StoreUnavailable:
    return disk_failure(str(error), str(data_dir), given) or StoreUnavailable(
        f"The index directory {data_dir} cannot be written: {error.strerror or error}.",
        f"Give your user write access to it, or set {given.moves} to another place.",
    )
