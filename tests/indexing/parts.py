"""The parts that index tests stand on: a small real embedder, a store in memory, an indexer over both."""

from __future__ import annotations

import hashlib
import os
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from markdown_rag.clock import Clock, StopSignal, SystemClock
from markdown_rag.database import Database
from markdown_rag.embeddings.base import Limits, Matrix, ModelCard, Role
from markdown_rag.embeddings.cache import VectorCache
from markdown_rag.embeddings.retry import BatchPolicy
from markdown_rag.embeddings.service import Embeddings
from markdown_rag.indexing import statcache
from markdown_rag.indexing.ignore import ScanPolicy
from markdown_rag.indexing.indexer import Indexer
from markdown_rag.indexing.report import Progress, Report
from markdown_rag.indexing.statcache import StatCache
from markdown_rag.markdown.chunking import ChunkPolicy
from markdown_rag.paths import Scope, Workspace, make_private, workspace_for
from markdown_rag.store.base import Model, Store
from markdown_rag.store.memory import MemoryStore

DIMENSION = 32
NOBODY = 65534


class HashingEmbedder:
    """A bag of hashed words as a unit vector: the smallest model whose neighbours mean something.

    sent: every text of every request. before: called with the texts of a request before it is answered; what it raises
    is the provider's failure.
    """

    def __init__(self) -> None:
        self.card = ModelCard("test", "hashing", DIMENSION)
        self.limits = Limits(0, 0, 0)
        self.sent: list[str] = []
        self.before: Callable[[Sequence[str]], None] = lambda _: None

    def embed(self, texts: Sequence[str], role: Role) -> Matrix:
        self.before(texts)
        if role is Role.DOCUMENT:
            self.sent.extend(texts)
        rows = np.zeros((len(texts), DIMENSION), dtype=np.float32)
        for row, text in zip(rows, texts, strict=True):
            for word in text.lower().split():
                row[hashlib.sha256(word.encode("utf-8", "replace")).digest()[0] % DIMENSION] += 1.0
            row[0] += 0.01
        return rows / np.linalg.norm(rows, axis=1, keepdims=True)

    def close(self) -> None:
        pass


def embeddings_over(embedder: HashingEmbedder, state: Path, clock: Clock) -> Embeddings:
    """A model that is asked once, its vectors kept in a state directory."""
    policy = BatchPolicy(items=64, concurrent=2, attempts=1, patience_s=0.0, first_patience_s=0.0)
    return Embeddings(embedder, policy, VectorCache(state / "embeddings.sqlite3", clock=clock), clock)


@dataclass
class Bench:
    """A vault on disk, an index of it, and everything between. run() indexes; rows() shows what is stored."""

    root: Path
    state: Path
    clock: Clock = field(default_factory=SystemClock)
    store: Store = field(default_factory=lambda: MemoryStore(Model("test", "hashing", DIMENSION)))
    embedder: HashingEmbedder = field(default_factory=HashingEmbedder)
    chunking: ChunkPolicy = field(default_factory=ChunkPolicy)
    scanning: ScanPolicy = field(default_factory=ScanPolicy)
    shared_id: str = ""
    host: str = ""
    batch_chunks: int = 1000

    def __post_init__(self) -> None:
        self.root.mkdir(parents=True, exist_ok=True)
        self.open()

    def open(self) -> None:
        """Open the state, as a process does that starts."""
        make_private(self.state)
        self.database = Database(self.state / "files.sqlite3", statcache.MIGRATIONS)
        self.cache = StatCache(self.database)
        self.embeddings = embeddings_over(self.embedder, self.state, self.clock)
        self.indexer = Indexer(self.store, self.embeddings, self.cache, self.clock, self.batch_chunks)

    def close(self) -> None:
        self.indexer.close()
        self.embeddings.close()
        self.database.close()

    def restart(self, *, keep_state: bool = True) -> None:
        """End this process's parts and start anew, with or without the state directory."""
        self.close()
        if not keep_state:
            for file in self.state.iterdir():
                file.unlink()
        self.open()

    @property
    def workspace(self) -> Workspace:
        return workspace_for(self.root, self.shared_id, host=self.host)

    def scope(self, path: str = "", *, recursive: bool = True) -> Scope:
        return Scope(self.workspace, path, recursive)

    def run(
        self,
        path: str = "",
        *,
        recursive: bool = True,
        progress: Progress | None = None,
        stop: StopSignal | None = None,
        **how: bool,
    ) -> Report:
        return self.indexer.run(
            self.scope(path, recursive=recursive),
            self.chunking,
            self.scanning,
            progress=progress or Progress(),
            stop=stop or StopSignal(),
            **how,
        )

    def write(self, path: str, text: str | bytes = "", *, age: float = 100.0) -> Path:
        """Write a file of the vault; age: how many seconds ago it was last changed."""
        target = self.root / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(text if isinstance(text, bytes) else text.encode())
        then = time.time() - age
        os.utime(target, (then, then))
        return target

    def note(self, path: str, words: str = "") -> Path:
        """Write a short note with words of its own."""
        return self.write(path, f"# Note\n\nThe words of {path} are {words or path}.\n")

    def rows(self) -> dict[str, list[str]]:
        """Path to the texts of all its stored rows, whatever their generation, in order of position."""
        found: dict[str, list[tuple[int, str]]] = {}
        for match in self.store.rows(self.everything):
            found.setdefault(match.path, []).append((match.ord, match.text))
        return {path: [text for _, text in sorted(rows)] for path, rows in sorted(found.items())}

    @property
    def everything(self):
        from markdown_rag.store.base import Where

        return Where(workspaces=(self.workspace.id,))

    def kinds(self, report: Report) -> dict[str, str]:
        """Path to kind of every problem in a report."""
        return {problem.path: problem.kind.value for problem in report.problems}


@contextmanager
def as_nobody(*needed: Path) -> Iterator[None]:
    """Do something without root's right to read everything; needed, and all above it, can be passed through."""
    if os.geteuid() != 0:
        yield
        return
    above = {folder for path in needed for folder in path.parents if str(folder) != folder.anchor}
    modes = {path: path.stat().st_mode for path in above | set(needed)}
    for path, mode in modes.items():
        path.chmod(mode | (0o055 if path in above else 0o077))
    os.seteuid(NOBODY)
    try:
        yield
    finally:
        os.seteuid(0)
        for path, mode in modes.items():
            path.chmod(mode)
