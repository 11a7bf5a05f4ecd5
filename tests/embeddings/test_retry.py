"""What is done about a failure."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from markdown_rag.embeddings.retry import Action, BatchPolicy, Case, backoff, decide
from markdown_rag.errors import (
    EmbeddingAuthError,
    EmbeddingError,
    EmbeddingMismatch,
    EmbeddingRefused,
    EmbeddingThrottled,
    EmbeddingUnavailable,
)

POLICY = BatchPolicy()
CASE = Case(texts=10, attempts=1, idle_s=0, patience_s=60, proved=True, others_work=False, chance=0.5)
DOWN, BUSY = EmbeddingUnavailable("down"), EmbeddingThrottled("busy")
REFUSED, WRONG, ODD = EmbeddingRefused("no"), EmbeddingAuthError("key"), EmbeddingMismatch("odd")


@pytest.mark.parametrize(
    ("failure", "case", "action"),
    [
        (WRONG, CASE, Action.GIVE_UP),
        (REFUSED, CASE, Action.HALVE),
        (REFUSED, replace(CASE, texts=1), Action.REFUSE),
        (REFUSED, replace(CASE, proved=False), Action.PROBE),
        (REFUSED, replace(CASE, texts=1, proved=False), Action.PROBE),
        (REFUSED, replace(CASE, texts=0, proved=False), Action.GIVE_UP),
        (REFUSED, replace(CASE, texts=0), Action.GIVE_UP),
        (ODD, CASE, Action.RETRY),
        (ODD, replace(CASE, attempts=2), Action.GIVE_UP),
        (DOWN, CASE, Action.RETRY),
        (DOWN, replace(CASE, attempts=4), Action.RETRY),
        (DOWN, replace(CASE, attempts=5), Action.PROBE),
        (DOWN, replace(CASE, attempts=50, texts=0), Action.RETRY),
        (DOWN, replace(CASE, idle_s=61), Action.GIVE_UP),
        (DOWN, replace(CASE, attempts=5, others_work=True), Action.HALVE),
        (DOWN, replace(CASE, attempts=4, others_work=True), Action.RETRY),
        (DOWN, replace(CASE, attempts=5, others_work=True, texts=1), Action.REFUSE),
        (BUSY, replace(CASE, attempts=50, others_work=True), Action.RETRY),
        (BUSY, replace(CASE, idle_s=61), Action.GIVE_UP),
        (EmbeddingThrottled("later", retry_after=3_600), CASE, Action.GIVE_UP),
        (EmbeddingUnavailable("later", retry_after=59), CASE, Action.RETRY),
    ],
)
def test_each_kind_of_failure_has_its_answer(failure: EmbeddingError, case: Case, action: Action) -> None:
    assert decide(failure, case, POLICY).action is action


@given(attempts=st.integers(1, 10_000), chance=st.floats(0, 1, exclude_max=True))
def test_the_wait_grows_is_capped_and_never_vanishes(attempts: int, chance: float) -> None:
    wait = backoff(attempts, chance, POLICY)
    assert POLICY.backoff_s / 2 <= wait <= POLICY.backoff_most_s
    assert wait <= backoff(attempts + 1, chance, POLICY)


def test_a_servers_own_wish_is_waited_for() -> None:
    assert decide(EmbeddingUnavailable("later", retry_after=40), CASE, POLICY).wait_s == 40
