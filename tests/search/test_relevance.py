"""The score that is shown."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from markdown_rag.embeddings.local import DIMENSION, MODEL
from markdown_rag.search.relevance import DenseScale, dense_scale, falling, nothing_relevant, relevance
from markdown_rag.store.base import Model

SCALE = DenseScale(low=0.1, high=0.6, spread=0.2, peak=0.1)
SHARE = st.floats(0, 1)
SIMILARITY = st.none() | st.floats(-1, 1)


@pytest.mark.parametrize(
    ("coverage", "similarity", "score"),
    [
        (0.0, 0.1, 0.0),
        (0.0, -0.3, 0.0),
        (0.0, 0.35, 0.5),
        (0.0, 0.6, 1.0),
        (0.0, 0.9, 1.0),
        (1.0, None, 0.7),
        (1.0, 0.35, 0.85),
        (0.0, None, 0.0),
    ],
)
def test_words_and_meaning_each_make_a_hit_surer(coverage: float, similarity: float | None, score: float) -> None:
    assert relevance(coverage, similarity, SCALE) == pytest.approx(score)


@given(SHARE, SIMILARITY)
def test_every_score_lies_between_zero_and_one(coverage: float, similarity: float | None) -> None:
    assert 0 <= relevance(coverage, similarity, SCALE) <= 1


@given(SHARE, SHARE, st.floats(-1, 1), st.floats(-1, 1))
def test_more_evidence_never_lowers_a_score(a: float, b: float, near: float, far: float) -> None:
    low, high = relevance(min(a, b), min(near, far), SCALE), relevance(max(a, b), max(near, far), SCALE)
    assert low <= high


def test_the_bundled_model_has_measured_units_and_a_model_of_the_same_provider_does_not() -> None:
    bundled = dense_scale(Model("local", MODEL, DIMENSION))
    assert bundled.spread == 0.2
    assert dense_scale(Model("local", "some/other", 384)) != bundled
    assert dense_scale(Model("openai", "text-embedding-3-small", 1536)).spread == 0.0


@pytest.mark.parametrize(
    ("trust", "similarities", "nothing"),
    [
        (0.0, [0.2] * 19 + [0.25], True),
        (0.0, [0.2] * 19 + [0.35], False),
        (0.2, [0.2] * 19 + [0.25], True),
        (0.3, [0.2] * 19 + [0.25], False),
        (0.0, [0.2] * 18 + [0.25], False),
        (0.0, [], False),
    ],
)
def test_nothing_is_relevant_where_words_are_not_trusted_and_no_chunk_stands_out(
    trust: float, similarities: list[float], nothing: bool
) -> None:
    assert nothing_relevant(trust, similarities, 0.3, SCALE, 0.2) is nothing
    assert not nothing_relevant(trust, similarities, 0.4, SCALE, 0.2)


def test_no_hit_is_surer_than_the_one_above_it() -> None:
    assert falling([0.7, 0.4, 0.9, 0.4, 0.1]) == [0.7, 0.4, 0.4, 0.4, 0.1]
    assert falling([]) == []


@pytest.mark.parametrize(("surest", "nothing"), [(0.0, True), (0.04, True), (0.06, False)])
def test_in_a_small_vault_what_scores_next_to_nothing_is_no_answer(surest: float, nothing: bool) -> None:
    assert nothing_relevant(0.0, [0.1] * 8, surest, SCALE, 0.2) is nothing


def test_a_model_whose_units_were_not_measured_answers_every_query() -> None:
    scale = dense_scale(Model("openai", "text-embedding-3-small", 1536))
    assert not nothing_relevant(0.0, [0.2] * 30, 0.1, scale, 0.2)
    assert not nothing_relevant(0.0, [0.2] * 8, 0.0, scale, 0.2)
