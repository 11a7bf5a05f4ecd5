"""One large index run from cold, with a provider that takes 50 ms a request: on the embedded engine and on a server.

    python tests/bench/bench_scale.py --corpus DIR [--server] [--latency 50]

DIR: markdown files (``make_corpus.py`` writes some). The provider is a stub in a process of its own: 768 dimensions,
requests of 250 texts, 4 at once. Everything that the run starts counts: processor seconds of all processes but the
stub's, and each one's peak memory. --server: a Milvus Standalone from the ``milvus`` package, already running.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import threading
import time
from collections import defaultdict
from contextlib import ExitStack
from pathlib import Path

import psutil

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT))

STUB = ROOT / "tests" / "data" / "stub_embeddings.py"
COMMAND = Path(sys.executable).parent / "markdown-fastrag-mcp"
MARK = "PYTHONBENCHSCALE"  # inherited by all that the run starts: an engine is passed on what starts with PYTHON
_LOOK_S = 0.2


class Watch:
    """Processor seconds and peak memory (MB) of every marked process, by what it runs."""

    def __init__(self, mark: str, others: list[int]) -> None:
        self.cpu: dict[int, float] = {}
        self.peak: dict[str, float] = defaultdict(float)
        self._mark = mark
        self._others = others
        self._first: dict[int, float] = {}
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        while not self._end.wait(_LOOK_S):
            for process in psutil.process_iter():
                try:
                    if process.pid in self._others or process.environ().get(MARK) == self._mark:
                        self._look(process)
                except psutil.Error:
                    continue

    def _look(self, process: psutil.Process) -> None:
        line = " ".join(process.cmdline())
        kinds = (("engine", "markdown_rag.store"), ("chunker", "chunker"), ("milvus", "standalone"))
        kind = next((name for name, word in kinds if word in line), "indexer")
        used = process.cpu_times()
        self._first.setdefault(process.pid, used.user + used.system if process.pid in self._others else 0.0)
        self.cpu[process.pid] = used.user + used.system - self._first[process.pid]
        self.peak[kind] = max(self.peak[kind], process.memory_info().rss / 2**20)

    def stop(self) -> None:
        self._end.set()
        self._thread.join()


def run(corpus: Path, url: str, address: str, others: list[int]) -> None:
    with tempfile.TemporaryDirectory() as state:
        environment = {
            "PATH": "/usr/bin:/bin",
            "HOME": state,
            MARK: state,
            "MARKDOWN_RAG_CACHE_DIR": state,
            "MARKDOWN_RAG_SERVICE": "off",
            "MARKDOWN_COLLECTION": f"scale_{int(time.time())}",
            "EMBEDDING_PROVIDER": "openai-compatible",
            "EMBEDDING_BASE_URL": url,
            "EMBEDDING_DIM": "768",
            "MILVUS_ADDRESS": address,
        }
        watch = Watch(state, others)
        started = time.perf_counter()
        command = [COMMAND, "index", corpus, "--json"]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
        seconds = time.perf_counter() - started
        watch.stop()
        result = json.loads(done.stdout)["result"]
        where = "embedded engine" if not address else "Milvus server"
        peaks = ", ".join(f"{name} {peak:.0f}" for name, peak in sorted(watch.peak.items()))
        print(
            f"| {where} | {result['insert_count']:,} | {seconds:.1f} s | {result['insert_count'] / seconds:,.0f} | "
            f"{sum(watch.cpu.values()):.1f} s | {peaks} |",
            flush=True,
        )
        print(f"<!-- {json.dumps(result['timings_seconds'])} -->", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", maxsplit=1)[0])
    parser.add_argument("--corpus", type=Path, required=True)
    parser.add_argument("--server", action="store_true")
    parser.add_argument("--latency", type=float, default=50.0)
    options = parser.parse_args()
    with ExitStack() as stack:
        command = [sys.executable, str(STUB), "--dim", "768", "--latency-ms", str(options.latency), "--mode", "hash"]
        stub = stack.enter_context(subprocess.Popen(command, stdout=subprocess.PIPE, text=True))
        stack.callback(stub.terminate)
        assert stub.stdout
        url = json.loads(stub.stdout.readline())["url"]
        print("| where | chunks | time | chunks/s | processor | peak memory, MB |")
        print("| --- | --- | --- | --- | --- | --- |")
        if not options.server:
            run(options.corpus, url, "", [])
            return
        from tests.standalone import standalone

        server = stack.enter_context(standalone(Path(stack.enter_context(tempfile.TemporaryDirectory())) / "milvus"))
        found = psutil.process_iter(["cmdline"])  # None of a process that has just ended
        pids = [p.pid for p in found if "standalone" in " ".join(p.info["cmdline"] or ())]
        run(options.corpus, url, server.address, pids)


if __name__ == "__main__":
    main()
