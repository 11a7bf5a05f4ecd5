"""Start: spawn to the reply to ``initialize``, beside an empty ``MCPServer`` in the same run, in turns.

    python tests/bench/bench_start.py [--rounds 15]

Both sides run the same interpreter, speak stdio through bare pipes (no client library between), and are killed after
the reply. CPU seconds are those of the process up to the reply: they hold on a busy machine.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import psutil
from serving import COMMAND, machine, median

EMPTY = "from mcp.server.mcpserver import MCPServer; MCPServer('empty').run('stdio')"
HELLO = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "initialize",
    "params": {
        "protocolVersion": "2025-06-18",
        "capabilities": {},
        "clientInfo": {"name": "bench", "version": "1"},
    },
}


def start(command: list[str], state: str) -> tuple[float, float, float]:
    """Seconds to the reply, CPU seconds up to it, resident MB after it."""
    environment = {**os.environ, "MARKDOWN_RAG_CACHE_DIR": state}
    started = time.perf_counter()
    process = subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=environment
    )
    with process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(json.dumps(HELLO).encode() + b"\n")
        process.stdin.flush()
        reply = json.loads(process.stdout.readline())
        seconds = time.perf_counter() - started
        seen = psutil.Process(process.pid)
        times, resident = seen.cpu_times(), seen.memory_info().rss / 2**20
        process.kill()
    assert reply["result"]["serverInfo"], reply
    return seconds, times.user + times.system, resident


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--rounds", type=int, default=15)
    options = parser.parse_args()
    sides = {"empty MCPServer": [sys.executable, "-c", EMPTY], "markdown-fastrag-mcp": [COMMAND]}
    taken: dict[str, list[tuple[float, float, float]]] = {name: [] for name in sides}
    print(f"{machine()}; {options.rounds} rounds")
    with tempfile.TemporaryDirectory() as folder:
        for command in sides.values():  # bytecode and disk cache
            start(command, str(Path(folder) / "state"))
        for _ in range(options.rounds):
            for name, command in sides.items():
                taken[name].append(start(command, str(Path(folder) / "state")))
    middle = {name: [median(column) for column in zip(*values, strict=True)] for name, values in taken.items()}
    for name, (seconds, cpu, resident) in middle.items():
        print(f"{name:22} {seconds:.3f} s to the reply, {cpu:.3f} CPU s, {resident:.0f} MB")
    empty, ours = middle.values()
    ratios = [b / a for a, b in zip(empty, ours, strict=True)]
    print("ours / empty           " + ", ".join(f"{ratio:.2f}" for ratio in ratios))


if __name__ == "__main__":
    main()
