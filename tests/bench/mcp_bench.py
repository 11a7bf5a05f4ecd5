"""The main job as a client sees it, over stdio, phase by phase.

    python tests/bench/make_corpus.py DIR --files 1300 --docs SOURCE
    python tests/bench/mcp_bench.py --corpus DIR/docs [--service] [--stub latency_ms=50] [--json] [-- COMMAND ...]

Phases: start, index, rescan, touch, edit1, add1, delete1, rename1, search, during, restart. The corpus is copied, so
that edits never touch the original; embeddings come from the stub (768 dimensions). Times are wall clock at the client;
CPU seconds and memory are those of every process of the server (``serving.Cost``).
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from serving import COMMAND, Server, Stub, disk_mb, machine, median, questions, spread, variables

ADDED = "\n\n## Quuxword zephyrine\n\n" + "The quuxword zephyrine setting controls the flux of the engine. " * 40
STARTS = 3
SEARCHES = 100
AT_ONCE = 40
PAUSE_SECONDS = 0.1  # between two searches while an index job runs
Figures = dict[str, Any]


class Bench:
    """One run over one corpus. figures: a dictionary a phase."""

    def __init__(self, corpus: Path, work: Path, command: list[str], stub: Stub, *, service: bool) -> None:
        self._corpus = corpus
        self._work = work
        self._folder = work / "ws"
        self._state = work / "state"
        self._command = command
        self._stub = stub
        self._service = service
        shutil.copytree(corpus, self._folder)
        self._files = sorted(self._folder.rglob("*.md"))
        self.figures: dict[str, Figures] = {}

    def _server(self, state: Path | None = None) -> Server:
        place = state or self._state
        environment = variables(self._stub.url, place, service=self._service)
        return Server(self._command, environment, self._work, place)

    async def run(self) -> None:
        """All phases."""
        size = sum(path.stat().st_size for path in self._files) / 1e6
        self.figures["corpus"] = {"files": len(self._files), "mb": round(size, 2)}
        await self._start()
        async with self._server() as server:
            await self._index_phases(server)
            self.figures["search"] = await self._search(server)
            self.figures["during"] = await self._during(server)
        await self._restart()

    async def _start(self) -> None:
        taken = []
        for number in range(STARTS):
            async with self._server(self._work / f"state-start{number}") as server:
                taken.append((server.initialize_s, server.tools_list_s, server.cost.resident()["agent"]))
            server.end_service()
        names = ("initialize_s", "tools_list_s", "rss_idle_mb")
        self.figures["start"] = dict(zip(names, (median(c) for c in zip(*taken, strict=True)), strict=True))

    async def _index_phases(self, server: Server) -> None:
        middle, third, quarter = (self._files[len(self._files) // part] for part in (2, 3, 4))
        first = self._files[0]

        def edit() -> None:
            middle.write_text(middle.read_text(encoding="utf-8") + ADDED, encoding="utf-8")

        steps: dict[str, Callable[[], object]] = {
            "index": lambda: None,
            "rescan": lambda: None,
            "touch": lambda: [os.utime(path) for path in self._files],
            "edit1": edit,
            "add1": lambda: first.with_name("added.md").write_text("# Added\n" + ADDED, encoding="utf-8"),
            "delete1": third.unlink,
            "rename1": lambda: quarter.rename(quarter.with_name("renamed.md")),
        }
        for name, change in steps.items():
            change()
            self.figures[name] = await self._job(server, self._folder)
            report(name, self.figures[name])
        self.figures["index"]["state_mb"] = disk_mb(self._state)

    async def _job(self, server: Server, folder: Path) -> Figures:
        self._stub.reset()
        before = server.cost.restart()
        figures = await server.index(folder)
        result = figures.pop("result")
        figures |= {"chunks": result["total_chunks"], "seconds": result["timings_seconds"]}
        return figures | server.cost.since(before) | {"stub": self._stub.stats()}

    async def _search(self, server: Server) -> Figures:
        asked = questions(self._folder, SEARCHES)
        for query in questions(self._folder, 10, seed=3):
            await server.search(query)
        before = server.cost.restart()
        new = [await server.search(query) for query in asked]
        cost = server.cost.since(before)
        again = [await server.search(query) for query in asked]
        started = time.perf_counter()
        await asyncio.gather(*[server.search(query) for query in questions(self._folder, AT_ONCE, seed=5)])
        figures = spread(new) | {"asked_again": spread(again)} | cost
        figures["at_once_s"] = round(time.perf_counter() - started, 3)
        text = (await server.call("search_documents", query=asked[0], workspace="all"))[1]
        figures["answer_bytes"] = len(text.encode())
        report("search", figures)
        return figures

    async def _during(self, server: Server) -> Figures:
        """Searches while a second copy is indexed, every text of which is new."""
        second = self._work / "ws2"
        shutil.copytree(self._corpus, second)
        for path in second.rglob("*.md"):
            text = path.read_text(encoding="utf-8")
            path.write_text(text.replace(". ", ", again. "), encoding="utf-8")
        asked = questions(self._folder, 2000, seed=11)
        ended = asyncio.Event()
        taken: list[float] = []

        async def search() -> None:
            while not ended.is_set():
                taken.append(await server.search(asked[len(taken) % len(asked)]))
                await asyncio.sleep(PAUSE_SECONDS)

        searching = asyncio.create_task(search())
        figures = await self._job(server, second)
        ended.set()
        await searching
        figures["search"] = spread(taken)
        report("during", figures)
        return figures

    async def _restart(self) -> None:
        async with self._server() as server:
            first = await server.search("what is the configuration")
            figures = await self._job(server, self._folder)
            self.figures["restart"] = figures | {
                "initialize_s": round(server.initialize_s, 3),
                "first_search_ms": round(first * 1000, 1),
            }


def report(name: str, figures: Figures) -> None:
    """A line on stderr, for who waits."""
    shown = {key: value for key, value in figures.items() if not isinstance(value, dict)}
    print(f"[{name}] {shown}", file=sys.stderr, flush=True)


def table(figures: dict[str, Figures]) -> str:
    """The figures as a Markdown table."""
    lines = ["| phase | time | CPU s | peak MB |", "|---|---|---|---|"]
    start, search, during = figures["start"], figures["search"], figures["during"]
    lines.append(f"| start to `initialize` | {start['initialize_s']} s | | agent {start['rss_idle_mb']:.0f} idle |")
    lines.append(f"| `index_documents` returns | {figures['index']['return_ms']} ms | | |")
    for name in ("index", "rescan", "touch", "edit1", "add1", "delete1", "rename1"):
        one = figures[name]
        time_ = f"{one['total_s']} s (job {one['seconds']['total']} s)"
        lines.append(f"| {name} | {time_} | {costs(one)} |")
    again = search["asked_again"]
    lines += [
        f"| search p50 / p95, new query | {search['p50_ms']} / {search['p95_ms']} ms | {costs(search)} |",
        f"| search p50 / p95, asked before | {again['p50_ms']} / {again['p95_ms']} ms | | |",
        f"| {AT_ONCE} searches at once | {search['at_once_s']} s | | |",
        f"| index of a second copy, searched | {during['total_s']} s | {costs(during)} |",
        f"| search p50 / p95 meanwhile | {during['search']['p50_ms']} / {during['search']['p95_ms']} ms | | |",
        f"| restart: first search | {figures['restart']['first_search_ms']} ms | | |",
        f"| restart: rescan | {figures['restart']['total_s']} s | | |",
    ]
    return "\n".join(lines)


def costs(figures: Figures) -> str:
    """Two cells: CPU seconds and peak memory by process."""
    return f"{_roles(figures['cpu_s'])} | {_roles(figures['peak_mb'])}"


def _roles(values: dict[str, float]) -> str:
    return ", ".join(f"{role} {value:.1f}" if value < 100 else f"{role} {value:.0f}" for role, value in values.items())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--corpus", type=Path, required=True)
    parser.add_argument("--work", type=Path, help="where copy and state go (emptied first); default: a temporary one")
    parser.add_argument("--service", action="store_true", help="through the background service")
    parser.add_argument("--stub", action="append", default=[], metavar="NAME=VALUE")
    parser.add_argument("--json", action="store_true", help="print all figures instead of the table")
    parser.add_argument("command", nargs="*", default=[COMMAND])
    options = parser.parse_args()
    about = f"{datetime.now(UTC):%Y-%m-%d}, {machine()}"
    with tempfile.TemporaryDirectory() as spare, Stub(**dict(pair.split("=", 1) for pair in options.stub)) as stub:
        work = (options.work or Path(spare) / "work").resolve()
        if work.exists():
            shutil.rmtree(work)
        work.mkdir(parents=True)
        bench = Bench(options.corpus, work, options.command, stub, service=options.service)
        asyncio.run(bench.run())
    print(json.dumps(bench.figures, indent=1) if options.json else f"{about}\n\n{table(bench.figures)}")


if __name__ == "__main__":
    main()
