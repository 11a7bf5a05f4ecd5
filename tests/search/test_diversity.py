"""Hits that say different things."""

from __future__ import annotations

from collections.abc import Callable

from hypothesis import given
from hypothesis import strategies as st

from markdown_rag.search.answer import SearchRequest
from markdown_rag.search.diversity import diversify
from markdown_rag.search.policy import SearchPolicy
from markdown_rag.search.ranking import Candidate, Placed, Ranked
from markdown_rag.store.base import Match

Make = Callable[..., Match]


def placed(match: Make, rows: list[tuple[str, str, float]]) -> list[Placed]:
    return [
        Placed(Ranked(Candidate(match(path=path, lexical=words), 0.5, None, frozenset()), 0, 0, 0, 0, order), order, {})
        for path, words, order in rows
    ]


def test_what_repeats_an_earlier_hit_comes_later(match: Make) -> None:
    rows = [("a", "one two three", 1.0), ("copy", "one two three", 0.95), ("other", "four five", 0.8)]
    found = diversify(placed(match, rows), 2, 0.5)
    assert [item.match.path for item in found] == ["a", "other"]


def test_without_a_cost_the_order_stays(match: Make) -> None:
    rows = [("a", "one", 1.0), ("b", "one", 0.9), ("c", "two", 0.8)]
    assert [item.match.path for item in diversify(placed(match, rows), 3, 0.0)] == ["a", "b", "c"]


@given(st.lists(st.tuples(st.sampled_from(["x", "x y", "z", ""]), st.floats(0, 1)), max_size=8), st.integers(0, 9))
def test_a_diverse_answer_has_its_size_its_best_hit_first_and_nothing_twice(
    match: Make, rows: list[tuple[str, float]], k: int
) -> None:
    ordered = sorted(rows, key=lambda row: -row[1])
    items = placed(match, [(str(n), words, order) for n, (words, order) in enumerate(ordered)])
    found = diversify(items, k, 0.5)
    assert len(found) == len({item.match.path for item in found}) == min(k, len(items))
    assert not found or found[0] is items[0]


def test_a_diverse_answer_is_given_on_request(libraries) -> None:
    library = libraries(policy=SearchPolicy(likeness_cost=1.0))
    for path, text in (("a", "alpha beta gamma"), ("b", "alpha beta gamma"), ("c", "alpha beta delta epsilon")):
        library.add(f"{path}.md", text)
    plain = library.searcher.search(SearchRequest("alpha beta", 2))
    diverse = library.searcher.search(SearchRequest("alpha beta", 2, diverse=True))
    assert [hit.path for hit in plain.hits] == ["a.md", "b.md"]
    assert [hit.path for hit in diverse.hits] == ["a.md", "c.md"]
    assert diverse.more
