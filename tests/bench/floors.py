"""What the parts alone cost, without this package between: raw engine calls through pymilvus, the provider over HTTP.

The libraries are used as they are installed: neither their client nor their engine holds anything of ours here. The
same calls on our engine's process, which is the libraries' with our changes, say what everything above it adds.
"""

from __future__ import annotations

import http.client
import json
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import numpy as np
import psutil
from pymilvus import MilvusClient

from markdown_rag.markdown.chunking import ChunkPolicy, Document
from markdown_rag.markdown.documents import to_document
from markdown_rag.markdown.lexical import analyze
from markdown_rag.store import schema
from markdown_rag.store.launcher import connect_engine

DATA_DIR = "milvus_markdown.db"
INSERT_ROWS = 1000
STOCK = """
import sys
from milvus_lite.adapter.grpc.server import start_server_in_thread

server, database, port = start_server_in_thread(sys.argv[1])
print(port, flush=True)
sys.stdin.read()
server.stop(grace=None).wait()
database.close()
"""
LIMIT = 100  # rows of each raw search: what a search of ours asks for
Row = dict[str, Any]


def chunks_of(folder: Path) -> list[str]:
    """The texts that an index run embeds, each once."""
    texts: dict[str, str] = {}
    for path in sorted(folder.rglob("*.md")):
        document = to_document(path.read_bytes(), path.name, ChunkPolicy())
        if isinstance(document, Document):
            texts |= {chunk.text_hash: chunk.embed_text for chunk in document.chunks}
    return list(texts.values())


def provide(url: str, texts: Sequence[str], dimension: int, items: int = 250, concurrent: int = 4) -> float:
    """Seconds in which the provider embeds the texts: bare requests as large and as many at once as ours."""
    address = urlsplit(url)
    bodies = [
        json.dumps(
            {
                "input": texts[start : start + items],
                "model": "raw",
                "encoding_format": "base64",
                "dimensions": dimension,
            }
        )
        for start in range(0, len(texts), items)
    ]

    def ask(body: str) -> None:
        connection = http.client.HTTPConnection(address.netloc)
        connection.request("POST", f"{address.path}/embeddings", body, {"Content-Type": "application/json"})
        answer = connection.getresponse()
        assert answer.status == 200, answer.status
        answer.read()
        connection.close()

    started = time.perf_counter()
    with ThreadPoolExecutor(concurrent) as pool:
        list(pool.map(ask, bodies))
    return time.perf_counter() - started


class Raw:
    """Raw calls through pymilvus. client: connected to an engine; nothing of this package is between."""

    def __init__(self, uri: str, token: str = "") -> None:
        self.client = MilvusClient(uri=uri, token=token, dedicated=True)

    def collection(self) -> str:
        """The one collection that the server has made."""
        (name,) = (name for name in self.client.list_collections() if name.startswith("markdown_vectors"))
        return str(name)

    def rows(self, collection: str, workspace: str = "") -> list[Row]:
        """Every stored row, with its vector, as it was inserted; only those of one workspace if it is named."""
        wanted = f'workspace == "{workspace}"' if workspace else "ord >= 0"
        names = [field.name for field in schema.FIELDS]
        found = self.client.query(collection, wanted, output_fields=names)
        return [_plain(row) for row in found]

    def workspaces(self, collection: str) -> set[str]:
        """The ids of all workspaces."""
        return {str(row["workspace"]) for row in self.client.query(collection, "ord == 0", output_fields=["workspace"])}

    def remove(self, collection: str, workspace: str) -> None:
        """Delete a workspace's rows by their keys."""
        rows = self.client.query(collection, f'workspace == "{workspace}"', output_fields=["id"])
        for start in range(0, len(rows), INSERT_ROWS):
            self.client.delete(collection, ids=[row["id"] for row in rows[start : start + INSERT_ROWS]])
        self.client.flush(collection)

    def insert_and_flush(self, collection: str, rows: Sequence[Row]) -> float:
        """Seconds to insert all rows in large requests, and to flush."""
        started = time.perf_counter()
        for start in range(0, len(rows), INSERT_ROWS):
            self.client.insert(collection, rows[start : start + INSERT_ROWS])
        self.client.flush(collection)
        return time.perf_counter() - started

    def insert_over(self, collection: str, rows: Sequence[Row], batch: int, seconds: float) -> threading.Thread:
        """A started thread that inserts the rows in even batches over this time, and flushes."""

        def work() -> None:
            started = time.perf_counter()
            for start in range(0, len(rows), batch):
                due = started + seconds * start / len(rows)
                time.sleep(max(0.0, due - time.perf_counter()))
                self.client.insert(collection, rows[start : start + batch])
            self.client.flush(collection)

        thread = threading.Thread(target=work)
        thread.start()
        return thread

    def pair(self, collection: str, vector: np.ndarray, query: str) -> float:
        """Seconds of one dense and one BM25 search, one after the other, each with the fields that a search reads."""
        tokens = analyze(query, query=True)
        started = time.perf_counter()
        self._search(collection, "vector", vector, {"metric_type": "IP"})
        self._search(collection, schema.SPARSE_FIELD, tokens, {"metric_type": "BM25"})
        return time.perf_counter() - started

    def _search(self, collection: str, field: str, query: object, parameters: dict[str, Any]) -> None:
        self.client.search(
            collection,
            [query],
            anns_field=field,
            limit=LIMIT,
            output_fields=list(schema.MATCH_FIELDS),
            search_params=parameters,
        )

    def close(self) -> None:
        """Let go of the engine."""
        self.client.close()


class OurEngine(Raw):
    """The embedded engine's process of a state directory. Keeps it alive until close()."""

    def __init__(self, state: Path) -> None:
        self._engine = connect_engine(state / DATA_DIR, state)
        super().__init__(self._engine.uri, self._engine.token)

    def close(self) -> None:
        """Let go of the engine."""
        super().close()
        self._engine.close()


class StockEngine(Raw):
    """Milvus Lite as it is installed, in a process of its own, over a copy of a state directory's data.

    cpu_s: processor time of that process.
    """

    def __init__(self, state: Path, copy: Path) -> None:
        shutil.copytree(state / DATA_DIR, copy)
        self._process = subprocess.Popen(
            [sys.executable, "-c", STOCK, str(copy)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        assert self._process.stdout
        super().__init__(f"http://127.0.0.1:{self._process.stdout.readline().strip()}")
        self.client.load_collection(self.collection())

    @property
    def cpu_s(self) -> float:
        """Processor time of the engine's process so far, in seconds."""
        return float(sum(psutil.Process(self._process.pid).cpu_times()[:2]))

    def close(self) -> None:
        """End the engine."""
        super().close()
        self._process.communicate()


def renamed(rows: Sequence[Row], mark: str) -> list[Row]:
    """The same rows under other keys and in a workspace of their own."""
    return [{**row, "id": f"{mark}{row['id']}"[:64], "workspace": mark} for row in rows]


def _plain(row: Row) -> Row:
    vector = np.asarray(row["vector"], dtype=np.float32)
    return {**row, "tags": list(row["tags"] or ()), "aliases": list(row["aliases"] or ()), "vector": vector}
