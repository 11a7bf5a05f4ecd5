"""Measures the store: ``python tests/bench/bench_store.py [--rows 10000 25000] [--address URL] [--json]``.

One run prints, for each number of rows (512 dimensions, 135 keywords a row): start, connect, insert, flush, dense and
keyword search, catalog, get, searches while another client inserts, and how far the keyword ranking is from an exact
one before and after a flush. With ``--address`` a server is measured instead of the embedded engine.
"""

from __future__ import annotations

import argparse
import json
import random
import statistics
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np

from markdown_rag.store.base import Model, Record, Store, Where
from markdown_rag.store.launcher import connect_engine
from markdown_rag.store.memory import bm25
from markdown_rag.store.opening import StoreSettings, open_store

DIMENSION = 512
MODEL = Model("bench", "random", DIMENSION)
WORDS = 30_000
PER_FILE = 8
TOPICS = 40


def records(count: int, seed: int = 1) -> Iterator[Record]:
    """Rows of a corpus whose folders have topics: word frequencies differ from folder to folder."""
    random_ = random.Random(seed)
    vectors = np.random.default_rng(seed)
    common = [f"w{int(random_.paretovariate(0.9)) % WORDS}" for _ in range(200_000)]
    for number in range(count):
        file = number // PER_FILE
        topic = file * TOPICS // max(1, count // PER_FILE)
        words = [random_.choice(common) for _ in range(110)]
        words += [f"t{topic}x{int(random_.paretovariate(1.1)) % 400}" for _ in range(25)]
        vector = vectors.normal(size=DIMENSION).astype(np.float32)
        yield Record(
            workspace="bench",
            path=f"topic{topic}/file{file}-{seed}.md",
            ord=PER_FILE - 1 - number % PER_FILE,
            chunk_count=PER_FILE,
            gen=seed,
            title=f"File {file}",
            heading_path="Part › Section",
            text=" ".join(words) * 2,
            prefix="",
            lexical=" ".join(words),
            tags=("bench",),
            aliases=(),
            properties={"topic": topic},
            start_line=1,
            end_line=20,
            start_byte=0,
            end_byte=2000,
            file_hash="f" * 64,
            text_hash=f"{number:064d}",
            policy="p" * 16,
            vector=vector / np.linalg.norm(vector),
        )


def queries(count: int, seed: int = 7) -> list[tuple[np.ndarray, str]]:
    """A vector and a few words each; half of the words of one topic."""
    random_ = random.Random(seed)
    vectors = np.random.default_rng(seed)
    found = []
    for _ in range(count):
        topic = random_.randrange(TOPICS)
        words = [f"t{topic}x{int(random_.paretovariate(1.1)) % 400}" for _ in range(2)]
        words += [f"w{int(random_.paretovariate(0.9)) % WORDS}" for _ in range(3)]
        found.append((vectors.normal(size=DIMENSION).astype(np.float32), " ".join(words)))
    return found


def timed(action: Callable[[], object]) -> float:
    """Milliseconds of one call."""
    start = time.perf_counter()
    action()
    return (time.perf_counter() - start) * 1000


def spread(times: list[float]) -> dict[str, float]:
    """Median, 95th percentile and maximum."""
    ordered = sorted(times)
    return {
        "p50": round(statistics.median(ordered), 1),
        "p95": round(ordered[min(len(ordered) - 1, int(len(ordered) * 0.95))], 1),
        "max": round(ordered[-1], 1),
    }


def searches(store: Store, count: int = 30) -> dict[str, dict[str, float]]:
    asked = queries(count)
    return {
        "dense_k100_ms": spread([timed(lambda v=v: store.dense(v, 100)) for v, _ in asked]),
        "lexical_k100_ms": spread([timed(lambda w=w: store.lexical(w, 100)) for _, w in asked]),
    }


def while_inserting(
    open_store_: Callable[[], Store], store: Store, rows: list[Record], batch: int
) -> dict[str, object]:
    """Both searches, over and over, while another client inserts rows in batches; pairs are one user's search."""
    writer = open_store_()
    writer.ensure()
    done = threading.Event()
    seconds: list[float] = []

    def insert() -> None:
        start = time.perf_counter()
        for position in range(0, len(rows), batch):
            writer.insert(rows[position : position + batch])
        seconds.append(time.perf_counter() - start)
        done.set()

    thread = threading.Thread(target=insert)
    pairs: list[float] = []
    asked = queries(1000)
    thread.start()
    while not done.is_set():
        vector, words = asked[len(pairs) % len(asked)]
        pairs.append(timed(lambda v=vector, w=words: (store.dense(v, 100), store.lexical(w, 100))))
    thread.join()
    writer.close()
    return {"pair_ms": spread(pairs), "searches": len(pairs), "rows_per_s": round(len(rows) / seconds[0])}


def overlap(store: Store, rows: list[Record], asked: list[str]) -> float:
    """Mean share of the exact ten best keyword hits that the store finds."""
    plain = [{"id": row.id, "lexical": row.lexical} for row in rows]
    shares = []
    for words in asked:
        scored = sorted(bm25(plain, words.split()), key=lambda item: -item[1])[:10]
        exact = {row["id"] for row, _ in scored}
        found = {match.id for match in store.lexical(words, 10)}
        shares.append(len(exact & found) / max(1, len(exact)))
    return round(statistics.mean(shares), 3)


def measure(count: int, address: str, state_dir: Path) -> dict[str, object]:
    settings = StoreSettings(address, "", f"bench{count}", 1000, 120.0, state_dir)
    result: dict[str, object] = {"rows": count}
    if address.endswith(".db"):
        start = time.perf_counter()
        held = connect_engine(state_dir / address)
        result["engine_start_s"] = round(time.perf_counter() - start, 2)
        result["engine_connect_ms"] = round(timed(lambda: connect_engine(state_dir / address).close()), 2)
    store = open_store(settings, MODEL)
    result["first_answer_s"] = round(timed(store.catalog) / 1000, 2)
    result["create_s"] = round(timed(store.ensure) / 1000, 2)
    rows = list(records(count))
    start = time.perf_counter()
    for position in range(0, count, 1000):
        store.insert(rows[position : position + 1000])
    result["insert_rows_per_s"] = round(count / (time.perf_counter() - start))
    result["first_dense_ms"] = round(timed(lambda: store.dense(queries(1)[0][0], 100)), 1)
    result["first_lexical_ms"] = round(timed(lambda: store.lexical(queries(1)[0][1], 100)), 1)
    asked = [words for _, words in queries(40)]
    result["overlap10_before_flush"] = overlap(store, rows, asked[:20])
    result["flush_s"] = round(timed(store.flush) / 1000, 2)
    result["after_flush_lexical_ms"] = round(timed(lambda: store.lexical(queries(1)[0][1], 100)), 1)
    time.sleep(5)
    result["overlap10_after_flush"] = overlap(store, rows, asked[:20])
    result |= searches(store)
    names = tuple(row.path for row in rows[: PER_FILE * 400 : PER_FILE])
    result["dense_scope_ms"] = spread(
        [timed(lambda: store.dense(rows[0].vector, 100, Where(("bench",), "topic3")))] * 1
    )
    result["dense_400_paths_ms"] = round(timed(lambda: store.dense(rows[0].vector, 100, Where(paths=names))), 1)
    result["catalog_ms"] = round(timed(store.catalog), 1)
    result["keys_ms"] = round(timed(lambda: list(store.keys())), 1)
    result["get_100_ms"] = round(timed(lambda: store.get([row.id for row in rows[:100]])), 1)
    result["count_ms"] = round(timed(store.count), 1)
    for batch in (100, 250, 1000):
        extra = list(records(2000, seed=100 + batch))
        result[f"while_inserting_{batch}"] = while_inserting(lambda: open_store(settings, MODEL), store, extra, batch)
    store.flush()
    if address.endswith(".db"):
        import psutil

        result["engine_rss_mb"] = round(psutil.Process(held.pid).memory_info().rss / 1e6)
        store.close()
        held.close()
        process = psutil.Process(held.pid)
        result["engine_gone_after_s"] = round(timed(lambda: process.wait(10)) / 1000, 1)
        start = time.perf_counter()
        store = open_store(settings, MODEL)
        store.catalog()
        result["reopen_first_answer_s"] = round(time.perf_counter() - start, 2)
        result["reopen_first_lexical_ms"] = round(timed(lambda: store.lexical(asked[0], 100)), 1)
    store.close()
    return result


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--rows", type=int, nargs="+", default=[10_000, 25_000])
    parser.add_argument("--address", default="bench.db")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    for count in options.rows:
        with tempfile.TemporaryDirectory() as folder:
            result = measure(count, options.address, Path(folder))
        if options.json:
            print(json.dumps(result))
        else:
            for name, value in result.items():
                print(f"{name:28} {value}", flush=True)


if __name__ == "__main__":
    main()
