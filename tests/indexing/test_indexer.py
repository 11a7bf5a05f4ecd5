"""What an index run does, seen from the store."""

from __future__ import annotations

import os
import shutil
import sys
import threading
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from markdown_rag.clock import ManualClock, StopSignal
from markdown_rag.errors import Cancelled, GuardError, WorkspaceError
from markdown_rag.indexing.ignore import ScanPolicy
from markdown_rag.indexing.indexer import Indexer
from markdown_rag.indexing.report import Phase, Progress
from markdown_rag.indexing.survey import survey
from markdown_rag.markdown.chunking import ChunkPolicy
from markdown_rag.store.base import Where
from tests.waiting import eventually, joined

from .conftest import NewBench
from .parts import Bench
from .reference import ReferenceIndex, stored


def check(bench: Bench) -> None:
    """The store holds exactly what a plain reading of the disk gives."""
    reference = ReferenceIndex(bench.root, bench.chunking)
    reference.run()
    assert stored(bench.store, bench.workspace.id) == reference.index


def sections(count: int, changed: int = -1) -> str:
    words = " ".join(f"word{i % 7}" for i in range(200))
    return "# Top\n\n" + "".join(
        f"## Part {i}\n\n{'new' if i == changed else 'old'} {i} {words}\n\n" for i in range(count)
    )


def test_an_indexer_changes_nothing_of_the_process_that_makes_it(bench: Bench) -> None:
    before = sys.getswitchinterval()
    sys.setswitchinterval(0.004)
    try:
        Indexer(bench.store, bench.embeddings, bench.cache, bench.clock).close()
        assert sys.getswitchinterval() == pytest.approx(0.004)
    finally:
        sys.setswitchinterval(before)


def test_new_files_are_stored_and_counted(bench: Bench) -> None:
    bench.note("a.md", "amber")
    bench.note("deep/b.md", "basket")
    report = bench.run()
    assert (report.new, report.inserted, report.embedded, report.files) == (2, 2, 2, ["a.md", "deep/b.md"])
    check(bench)


def test_a_second_run_embeds_nothing_and_writes_nothing(bench: Bench) -> None:
    bench.note("a.md")
    bench.write("empty.md", "")
    bench.run()
    before = bench.store.change_count()
    bench.embedder.sent.clear()
    report = bench.run()
    assert bench.embedder.sent == []
    assert bench.store.change_count() == before
    assert (report.unchanged, report.new, report.modified, report.inserted) == (2, 0, 0, 0)


def test_files_proven_unchanged_are_not_read(new_bench: NewBench, tmp_path: Path) -> None:
    bench = new_bench(
        tmp_path / "vault", tmp_path / "state", clock=ManualClock(start=4_000_000_000.0)
    )  # long after all edits
    bench.note("a.md")
    bench.write("empty.md", "")
    bench.run()
    found = survey(
        bench.scope(), bench.scanning, bench.chunking.fingerprint, StopSignal(), store=bench.store, cache=bench.cache
    )
    assert found.delta.work == ()
    assert found.delta.unchanged == ("a.md",)
    assert bench.kinds(bench.run()) == {"empty.md": "empty"}


def test_an_edit_replaces_the_file_and_embeds_only_what_changed(bench: Bench) -> None:
    bench.write("a.md", sections(10))
    bench.note("b.md")
    bench.run()
    bench.embedder.sent.clear()
    bench.write("a.md", sections(10, changed=4))
    report = bench.run()
    assert (report.modified, report.unchanged, len(bench.embedder.sent)) == (1, 1, 1)
    check(bench)


def test_a_touched_file_is_not_written_again(bench: Bench) -> None:
    target = bench.note("a.md")
    bench.run()
    before = bench.store.change_count()
    os.utime(target)
    report = bench.run()
    assert (report.touched, report.modified) == (1, 0)
    assert bench.store.change_count() == before


def test_a_renamed_file_embeds_nothing(bench: Bench) -> None:
    bench.write("a.md", sections(3))
    bench.write("untitled.md", "No heading here, only words.\n")
    bench.run()
    bench.embedder.sent.clear()
    (bench.root / "a.md").rename(bench.root / "b.md")
    (bench.root / "untitled.md").rename(bench.root / "named.md")
    report = bench.run()
    assert (report.new, report.deleted, bench.embedder.sent) == (2, 2, [])
    check(bench)


def test_a_copied_file_embeds_nothing(bench: Bench) -> None:
    source = bench.write("a.md", sections(3))
    bench.run()
    bench.embedder.sent.clear()
    shutil.copy(source, bench.root / "copy.md")
    bench.run()
    assert bench.embedder.sent == []
    check(bench)


def test_nothing_is_remembered_of_a_deleted_file(bench: Bench) -> None:
    bench.note("a.md")
    bench.note("b.md")
    bench.run()
    (bench.root / "a.md").unlink()
    bench.run()
    assert set(bench.cache.load(bench.scope())) == {"b.md"}


def test_a_deleted_file_goes_and_nobody_else(bench: Bench) -> None:
    bench.note("a.md")
    bench.note("ab.md")
    bench.run()
    (bench.root / "a.md").unlink()
    report = bench.run()
    assert (report.deleted, report.files, list(bench.rows())) == (1, ["a.md"], ["ab.md"])


def test_a_file_that_lost_its_words_is_not_found_any_more(bench: Bench) -> None:
    bench.note("a.md")
    bench.run()
    bench.write("a.md", " \n")
    report = bench.run()
    assert bench.rows() == {}
    assert (report.modified, report.files, bench.kinds(report)) == (1, ["a.md"], {"a.md": "empty"})


def test_a_file_that_became_binary_is_named_and_goes(bench: Bench) -> None:
    bench.note("a.md")
    bench.run()
    bench.write("a.md", bytes(range(256)) * 40)
    assert bench.kinds(bench.run()) == {"a.md": "not_text"}
    assert bench.rows() == {}


def test_only_the_scope_is_touched(bench: Bench) -> None:
    for path in ("a_b/x.md", "aXb/x.md", "a_b2/x.md"):
        bench.note(path)
    bench.run()
    for path in ("a_b/x.md", "aXb/x.md", "a_b2/x.md"):
        (bench.root / path).unlink()
    assert bench.run("a_b").deleted == 1
    assert list(bench.rows()) == ["aXb/x.md", "a_b2/x.md"]
    assert bench.run(confirm_deletions=True).deleted == 2


@pytest.mark.ends_with("orphaned", "missing")
def test_not_recursive_touches_only_the_files_directly_in_the_folder(bench: Bench) -> None:
    for path in ("x/a.md", "x/deep/b.md"):
        bench.note(path)
    bench.run()
    for path in ("x/a.md", "x/deep/b.md"):
        (bench.root / path).unlink()
    bench.note("x/c.md")
    bench.note("x/deep/d.md")
    bench.run("x", recursive=False)
    assert list(bench.rows()) == ["x/c.md", "x/deep/b.md"]


@pytest.mark.ends_with("missing")
def test_a_single_file_is_a_scope(bench: Bench) -> None:
    bench.note("a.md")
    bench.note("b.md")
    bench.run("a.md")
    assert list(bench.rows()) == ["a.md"]
    (bench.root / "a.md").unlink()
    bench.run("a.md")
    assert bench.rows() == {}


def test_a_newly_excluded_file_goes_and_comes_back(bench: Bench) -> None:
    bench.note("a.md")
    bench.note("old/b.md")
    bench.run()
    bench.scanning = ScanPolicy(exclude_dirs=("old",))
    report = bench.run()
    assert (list(bench.rows()), report.left_out) == (["a.md"], {"folder old": 1})
    bench.scanning = ScanPolicy()
    bench.embedder.sent.clear()
    bench.run()
    assert bench.embedder.sent == []
    check(bench)


def test_changed_chunk_settings_chunk_every_file_again(bench: Bench) -> None:
    bench.write("a.md", sections(6))
    bench.run()
    before = len(bench.rows()["a.md"])
    bench.chunking = ChunkPolicy(max_tokens=100, min_tokens=20, min_final=10)
    assert bench.run().modified == 1
    assert len(bench.rows()["a.md"]) > before
    check(bench)


def test_force_writes_its_scope_again_from_the_cache(bench: Bench) -> None:
    bench.note("x/a.md")
    bench.note("y/b.md")
    bench.run()
    gens = {e.path: e.gen for e in bench.store.catalog()}
    bench.embedder.sent.clear()
    assert bench.run("x", force=True).modified == 1
    after = {e.path: e.gen for e in bench.store.catalog()}
    assert after["x/a.md"] > gens["x/a.md"]
    assert after["y/b.md"] == gens["y/b.md"]
    assert bench.embedder.sent == []
    bench.run(force=True, use_cache=False)
    assert len(bench.embedder.sent) == 2
    check(bench)


def test_generations_grow_even_when_the_clock_goes_back(new_bench: NewBench, tmp_path: Path) -> None:
    bench = new_bench(tmp_path / "vault", tmp_path / "state", clock=ManualClock(start=2_000_000.0))
    bench.note("a.md", "first")
    bench.run()
    (before,) = bench.store.catalog()
    bench.clock = ManualClock(start=1_000_000.0)
    bench.restart()
    bench.note("a.md", "second")
    bench.run()
    assert "second" in bench.rows()["a.md"][0]
    (after,) = bench.store.catalog()
    assert after.gen > before.gen
    check(bench)


def test_stored_vectors_are_half_chunk_half_document(bench: Bench) -> None:
    bench.write("a.md", sections(4))
    bench.run()
    rows = list(bench.store.vectors(Where(workspaces=(bench.workspace.id,))))
    stored_vectors = np.stack([vector for _, _, vector in rows])
    document = stored_vectors.sum(axis=0)
    document /= np.linalg.norm(document)
    assert len(rows) > 1
    assert np.allclose(np.linalg.norm(2 * stored_vectors - document, axis=1), 1.0, atol=1e-4)


def test_progress_counts_files_and_chunks_to_the_end(bench: Bench) -> None:
    for i in range(30):
        bench.note(f"{i}.md")
    bench.run()
    bench.note("new.md")
    bench.write("empty.md", "")
    for _ in range(2):
        progress = Progress()
        bench.run(progress=progress)
        assert (progress.phase, progress.percent) == (Phase.DONE, 100.0)
        assert (progress.total_files, progress.processed_files, progress.stored_files) == (32, 32, 31)
        (bench.root / "0.md").touch()
    progress = Progress()
    bench.note("newer.md")
    bench.run(progress=progress)
    assert progress.stored_files == 32
    assert (progress.total_chunks, progress.processed_chunks) == (1, 1)


def test_progress_never_goes_back_and_is_low_while_most_of_the_work_is_in_few_files(bench: Bench) -> None:
    for i in range(200):
        bench.note(f"a{i:03}.md")
    bench.run()
    for i in range(200):
        bench.note(f"b{i:03}.md")
    for i in range(3):
        bench.write(f"z{i}.md", sections(150).replace("old", f"old{i}"))  # most of the work lies in the last files
    progress, shown, turn = Progress(), [], threading.Lock()

    def look(_: Sequence[str]) -> None:
        with turn:
            shown.append((progress.percent, progress.processed_chunks))

    bench.embedder.before = look
    bench.run(progress=progress)
    percents = [percent for percent, _ in shown]
    assert percents == sorted(percents)
    assert max(percent for percent, chunks in shown if chunks <= 200) < 25.0  # and nearly all files are done
    assert progress.processed_bytes == pytest.approx(progress.total_bytes)


def test_excluded_bytes_and_warnings_are_reported(bench: Bench) -> None:
    bench.write(
        "a.md", b"# A\n\nWords here.\n\n![x](data:image/png;base64," + b"iVBORw0KGgo" * 300 + b")\n\nAfter \xff it.\n"
    )
    report = bench.run()
    assert report.excluded_bytes > 3000
    assert [e.path for e in report.exclusions] == ["a.md"]
    assert bench.kinds(report) == {"a.md": "warning"}


# Guards (I2)


def vault_of(bench: Bench, count: int) -> None:
    for i in range(count):
        bench.note(f"n{i}.md")
    bench.run()


def test_losing_most_of_many_files_stops_before_anything_is_removed(bench: Bench) -> None:
    vault_of(bench, 30)
    for i in range(21):
        (bench.root / f"n{i}.md").unlink()
    bench.note("new.md")
    with pytest.raises(GuardError, match="21 of 30 indexed files are gone") as caught:
        bench.run()
    assert len(caught.value.paths) == 21
    assert len(bench.rows()) == 30
    assert bench.run(confirm_deletions=True).deleted == 21
    check(bench)


def test_moving_the_whole_vault_into_a_folder_is_no_loss(bench: Bench) -> None:
    vault_of(bench, 30)
    (bench.root / "all").mkdir()
    for i in range(30):
        (bench.root / f"n{i}.md").rename(bench.root / "all" / f"n{i}.md")
    bench.embedder.sent.clear()
    assert bench.run().deleted == 30
    assert bench.embedder.sent == []
    check(bench)


def test_the_guard_of_a_folder_measures_by_the_whole_workspace(bench: Bench) -> None:
    for i in range(30):
        bench.note(f"x/{i}.md")
    for i in range(60):
        bench.note(f"y/{i}.md")
    bench.run()
    shutil.rmtree(bench.root / "x")
    assert bench.run("x").deleted == 30
    check(bench)


def test_a_suddenly_empty_root_deletes_nothing_even_of_few_files(bench: Bench) -> None:
    bench.note("a.md")
    bench.run()
    (bench.root / "a.md").unlink()
    with pytest.raises(GuardError, match="1 of 1 indexed file is gone"):
        bench.run()
    assert list(bench.rows()) == ["a.md"]
    bench.run(confirm_deletions=True)
    assert bench.rows() == {}


def test_a_root_that_is_away_deletes_nothing_and_is_found_when_back(bench: Bench) -> None:
    bench.note("a.md")
    bench.run()
    scope = bench.scope()
    bench.root.rename(bench.root.parent / "away")
    with pytest.raises(WorkspaceError, match="Nothing was changed"):
        bench.indexer.run(scope, bench.chunking, bench.scanning, progress=Progress(), stop=StopSignal())
    (bench.root.parent / "away").rename(bench.root)
    bench.embedder.sent.clear()
    bench.run()
    assert bench.embedder.sent == []
    check(bench)


# Stops


def test_a_stop_keeps_what_is_stored_and_the_next_run_pays_only_for_the_rest(
    new_bench: NewBench, tmp_path: Path
) -> None:
    bench = new_bench(tmp_path / "vault", tmp_path / "state", batch_chunks=4)
    for i in range(40):
        bench.note(f"{i:02}.md")
    stop, asked = StopSignal(), 0

    def count(texts: Sequence[str]) -> None:
        nonlocal asked
        asked += len(texts)
        if asked >= 20:
            stop.stop("enough")

    bench.embedder.before = count
    with pytest.raises(Cancelled, match="enough"):
        bench.run(stop=stop)
    kept = len(bench.rows())
    assert 0 < kept < 40
    bench.embedder.before = lambda _: None
    bench.run()
    assert len(bench.embedder.sent) == len(set(bench.embedder.sent)) == 40
    check(bench)


@pytest.mark.ends_with("missing")
def test_a_stop_is_seen_while_the_provider_hangs(bench: Bench) -> None:
    bench.note("a.md")
    asked, release, stop, progress = threading.Event(), threading.Event(), StopSignal(), Progress()

    def hang(_: Sequence[str]) -> None:
        asked.set()
        release.wait(300)

    bench.embedder.before = hang
    outcome: list[BaseException] = []

    def index() -> None:
        try:
            bench.run(stop=stop, progress=progress)
        except Cancelled as error:
            outcome.append(error)

    runner = threading.Thread(target=index)
    runner.start()
    assert asked.wait(30)
    eventually(lambda: progress.note, lambda note: note == "waiting for the embedding provider")
    stop.stop()
    joined(runner)
    assert len(outcome) == 1
    release.set()


def test_clear_removes_one_workspace_and_the_next_run_repairs_from_the_cache(
    new_bench: NewBench, bench: Bench, tmp_path: Path
) -> None:
    bench.note("a.md")
    bench.run()
    other = new_bench(tmp_path / "other", tmp_path / "state2", store=bench.store)
    other.note("b.md")
    other.run()
    assert bench.indexer.clear(bench.workspace.id) == 1
    assert list(other.rows()) == ["b.md"]
    bench.embedder.sent.clear()
    assert bench.run().new == 1
    assert bench.embedder.sent == []
    check(bench)
