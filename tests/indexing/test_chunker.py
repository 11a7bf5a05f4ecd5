"""Chunking in another process: the same documents, whatever becomes of that process."""

from __future__ import annotations

import signal
from contextlib import closing, suppress

import psutil
import pytest

from markdown_rag.clock import StopSignal
from markdown_rag.indexing.chunker import HERE_FILES, WORTH_FILES, Chunker, chunker
from markdown_rag.markdown.chunking import ChunkPolicy
from markdown_rag.markdown.documents import to_document

POLICY = ChunkPolicy(max_tokens=60, min_tokens=10)
FILES = [
    ("a.md", b"---\ntitle: A\ntags: [x]\n---\n# One\n\nSome words.\n\n## Two\n\nMore words.\n"),
    ("empty.md", b""),
    ("binary.md", bytes(range(256)) * 40),
    ("utf16.md", "# Grüße\n\nEin Satz.\n".encode("utf-16")),
    ("_graph.yaml", b"edges:\n  - {from: a.md, to: b.md}\n"),
    ("long.md", b"A sentence of words. " * 5_000),
]


def documents(made: Chunker) -> list[object]:
    """Everything in FILES, a few files ahead, as a run does it."""
    found, taken = [], 0
    for put, (path, data) in enumerate(FILES, start=1):
        made.put(path, data)
        while made.full and taken < put:
            found.append(made.take())
            taken += 1
    return [*found, *(made.take() for _ in FILES[taken:])]


@pytest.fixture
def apart():
    """A chunker that has everything made by another process."""
    with closing(Chunker(POLICY, here=0)) as made:
        yield made


def children() -> list[psutil.Process]:
    """Chunkers that this process has started; it may have started others."""
    found = []
    for process in psutil.Process().children():
        with suppress(psutil.NoSuchProcess):
            if "markdown_rag.indexing.chunker" in process.cmdline():
                found.append(process)
    return found


def child() -> psutil.Process:
    (found,) = children()
    return found


def expected() -> list[object]:
    return [to_document(data, path, POLICY) for path, data in FILES]


@pytest.mark.parametrize("here", [0, 1, 3, len(FILES)])
def test_documents_are_the_same_wherever_they_are_made(here: int) -> None:
    with closing(Chunker(POLICY, here)) as made:
        assert documents(made) == expected()


def test_a_process_that_dies_costs_time_only(apart: Chunker) -> None:
    apart.put(*FILES[0])
    assert apart.take() == expected()[0]
    child().kill()
    assert documents(apart) == expected()


@pytest.mark.skipif(not hasattr(signal, "SIGSTOP"), reason="needs signals")
def test_a_process_that_hangs_is_given_up_when_the_run_is_stopped_or_patience_ends() -> None:
    stop = StopSignal()
    stop.stop()
    for signalled, patience_s in ((stop, 60.0), (StopSignal(), 0.0)):
        with closing(Chunker(POLICY, here=0, stop=StopSignal())) as made:
            made.put(*FILES[0])
            assert made.take() == expected()[0]
            child().suspend()
            made._process._stop, made._process._patience_s = signalled, patience_s
            assert documents(made) == expected()


def test_large_files_in_both_directions_do_not_block_each_other(apart: Chunker) -> None:
    data = b"words and more words in a line\n\n" * 4_000
    for number in range(12):
        apart.put(f"{number}.md", data)
    assert [apart.take() for _ in range(12)] == [to_document(data, f"{number}.md", POLICY) for number in range(12)]


def test_nothing_is_left_of_the_process_when_a_run_ends(apart: Chunker) -> None:
    apart.put(*FILES[-1])
    process = child()
    apart.close()
    assert not process.is_running()


@pytest.mark.parametrize("files", [WORTH_FILES - 1, WORTH_FILES])
def test_few_files_start_no_process(files: int) -> None:
    with closing(chunker(POLICY, files, StopSignal())) as made:
        for _ in range(HERE_FILES):
            made.put("a.md", b"# One\n\nWords.\n")
            made.take()
        assert children() == []


def test_where_no_thread_can_watch_it_there_is_no_process_and_the_run_chunks_itself(no_more_threads) -> None:
    with no_more_threads(), closing(Chunker(POLICY, here=0)) as made:
        assert documents(made) == expected()
        assert children() == []
