"""Whatever a provider does, every text ends as a vector, as a named refusal, or in an error: none is forgotten."""

from __future__ import annotations

import threading
from collections.abc import Sequence

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from markdown_rag.clock import ManualClock, StopSignal
from markdown_rag.embeddings.base import Limits, Matrix, ModelCard, Role
from markdown_rag.embeddings.batching import Batcher, BatchPolicy
from markdown_rag.errors import (
    EmbeddingError,
    EmbeddingMismatch,
    EmbeddingRefused,
    EmbeddingThrottled,
    EmbeddingUnavailable,
)

FAULTS = ["", "", "", "refused", "down", "busy", "busy-named", "short", "nan"]


class Moody:
    """A provider whose requests go wrong by a list of moods, and for which some texts are bad for good."""

    def __init__(self, moods: Sequence[str], bad: dict[str, str], most: int) -> None:
        self._moods = list(moods)
        self._bad = bad
        self._most = most
        self._lock = threading.Lock()
        self.paid: list[str] = []

    card = ModelCard("moody", "m", 3)
    limits = Limits(0, 0, 0)

    def embed(self, texts: Sequence[str], role: Role) -> Matrix:
        del role
        with self._lock:
            mood = self._moods.pop() if self._moods else ""
        if mood == "down":
            raise EmbeddingUnavailable("down")
        if mood.startswith("busy"):
            raise EmbeddingThrottled("busy", retry_after=3.0 if mood == "busy-named" else None)
        if len(texts) > self._most:
            raise EmbeddingRefused("too many")
        faults = {self._bad.get(text, "") for text in texts}
        if mood == "refused" or "refused" in faults:
            raise EmbeddingRefused("not this")
        if "down" in faults:
            raise EmbeddingUnavailable("broke on it")
        if mood == "short":
            raise EmbeddingMismatch("short")
        rows = np.array([[len(text), ord(text[-1]), 1] for text in texts], np.float32)
        for row, text in enumerate(texts):
            if (mood == "nan" and row == 0) or self._bad.get(text) == "nan":
                rows[row] = np.nan
        with self._lock:
            self.paid += texts
        return rows

    def close(self) -> None:
        """Nothing is open."""


@settings(max_examples=120, deadline=None)
@given(
    count=st.integers(1, 30),
    moods=st.lists(st.sampled_from(FAULTS), max_size=25),
    bad=st.dictionaries(st.integers(0, 29), st.sampled_from(["refused", "down", "nan"]), max_size=4),
    most=st.integers(1, 12),
    items=st.integers(1, 12),
    concurrent=st.integers(1, 4),
)
def test_no_text_is_forgotten_doubled_or_mixed_up(  # noqa: PLR0917
    count: int, moods: list[str], bad: dict[int, str], most: int, items: int, concurrent: int
) -> None:
    texts = [f"text {i}" for i in range(count)]
    provider = Moody(moods, {f"text {i}": fault for i, fault in bad.items()}, most)
    handed: list[int] = []
    settled: list[int] = []
    batcher = Batcher(provider, BatchPolicy(items=items, concurrent=concurrent), ManualClock())
    try:
        outcome = batcher.embed(
            texts, Role.DOCUMENT, StopSignal(), settled.append, on_vectors=lambda i, _: handed.extend(i)
        )
    except EmbeddingError:
        outcome = None
    assert batcher.join(5)
    paid = [text for text in provider.paid if text != "probe"]
    assert len(paid) == len(set(paid))
    assert len(handed) == len(set(handed))
    if outcome is None:
        return
    assert sum(settled) == count
    for index, (text, vector) in enumerate(zip(texts, outcome.vectors, strict=True)):
        assert (vector is None) == (index in outcome.refused)
        if vector is not None:
            expected = np.array([len(text), ord(text[-1]), 1], np.float32)
            assert np.allclose(vector, expected / np.linalg.norm(expected), atol=1e-6)
            assert index in handed
    if not moods:
        assert set(outcome.refused) == {index for index in bad if index < count}
