"""Random histories of a vault: after every run the store equals the plain model, and a second run does nothing."""

from __future__ import annotations

import os
import shutil
import tempfile
from pathlib import Path

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from markdown_rag.markdown.chunking import ChunkPolicy
from tests.doctor import findings

from .parts import Bench
from .reference import ReferenceIndex, stored

FOLDERS = ["", "x/", "x/y/", "a_b/", "aXb/", "build/"]
PATHS = st.builds(
    lambda folder, name: folder + name, st.sampled_from(FOLDERS), st.sampled_from(["n.md", "it's.md", "N.MD"])
)
TEXTS = st.sampled_from(
    [
        "amber",
        "birch",
        "# One\n\ncobalt\n\n## Two\n\n" + "damson " * 600,
        "",
        "---\ntitle: T\ntags: [t]\n---\nebony",
        "fawn\r\n",
    ]
)
SCOPES = st.sampled_from(["", "x", "x/y", "a_b", "x/n.md", "gone"])


class Histories(RuleBasedStateMachine):
    """A vault, its index, and the model."""

    @initialize()
    def begin(self) -> None:
        self.base = Path(tempfile.mkdtemp(prefix="histories-"))
        self.bench = Bench(self.base / "vault", self.base / "state", batch_chunks=3)
        self.bench.write("keep.txt", "so that the root is never empty")
        self.model = ReferenceIndex(self.bench.root, self.bench.chunking)

    @rule(path=PATHS, text=TEXTS)
    def write(self, path: str, text: str) -> None:
        self.bench.write(path, text)

    @rule(path=PATHS)
    def same_size_and_time(self, path: str) -> None:
        target = self.bench.root / path
        if target.is_file() and not target.is_symlink() and target.stat().st_size:
            then, data = target.stat().st_mtime_ns, target.read_bytes()
            target.write_bytes(bytes([data[0] ^ 1]) + data[1:])
            os.utime(target, ns=(then, then))

    @rule(path=PATHS)
    def touch(self, path: str) -> None:
        if (self.bench.root / path).is_file():
            os.utime(self.bench.root / path)

    @rule(path=PATHS, to=PATHS)
    def rename(self, path: str, to: str) -> None:
        if (self.bench.root / path).is_file():
            (self.bench.root / to).parent.mkdir(parents=True, exist_ok=True)
            (self.bench.root / path).rename(self.bench.root / to)

    @rule(path=PATHS)
    def delete(self, path: str) -> None:
        (self.bench.root / path).unlink(missing_ok=True)

    @rule(path=PATHS)
    def become_a_link(self, path: str) -> None:
        target = self.bench.root / path
        if target.is_file():
            target.unlink()
            target.symlink_to(self.bench.root / "keep.txt")

    @rule()
    def delete_a_folder(self) -> None:
        shutil.rmtree(self.bench.root / "x", ignore_errors=True)

    @rule(tokens=st.sampled_from([120, 400]))
    def change_chunk_settings(self, tokens: int) -> None:
        self.bench.chunking = self.model.policy = ChunkPolicy(max_tokens=tokens)

    @rule(keep_state=st.booleans())
    def restart(self, keep_state: bool) -> None:
        self.bench.restart(keep_state=keep_state)

    @rule(scope=SCOPES, force=st.booleans())
    def index(self, scope: str, force: bool) -> None:
        self.bench.run(scope, force=force)
        self.model.run(scope)
        sent, written = len(self.bench.embedder.sent), self.bench.store.change_count()
        again = self.bench.run(scope)
        assert (again.new, again.modified, again.deleted, again.orphans) == (0, 0, 0, 0)
        assert (len(self.bench.embedder.sent), self.bench.store.change_count()) == (sent, written)

    @invariant()
    def store_equals_model(self) -> None:
        if hasattr(self, "bench"):
            assert stored(self.bench.store, self.bench.workspace.id) == self.model.index

    def teardown(self) -> None:
        if hasattr(self, "bench"):
            self.bench.run()
            assert findings(self.bench) == []
            self.bench.close()
            shutil.rmtree(self.base)


Histories.TestCase.settings = settings(max_examples=15, stateful_step_count=15, deadline=None)
TestHistories = Histories.TestCase
