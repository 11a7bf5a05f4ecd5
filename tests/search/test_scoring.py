"""The measures of eval, by hand and against the independent scorer."""

from __future__ import annotations

import importlib.util
import math
import random
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from markdown_rag.search import scoring

FILES = st.lists(st.sampled_from("abcdefghijkl"), max_size=15)
RANGES = st.lists(st.tuples(st.integers(0, 40), st.integers(1, 15)).map(lambda r: (r[0], r[0] + r[1])), max_size=5)


def test_a_gold_file_in_second_place() -> None:
    found = scoring.file_measures(["x", "gold", "y"], ["gold"])
    assert (found["hit@1"], found["hit@3"], found["mrr@10"], found["recall@10"]) == (0, 1, 0.5, 1)
    assert found["ndcg@10"] == pytest.approx(1 / math.log2(3))


def test_a_partial_file_counts_half_and_never_as_a_hit() -> None:
    found = scoring.file_measures(["half", "gold"], ["gold"], ["half"])
    assert found["hit@1"] == 0
    assert found["ndcg@5"] == pytest.approx((0.5 + 1 / math.log2(3)) / (1 + 0.5 / math.log2(3)))


def test_doubles_and_excluded_files_take_no_place() -> None:
    assert scoring.file_measures(["x", "x", "out", "gold"], ["gold"], excluded=["out"])["mrr@10"] == 0.5


def test_a_question_without_an_answer_counts_zero() -> None:
    assert set(scoring.file_measures([], ["gold"]).values()) == {0.0}


def test_passages_count_overlaps_as_retrieved_and_never_as_found_twice() -> None:
    found = scoring.passage_measures([("a", (0, 10)), ("a", (5, 15)), ("b", (0, 5))], {"a": [(8, 28)]})
    assert found["passage_recall"] == pytest.approx(7 / 20)
    assert found["passage_precision"] == pytest.approx(7 / 25)
    assert found["passage_iou"] == pytest.approx(7 / (25 + 20 - 7))


def test_nothing_retrieved_scores_zero() -> None:
    found = scoring.passage_measures([], {"a": [(0, 4)]})
    assert set(found.values()) == {0.0}


@given(FILES, st.sets(st.sampled_from("abcdef"), min_size=1), st.sets(st.sampled_from("efghij")))
def test_every_file_measure_lies_between_zero_and_one(files: list[str], gold: set[str], partial: set[str]) -> None:
    assert all(0 <= value <= 1 for value in scoring.file_measures(files, gold, partial).values())


@given(RANGES, RANGES.filter(bool))
def test_passage_measures_agree_with_counting_characters(found: list[tuple[int, int]], gold: list[tuple[int, int]]):
    measures = scoring.passage_measures([("a", span) for span in found], {"a": gold})
    wanted = {i for start, end in gold for i in range(start, end)}
    seen = {i for start, end in found for i in range(start, end)}
    assert measures["passage_recall"] == pytest.approx(len(wanted & seen) / len(wanted))


def test_the_summary_covers_each_measure_over_the_questions_that_have_it() -> None:
    found = scoring.summary([{"a": 1.0}, {"a": 0.0, "b": 1.0}])
    assert found["a"] == scoring.Estimate(0.5, pytest.approx(math.sqrt(0.5) / 2), 2)
    assert found["b"] == scoring.Estimate(1.0, 0.0, 1)


def test_a_paired_difference_sees_what_two_means_hide() -> None:
    ours, theirs = [0.2, 0.9, 0.5, 0.7], [0.1, 0.8, 0.4, 0.6]
    found = scoring.difference(ours, theirs)
    assert found.mean == pytest.approx(0.1)
    assert found.error == pytest.approx(0, abs=1e-12)
    assert (found.better, found.worse) == (4, 0)
    assert not found.worse_beyond_chance
    assert scoring.difference(theirs, ours).worse_beyond_chance


def test_equal_systems_do_not_differ() -> None:
    found = scoring.difference([0.5, 1.0], [0.5, 1.0])
    assert (found.mean, found.error, found.better, found.worse, found.worse_beyond_chance) == (0, 0, 0, 0, False)


@pytest.mark.outside
def test_the_file_measures_are_those_of_the_independent_scorer(shared: Path) -> None:
    spec = importlib.util.spec_from_file_location("independent_score", shared / "eval" / "score.py")
    assert spec is not None
    assert spec.loader is not None
    independent = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(independent)
    dice = random.Random(7)
    for _ in range(300):
        files = dice.choices("abcdefghijklmnop", k=dice.randint(0, 14))
        gold = set(dice.sample("abcdefgh", dice.randint(1, 4)))
        partial = set(dice.sample("abcdefghijkl", dice.randint(0, 3)))
        excluded = set(dice.sample("abcdefghijkl", dice.randint(0, 3)))
        query = {"gold_files": [*gold], "partial_files": [*partial], "exclude_files": [*excluded]}
        theirs, _ = independent.Scorer(".", 5).score(query, {"files": files})
        ours = scoring.file_measures(files, gold, partial, excluded)
        assert {name: ours[name] for name in theirs} == pytest.approx(theirs)
