"""The k-th call to the disk, the provider, the store or a state file fails, for every k until none does.

Whatever fails, only typed errors come out, no file is ever missing from what readers see, the next run puts all right,
and no text that was paid for is paid for again.
"""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack
from pathlib import Path

import pytest

from markdown_rag.embeddings import cache as vector_cache
from markdown_rag.errors import FastRagError
from markdown_rag.indexing import statcache
from markdown_rag.indexing.audit import plan_repair
from markdown_rag.indexing.report import Report
from markdown_rag.indexing.statcache import StatCache
from markdown_rag.markdown.chunking import ChunkPolicy
from markdown_rag.store.base import Store
from markdown_rag.store.memory import MemoryStore
from tests.indexing.parts import Bench
from tests.indexing.reference import ReferenceIndex, Rows

from .conftest import MODEL, OpenStore
from .faults import Faults, FaultyDatabase, FaultyEmbedder, FaultyStore, Mode, faulty_disk
from .judge import findings, is_settled

MOST_CALLS = 400  # far more than a run makes; a sweep that gets here does not end
LONG = "# Top\n\n" + "".join(f"## Part {i}\n\npart {i} of {{0}} " + "and so on " * 12 + "\n\n" for i in range(3))


class Vault(Bench):
    """A vault whose parts may fail, each seam with faults of its own."""

    def __init__(self, base: Path, store: Store) -> None:
        self.seams = {name: Faults() for name in ("store", "embedder", "stats", "vectors", "disk")}
        super().__init__(
            base / "vault",
            base / "state",
            store=FaultyStore(store, self.seams["store"]),
            embedder=FaultyEmbedder(self.seams["embedder"]),
            chunking=ChunkPolicy(max_tokens=64, min_tokens=16, min_final=8),
            batch_chunks=4,
        )

    def open(self) -> None:
        super().open()
        self.database.close()
        self.database = FaultyDatabase(self.state / "files.sqlite3", statcache.MIGRATIONS, self.seams["stats"])
        self.cache = StatCache(self.database)
        self.embeddings._cache._database.close()
        self.embeddings._cache._database = FaultyDatabase(
            self.state / "embeddings.sqlite3", [vector_cache._SCHEMA], self.seams["vectors"]
        )
        self.indexer.close()
        self.indexer = type(self.indexer)(self.store, self.embeddings, self.cache, self.clock, self.batch_chunks)

    def begin(self) -> None:
        """What is there before the run that fails."""
        self.write("keep.txt", "so that the root is never empty")
        for name in ("e1", "sub/e2", "e3", "renamed", "kept", "d1", "sub/d2"):
            self.write(f"{name}.md", LONG.format(name))
        self.run()

    def edit(self) -> None:
        """Edit 3, add 2, rename 1, delete 2."""
        for name in ("e1", "sub/e2", "e3"):
            self.write(f"{name}.md", LONG.format(f"{name} edited"))
        self.write("new.md", LONG.format("new"))
        self.note("sub/also new.md")
        (self.root / "renamed.md").rename(self.root / "sub/moved.md")
        (self.root / "d1.md").unlink()
        (self.root / "sub/d2.md").unlink()

    def picture(self) -> dict[str, Rows]:
        """What the disk holds, as rows."""
        reference = ReferenceIndex(self.root, self.chunking)
        reference.run()
        return reference.index

    def as_read(self) -> dict[str, Rows]:
        """What readers see: of every path the rows of its newest committed generation."""
        newest: dict[str, int] = {}
        for entry in self.store.inner.catalog(self.everything):
            newest[entry.path] = max(entry.gen, newest.get(entry.path, 0))
        seen: dict[str, Rows] = {path: [] for path in newest}
        for row in sorted(self.store.inner.rows(self.everything), key=lambda row: row.ord):
            if row.gen == newest.get(row.path):
                seen[row.path].append((row.start_byte, row.end_byte, row.text, row.text_hash))
        return seen


def nothing_is_lost(seen: dict[str, Rows], before: dict[str, Rows], after: dict[str, Rows], *, blind: bool) -> None:
    """Every file is there whole, in its old or its new form; what is gone from the disk may be there still.

    blind: the folder that a file was moved into could not be listed, so all that can be seen is that it is gone.
    """
    for path in before.keys() & after.keys():
        assert seen[path] in (before[path], after[path]), path
    for path in after.keys() - before.keys():
        assert path not in seen or seen[path] == after[path], path
    is_found = seen.get("renamed.md") == before["renamed.md"] or seen.get("sub/moved.md") == after["sub/moved.md"]
    assert is_found or blind
    assert seen.keys() <= before.keys() | after.keys()


def under(vault: Vault, seam: str) -> AbstractContextManager[None]:
    return faulty_disk(vault.root, vault.seams["disk"]) if seam == "disk" else contextlib.nullcontext()


def sweep(open_vault: Callable[[int], Vault], seam: str, mode: Mode, step: int = 1) -> int:
    """Run the scenario with the first call failing, then the next one, and so on; the last that failed."""
    for at in range(1, MOST_CALLS, step):
        vault = open_vault(at)
        vault.begin()
        before = vault.picture()
        vault.edit()
        after = vault.picture()
        faults = vault.seams[seam]
        with under(vault, seam):
            report = Report()
            faults.arm(at, mode)
            with contextlib.suppress(FastRagError):
                report = vault.run()
            failed = faults.disarm()
        nothing_is_lost(vault.as_read(), before, after, blind=vault.kinds(report).get("sub") == "unreadable")
        repairable(vault, after)
        vault.run()
        is_settled(vault)
        if seam != "vectors" and (seam, mode) != ("embedder", Mode.LATE):
            twice = [text for text, times in Counter(vault.embedder.sent).items() if times > 1]
            assert not twice, twice
        if not failed:
            return at - step
    raise AssertionError("the sweep does not end")


def repairable(vault: Vault, after: dict[str, Rows]) -> None:
    """What the doctor finds, its plan of repair mends without removing what a reader needs."""
    plan = plan_repair(findings(vault))
    assert set(plan.reindex) <= after.keys()
    seen = vault.as_read()
    needed = {path for path in seen if path in after}
    removed = {key.path for key in vault.store.inner.keys(vault.everything) if key.id in plan.remove}
    committed = {entry.path for entry in vault.store.inner.catalog(vault.everything) if _id(entry) not in plan.remove}
    assert removed & needed <= committed
    # Nor what stands behind a file that is not to be seen: its folder may be what is missing.
    assert committed == seen.keys()


def _id(entry: object) -> str:
    from markdown_rag.store.base import record_id

    return record_id(entry.workspace, entry.path, entry.gen, 0)


@pytest.fixture
def vaults(tmp_path: Path) -> Iterator[Callable[..., Vault]]:
    with ExitStack() as stack:

        def make(number: int, store: Store | None = None) -> Vault:
            vault = Vault(tmp_path / str(number), store or MemoryStore(MODEL))
            stack.callback(vault.close)
            return vault

        yield make


SEAMS = {"store": 12, "embedder": 2, "stats": 8, "vectors": 6, "disk": 10}  # and how many calls there are at least


@pytest.mark.parametrize(
    ("seam", "mode"),
    [(seam, mode) for seam in SEAMS for mode in Mode if (seam, mode) != ("disk", Mode.LATE)],  # reading has no effect
)
def test_a_fault_anywhere_loses_nothing_and_the_next_run_puts_all_right(
    vaults: Callable[..., Vault], seam: str, mode: Mode
) -> None:
    assert sweep(vaults, seam, mode) >= SEAMS[seam]


def test_a_state_file_that_fails_after_a_file_was_stored_does_not_take_the_file_back(
    vaults: Callable[..., Vault],
) -> None:
    vault = vaults(0)
    vault.write("a.md", LONG.format("first"))
    vault.run()
    for at in range(1, 12):
        vault.write("a.md", LONG.format(f"edit {at}"))
        vault.seams["stats"].arm(at, Mode.ONCE)
        vault.run()
        vault.seams["stats"].disarm()
        assert vault.as_read() == vault.picture()
    is_settled(vault)


def clear_sweep(open_vault: Callable[[int], Vault], mode: Mode) -> int:
    """Clear with the first call to the store failing, then the second, and so on; how many failed."""
    for at in range(1, MOST_CALLS):
        vault = open_vault(at)
        vault.begin()
        vault.seams["store"].arm(at, mode)
        with contextlib.suppress(FastRagError):
            vault.indexer.clear(vault.workspace.id)
        failed = vault.seams["store"].disarm()
        vault.run()
        is_settled(vault)
        if not failed:
            return at - 1
    raise AssertionError("the sweep does not end")


@pytest.mark.parametrize("mode", list(Mode))
def test_a_clearing_that_is_cut_short_leaves_nothing_half(vaults: Callable[..., Vault], mode: Mode) -> None:
    assert clear_sweep(vaults, mode) >= 3


@pytest.mark.slow
@pytest.mark.parametrize("mode", list(Mode))
@pytest.mark.parametrize(
    "another_client", ["embedded", pytest.param("server", marks=pytest.mark.server)], indirect=True
)
def test_a_fault_of_a_real_store_loses_nothing(
    vaults: Callable[..., Vault], another_client: OpenStore, mode: Mode
) -> None:
    step = 1 if another_client().capabilities().embedded else 5  # a server waits 0.2 s for each exact listing
    assert sweep(lambda at: vaults(at, another_client()), "store", mode, step) > SEAMS["store"] - step
