"""The service beside what it replaces: memory of agents, first answers, searches through it and in the process.

    python tests/bench/bench_service.py [--files 1300] [--rounds 200] [--watch-seconds 30]
    python tests/bench/bench_service.py --files 10000 --restarts 5

One JSON document. Every figure stands beside its floor of the same run, taken in turns. The corpus is made up (short
notes, each another text), the model is the local one. --restarts: only how long an unchanged vault takes to answer
after everything has ended.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import psutil
from bench_start import EMPTY, HELLO
from floors import OurEngine, Raw, StockEngine, renamed
from serving import machine, median, percentile

from markdown_rag.facade import Facade, IndexCall, SearchCall
from markdown_rag.service import control
from markdown_rag.service.opening import open_facade
from markdown_rag.settings import load_settings

DIMENSION = 512  # of the local model
RAW_BATCH = 500  # rows of a raw insert
LEAST = 100  # questions while files are written again
AGENT = "from markdown_rag.server.guard import main; main()"
QUERIES = (
    "copper lantern in the harbour",
    "what is number 77?",
    "violet engine",
    "the meadow of the river",
    "note 1234",
)
WORDS = ("river", "window", "copper", "meadow", "signal", "lantern", "harbour", "violet", "engine", "pepper")


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--files", type=int, default=1300)
    parser.add_argument("--rounds", type=int, default=200)
    parser.add_argument("--watch-seconds", type=float, default=30.0)
    parser.add_argument("--restarts", type=int, default=0)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="bench-service-", ignore_cleanup_errors=True) as directory:
        home = Path(directory)
        environ = {**os.environ, "MARKDOWN_RAG_CACHE_DIR": str(home / "state"), "MARKDOWN_RAG_SERVICE": "on"}
        vault = write(home / "vault", options.files)
        try:
            result = measure(environ, vault, options)
        finally:
            control.stop(load_settings(environ))
    print(json.dumps({"machine": machine(), "files": options.files, **result}, indent=1))


def measure(environ: dict[str, str], vault: Path, options: argparse.Namespace) -> dict[str, Any]:
    service = open_facade(environ, vault)
    started = time.perf_counter()
    index(service, vault)
    result: dict[str, Any] = {"index_s": round(time.perf_counter() - started, 2)}
    if options.restarts:
        service.close()
        return result | {"restarts": [restart(environ, vault) for _ in range(options.restarts)]}
    inside = open_facade({**environ, "MARKDOWN_RAG_SERVICE": "off"}, vault)
    result |= searches(service, inside, options.rounds)
    inside.close()
    result |= agents(environ, vault)
    result |= while_indexing(service, vault, Path(environ["MARKDOWN_RAG_CACHE_DIR"]), options.files)
    result |= watching(environ, vault, options.watch_seconds)
    service.close()
    return result | {"restart": restart(environ, vault)}


def searches(service: Facade, inside: Facade, rounds: int) -> dict[str, Any]:
    """The same search through the service and in the process, in turns."""
    through: list[float] = []
    within: list[float] = []
    for number in range(rounds + 10):
        call = SearchCall(QUERIES[number % len(QUERIES)])
        for facade, times in ((service, through), (inside, within)):
            began = time.perf_counter()
            facade.search(call)
            times.append(time.perf_counter() - began)
    return {
        "search_through_service_ms": ms(through[10:]),
        "search_in_process_ms": ms(within[10:]),
    }


def agents(environ: dict[str, str], vault: Path) -> dict[str, Any]:
    """Memory of agents after their first search, and the time to it, beside an empty server."""
    running = [start(EMPTY, environ, vault)]
    empty = resident(running[0])
    seconds, memory = [], []
    for _ in range(8):
        began = time.perf_counter()
        running.append(start(AGENT, environ, vault))
        arguments = {"query": QUERIES[0], "workspace": "all"}
        ask(running[-1], 2, "tools/call", name="search_documents", arguments=arguments)
        seconds.append(time.perf_counter() - began)
        memory.append(resident(running[-1]))
    for process in running:
        process.kill()
        process.communicate()
    return {
        "empty_server_rss_mb": round(empty, 1),
        "agent_rss_mb": [round(each, 1) for each in memory],
        "agent_rss_ratio": round(max(memory) / empty, 3),
        "first_answer_s": [round(each, 2) for each in seconds],
    }


def while_indexing(service: Facade, vault: Path, state: Path, files: int) -> dict[str, Any]:
    """Searches of 8 agents at once, idle and while every file is written again, each beside raw pairs of calls.

    Raw calls to our engine meet the same runs. Those to the libraries as they are installed meet the rows of a run,
    inserted raw in the time that a run takes.
    """
    stock, ours = StockEngine(state, state / "stock"), OurEngine(state)
    name = ours.collection()
    rows = ours.rows(name)
    query_vector = np.full(DIMENSION, DIMENSION**-0.5, dtype=np.float32)
    took: list[float] = []

    def search(turn: int) -> None:
        service.search(SearchCall(QUERIES[turn % len(QUERIES)]))

    def pair(engine: Raw, turn: int) -> None:
        engine.pair(name, query_vector, QUERIES[turn % len(QUERIES)])

    def run(ask_once: Callable[[int], None]) -> list[float]:
        began = time.monotonic()
        job_id = service.index(IndexCall(root=str(vault), force=True))["job_id"]
        times = storm(ask_once, 60.0, partial(is_running, service, job_id))
        finish(service, job_id)
        took.append(time.monotonic() - began)
        return times

    def raw_run(ask_once: Callable[[int], None]) -> list[float]:
        mark = f"raw{time.monotonic_ns()}"
        inserting = stock.insert_over(name, renamed(rows, mark), RAW_BATCH, sum(took) / len(took))
        times = storm(ask_once, 60.0, inserting.is_alive)
        inserting.join()
        stock.remove(name, mark)
        return times

    figures: dict[str, Any] = {"n": files}
    for kind, ask_once, load in (
        ("search", search, run),
        ("raw_on_our_engine", partial(pair, ours), run),
        ("raw", partial(pair, stock), raw_run),
    ):
        storm(ask_once, 2.0)  # the first questions of a process load what the others use
        figures[f"8_agents_{kind}_idle_ms"] = ms(storm(ask_once, 10.0))
        times: list[float] = []
        while len(times) < LEAST:  # one run is over after a few questions
            times += load(ask_once)
        figures[f"8_agents_{kind}_indexing_ms"] = ms(times)
    ours.close()
    stock.close()
    return figures


def is_running(service: Facade, job_id: str) -> bool:
    return bool(service.status(job_id)["status"] == "running")


def storm(ask_once: Callable[[int], None], seconds: float, going: Callable[[], bool] = lambda: True) -> list[float]:
    """Seconds of every question of 8 agents that ask once a second."""
    times: list[float] = []
    until = time.monotonic() + seconds

    def agent(number: int) -> None:
        turn = number
        while time.monotonic() < until and going():
            began = time.perf_counter()
            ask_once(turn)
            times.append(time.perf_counter() - began)
            turn += 1
            time.sleep(1.0)

    threads = [threading.Thread(target=agent, args=(n,)) for n in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return times


def watching(environ: dict[str, str], vault: Path, seconds: float) -> dict[str, Any]:
    """Idle processor use with the watcher on, and how long an edit takes to be found."""
    service = open_facade({**environ, "MARKDOWN_WATCH": "on"}, vault)
    service.status()
    time.sleep(6.0)  # the first look, and the one after events began to flow
    (facts,) = control.status(load_settings(environ))
    process = psutil.Process(facts["pid"])
    before, began = sum(process.cpu_times()[:2]), time.monotonic()
    time.sleep(seconds)
    share = (sum(process.cpu_times()[:2]) - before) / (time.monotonic() - began)
    delays = []
    for number in range(5):
        word = f"zanzibar{number}"
        (vault / "note0001.md").write_text(f"# Note\n\nThe word is {word}.\n", encoding="utf-8")
        written = time.perf_counter()
        while not any(word in hit["text"] for hit in service.search(SearchCall(word, k=1))["hits"]):
            time.sleep(0.02)
        delays.append(time.perf_counter() - written)
    service.close()
    return {"idle_cpu_percent_watching": round(100 * share, 2), "edit_found_after_s": [round(d, 2) for d in delays]}


def restart(environ: dict[str, str], vault: Path) -> dict[str, Any]:
    """Everything ended; the time to the first answer of a new agent, and to the first that nothing is missing from."""
    control.stop(load_settings(environ))
    time.sleep(6.0)  # the engine leaves too
    began = time.perf_counter()
    process = start(AGENT, environ, vault)
    found: dict[str, Any] = {}
    figures: dict[str, Any] = {}
    while not figures or found.get("degraded"):
        answer = ask(process, 2, "tools/call", name="search_documents", arguments={"query": QUERIES[0]})
        found = answer["result"]["structuredContent"]
        seconds = round(time.perf_counter() - began, 2)
        if not figures:
            figures = {"first_answer_s": seconds, "degraded": found.get("degraded", ""), "hits": len(found["hits"])}
    figures["full_answer_s"] = seconds
    process.kill()
    process.communicate()
    return figures


def write(vault: Path, files: int) -> Path:
    vault.mkdir()
    for n in range(files):
        words = " ".join(WORDS[(n * step + step) % 10] for step in range(1, 40))
        (vault / f"note{n:04}.md").write_text(f"# Note {n}\n\nNumber {n}: {words}.\n", encoding="utf-8")
    return vault


def index(facade: Facade, vault: Path) -> None:
    finish(facade, facade.index(IndexCall(root=str(vault)))["job_id"])


def finish(facade: Facade, job_id: str) -> None:
    while (status := facade.status(job_id, 20.0))["status"] in {"queued", "running"}:
        pass
    assert status["status"] == "succeeded", status


def start(code: str, environ: dict[str, str], folder: Path) -> subprocess.Popen[str]:
    process = subprocess.Popen(
        [sys.executable, "-c", code],
        env={**environ, "PYTHONPATH": str(Path(__file__).resolve().parents[2])},
        cwd=folder,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    ask(process, 1, "initialize", **HELLO["params"])
    return process


def ask(process: subprocess.Popen[str], number: int, method: str, **params: Any) -> dict[str, Any]:
    assert process.stdin
    assert process.stdout
    process.stdin.write(json.dumps({"jsonrpc": "2.0", "id": number, "method": method, "params": params}) + "\n")
    process.stdin.flush()
    for line in process.stdout:
        answer: dict[str, Any] = json.loads(line)
        if answer.get("id") == number:
            return answer
    raise RuntimeError("the server ended")


def resident(process: subprocess.Popen[str]) -> float:
    return psutil.Process(process.pid).memory_info().rss / 2**20


def ms(times: list[float]) -> dict[str, float]:
    return {
        "n": len(times),
        "p50": round(1000 * median(times, 6), 2),
        "p95": round(1000 * percentile(times, 0.95), 2),
    }


if __name__ == "__main__":
    main()
