"""Waiting for what will be so, with a deadline wide enough for a busy machine or one that pauses for some seconds.

A deadline here is when to give up, not a measurement: what is promised within a time is held by the benchmarks.
"""

from __future__ import annotations

import contextlib
import shutil
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TypeVar

SECONDS = 30.0
_LOOK_SECONDS = 0.02

Seen = TypeVar("Seen")


def eventually(
    look: Callable[[], Seen], wanted: Callable[[Seen], object] = bool, *, seconds: float = SECONDS, what: str = ""
) -> Seen:
    """What look returns once it is as wanted (without that: once it is true); a failure tells what was seen last."""
    end = time.monotonic() + seconds
    while True:
        last_look = time.monotonic() > end  # after a pause there is still one look
        seen = look()
        if wanted(seen):
            return seen
        assert not last_look, f"{what or 'it was not so'} after {seconds:.0f} s, seen last: {seen!r}"
        time.sleep(_LOOK_SECONDS)


def joined(*threads: threading.Thread, seconds: float = SECONDS) -> None:
    """Wait for the end of threads."""
    end = time.monotonic() + seconds
    for thread in threads:
        thread.join(max(0.1, end - time.monotonic()))
    assert [thread.name for thread in threads if thread.is_alive()] == []


def at_once(*works: Callable[[], object], seconds: float = SECONDS) -> list[BaseException | None]:
    """Do several things in the same instant, each in a thread; what each raised, None where nothing was."""
    gate = threading.Barrier(len(works))
    raised: list[BaseException | None] = [None] * len(works)

    def run(place: int, work: Callable[[], object]) -> None:
        gate.wait()
        try:
            work()
        except BaseException as error:
            raised[place] = error

    threads = [threading.Thread(target=run, args=each) for each in enumerate(works)]
    for thread in threads:
        thread.start()
    joined(*threads, seconds=seconds)
    return raised


@contextlib.contextmanager
def bounded(process: subprocess.Popen[Any], seconds: float = 2 * SECONDS) -> Iterator[Callable[[], bool]]:
    """Kill a process that keeps us waiting for its words: a read that would last for ever ends with its output.

    What is yielded tells whether there was no need to.
    """
    late = threading.Event()

    def kill() -> None:
        late.set()
        process.kill()

    killer = threading.Timer(seconds, kill)
    killer.daemon = True
    killer.start()
    try:
        yield lambda: not late.is_set()
    finally:
        killer.cancel()
        killer.join()


def remove(folder: Path) -> None:
    """Remove a folder in which somebody still makes and removes files."""

    def gone() -> bool:
        with contextlib.suppress(OSError):
            shutil.rmtree(folder)
        return not folder.exists()

    eventually(gone, what=f"{folder} could not be removed")
