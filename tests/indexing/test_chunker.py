"""Chunking in another process: the same documents, whatever becomes of that process."""

from __future__ import annotations

import os
import signal

import pytest

from markdown_rag.indexing.chunker import WORTH_FILES, Chunker, ChunkProcess, chunker
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
def process():
    started = ChunkProcess.start(POLICY)
    assert started is not None
    yield started
    started.close()


def expected() -> list[object]:
    return [to_document(data, path, POLICY) for path, data in FILES]


@pytest.mark.parametrize("files", [1, WORTH_FILES])
def test_documents_are_the_same_wherever_they_are_made(files: int) -> None:
    with chunker(POLICY, files) as made:
        assert documents(made) == expected()


def test_a_process_that_dies_costs_time_only(process: ChunkProcess) -> None:
    made = Chunker(POLICY, process)
    made.put(*FILES[0])
    assert made.take() == expected()[0]
    os.kill(process.pid, signal.SIGKILL)
    assert documents(made) == expected()


def test_large_files_in_both_directions_do_not_block_each_other(process: ChunkProcess) -> None:
    made = Chunker(POLICY, process)
    data = b"words and more words in a line\n\n" * 4_000
    for number in range(12):
        made.put(f"{number}.md", data)
    assert [made.take() for _ in range(12)] == [to_document(data, f"{number}.md", POLICY) for number in range(12)]


def test_nothing_is_left_of_the_process_when_a_run_ends(process: ChunkProcess) -> None:
    process.send(*FILES[-1])
    process.close()
    with pytest.raises(ProcessLookupError):
        os.kill(process.pid, 0)
