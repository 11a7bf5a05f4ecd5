"""What the benchmarks share: the installed command over stdio, the embeddings stub, and the cost of all processes.

The background service and the embedded engine are nobody's children, so they are found by the state directory that
their command lines name, and counted beside the process that the client started.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import random
import re
import statistics
import subprocess
import sys
import threading
import time
import urllib.request
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, Self

import psutil
from mcp import ClientSession, StdioServerParameters, stdio_client

STUB = Path(__file__).parents[1] / "data" / "stub_embeddings.py"
COMMAND = str(Path(sys.executable).with_name("markdown-fastrag-mcp"))
STUB_KEY = "k"
ENDED = {"succeeded", "failed", "cancelled"}
_SAMPLE_SECONDS = 0.05
_LOOK_SECONDS = 0.5  # between looks for processes that are new: reading every command line costs 10 ms
_MB = 2**20
# By the module that a process runs.
_ROLES = {"markdown_rag.store.": "engine", "markdown_rag.service.": "service", "markdown_rag.indexing.": "chunker"}


def percentile(values: Iterable[float], share: float) -> float:
    """The value below which this share (0 to 1) of the values lies, interpolated."""
    ordered = sorted(values)
    place = (len(ordered) - 1) * share
    low = int(place)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (ordered[high] - ordered[low]) * (place - low)


def spread(seconds: list[float]) -> dict[str, float]:
    """Count, median, 95th percentile and maximum, in ms."""
    if not seconds:
        return {"n": 0}
    return {
        "n": len(seconds),
        "p50_ms": round(percentile(seconds, 0.5) * 1000, 2),
        "p95_ms": round(percentile(seconds, 0.95) * 1000, 2),
        "max_ms": round(max(seconds) * 1000, 2),
    }


def median(values: Iterable[float], digits: int = 3) -> float:
    """The median, rounded for a table."""
    return round(statistics.median(values), digits)


def variables(stub_url: str, state: Path, dimension: int = 768, *, service: bool = False) -> dict[str, str]:
    """The environment of a server that embeds through the stub."""
    return {
        "EMBEDDING_PROVIDER": "openai-compatible",
        "EMBEDDING_API_KEY": STUB_KEY,
        "EMBEDDING_BASE_URL": stub_url,
        "EMBEDDING_DIM": str(dimension),
        "MARKDOWN_RAG_CACHE_DIR": str(state),
        "MARKDOWN_RAG_SERVICE": "on" if service else "off",
    }


class Stub:
    """The embeddings stub as a child process. behaviour: its options, such as latency_ms=50."""

    def __init__(self, **behaviour: object) -> None:
        options = [part for name, value in behaviour.items() for part in (f"--{name.replace('_', '-')}", str(value))]
        self._process = subprocess.Popen([sys.executable, str(STUB), *options], stdout=subprocess.PIPE, text=True)
        assert self._process.stdout is not None
        self.url: str = json.loads(self._process.stdout.readline())["url"]
        self._root = self.url.removesuffix("/v1")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.terminate()
        self._process.communicate(timeout=10)

    def reset(self) -> None:
        """Count from zero."""
        self._ask("/reset", {})

    def stats(self) -> dict[str, Any]:
        """What was asked of it since the last reset."""
        found = self._ask("/stats")
        names = ("requests", "failed", "texts", "distinct_texts", "max_texts_seen", "max_concurrent_seen", "stub_cpu_s")
        return {name: found[name] for name in names}

    def _ask(self, path: str, body: dict[str, Any] | None = None) -> dict[str, Any]:
        data = None if body is None else json.dumps(body).encode()
        with urllib.request.urlopen(urllib.request.Request(self._root + path, data)) as answer:
            found: dict[str, Any] = json.load(answer)
        return found


class Cost:
    """CPU seconds and resident memory of one server by role: agent (stdio), service, engine, and chunker, which is a
    child of one of them. Stops with stop().
    """

    def __init__(self, agent: int, state: Path) -> None:
        self._agent = psutil.Process(agent)
        self._state = str(state)
        self._known: dict[int, tuple[str, psutil.Process]] = {agent: ("agent", self._agent)}
        self._cpu: dict[int, tuple[str, float]] = {}
        self.peak: dict[str, float] = {}
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self._thread.start()

    def restart(self) -> dict[str, float]:
        """Forget the peaks; the CPU seconds up to now, to be passed to since()."""
        self._look()
        cpu = self._sample()
        self.peak = self.resident()
        return cpu

    def since(self, before: dict[str, float]) -> dict[str, dict[str, float]]:
        """CPU seconds since restart() returned before, and peaks in MB."""
        self._look()
        after = self._sample()
        cpu = {role: round(value - before.get(role, 0.0), 2) for role, value in after.items()}
        return {"cpu_s": cpu, "peak_mb": {role: round(value, 1) for role, value in self.peak.items()}}

    def resident(self) -> dict[str, float]:
        """Resident memory in MB, now."""
        found: dict[str, float] = {}
        for role, process in list(self._known.values()):
            with contextlib.suppress(psutil.Error):
                found[role] = found.get(role, 0.0) + process.memory_info().rss / _MB
        return found

    def stop(self) -> None:
        """End sampling."""
        self._ended.set()
        self._thread.join()

    def _look(self) -> None:
        for process in psutil.process_iter():
            if process.pid in self._known:
                continue
            with contextlib.suppress(psutil.Error):
                words = process.cmdline()
                role = next((r for start, r in _ROLES.items() if any(word.startswith(start) for word in words)), None)
                is_ours = any(word.startswith(self._state) for word in words) or process.ppid() in self._known
                if role and is_ours:
                    self._known[process.pid] = (role, process)

    def _sample(self) -> dict[str, float]:
        """CPU seconds by role, of ended processes too; peaks are raised on the way."""
        for pid, (role, process) in list(self._known.items()):
            with contextlib.suppress(psutil.Error):
                times = process.cpu_times()
                self._cpu[pid] = (role, times.user + times.system)
        for role, value in self.resident().items():
            self.peak[role] = max(self.peak.get(role, 0.0), value)
        total: dict[str, float] = {}
        for role, value in self._cpu.values():
            total[role] = total.get(role, 0.0) + value
        return total

    def _watch(self) -> None:
        looked = 0.0
        while not self._ended.wait(_SAMPLE_SECONDS):
            if time.monotonic() - looked > _LOOK_SECONDS:
                self._look()
                looked = time.monotonic()
            self._sample()


class Server:
    """One server process over stdio with a real client session."""

    def __init__(self, command: list[str], environment: dict[str, str], folder: Path, state: Path) -> None:
        self._command = command
        self._environment = environment
        self._folder = folder
        self._state = state
        self._stack = contextlib.AsyncExitStack()

    async def __aenter__(self) -> Self:
        errors = self._stack.enter_context((self._folder / "stderr.log").open("a"))
        parameters = StdioServerParameters(
            command=self._command[0],
            args=self._command[1:],
            env={**os.environ, **self._environment},
            cwd=self._folder,
        )
        others = {process.pid for process in psutil.Process().children()}
        started = time.perf_counter()
        read, write = await self._stack.enter_async_context(stdio_client(parameters, errlog=errors))
        pid = next(process.pid for process in psutil.Process().children() if process.pid not in others)
        self.session = await self._stack.enter_async_context(ClientSession(read, write, read_timeout_seconds=900))
        await self.session.initialize()
        self.initialize_s = time.perf_counter() - started
        self.tools = [tool.name for tool in (await self.session.list_tools()).tools]
        self.tools_list_s = time.perf_counter() - started
        self.cost = Cost(pid, self._state)
        self._stack.callback(self.cost.stop)
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._stack.aclose()

    def end_service(self) -> None:
        """End the service that it started, which nobody else is to share the machine with."""
        subprocess.run([COMMAND, "service", "stop"], env={**os.environ, **self._environment}, check=False)

    async def call(self, tool: str, **arguments: object) -> tuple[dict[str, Any], str, float]:
        """Structure, text and seconds of one call. Raises RuntimeError where the answer is an error."""
        started = time.perf_counter()
        result: Any = await self.session.call_tool(tool, arguments)
        seconds = time.perf_counter() - started
        text = "\n".join(getattr(part, "text", "") for part in result.content)
        if result.is_error:
            raise RuntimeError(f"{tool}: {text}")
        return result.structured_content, text, seconds

    async def search(self, query: str) -> float:
        """Seconds of one search in everything that is indexed."""
        return (await self.call("search_documents", query=query, k=5, workspace="all"))[2]

    async def index(self, folder: Path, poll: float = 0.1) -> dict[str, Any]:
        """Index a folder: when the call returned, when the job had ended (both seen from here), the job's result.

        poll: seconds between questions for the status; 0 waits in one call, as a client that knows how to does.
        """
        started = time.perf_counter()
        accepted, _, returned = await self.call("index_documents", current_working_directory=str(folder))
        asked: list[float] = []
        status: dict[str, Any] = {}
        while status.get("status") not in ENDED:
            wait = {} if poll else {"wait_seconds": 25}
            status, _, seconds = await self.call("get_index_status", job_id=accepted["job_id"], **wait)
            asked.append(seconds)
            if poll and status["status"] not in ENDED:
                await asyncio.sleep(poll)
        if status["status"] != "succeeded":
            raise RuntimeError(f"the job {status['status']}: {status.get('error')}")
        return {
            "return_ms": round(returned * 1000, 2),
            "total_s": round(time.perf_counter() - started, 3),
            "status": spread(asked),
            "result": status["result"],
        }


def questions(folder: Path, count: int, seed: int = 7) -> list[str]:
    """Short natural queries out of a corpus: its headings and first sentences."""
    dice = random.Random(seed)
    files = sorted(folder.rglob("*.md"))
    found: list[str] = []
    while len(found) < count:
        text = dice.choice(files).read_text(encoding="utf-8", errors="replace")
        lines = [line.strip("# ").strip() for line in re.findall(r"^#{1,4} .{12,80}$", text, re.MULTILINE)]
        lines += [line.strip() for line in re.findall(r"^[A-Z][^\n]{30,140}\.$", text, re.MULTILINE)[:5]]
        if lines:
            found.append(dice.choice(lines))
    return found


def disk_mb(folder: Path) -> float:
    """Size of all files under a folder."""
    return round(sum(path.stat().st_size for path in folder.rglob("*") if path.is_file()) / _MB, 1)


def alternate(rounds: int, *sides: Callable[[], float]) -> list[list[float]]:
    """Results of the sides, taken in turns: a noisy machine is noisy for all of them."""
    results: list[list[float]] = [[] for _ in sides]
    for _ in range(rounds):
        for side, values in zip(sides, results, strict=True):
            values.append(side())
    return results


def machine() -> str:
    """What the figures were taken on."""
    load = os.getloadavg()[0]
    memory = psutil.virtual_memory().total / 2**30
    version = ".".join(map(str, sys.version_info[:3]))
    return f"{os.cpu_count()} cores, {memory:.0f} GiB, Python {version}, load {load:.1f} at the start"
