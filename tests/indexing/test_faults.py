"""What went wrong in the tool before this one, and in others: each fault once, as the promise that it cannot happen."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest

from markdown_rag.clock import StopSignal
from markdown_rag.errors import (
    EmbeddingAuthError,
    EmbeddingRefused,
    EmbeddingUnavailable,
    StoreLimitError,
    StoreUnavailable,
)
from markdown_rag.indexing.report import Progress
from markdown_rag.indexing.statcache import Intent
from markdown_rag.paths import Scope
from markdown_rag.store.base import Model, Record, Where, record_id
from markdown_rag.store.memory import MemoryStore

from .conftest import NewBench
from .parts import DIMENSION, Bench, as_nobody
from .reference import ReferenceIndex, stored

INJECTIONS = [
    "' or id >= 0 or path == '.md",
    'a" or 1==1 or "',
    "it's.md",
    "back\\slash.md",
    "tail\\.md",
    "new\nline.md",
    "100%.md",
]


def check(bench: Bench) -> None:
    """The store holds exactly what a plain reading of the disk gives."""
    reference = ReferenceIndex(bench.root, bench.chunking)
    reference.run()
    assert stored(bench.store, bench.workspace.id) == reference.index


@dataclass
class FailingStore(MemoryStore):
    """A store whose writes go wrong: fails(operation, ids) may raise; half True stores a part of an insert first."""

    fails: Callable[[str, Sequence[str]], None] = field(default=lambda _operation, _ids: None)
    half: bool = False

    def __init__(self) -> None:
        super().__init__(Model("test", "hashing", DIMENSION))
        self.fails = lambda _operation, _ids: None

    def insert(self, records: Sequence[Record]) -> None:
        if self.half:
            super().insert(records[: len(records) // 2])
        self.fails("insert", [record.id for record in records])
        super().insert(records)

    def delete(self, ids: Sequence[str]) -> None:
        self.fails("delete", ids)
        super().delete(ids)


@pytest.fixture
def failing(new_bench: NewBench, tmp_path: Path) -> tuple[Bench, FailingStore]:
    store = FailingStore()
    bench = new_bench(tmp_path / "vault", tmp_path / "state", store=store)
    return bench, store


def long_note(word: str) -> str:
    return "# Top\n\n" + "".join(f"## Part {i}\n\n{word} {i} " + "and so on " * 100 + "\n\n" for i in range(6))


def broken(_operation: str, _ids: Sequence[str]) -> None:
    raise StoreUnavailable("The store is away.")


@pytest.mark.parametrize("name", INJECTIONS)
def test_a_file_name_harms_only_itself(bench: Bench, name: str) -> None:
    path = name if name.endswith(".md") else name + ".md"
    bench.note("bystander.md")
    bench.note(path.replace("/", "_"), "first")
    bench.run()
    bench.note(path.replace("/", "_"), "second")
    bench.run()
    check(bench)
    (bench.root / path.replace("/", "_")).unlink()
    bench.run()
    assert list(bench.rows()) == ["bystander.md"]


def test_two_agents_with_states_of_their_own_double_nothing(new_bench: NewBench, bench: Bench, tmp_path: Path) -> None:
    bench.write("a.md", long_note("amber"))
    bench.run()
    other = new_bench(bench.root, tmp_path / "other-state", store=bench.store)
    other.run()
    assert other.embedder.sent == []
    check(bench)
    bench.write("a.md", long_note("birch"))
    other.run()
    bench.run()
    check(bench)


@pytest.mark.parametrize("harm", ["deleted", "truncated", "garbage"])
def test_a_lost_or_damaged_state_costs_a_rescan_and_no_more(bench: Bench, harm: str) -> None:
    bench.write("a.md", long_note("amber"))
    bench.run()
    bench.close()
    for file in bench.state.iterdir():
        if harm == "deleted":
            file.unlink()
        elif file.suffix == ".sqlite3":
            file.write_bytes(file.read_bytes()[:1000] if harm == "truncated" else b"garbage" * 1000)
    bench.open()
    bench.embedder.sent.clear()
    report = bench.run()
    assert (report.unchanged, report.inserted, bench.embedder.sent) == (1, 0, [])
    check(bench)


def test_rows_of_another_workspace_are_never_judged_by_this_disk(
    new_bench: NewBench, bench: Bench, tmp_path: Path
) -> None:
    theirs = new_bench(tmp_path / "theirs", tmp_path / "state2", store=bench.store)
    theirs.note("a.md")
    theirs.run()
    (theirs.root / "a.md").rename(tmp_path / "out of sight.md")
    bench.note("b.md")
    bench.run()
    bench.run(verify=True)
    assert list(theirs.rows()) == ["a.md"]
    (tmp_path / "out of sight.md").rename(theirs.root / "a.md")


def test_a_folder_that_cannot_be_read_keeps_its_rows(
    new_bench: NewBench, tmp_path_factory: pytest.TempPathFactory
) -> None:
    base = tmp_path_factory.mktemp("open")
    bench = new_bench(base / "vault", base / "state")
    bench.note("locked/a.md")
    bench.note("open/b.md")
    bench.note("open/sealed.md", "first")
    bench.run()
    bench.note("open/sealed.md", "second")
    (bench.root / "locked").chmod(0)
    (bench.root / "open/sealed.md").chmod(0)
    scope = bench.scope()
    with as_nobody(base, bench.state, *bench.state.iterdir()):
        report = bench.indexer.run(scope, bench.chunking, bench.scanning, progress=Progress(), stop=StopSignal())
    (bench.root / "locked").chmod(0o755)
    (bench.root / "open/sealed.md").chmod(0o644)
    assert sorted(bench.rows()) == ["locked/a.md", "open/b.md", "open/sealed.md"]
    assert "first" in bench.rows()["open/sealed.md"][0]
    assert bench.kinds(report) == {"locked": "unreadable", "open/sealed.md": "unreadable"}
    assert (report.deleted, report.failed) == (0, 1)
    bench.run()
    check(bench)


def test_an_index_cleared_by_somebody_else_is_repaired_by_the_next_run(
    new_bench: NewBench, bench: Bench, tmp_path: Path
) -> None:
    bench.note("a.md")
    bench.run()
    other = new_bench(bench.root, tmp_path / "state2", store=bench.store)
    other.indexer.clear(bench.workspace.id)
    bench.embedder.sent.clear()
    assert bench.run().new == 1
    assert bench.embedder.sent == []
    check(bench)


def test_a_failed_edit_leaves_the_old_text_and_undoing_it_finds_it(bench: Bench) -> None:
    bench.note("a.md", "first")
    bench.run()
    bench.note("a.md", "second")

    def down(_: Sequence[str]) -> None:
        raise EmbeddingUnavailable("The provider is down.")

    bench.embedder.before = down
    with pytest.raises(EmbeddingUnavailable):
        bench.run()
    assert "first" in bench.rows()["a.md"][0]
    bench.note("a.md", "first")
    assert bench.run().touched == 1
    check(bench)


def test_a_file_edited_while_it_is_embedded_is_indexed_again_in_its_last_form(bench: Bench) -> None:
    bench.note("a.md", "first")

    def edit(_: Sequence[str]) -> None:
        bench.embedder.before = lambda _: None
        bench.note("a.md", "second")

    bench.embedder.before = edit
    bench.run()
    assert "first" in bench.rows()["a.md"][0]
    assert bench.run().modified == 1
    check(bench)


def test_rows_left_by_a_crash_before_the_commit_are_removed_by_the_next_run(
    failing: tuple[Bench, FailingStore],
) -> None:
    bench, store = failing
    bench.write("a.md", long_note("amber"))
    store.half, store.fails = True, broken
    with pytest.raises(StoreUnavailable):
        bench.run()
    assert bench.rows() != {}
    store.half, store.fails = False, lambda _operation, _ids: None
    bench.restart()
    bench.embedder.sent.clear()
    assert bench.run().orphans > 0
    assert bench.embedder.sent == []
    check(bench)


def test_a_crash_between_new_rows_in_and_old_rows_out_doubles_nothing(failing: tuple[Bench, FailingStore]) -> None:
    bench, store = failing
    bench.write("a.md", long_note("amber"))
    bench.run()
    bench.write("a.md", long_note("birch"))

    def no_deletes(operation: str, _ids: Sequence[str]) -> None:
        if operation == "delete":
            raise StoreUnavailable("The store is away.")

    store.fails = no_deletes
    with pytest.raises(StoreUnavailable):
        bench.run()
    assert len(store.catalog()) == 2
    store.fails = lambda _operation, _ids: None
    bench.restart()
    assert bench.run().orphans == 6
    check(bench)


def test_a_removal_that_went_half_way_is_finished(failing: tuple[Bench, FailingStore]) -> None:
    bench, store = failing
    bench.write("a.md", long_note("amber"))
    bench.note("b.md")
    bench.run()
    (bench.root / "a.md").unlink()

    def no_commits(operation: str, ids: Sequence[str]) -> None:
        if operation == "delete" and ids[0].endswith("-000000"):
            raise StoreUnavailable("The store is away.")

    store.fails = no_commits
    with pytest.raises(StoreUnavailable):
        bench.run()
    assert len(bench.rows()["a.md"]) == 1
    store.fails = lambda _operation, _ids: None
    assert bench.run().deleted == 1
    check(bench)


def test_uncommitted_rows_are_found_even_when_the_intents_are_lost(bench: Bench) -> None:
    bench.write("a.md", long_note("amber"))
    bench.run()
    old = 10**18  # written years ago
    rows = [row for row in bench.store.records(Where()) if 1 <= row.ord <= 5]
    bench.store.insert([replace(row, gen=old) for row in rows])
    bench.restart(keep_state=False)
    assert bench.run().orphans == len(rows)
    check(bench)


def test_rows_that_somebody_may_be_writing_are_left_alone(bench: Bench) -> None:
    bench.write("a.md", long_note("amber"))
    bench.run()
    (entry,) = bench.store.catalog()
    rows = [row for row in bench.store.records(Where()) if row.ord == 1]
    bench.store.insert([replace(row, gen=entry.gen + 1) for row in rows])
    bench.restart(keep_state=False)
    bench.run()
    assert len(bench.rows()["a.md"]) == 7


def test_an_intent_whose_commit_was_reached_is_kept(bench: Bench) -> None:
    bench.note("a.md")
    bench.run()
    (entry,) = bench.store.catalog()
    bench.cache.intend(entry.workspace, bench.store.collection, [Intent("a.md", entry.gen, 1)])
    bench.run()
    check(bench)
    assert bench.cache.unfinished(Scope(bench.workspace), bench.store.collection) == []


def test_one_bad_file_stops_nobody(bench: Bench) -> None:
    os.symlink("nowhere.md", bench.root / "dangling.md")
    os.mkfifo(bench.root / "pipe.md")
    (bench.root / "folder.md").mkdir()
    bench.write("binary.md", bytes(range(256)) * 30)
    bench.note("good.md")
    report = bench.run()
    assert list(bench.rows()) == ["good.md"]
    assert bench.kinds(report) == {
        "dangling.md": "link",
        "pipe.md": "not_regular",
        "folder.md": "not_regular",
        "binary.md": "not_text",
    }


def test_a_row_the_store_refuses_fails_its_file_only(failing: tuple[Bench, FailingStore]) -> None:
    bench, store = failing
    bench.note("bad.md", "first")
    bench.run()
    bench.note("bad.md", "second")
    bench.note("good.md")
    bad = record_id(bench.workspace.id, "bad.md", 0, 0).partition("-")[0]

    def limits(operation: str, ids: Sequence[str]) -> None:
        if operation == "insert" and any(id_.startswith(bad) for id_ in ids):
            raise StoreLimitError("The row is too large.")

    store.fails = limits
    report = bench.run()
    assert (report.failed, report.new) == (1, 1)
    assert "first" in bench.rows()["bad.md"][0]
    assert "good.md" in bench.rows()
    store.fails = lambda _operation, _ids: None
    assert bench.run().modified == 1
    check(bench)


@pytest.mark.ends_with("missing")
def test_what_a_store_took_of_a_file_that_it_then_refused_is_gone_when_the_run_ends(
    failing: tuple[Bench, FailingStore],
) -> None:
    bench, store = failing
    bench.write("bad.md", long_note("amber"))

    def limits(operation: str, _ids: Sequence[str]) -> None:
        if operation == "insert":
            raise StoreLimitError("The row is too large.")

    store.half, store.fails = True, limits
    report = bench.run()
    assert (report.failed, report.orphans > 0) == (1, True)
    assert bench.rows() == {}
    store.half, store.fails = False, lambda _operation, _ids: None


def test_what_was_embedded_before_a_failure_is_kept_and_stored_next_time(new_bench: NewBench, tmp_path: Path) -> None:
    bench = new_bench(tmp_path / "vault", tmp_path / "state", batch_chunks=8)
    for i in range(60):
        bench.note(f"{i:02}.md")
    asked = 0

    def fail_late(texts: Sequence[str]) -> None:
        nonlocal asked
        asked += len(texts)
        if asked > 30:
            raise EmbeddingAuthError("The key has expired.")

    bench.embedder.before = fail_late
    with pytest.raises(EmbeddingAuthError):
        bench.run()
    assert len(bench.rows()) >= 8
    bench.embedder.before = lambda _: None
    bench.run()
    assert len(bench.embedder.sent) == len(set(bench.embedder.sent)) == 60
    check(bench)


def test_a_refused_text_fails_its_file_which_keeps_its_old_rows_and_is_tried_again(bench: Bench) -> None:
    bench.note("bad.md", "first")
    bench.run()
    bench.note("bad.md", "forbidden")
    bench.note("good.md")

    def refuse(texts: Sequence[str]) -> None:
        if any("forbidden" in text for text in texts):
            raise EmbeddingRefused("Not this text.")

    bench.embedder.before = refuse
    report = bench.run()
    assert (report.failed, report.new, bench.kinds(report)["bad.md"]) == (1, 1, "refused")
    assert "Not this text." in report.problems[0].reason
    assert "first" in bench.rows()["bad.md"][0]
    bench.embedder.before = lambda _: None
    assert bench.run().modified == 1
    check(bench)


@pytest.mark.parametrize(
    "text", ["The guest wifi password is hunter2zebra.", "# Only a title\n", "\ud55c\uad6d\uc5b4", "x"]
)
def test_a_short_note_is_never_dropped(bench: Bench, text: str) -> None:
    bench.write("a.md", text)
    assert bench.run().inserted == 1


def test_an_edit_with_the_same_size_and_time_is_seen(bench: Bench) -> None:
    target = bench.write("a.md", "The word is amber.\n")
    then = target.stat().st_mtime_ns
    bench.run()
    target.write_text("The word is birch.\n")
    os.utime(target, ns=(then, then))
    assert bench.run().modified == 1
    check(bench)


def test_verify_trusts_no_stat(bench: Bench) -> None:
    bench.note("a.md")
    bench.run()
    (entry,) = bench.store.catalog()
    bench.store.delete([record_id(entry.workspace, "a.md", entry.gen, 0)])
    assert bench.run(verify=True).new == 1
    check(bench)


def test_nothing_outside_the_workspace_is_ever_read(bench: Bench, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "secret.md").write_text("cormorant ledger")
    os.symlink(outside / "secret.md", bench.root / "link.md")
    os.symlink(outside, bench.root / "folder")
    bench.note("a.md")
    bench.run()
    assert list(bench.rows()) == ["a.md"]
    assert not any("cormorant" in text for text in bench.embedder.sent)


def test_a_linked_root_and_a_linked_folder_are_the_same_documents(
    new_bench: NewBench, bench: Bench, tmp_path: Path
) -> None:
    bench.note("folder/a.md")
    bench.run()
    os.symlink(bench.root, tmp_path / "alias")
    os.symlink("folder", bench.root / "short")
    again = new_bench(tmp_path / "alias", tmp_path / "state2", store=bench.store)
    assert again.workspace == bench.workspace
    again.run("short")
    again.run()
    check(bench)
    assert again.embedder.sent == []


def test_a_report_names_some_files_and_counts_all(bench: Bench) -> None:
    for i in range(70):
        bench.note(f"{i:02}.md")
    report = bench.run()
    assert (report.new, report.inserted, len(report.files)) == (70, 70, 50)


def test_names_in_both_unicode_forms_are_two_files_and_stay_so(bench: Bench) -> None:
    bench.note("caf\u00e9.md", "composed")
    bench.note("cafe\u0301.md", "decomposed")
    bench.run()
    assert bench.run().unchanged == 2
    check(bench)


# I3: a reader during a run


def test_no_reader_ever_misses_a_file_or_sees_half_of_one(failing: tuple[Bench, FailingStore]) -> None:
    bench, store = failing
    bench.write("a.md", long_note("amber"))
    bench.run()
    bench.write("a.md", long_note("birch"))
    pictures: list[set[str]] = []

    def look(_operation: str, _ids: Sequence[str]) -> None:
        newest = max(entry.gen for entry in store.catalog())
        rows = [row.text for row in store.rows(bench.everything) if row.gen == newest]
        pictures.append({"amber" if "amber" in text else "birch" for text in rows if "and so on" in text})
        assert len(rows) == 6

    store.fails = look
    bench.run()
    assert pictures[0] == {"amber"}
    assert pictures[-1] == {"birch"}
