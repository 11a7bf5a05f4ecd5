"""Bytes and names that nobody foresaw: see fuzzing.py, which runs for as long as one likes."""

from __future__ import annotations

from itertools import islice

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.trust.fuzzing import examine, examine_name, inputs


@pytest.mark.parametrize("count", [60, pytest.param(1_500, marks=pytest.mark.slow)])
def test_mutated_notes_break_no_law_of_front_matter_outline_chunks_and_filters(count: int) -> None:
    for data in islice(inputs(seed=count), count):
        examine(data)


@settings(max_examples=30, deadline=None)
@given(st.text(min_size=1, max_size=60))
def test_a_filter_means_exactly_the_rows_it_names_whatever_the_name(text: str) -> None:
    examine_name(text.encode("utf-8", "replace").decode())
