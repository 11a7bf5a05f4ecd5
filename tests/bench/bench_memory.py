"""Memory by size of the corpus: the peak of every process during a full index, and what the engine keeps.

    python tests/bench/bench_memory.py --corpus SMALL/docs --corpus LARGE/docs [--service]

One fresh state directory a corpus. The peak of the process that indexes must not grow with the corpus; the engine holds
its rows in memory, so its own grows with them.
"""

from __future__ import annotations

import argparse
import asyncio
import tempfile
from pathlib import Path

from serving import COMMAND, Server, Stub, machine, questions, variables

SEARCHES = 20


async def measure(corpus: Path, work: Path, stub: Stub, *, service: bool) -> str:
    """A line of the table."""
    state = work / "state"
    environment = variables(stub.url, state, service=service)
    async with Server([COMMAND], environment, work, state) as server:
        before = server.cost.restart()
        figures = await server.index(corpus, poll=0)
        cost = server.cost.since(before)
        for query in questions(corpus, SEARCHES):
            await server.search(query)
        kept = server.cost.resident()
    peaks = ", ".join(f"{role} {value:.0f}" for role, value in sorted(cost["peak_mb"].items()))
    after = ", ".join(f"{role} {value:.0f}" for role, value in sorted(kept.items()))
    result = figures["result"]
    return f"| {result['processed_files']} | {result['total_chunks']} | {figures['total_s']} | {peaks} | {after} |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--corpus", type=Path, action="append", required=True)
    parser.add_argument("--service", action="store_true", help="through the background service")
    options = parser.parse_args()
    print(machine())
    print("| files | rows | index s | peak MB while indexing | MB after it, having searched |\n|---|---|---|---|---|")
    for corpus in options.corpus:
        with tempfile.TemporaryDirectory() as folder, Stub() as stub:
            print(asyncio.run(measure(corpus, Path(folder), stub, service=options.service)), flush=True)


if __name__ == "__main__":
    main()
