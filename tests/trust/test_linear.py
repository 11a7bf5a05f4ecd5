"""Time and memory grow with a document, not with its square: four times as long takes about four times as much."""

from __future__ import annotations

import time
import tracemalloc
from collections.abc import Callable

import pytest

from markdown_rag.markdown.chunking import ChunkPolicy, chunk_document

SHAPES: dict[str, tuple[Callable[[int], str], int]] = {
    "one line without a blank": (lambda n: "x" * n, 1_250_000),
    "one line of words": (lambda n: "word " * (n // 5), 1_250_000),
    "prose": (lambda n: "A sentence of some words. \n" * (n // 27), 600_000),
    "headings": (lambda n: "".join(f"# Heading {i}\n" for i in range(n)), 25_000),
    "a heading of blanks": (lambda n: f"# a{' ' * n}b\n\nword", 300_000),
    "a heading of braces": (lambda n: f"# a{' {#' * n}\n\nword", 50_000),
    "headings with a word": (lambda n: "".join(f"## H{i}\n\nword\n\n" for i in range(n)), 6_000),
    "nested lists": (lambda n: "".join(" " * min(i, 2000) + "- item\n" for i in range(n)), 2_500),
    "list markers in a line": (lambda n: "- " * n + "x", 2_500),
    "nested quotes": (lambda n: "> " * n + "x", 2_500),
    "emphasis": (lambda n: "*a_ " * n, 25_000),
    "brackets": (lambda n: "[" * n, 100_000),
    "wikilinks": (lambda n: "[[a|b]] " * n, 25_000),
    "a table": (lambda n: "| a | b |\n|---|---|\n" + "| cell | cell |\n" * n, 10_000),
    "an open fence": (lambda n: "```\n" + "code();\n" * n, 25_000),
    "base64": (lambda n: "QUJDREVGR0hJSktMTU5PUFFSU1RVVldYWVo0" * (n // 36), 1_250_000),
    "blank lines": (lambda n: "\n" * n + "x", 500_000),
    "CJK without a blank": (lambda n: "\u8a9e" * n, 200_000),
    "front matter that does not end": (lambda n: "---\n" + "key: value\n" * n, 10_000),
    "tags": (lambda n: "#tag/a " * n, 10_000),
}
GROWTH = 4
MOST = 2.5  # times as much a character in the longer text; a square would be 4
TRIES = 4  # a square never passes, what else a machine does passes


def seconds(text: str) -> float:
    data = text.encode()
    started = time.process_time()
    chunk_document(data, "a.md", ChunkPolicy())
    return time.process_time() - started


def peak(text: str) -> int:
    data = text.encode()
    tracemalloc.start()
    try:
        chunk_document(data, "a.md", ChunkPolicy())
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


@pytest.mark.slow
@pytest.mark.parametrize("shape", SHAPES)
def test_time_grows_with_the_document(shape: str) -> None:
    make, size = SHAPES[shape]
    seconds(make(size // 10))  # what is loaded once
    short, long = make(size), make(size * GROWTH)
    spent: list[tuple[float, float]] = []
    for _ in range(TRIES):
        spent.append((seconds(short), seconds(long)))
        at_best = [min(times) for times in zip(*spent, strict=True)]
        if at_best[1] < MOST * max(0.02, at_best[0]) * len(long) / len(short):
            return
    pytest.fail(f"{spent}")


@pytest.mark.slow
@pytest.mark.parametrize("shape", SHAPES)
def test_memory_grows_with_the_document(shape: str) -> None:
    make, size = SHAPES[shape]
    size //= 5
    peak(make(size // 10))
    short, long = make(size), make(size * GROWTH)
    assert peak(long) < MOST * max(500_000, peak(short)) * len(long) / len(short)
