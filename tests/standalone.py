"""A real Milvus Standalone for tests, from the ``milvus`` package (2.3.5: dense search only).

One can run on a machine at a time: a port of the etcd inside cannot be chosen. A second test run waits for the first.
"""

from __future__ import annotations

import fcntl
import gc
import importlib
import shutil
import tempfile
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

ADDRESS_VARIABLE = "MARKDOWN_RAG_TEST_MILVUS"  # the address of a server that runs already
_LOCK = Path(tempfile.gettempdir()) / "markdown-rag-test-milvus.lock"


class Standalone:
    """One server over one directory, which can be stopped and started again at the same address."""

    def __init__(self, directory: Path, **settings: object) -> None:
        try:
            library = importlib.import_module("milvus")
        except ImportError:
            pytest.skip("the milvus package is not installed (it exists for Linux on x86-64)")
        self._server = library.MilvusServer(library.MilvusServerConfig(data_dir=str(directory)))
        for name, value in settings.items():
            self._server.config.set(name, value)

    @property
    def port(self) -> int:
        return int(self._server.listen_port)

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def start(self) -> None:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ResourceWarning)  # it leaves the sockets that it tried ports with to chance
            self._server.start()
            gc.collect()
        self._server.config.resolve = lambda: None  # from now on with the ports that were found

    def stop(self) -> None:
        self._server.stop()


@contextmanager
def standalone(directory: Path, **settings: object) -> Iterator[Standalone]:
    """A fresh server, which ends with the block. settings: of the package's configuration."""
    with _LOCK.open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        server = Standalone(directory, **settings)
        try:
            server.start()
            yield server
        finally:
            server.stop()
            shutil.rmtree(directory, ignore_errors=True)
