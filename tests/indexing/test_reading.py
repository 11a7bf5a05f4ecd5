"""A file is read once, under the stat that belongs to its bytes, or named with the reason."""

from __future__ import annotations

import os
import sys
import threading
from pathlib import Path

import pytest

from markdown_rag.clock import SystemClock
from markdown_rag.indexing.reading import NotRead, Reading, Stamp, open_and_read
from markdown_rag.markdown.names import MAX_FILE_BYTES

from .conftest import NewBench

CLOCK = SystemClock()


def stamp_of(path: Path) -> Stamp:
    return Stamp.of(os.lstat(path))


def read(root: Path, path: str, seen: Stamp | None = None) -> Reading | NotRead:
    return open_and_read(str(root), path, seen or stamp_of(root / path), CLOCK)


def kind(outcome: Reading | NotRead) -> str:
    assert isinstance(outcome, NotRead)
    return outcome.kind.value


def test_bytes_and_stamp_belong_together(tmp_path: Path) -> None:
    (tmp_path / "a.md").write_bytes(b"one\r\ntwo\x00")
    outcome = read(tmp_path, "a.md")
    assert isinstance(outcome, Reading)
    assert outcome.data == b"one\r\ntwo\x00"
    assert outcome.stamp == stamp_of(tmp_path / "a.md")


def test_an_edit_after_the_walk_is_read_in_its_new_form(tmp_path: Path) -> None:
    target = tmp_path / "a.md"
    target.write_text("old")
    seen = stamp_of(target)
    target.write_text("newer")
    outcome = read(tmp_path, "a.md", seen)
    assert isinstance(outcome, Reading)
    assert (outcome.data, outcome.stamp.size) == (b"newer", 5)


def test_a_file_that_went_away_is_left_for_the_next_run(tmp_path: Path) -> None:
    (tmp_path / "a.md").write_text("words")
    seen = stamp_of(tmp_path / "a.md")
    (tmp_path / "a.md").unlink()
    assert kind(read(tmp_path, "a.md", seen)) == "changing"


def test_a_file_swapped_for_a_pipe_does_not_block(tmp_path: Path) -> None:
    (tmp_path / "a.md").write_text("words")
    seen = stamp_of(tmp_path / "a.md")
    (tmp_path / "a.md").unlink()
    os.mkfifo(tmp_path / "a.md")
    assert kind(read(tmp_path, "a.md", seen)) == "not_regular"


def test_a_file_swapped_for_a_folder_is_named(tmp_path: Path) -> None:
    (tmp_path / "a.md").write_text("words")
    seen = stamp_of(tmp_path / "a.md")
    (tmp_path / "a.md").unlink()
    (tmp_path / "a.md").mkdir()
    assert kind(read(tmp_path, "a.md", seen)) in {"not_regular", "unreadable"}


def test_a_file_swapped_for_a_link_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "secret.txt").write_text("secret")
    root = tmp_path / "vault"
    root.mkdir()
    (root / "a.md").write_text("words")
    seen = stamp_of(root / "a.md")
    (root / "a.md").unlink()
    os.symlink(tmp_path / "secret.txt", root / "a.md")
    assert kind(read(root, "a.md", seen)) == "link"


def test_a_folder_swapped_for_a_link_out_is_not_followed(tmp_path: Path) -> None:
    root, outside = tmp_path / "vault", tmp_path / "outside"
    (root / "x").mkdir(parents=True)
    outside.mkdir()
    (root / "x" / "a.md").write_text("words")
    (outside / "a.md").write_text("secret")
    seen = stamp_of(root / "x" / "a.md")
    (root / "x").rename(root / "y")
    os.symlink(outside, root / "x")
    assert kind(read(root, "x/a.md", seen)) == "link"


def test_a_very_large_file_is_named_with_its_size(tmp_path: Path) -> None:
    with (tmp_path / "a.md").open("wb") as file:
        file.truncate(MAX_FILE_BYTES + 1)
    outcome = read(tmp_path, "a.md")
    assert kind(outcome) == "too_large"
    assert "20,000,001 bytes" in outcome.reason


@pytest.mark.skipif(sys.platform != "linux", reason="/proc")
def test_a_file_whose_size_is_not_what_is_read_is_left_for_the_next_run() -> None:
    # Files of /proc have size 0 and content: to a reader they grow between stat and read, every time.
    assert kind(read(Path("/proc/self"), "status")) == "changing"


def test_a_file_that_is_replaced_all_the_time_is_never_half_read(tmp_path: Path) -> None:
    versions = [bytes([letter]) * size for letter, size in ((97, 70_000), (98, 90_000), (99, 10))]
    target, done = tmp_path / "a.md", threading.Event()
    target.write_bytes(versions[0])
    seen = stamp_of(target)

    def replace() -> None:
        turn = 0
        while not done.is_set():
            fresh = tmp_path / "a.tmp"
            fresh.write_bytes(versions[turn % 3])
            fresh.rename(target)
            turn += 1

    writer = threading.Thread(target=replace)
    writer.start()
    try:
        outcomes = [read(tmp_path, "a.md", seen) for _ in range(200)]
    finally:
        done.set()
        writer.join()
    whole = [outcome for outcome in outcomes if isinstance(outcome, Reading)]
    assert whole
    assert all(outcome.data in versions for outcome in whole)
    assert {kind(o) for o in outcomes if isinstance(o, NotRead)} <= {"changing"}


def test_a_file_from_the_far_future_is_indexed_like_any_other(new_bench: NewBench, tmp_path: Path) -> None:
    file = tmp_path / "vault" / "future.md"
    file.parent.mkdir()
    file.write_text("# Future\n\nwords\n")
    os.utime(file, (15e9, 15e9))  # the year 2445, more nanoseconds than SQLite's integers hold
    if file.stat().st_mtime < 10e9:
        pytest.skip("this file system has no such times")
    bench = new_bench(file.parent, tmp_path / "state")
    try:
        assert bench.run().new == 1
        assert bench.run().new == 0
        assert bench.rows().keys() == {"future.md"}
    finally:
        bench.close()
