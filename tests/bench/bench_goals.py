"""The goals of speed, each beside its floor in the same run and in turns with it.

    python tests/bench/bench_goals.py --corpus DIR/docs --second DIR2/docs [--rounds 3] [--goal index ...] [--service]

index: a full index run with the engine warm, beside the raw insert and flush of the same rows plus the provider's own
time. rescan: nothing has changed, beside walking and stating the files. search: idle, beside a raw dense and a raw BM25
call. during: while the second corpus is indexed, beside the same raw calls while the same rows are inserted raw in the
same time. start is ``bench_start.py``, memory ``bench_memory.py``.

Raw calls go to the libraries as they are installed; the same calls to our engine, which is Milvus Lite with our
changes, follow as a second floor.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import shutil
import tempfile
import time
from collections.abc import Awaitable, Callable
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from floors import DATA_DIR, OurEngine, Raw, StockEngine, chunks_of, provide, renamed
from serving import COMMAND, Server, Stub, machine, median, percentile, questions, variables

DIMENSION = 768
SEARCHES = 60
PAUSE_SECONDS = 0.05  # between two searches while rows are inserted
RAW_BATCH = 500
STOCK, OWN = "floor", "on our engine"  # what the same calls go to


@dataclass(frozen=True)
class Place:
    """Where a goal is measured: two copies of corpora, a folder for state, the provider."""

    corpus: Path
    second: Path
    work: Path
    stub: Stub
    command: list[str]
    rounds: int
    service: bool

    def server(self, name: str) -> Server:
        """A server with a state directory of this name."""
        state = self.state(name)
        environment = variables(self.stub.url, state, DIMENSION, service=self.service)
        return Server(self.command, environment, self.work, state)

    def state(self, name: str) -> Path:
        """The state directory of this name."""
        return self.work / f"state-{name}"


def tell(goal: str, ours: list[float], floors: dict[str, list[float]], unit: str = "s", **more: float) -> None:
    """One line: medians, their ratios, and what else is worth knowing."""
    a = median(ours)
    told = "; ".join(
        f"{name} {median(taken):.3g} {unit}, ratio {a / median(taken):.2f}" for name, taken in floors.items()
    )
    extra = ", ".join(f"{name} {value:.3g}" for name, value in more.items())
    each = " ".join(f"{x:.3g}" for x in ours) if len(ours) < 10 else len(ours)
    print(f"{goal:8} ours {a:.3g} {unit}; {told} ({extra}) [{each}]", flush=True)


async def measure_index(place: Place) -> None:
    """Rounds of a full index in a fresh state, each followed by its floors on copies of the state before it."""
    texts = chunks_of(place.corpus)
    ours, provided, cpu, floor_cpu = [], [], [], []
    inserts: dict[str, list[float]] = {STOCK: [], OWN: []}
    megabytes = sum(path.stat().st_size for path in place.corpus.rglob("*.md")) / 1e6
    async with place.server("cold") as server:
        cold = (await server.index(place.corpus, poll=0))["total_s"]
    for number in range(place.rounds):
        name = f"index{number}"
        warm_up = place.work / "warm-up"
        before_it = place.state(f"before{number}")
        async with place.server(name) as server:
            warm_up.mkdir(exist_ok=True)
            (warm_up / "a.md").write_text("# Warm up\n\nOne file, so that everything is open.\n", encoding="utf-8")
            await server.index(warm_up, poll=0)
            shutil.copytree(place.state(name) / DATA_DIR, before_it / DATA_DIR)
            place.stub.reset()
            before = server.cost.restart()
            ours.append((await server.index(place.corpus, poll=0))["total_s"])
            cpu.append(sum(server.cost.since(before)["cpu_s"].values()) + place.stub.stats()["stub_cpu_s"])
            with closing(OurEngine(place.state(name))) as raw:
                rows = raw.rows(raw.collection())
            with closing(StockEngine(before_it, place.work / f"stock{number}")) as stock:
                place.stub.reset()
                own, engine = time.process_time(), stock.cpu_s
                inserts[STOCK].append(stock.insert_and_flush(stock.collection(), rows))
                provided.append(provide(place.stub.url, texts, DIMENSION))
                spent = time.process_time() - own + stock.cpu_s - engine
                floor_cpu.append(spent + place.stub.stats()["stub_cpu_s"])
            with closing(OurEngine(before_it)) as raw:
                inserts[OWN].append(raw.insert_and_flush(raw.collection(), rows))
        shutil.rmtree(place.state(name))
    took = median(ours)
    floors = {name: [a + b for a, b in zip(seconds, provided, strict=True)] for name, seconds in inserts.items()}
    tell(
        "index", ours, floors, rows=len(rows), provider=median(provided), cold=cold, mb_per_s=megabytes / took,
        cpu_s=median(cpu), floor_cpu_s=median(floor_cpu),
    )  # fmt: skip


async def measure_rescan(place: Place) -> None:
    """Index runs over unchanged files, each followed by a bare walk over them."""
    ours, floor, inside = [], [], []
    async with place.server("main") as server:
        await server.index(place.corpus, poll=0)
        await asyncio.sleep(2.5)  # a file time younger than 2 s proves nothing
        await server.index(place.corpus, poll=0)
        for _ in range(place.rounds * 3):
            figures = await server.index(place.corpus, poll=0)
            ours.append(figures["total_s"])
            inside.append(figures["result"]["timings_seconds"]["total"])
            floor.append(walk(place.corpus))
    tell("rescan", ours, {"floor": floor}, job=median(inside))


def walk(folder: Path) -> float:
    """Seconds to list a folder and stat every file."""
    started = time.perf_counter()
    for where, _, names in os.walk(folder):
        for name in names:
            Path(where, name).stat()
    return time.perf_counter() - started


async def measure_search(place: Place) -> None:
    """Searches of an idle index, each beside raw pairs of calls."""
    asked = questions(place.corpus, SEARCHES + 5)
    async with place.server("main") as server:
        await server.index(place.corpus, poll=0)
        stock, raw = StockEngine(place.state("main"), place.work / "stock"), OurEngine(place.state("main"))
        name = raw.collection()
        rows = raw.client.query(name, output_fields=["count(*)"])[0]["count(*)"]
        ours, again, floors = [], [], {STOCK: [], OWN: []}
        for number, query in enumerate(asked):
            taken = (
                await server.search(query),
                stock.pair(name, vector(number), query),
                raw.pair(name, vector(number), query),
                await server.search(query),
            )
            if number >= 5:
                for values, seconds in zip((ours, floors[STOCK], floors[OWN], again), taken, strict=True):
                    values.append(seconds * 1000)
        raw.close()
        stock.close()
    tell("search", ours, floors, "ms", rows=rows, p95=percentile(ours, 0.95), floor_p95=percentile(floors[STOCK], 0.95),
         asked_before=median(again))  # fmt: skip


def vector(seed: int) -> np.ndarray:
    """A random unit vector."""
    values = np.random.default_rng(seed).normal(size=DIMENSION).astype(np.float32)
    return np.asarray(values / np.linalg.norm(values))


async def measure_during(place: Place) -> None:
    """Searches while the second corpus is indexed, then raw pairs while its rows are inserted raw; in turns."""
    asked = questions(place.corpus, 500, seed=11)
    async with place.server("main") as server:
        await server.index(place.corpus, poll=0)
        stock, raw = StockEngine(place.state("main"), place.work / "stock-main"), OurEngine(place.state("main"))
        name = raw.collection()
        ours, rates = [], []
        floors: dict[str, list[float]] = {STOCK: [], OWN: []}
        first = raw.workspaces(name)
        for number in range(place.rounds):
            folder = place.work / f"second-{number}"
            vary(place.second, folder, number)
            job = asyncio.create_task(server.index(folder, poll=0))
            ours += await while_going(lambda job=job: not job.done(), lambda n: server.search(asked[n % len(asked)]))
            seconds = (await job)["total_s"]
            (added,) = raw.workspaces(name) - first
            rows = raw.rows(name, added)
            rates.append(len(rows) / seconds)
            await server.call("clear_index", workspace=str(folder), confirm=True)
            for floor, engine in ((STOCK, stock), (OWN, raw)):
                thread = engine.insert_over(name, renamed(rows, f"raw{number}"), RAW_BATCH, seconds)
                floors[floor] += await while_going(
                    thread.is_alive, lambda n, engine=engine: in_thread(engine, name, asked[n % len(asked)], n)
                )
                engine.remove(name, f"raw{number}")
        raw.close()
        stock.close()
    tell(
        "during", ours, floors, "ms", rows_added=len(rows), rows_per_s=median(rates), p95=percentile(ours, 0.95),
        floor_p95=percentile(floors[STOCK], 0.95), own_p95=percentile(floors[OWN], 0.95), searches=len(ours),
        floor_searches=len(floors[STOCK]),
    )  # fmt: skip


def vary(source: Path, target: Path, number: int) -> None:
    """A copy of a corpus whose texts are all new to the caches."""
    shutil.copytree(source, target)
    for path in target.rglob("*.md"):
        text = path.read_text(encoding="utf-8")
        path.write_text(text.replace(". ", f", round {number}. "), encoding="utf-8")


async def while_going(going: Callable[[], bool], search: Callable[[int], Awaitable[float]]) -> list[float]:
    """Milliseconds of the searches made while something goes on."""
    taken: list[float] = []
    while going():
        taken.append(await search(len(taken)) * 1000)
        await asyncio.sleep(PAUSE_SECONDS)
    return taken


async def in_thread(raw: Raw, name: str, query: str, number: int) -> float:
    """A raw pair of calls."""
    return await asyncio.to_thread(raw.pair, name, vector(number), query)


GOALS: dict[str, Callable[[Place], Awaitable[None]]] = {
    "index": measure_index,
    "rescan": measure_rescan,
    "search": measure_search,
    "during": measure_during,
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--corpus", type=Path, required=True)
    parser.add_argument("--second", type=Path, required=True, help="another corpus, indexed while searching")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--goal", choices=GOALS, action="append")
    parser.add_argument("--service", action="store_true", help="through the background service")
    parser.add_argument("--latency-ms", type=int, default=0, help="what the provider adds to each request")
    parser.add_argument("command", nargs="*", default=[COMMAND], help="the server, where it is not the installed one")
    options = parser.parse_args()
    print(machine())
    with tempfile.TemporaryDirectory() as folder, Stub(dim=DIMENSION, latency_ms=options.latency_ms) as stub:
        work = Path(folder)
        corpus = work / "corpus"
        shutil.copytree(options.corpus, corpus)
        place = Place(corpus, options.second, work, stub, options.command, options.rounds, options.service)
        for goal in options.goal or GOALS:
            asyncio.run(GOALS[goal](place))


if __name__ == "__main__":
    main()
