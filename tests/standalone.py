"""A real Milvus Standalone for tests, from the ``milvus`` package (2.3.5: dense search only).

One can run on a machine at a time: a port of the etcd inside cannot be chosen. A second test run waits for the first.
"""

from __future__ import annotations

import fcntl
import importlib
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

ADDRESS_VARIABLE = "MARKDOWN_RAG_TEST_MILVUS"  # the address of a server that runs already
_LOCK = Path(tempfile.gettempdir()) / "markdown-rag-test-milvus.lock"


@contextmanager
def standalone(directory: Path, **settings: object) -> Iterator[str]:
    """The address of a fresh server, which ends with the block. settings: of the package's configuration."""
    if not settings and (running := os.environ.get(ADDRESS_VARIABLE)):
        yield running
        return
    try:
        library = importlib.import_module("milvus")
    except ImportError:
        pytest.skip("the milvus package is not installed (it exists for Linux on x86-64)")
    with _LOCK.open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        server = library.MilvusServer(library.MilvusServerConfig(data_dir=str(directory)))
        for name, value in settings.items():
            server.config.set(name, value)
        try:
            server.start()
            yield f"http://127.0.0.1:{server.listen_port}"
        finally:
            server.stop()
            shutil.rmtree(directory, ignore_errors=True)
