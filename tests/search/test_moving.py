"""Searches while files are written: old text or new, never nothing, never unfinished (I3)."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from markdown_rag.store.base import EVERYTHING, Match, Model, Vector, Where, record_id
from markdown_rag.store.memory import MemoryStore

MODEL = Model("local", "words", 64)


class MovingStore(MemoryStore):
    """A store to which something happens at a named moment of a search: before or after a call."""

    def __init__(self) -> None:
        super().__init__(MODEL)
        self.events: list[tuple[str, Callable[[], None]]] = []
        self.searches = 0

    def plan(self, moment: str, event: Callable[[], None]) -> None:
        self.events.append((moment, event))

    def _at(self, moment: str) -> None:
        if self.events and self.events[0][0] == moment:
            self.events.pop(0)[1]()

    def dense(self, vector: Vector, limit: int, where: Where = EVERYTHING) -> list[Match]:
        self.searches += 1
        self._at("before dense")
        found = super().dense(vector, limit, where)
        self._at("after dense")
        return found


@pytest.fixture
def shelf(libraries):
    made = libraries(store=MovingStore())
    made.add("a.md", "alpha old text", "second old chunk")
    made.add("other.md", "beta")
    assert made.paths("alpha")[0] == "a.md"  # the catalog is known from here on
    return made


def texts(answer) -> dict[str, str]:
    return {hit.path: hit.excerpt for hit in answer.hits}


@pytest.mark.parametrize("moment", ["before dense", "after dense"])
def test_a_file_replaced_during_a_search_is_found_in_one_of_its_texts(shelf, moment: str) -> None:
    shelf.store.plan(moment, lambda: shelf.replace("a.md", "alpha new text", gen=2, old=1, old_chunks=2))
    assert texts(shelf.ask("alpha"))["a.md"] in {"alpha old text", "alpha new text"}
    assert shelf.store.events == []


def test_a_file_replaced_between_search_and_question_is_searched_once_more(shelf) -> None:
    shelf.add("writing.md", "somebody writes")  # so that the catalog is no longer current
    searches = shelf.store.searches
    shelf.store.plan("after dense", lambda: shelf.replace("a.md", "alpha new text", gen=2, old=1, old_chunks=2))
    assert texts(shelf.ask("alpha"))["a.md"] == "alpha new text"
    assert shelf.store.searches == searches + 2


def test_a_file_replaced_faster_than_it_can_be_asked_about_is_still_found(shelf) -> None:
    shelf.add("writing.md", "somebody writes")
    for gen in range(2, 9):
        shelf.store.plan(
            "after dense",
            lambda gen=gen: shelf.replace("a.md", f"alpha text {gen}", gen=gen, old=gen - 1, old_chunks=2),
        )
    assert "alpha" in texts(shelf.ask("alpha"))["a.md"]


def test_rows_of_an_unfinished_run_hide_nothing_and_are_not_shown(shelf) -> None:
    shelf.store.insert(shelf.records("a.md", ["alpha never", "alpha finished", "x"], gen=9)[:-1])
    assert texts(shelf.ask("alpha"))["a.md"] == "alpha old text"
    shelf.store.insert(shelf.records("new.md", ["alpha", "alpha half written"], gen=9)[:-1])
    assert "new.md" not in texts(shelf.ask("alpha"))


@pytest.mark.parametrize("known", [True, False])
def test_rows_that_a_stopped_run_left_behind_are_not_shown(shelf, known: bool) -> None:
    shelf.add("a.md", "gamma rewritten", gen=2)  # the old rows stay: the run died before it removed them
    if known:
        shelf.catalog.forget()
    answer = shelf.ask("alpha old text")
    assert texts(answer)["a.md"] == "gamma rewritten"


def test_a_file_committed_during_a_search_may_be_found_and_is_found_by_the_next(shelf) -> None:
    shelf.store.plan("before dense", lambda: shelf.add("new.md", "alpha brand new"))
    assert texts(shelf.ask("alpha")).get("new.md", "alpha brand new") == "alpha brand new"
    assert "new.md" in texts(shelf.ask("alpha"))


def test_a_file_deleted_during_a_search_is_no_error(shelf) -> None:
    gone = [record_id("w", "a.md", 1, ord_) for ord_ in range(2)]
    shelf.store.plan("after dense", lambda: shelf.store.delete(gone))
    shelf.ask("alpha")
    assert "a.md" not in texts(shelf.ask("alpha"))


def test_a_cleared_index_filled_again_by_a_slower_clock_is_found(shelf) -> None:
    shelf.add("late.md", "alpha", gen=50)
    shelf.paths("alpha")
    shelf.store.delete([record_id("w", "late.md", 50, 0)])
    shelf.add("late.md", "alpha again", gen=7)
    assert texts(shelf.ask("alpha again"))["late.md"] == "alpha again"


STATES = st.dictionaries(
    st.sampled_from(["a.md", "b.md", "c.md"]),
    st.dictionaries(st.integers(1, 6), st.tuples(st.integers(1, 3), st.booleans()), min_size=1, max_size=4),
    max_size=3,
)


@settings(max_examples=60)
@given(state=STATES, known=st.booleans())
def test_whatever_generations_lie_about_exactly_the_newest_committed_are_found(new_library, state, known) -> None:
    shelf = new_library(store=MovingStore())
    try:
        if known:
            shelf.catalog.snapshot()
        for path, gens in state.items():
            for gen, (chunks, committed) in gens.items():
                rows = shelf.records(path, [f"alpha {gen} {n}" for n in range(chunks)], gen=gen)
                shelf.store.insert(rows if committed else rows[:-1])
        expected = {
            path: max(gen for gen, (_, committed) in gens.items() if committed)
            for path, gens in state.items()
            if any(committed for _, committed in gens.values())
        }
        assert {hit.path: int(hit.excerpt.split()[1]) for hit in shelf.ask("alpha", 50).hits} == expected
    finally:
        shelf.searcher.close()
