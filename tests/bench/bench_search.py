"""Measures a search beside its floor: ``python tests/bench/bench_search.py [--rows 25000] [--docs FOLDER] [--json]``.

A store on the embedded engine is filled with made-up rows. Then, in alternation in one run, each question is asked as
one raw dense and one raw keyword call, one after the other, and as a search with all default steps (k 5, every hit
checked against the disk; query vectors ready, for the model is not what is measured). Also printed: the CPU time of
this process for both, and how many megabytes of the folder's markdown (else of made-up text) the analyzer reads in a
CPU second.
"""

from __future__ import annotations

import argparse
import json
import random
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
from bench_store import DIMENSION, MODEL, records

from markdown_rag.clock import SystemClock
from markdown_rag.markdown.lexical import analyze
from markdown_rag.search.answer import SearchRequest
from markdown_rag.search.catalog import Catalog
from markdown_rag.search.policy import SearchPolicy
from markdown_rag.search.searcher import Searcher
from markdown_rag.store.base import Store, Vector
from markdown_rag.store.opening import StoreSettings, open_store


class Vectors:
    """A vector for each question, made once."""

    def __init__(self) -> None:
        self._random = np.random.default_rng(7)
        self._known: dict[str, Vector] = {}

    def query(self, text: str) -> Vector:
        """A direction."""
        if text not in self._known:
            vector = self._random.normal(size=DIMENSION).astype(np.float32)
            self._known[text] = vector / np.linalg.norm(vector)
        return self._known[text]


def fill(store: Store, rows: int) -> list[str]:
    """Store rows, and give questions made of their words."""
    store.ensure()
    made = list(records(rows))
    for start in range(0, rows, 1_000):
        store.insert(made[start : start + 1_000])
    store.flush()
    dice = random.Random(3)
    return [" ".join(dice.sample(dice.choice(made).lexical.split(), dice.choice((3, 5, 8)))) for _ in range(60)]


def measure(store: Store, questions: list[str], root: Path) -> dict[str, float]:
    """Medians of both ways, in milliseconds."""
    vectors, clock = Vectors(), SystemClock()
    searcher = Searcher(store, vectors, Catalog(store, clock), roots=lambda _: root, policy=SearchPolicy())

    def raw(question: str) -> None:
        store.dense(vectors.query(question), 100)
        store.lexical(analyze(question, query=True), 100)

    def search(question: str) -> None:
        searcher.search(SearchRequest(question, 5))

    ways: dict[str, Callable[[str], None]] = {"raw": raw, "search": search}
    wall: dict[str, list[float]] = {name: [] for name in ways}
    own: dict[str, float] = dict.fromkeys(ways, 0.0)
    for turn, question in enumerate(questions + questions):
        for name, ask in ways.items():
            started, cpu = time.perf_counter(), time.process_time()
            ask(question)
            if turn >= len(questions):  # the first pass warms everything
                wall[name].append((time.perf_counter() - started) * 1_000)
                own[name] += (time.process_time() - cpu) * 1_000 / len(questions)
    searcher.close()
    medians = {name: statistics.median(values) for name, values in wall.items()}
    return {
        "raw_ms": medians["raw"],
        "search_ms": medians["search"],
        "ratio": medians["search"] / medians["raw"],
        "raw_own_cpu_ms": own["raw"],
        "search_own_cpu_ms": own["search"],
    }


def analyzer_speed(docs: Path | None) -> float:
    """Megabytes of text a CPU second."""
    texts = [path.read_text(encoding="utf-8", errors="replace") for path in docs.rglob("*.md")] if docs else []
    texts = texts or [row.text for row in records(2_000)]
    for text in texts[: len(texts) // 10]:
        analyze(text)
    size = sum(len(text.encode()) for text in texts)
    started = time.process_time()
    for text in texts:
        analyze(text)
    return size / 1e6 / (time.process_time() - started)


def main() -> None:
    """Print the figures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=25_000)
    parser.add_argument("--docs", type=Path)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        store = open_store(StoreSettings(str(folder / "bench.db"), "", "bench", 1_000, 60.0, folder), MODEL)
        try:
            figures = measure(store, fill(store, options.rows), folder)
        finally:
            store.close()
    figures = {"rows": options.rows, **figures, "analyzer_mb_s": analyzer_speed(options.docs)}
    print(
        json.dumps(figures)
        if options.json
        else "\n".join(f"{name:<20}{value:12,.2f}" for name, value in figures.items())
    )


if __name__ == "__main__":
    main()
