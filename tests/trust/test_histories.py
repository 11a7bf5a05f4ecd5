"""Random histories of two vaults on one store: after every step the store equals the model, a second run is idle."""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule, run_state_machine_as_test

from markdown_rag.errors import FastRagError, WorkspaceError
from markdown_rag.indexing.ignore import ScanPolicy
from markdown_rag.markdown.chunking import ChunkPolicy
from markdown_rag.store.base import Store, Where
from markdown_rag.store.memory import MemoryStore
from tests.doctor import findings
from tests.indexing.parts import Bench
from tests.indexing.reference import ReferenceIndex, stored

from .conftest import MODEL, OpenStore
from .faults import Faults, FaultyEmbedder, FaultyStore, Mode, faulty_disk

FOLDERS = ["", "x/", "x/y/", "a_b/", "aXb/"]
PATHS = st.builds(
    lambda folder, name: folder + name, st.sampled_from(FOLDERS), st.sampled_from(["n.md", "it's.md", "N.MD", "é.md"])
)
TEXTS = st.sampled_from(
    [
        "amber",
        "birch\r\nand more\r\n",
        "# One\n\ncobalt\n\n## Two\n\n" + "damson " * 300,
        "",
        "---\ntitle: T\ntags: [t]\n---\nebony",
        "\ufefffawn \x00 garnet",
    ]
)
SCOPES = st.sampled_from(["", "x", "x/y", "a_b", "x/n.md", "gone"])
WHICH = st.integers(0, 1)


class Histories(RuleBasedStateMachine):
    """Two vaults with a state directory each, the store they share, and a model of each."""

    make_store: Callable[[], Store] = staticmethod(lambda: MemoryStore(MODEL))

    @initialize()
    def begin(self) -> None:
        self.base = Path(tempfile.mkdtemp(prefix="histories-"))
        self.faults = Faults()
        self.embedder_faults = Faults()
        store = FaultyStore(type(self).make_store(), self.faults)
        self.benches = [
            Bench(
                self.base / name / "vault",
                self.base / name / "state",
                store=store,
                embedder=FaultyEmbedder(self.embedder_faults),
                chunking=ChunkPolicy(max_tokens=120, min_tokens=30, min_final=15),
                batch_chunks=3,
            )
            for name in ("one", "two")
        ]
        for bench in self.benches:
            bench.write("keep.txt", "so that the root is never empty")
        self.models = [ReferenceIndex(bench.root, bench.chunking) for bench in self.benches]

    @rule(which=WHICH, path=PATHS, text=TEXTS)
    def write(self, which: int, path: str, text: str) -> None:
        self.benches[which].write(path, text)

    @rule(which=WHICH, path=PATHS)
    def append(self, which: int, path: str) -> None:
        target = self.benches[which].root / path
        if target.is_file() and not target.is_symlink():
            with target.open("a") as file:
                file.write("\n\n## More\n\nhazel\n")

    @rule(which=WHICH, path=PATHS)
    def same_size_and_time(self, which: int, path: str) -> None:
        target = self.benches[which].root / path
        if target.is_file() and not target.is_symlink() and target.stat().st_size:
            then, data = target.stat().st_mtime_ns, target.read_bytes()
            target.write_bytes(bytes([data[0] ^ 1]) + data[1:])
            os.utime(target, ns=(then, then))

    @rule(which=WHICH, path=PATHS)
    def touch(self, which: int, path: str) -> None:
        if (self.benches[which].root / path).is_file():
            os.utime(self.benches[which].root / path)

    @rule(which=WHICH, path=PATHS, to=PATHS)
    def rename(self, which: int, path: str, to: str) -> None:
        root = self.benches[which].root
        if (root / path).is_file():
            (root / to).parent.mkdir(parents=True, exist_ok=True)
            (root / path).rename(root / to)

    @rule(which=WHICH, to=st.sampled_from(["z", "a_b/x"]))
    def rename_a_folder(self, which: int, to: str) -> None:
        root = self.benches[which].root
        if (root / "x").is_dir() and not (root / to).exists():
            (root / to).parent.mkdir(parents=True, exist_ok=True)
            (root / "x").rename(root / to)

    @rule(which=WHICH, path=PATHS)
    def delete(self, which: int, path: str) -> None:
        (self.benches[which].root / path).unlink(missing_ok=True)

    @rule(which=WHICH, path=PATHS)
    def become_a_link(self, which: int, path: str) -> None:
        target = self.benches[which].root / path
        if target.is_file():
            target.unlink()
            target.symlink_to(self.benches[which].root / "keep.txt")

    @rule(which=WHICH, tokens=st.sampled_from([80, 120]))
    def change_chunk_settings(self, which: int, tokens: int) -> None:
        policy = ChunkPolicy(max_tokens=tokens, min_tokens=20, min_final=10)
        self.benches[which].chunking = self.models[which].policy = policy

    @rule(which=WHICH, names=st.sampled_from([(), ("y",), ("aXb", "x")]))
    def change_exclusions(self, which: int, names: tuple[str, ...]) -> None:
        self.benches[which].scanning = ScanPolicy(exclude_dirs=names)
        self.models[which].left_out = frozenset(names)

    @rule(which=WHICH, keep_state=st.booleans())
    def restart(self, which: int, keep_state: bool) -> None:
        self.benches[which].restart(keep_state=keep_state)

    @rule(which=WHICH, scope=SCOPES, force=st.booleans(), verify=st.booleans())
    def index(self, which: int, scope: str, force: bool, verify: bool) -> None:
        self.benches[which].run(scope, force=force, verify=verify)
        self.models[which].run(scope)
        self.is_idle(which, scope)

    @rule(which=WHICH)
    def unmount(self, which: int) -> None:
        bench = self.benches[which]
        workspace, away = bench.workspace, bench.root.with_name("away")
        bench.root.rename(away)
        with pytest.raises(WorkspaceError):
            bench.indexer.run(bench.scope(), bench.chunking, bench.scanning, progress=_progress(), stop=_stop())
        away.rename(bench.root)
        assert bench.workspace == workspace

    @rule(which=WHICH, folder=st.sampled_from(["x", "a_b"]))
    def index_while_a_folder_cannot_be_read(self, which: int, folder: str) -> None:
        bench, faults = self.benches[which], Faults()
        if not (bench.root / folder).is_dir():
            return
        before = {path: rows for path, rows in self.models[which].index.items() if path.startswith(f"{folder}/")}
        with faulty_disk(bench.root / folder, faults):
            faults.arm(1, Mode.FOR_EVER)
            bench.run()
            faults.disarm()
        model = self.models[which]
        model.run()
        model.index = {path: rows for path, rows in model.index.items() if not path.startswith(f"{folder}/")} | before

    @rule(which=WHICH, at=st.integers(1, 14), mode=st.sampled_from(list(Mode)), provider=st.booleans())
    def fail_and_index_again(self, which: int, at: int, mode: Mode, provider: bool) -> None:
        faults = self.embedder_faults if provider else self.faults
        faults.arm(at, mode)
        with contextlib.suppress(FastRagError):
            self.benches[which].run()
        faults.disarm()
        self.index(which, "", force=False, verify=False)

    @rule(which=WHICH)
    def clear(self, which: int) -> None:
        bench = self.benches[which]
        bench.indexer.clear(bench.workspace.id)
        self.models[which].index = {}

    @rule(which=WHICH)
    def search(self, which: int) -> None:
        bench = self.benches[which]
        vector = bench.embedder.embed(["amber birch"], "query")[0]
        where = Where(workspaces=(bench.workspace.id,))
        found = {(match.path, match.ord) for match in bench.store.dense(vector, 1000, where)}
        rows = {(path, number) for path, rows in self.models[which].index.items() for number in range(len(rows))}
        assert found == rows

    def is_idle(self, which: int, scope: str) -> None:
        """A second run is a fixed point: nothing embedded, written or removed."""
        bench = self.benches[which]
        sent, written = len(bench.embedder.sent), bench.store.change_count()
        again = bench.run(scope)
        assert (again.new, again.modified, again.deleted, again.orphans) == (0, 0, 0, 0)
        assert (len(bench.embedder.sent), bench.store.change_count()) == (sent, written)

    @invariant()
    def store_equals_model(self) -> None:
        for bench, model in zip(getattr(self, "benches", ()), getattr(self, "models", ()), strict=True):
            assert stored(bench.store, bench.workspace.id) == model.index

    def teardown(self) -> None:
        for bench in getattr(self, "benches", ()):
            bench.run()
            assert findings(bench) == []
            bench.indexer.clear(bench.workspace.id)
            bench.close()
        if hasattr(self, "base"):
            shutil.rmtree(self.base)


def _progress() -> object:
    from markdown_rag.indexing.report import Progress

    return Progress()


def _stop() -> object:
    from markdown_rag.clock import StopSignal

    return StopSignal()


def histories(count: int, steps: int) -> settings:
    slow = list(HealthCheck)
    return settings(max_examples=count, stateful_step_count=steps, deadline=None, suppress_health_check=slow)


def test_whatever_happens_to_two_vaults_the_store_equals_the_model() -> None:
    run_state_machine_as_test(Histories, settings=histories(12, 12))


@pytest.mark.slow
def test_long_histories_of_two_vaults_leave_the_store_equal_to_the_model() -> None:
    run_state_machine_as_test(
        Histories, settings=histories(int(os.environ.get("MARKDOWN_RAG_TEST_HISTORIES", "60")), 40)
    )


@pytest.mark.slow
@pytest.mark.parametrize("another_client", ["embedded"], indirect=True)
def test_histories_on_the_embedded_engine_leave_the_store_equal_to_the_model(another_client: OpenStore) -> None:
    store = another_client()
    store.ensure()

    class OnTheEngine(Histories):
        make_store = staticmethod(lambda: store)

    run_state_machine_as_test(OnTheEngine, settings=histories(12, 20))
