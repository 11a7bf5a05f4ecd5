"""Files that change while they are read: found at the next run at the latest, never half-indexed."""

from __future__ import annotations

import contextlib
import os
import random
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from markdown_rag.markdown.chunking import ChunkPolicy
from tests.indexing.parts import Bench

from .judge import is_settled

NAMES = [f"{number}.md" for number in range(6)]


def text(version: int) -> str:
    """A document whose every part tells its version."""
    return "".join(f"# Part {part} v{version}v\n\nversion v{version}v of part {part}\n\n" for part in range(20))


def disturb(root: Path, chance: random.Random, version: int) -> None:
    """What editors, sync tools and people do to a file, at any moment."""
    target = root / chance.choice(NAMES)
    if not target.is_file() or target.is_symlink():  # a pipe or link of before
        target.unlink(missing_ok=True)
        target.write_text(text(version))
    with contextlib.suppress(FileNotFoundError):
        match chance.randrange(6):
            case 0:  # written in place, in pieces
                with target.open("w") as file:
                    for line in text(version).splitlines(keepends=True):
                        file.write(line)
                        file.flush()
            case 1:  # saved beside it and renamed
                beside = target.with_suffix(".tmp")
                beside.write_text(text(version))
                beside.replace(target)
            case 2:  # truncated, then whole again
                os.truncate(target, chance.randrange(200))
                target.write_text(text(version))
            case 3:  # swapped for a pipe, which blocks whoever opens it
                target.unlink()
                os.mkfifo(target)
            case 4:  # swapped for a link
                target.unlink()
                target.symlink_to(root / "keep.txt")
            case 5:
                target.unlink()
                target.write_text(text(version))


@contextmanager
def disturbed(root: Path, seed: int) -> Iterator[None]:
    """Disturb a folder all the time."""
    stop = threading.Event()

    def work() -> None:
        chance, version = random.Random(seed), 0
        while not stop.is_set():
            version += 1
            disturb(root, chance, version)

    thread = threading.Thread(target=work)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()


def versions_in(rows: list[str]) -> set[str]:
    return {word for row in rows for word in row.split() if word.startswith("v") and word.endswith("v")}


@pytest.mark.parametrize("rounds", [15, pytest.param(80, marks=pytest.mark.slow)])
def test_a_file_that_is_written_while_it_is_read_is_stored_in_one_of_its_forms_and_in_its_last_one_at_the_end(
    tmp_path: Path, rounds: int
) -> None:
    policy = ChunkPolicy(max_tokens=120, min_tokens=30, min_final=15)
    bench = Bench(tmp_path / "vault", tmp_path / "state", chunking=policy)
    bench.write("keep.txt", "so that the root is never empty")
    for name in NAMES:
        bench.write(name, text(0))
    bench.run()
    with disturbed(bench.root, seed=rounds):
        for _ in range(rounds):
            bench.run()
            newest: dict[str, int] = {}
            for entry in bench.store.catalog():
                newest[entry.path] = max(entry.gen, newest.get(entry.path, 0))
            for path, gen in newest.items():
                rows = [row.text for row in bench.store.rows(bench.everything) if (row.path, row.gen) == (path, gen)]
                assert len(versions_in(rows)) <= 1, path
    for name in NAMES:
        (bench.root / name).unlink(missing_ok=True)
        (bench.root / name).write_text(text(10**6))
    bench.run()
    is_settled(bench)
    bench.close()
