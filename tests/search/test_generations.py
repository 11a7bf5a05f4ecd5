"""Which rows an answer may show: newest committed generation, never nothing, never unfinished text."""

from __future__ import annotations

from collections.abc import Callable

from hypothesis import given
from hypothesis import strategies as st

from markdown_rag.search import generations
from markdown_rag.store.base import FileEntry, Match, record_id

Make = Callable[..., Match]

GENS = st.dictionaries(st.integers(1, 8), st.booleans(), min_size=1, max_size=5)  # generation -> committed
HISTORIES = st.dictionaries(st.sampled_from(["a.md", "b.md", "c/d.md"]), GENS, max_size=3)


def entry(path: str, gen: int) -> FileEntry:
    return FileEntry("w", path, gen, 1, "", (), (), {}, "", "")


def rows_of(make: Make, history: dict[str, dict[int, bool]]) -> list[Match]:
    return [make(path=path, gen=gen, ord=1) for path, gens in history.items() for gen in gens]


def committed(history: dict[str, dict[int, bool]]) -> dict[tuple[str, str], int]:
    found = {("w", path): [gen for gen, done in gens.items() if done] for path, gens in history.items()}
    return {key: max(gens) for key, gens in found.items() if gens}


def test_the_newest_committed_generation_of_each_file_counts() -> None:
    entries = [entry("a", 1), entry("a", 3), entry("a", 2), entry("b", 5)]
    assert {key: found.gen for key, found in generations.newest(entries).items()} == {("w", "a"): 3, ("w", "b"): 5}


@given(history=HISTORIES)
def test_with_a_current_catalog_only_unfinished_newer_rows_are_asked_about(
    match: Make, history: dict[str, dict[int, bool]]
) -> None:
    known = committed(history)
    verdict = generations.judge_by_past(rows_of(match, history), known)
    for path, gens in history.items():
        newer = any(gen > known.get(("w", path), -1) for gen in gens)
        assert (("w", path) in verdict.doubtful) == newer
        shown = {gen for gen in gens if record_id("w", path, gen, 1) in verdict.kept}
        assert shown == (set() if newer else {known[("w", path)]})


@given(history=HISTORIES)
def test_asked_afterwards_a_committed_file_is_shown_or_asked_about_again_and_an_unfinished_one_never_shown(
    match: Make, history: dict[str, dict[int, bool]]
) -> None:
    known = committed(history)
    verdict = generations.judge_by_present(rows_of(match, history), known)
    for path, gens in history.items():
        shown = {gen for gen in gens if record_id("w", path, gen, 1) in verdict.kept}
        if ("w", path) not in known:
            assert shown == set()
            assert ("w", path) not in verdict.doubtful
        else:
            assert shown == {known[("w", path)]} or ("w", path) in verdict.doubtful


@given(history=HISTORIES)
def test_the_last_word_shows_every_committed_file_once_and_nothing_newer(
    match: Make, history: dict[str, dict[int, bool]]
) -> None:
    known = committed(history)
    kept = generations.newest_seen(rows_of(match, history), known)
    for path, gens in history.items():
        shown = {gen for gen in gens if record_id("w", path, gen, 1) in kept}
        assert shown == ({known[("w", path)]} if ("w", path) in known else set())


def test_the_last_word_falls_back_to_old_text_when_the_new_was_not_seen(match: Make) -> None:
    old = match(path="a.md", gen=1)
    assert generations.newest_seen([old], {("w", "a.md"): 9}) == {old.id}
