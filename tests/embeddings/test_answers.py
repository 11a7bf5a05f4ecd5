"""What counts as an answer."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from markdown_rag.embeddings.answers import as_matrix, check, combine
from markdown_rag.errors import EmbeddingMismatch

ROWS = arrays(np.float32, st.tuples(st.integers(1, 6), st.integers(1, 8)), elements=st.floats(width=32, allow_nan=True))


@given(rows=ROWS)
def test_every_row_comes_out_with_length_one_or_marked_unusable(rows: np.ndarray) -> None:
    answer = check(rows, len(rows), 0)
    assert answer.vectors.dtype == np.float32
    for vector, usable in zip(answer.vectors, answer.usable, strict=True):
        assert np.linalg.norm(vector) == pytest.approx(1.0 if usable else 0.0, abs=1e-5)


def test_a_row_that_is_not_finite_or_zero_spoils_only_itself() -> None:
    rows = np.array([[1, 2], [np.nan, 1], [0, 0], [np.inf, 1], [-3, 4]], np.float32)
    assert check(rows, 5, 2).usable == (True, False, False, False, True)


def test_a_unit_vector_comes_out_as_it_went_in() -> None:
    vector = np.zeros((1, 4), np.float32)
    vector[0, 2] = 1
    assert np.array_equal(check(vector, 1, 4).vectors, vector)


@pytest.mark.parametrize(
    ("shape", "count", "dimension"), [((2, 4), 3, 4), ((4, 4), 3, 4), ((3, 5), 3, 4), ((1, 0), 1, 0)]
)
def test_the_wrong_number_or_length_of_vectors_is_an_error_that_names_it(
    shape: tuple[int, int], count: int, dimension: int
) -> None:
    with pytest.raises(EmbeddingMismatch):
        check(np.ones(shape, np.float32), count, dimension)


def test_a_wrong_dimension_says_which_one_to_set() -> None:
    with pytest.raises(EmbeddingMismatch, match=r"5 dimensions, not the 4.*EMBEDDING_DIM.*5"):
        check(np.ones((1, 5), np.float32), 1, 4)


def test_rows_of_different_length_or_of_words_are_no_matrix() -> None:
    with pytest.raises(EmbeddingMismatch):
        as_matrix([[1.0, 2.0], [1.0]])
    with pytest.raises(EmbeddingMismatch):
        as_matrix([["one", "two"]])  # type: ignore[list-item]
    assert as_matrix([]).shape == (0, 0)


def test_parts_are_joined_by_their_weight() -> None:
    a, b = np.array([1, 0], np.float32), np.array([0, 1], np.float32)
    joined = combine([(a, 3), (b, 1)])
    assert np.linalg.norm(joined) == pytest.approx(1)
    assert joined[0] == pytest.approx(3 * joined[1])
    assert np.array_equal(combine([(a, 1), (-a, 1)]), a)  # parts that cancel out still give a vector
