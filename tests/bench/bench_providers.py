"""How fast texts go through each provider's real SDK, against a stub on this machine; the table of the documentation.

    python tests/bench/bench_providers.py [--texts 4000] [--latency 0 50 300]

The stub is a process of its own. For each provider and latency: texts a second through our batching, and the same
batches through the same adapter by as many bare threads, with nothing judged, retried or combined: what the allowed
concurrency can give on this machine now. The two alternate; the best of nine rounds counts for both.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))

from markdown_rag.clock import StopSignal, SystemClock
from markdown_rag.embeddings.base import Embedder, Role
from markdown_rag.embeddings.batching import Batcher, BatchPolicy
from markdown_rag.embeddings.packing import estimate_tokens, pack
from markdown_rag.embeddings.registry import PROVIDERS, EmbeddingSettings, create_embedder
from markdown_rag.precedence import take_short_turns

CONCURRENT = 4
ROUNDS = 9
STUB = Path(__file__).parents[1] / "data" / "stub_embeddings.py"


def account(root: str, folder: Path) -> Path:
    """A Google service account whose tokens the stub gives out."""
    from cryptography.hazmat.primitives import serialization
    from cryptography.hazmat.primitives.asymmetric import rsa

    key = rsa.generate_private_key(public_exponent=65_537, key_size=2_048)
    pem = key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    file = folder / "account.json"
    content = {
        "type": "service_account",
        "project_id": "p",
        "private_key_id": "1",
        "private_key": pem.decode(),
        "client_email": "a@p.iam.gserviceaccount.com",
        "client_id": "1",
        "token_uri": root + "/token",
    }
    file.write_text(json.dumps(content))
    return file


def embedder(provider: str, url: str) -> Embedder:
    root = url.removesuffix("/v1")
    return create_embedder(
        EmbeddingSettings(
            provider=provider,
            model="text-embedding-005" if provider == "vertex" else "",
            base_url=root if provider in ("gemini", "vertex") else url,
            api_key="sk-bench",
            dimension=256,
        )
    )


def timed(work: Callable[[], object]) -> float:
    started = time.perf_counter()
    work()
    return time.perf_counter() - started


def measure(provider: str, url: str, texts: list[str]) -> tuple[float, float, int]:
    """Seconds through our batching, through bare threads, and texts a request."""
    made = embedder(provider, url)
    made.embed(["connect"], Role.DOCUMENT)
    policy = BatchPolicy(concurrent=CONCURRENT)
    most = min(policy.items, made.limits.items or policy.items)
    batches = [[texts[i] for i in piece] for piece in pack(map(estimate_tokens, texts), made.limits, most)]
    ours: list[float] = []
    bare: list[float] = []
    with ThreadPoolExecutor(CONCURRENT) as threads:
        for _ in range(ROUNDS):
            bare.append(timed(lambda: list(threads.map(lambda batch: made.embed(batch, Role.DOCUMENT), batches))))
            work = partial(Batcher(made, policy, SystemClock()).embed, texts, Role.DOCUMENT, StopSignal())
            ours.append(timed(work))
    made.close()
    return min(ours), min(bare), max(map(len, batches))


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", maxsplit=1)[0])
    parser.add_argument("--texts", type=int, default=4_000)
    parser.add_argument("--provider", action="append", choices=[name for name in PROVIDERS if name != "local"])
    parser.add_argument("--latency", type=int, nargs="*", default=[0, 50, 300])
    options = parser.parse_args()
    take_short_turns()  # as every process of ours that indexes
    words = ("salt", "water", "boats", "harbour", "gulls", "rope", "tar", "nets", "dawn", "tide", "keel", "mast")
    rng = random.Random(1)
    texts = [" ".join(rng.choices(words, k=50)) + f" {number}" for number in range(options.texts)]
    command = [sys.executable, str(STUB), "--dim", "256", "--mode", "hash"]
    with (
        tempfile.TemporaryDirectory() as folder,
        subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as stub,
    ):
        try:
            assert stub.stdout
            url = json.loads(stub.stdout.readline())["url"]
            os.environ["GOOGLE_APPLICATION_CREDENTIALS"] = str(account(url.removesuffix("/v1"), Path(folder)))
            print("| provider | texts a request | latency | texts/s | of what 4 at once can give |")
            print("| --- | --- | --- | --- | --- |")
            for provider in options.provider or [name for name in PROVIDERS if name != "local"]:
                for latency in options.latency:
                    control(url, latency_ms=latency)
                    ours, bare, items = measure(provider, url, texts)
                    share = f"{bare / ours:.0%}"
                    print(f"| `{provider}` | {items} | {latency} ms | {len(texts) / ours:,.0f} | {share} |", flush=True)
        finally:
            stub.terminate()


def control(url: str, **behaviour: object) -> None:
    import urllib.request

    request = urllib.request.Request(url.removesuffix("/v1") + "/control", json.dumps(behaviour).encode())
    urllib.request.urlopen(request).read()


if __name__ == "__main__":
    main()
