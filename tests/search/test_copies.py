"""Passages that say the same are shown once, and nothing that says something of its own is hidden."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from markdown_rag.search.copies import Kind, likeness, page_of
from markdown_rag.search.ranking import Candidate, Ranked

WORDS = " ".join(f"word{number}" for number in range(60))


def ranked(match: Any, path: str, text: str, held: tuple[str, ...] = (), **fields: Any) -> Ranked:
    made = match(path=path, text=text, lexical=text, **fields)
    return Ranked(Candidate(made, 1.0, 1.0, frozenset(held)), 0.0, 0.0, 0.0, 0.0, 0.0)


@pytest.mark.parametrize(
    ("one", "other", "kind"),
    [
        ("docs/en/install.md", "docs/de/install.md", Kind.TRANSLATION),
        ("docs/en/install.md", "docs/zh-CN/install.md", Kind.TRANSLATION),
        ("README.md", "README.zh.md", Kind.TRANSLATION),
        ("README_ko.md", "README_ja.md", Kind.TRANSLATION),
        ("docs/en/install.md", "docs/de/remove.md", None),
        ("it/servers.md", "servers.md", None),
        ("v1.2/en/a.md", "v1.3/de/a.md", None),
        ("notes/a.md", "archive/a.md", None),
    ],
)
def test_translations_are_told_by_their_paths(match: Any, one: str, other: str, kind: Kind | None) -> None:
    shown, second = ranked(match, one, "hello " * 9), ranked(match, other, "hallo " * 9)
    assert likeness(shown, second) is kind
    assert likeness(second, shown) is kind


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("docs/5.1/a.md", "docs/7.7/a.md"),
        ("v1/a.md", "v2/a.md"),
        ("latest/a.md", "3.x/a.md"),
        ("1.0/a.md", "next/a.md"),
    ],
)
def test_versions_of_a_page_are_one_where_they_share_most_words(match: Any, one: str, other: str) -> None:
    near = ranked(match, other, WORDS + " and ten more words that only this version has in it")
    assert likeness(ranked(match, one, WORDS), near) is Kind.VERSION
    far = ranked(match, other, " ".join(f"other{number}" for number in range(60)))
    assert likeness(ranked(match, one, WORDS), far) is None


def test_a_text_that_differs_in_a_word_of_the_query_is_no_copy(match: Any) -> None:
    shown = ranked(match, "a.md", WORDS, held=("word1",))
    assert likeness(shown, ranked(match, "b.md", WORDS, held=("word1",))) is Kind.SAME
    assert likeness(shown, ranked(match, "b.md", WORDS + " 2024", held=("word1", "2024"))) is None


def test_a_text_that_differs_in_a_word_is_named_with_what_it_says_otherwise(libraries: Callable[[], Any]) -> None:
    library = libraries()
    library.add("archive/keys (copy).md", f"the lamp keys are rotated once a year {WORDS}")
    library.add("ops/keys.md", f"the lamp keys are rotated twice a year {WORDS}")
    (hit,) = library.ask("lamp keys rotated", 2).hits
    other, has, lacks = (
        ("ops/keys.md", "twice", "once")
        if hit.path.startswith("archive")
        else ("archive/keys (copy).md", "once", "twice")
    )
    assert hit.same_in == (f"{other} (nearly the same text, with {has}, without {lacks})",)


def test_short_texts_are_no_copies(match: Any) -> None:
    assert likeness(ranked(match, "a.md", "to do"), ranked(match, "b.md", "to do")) is None


def test_a_page_is_a_path_without_language_and_version() -> None:
    assert page_of("docs/v1.2/pt-br/guide/a.md").name == "docs/guide/a.md"
    assert page_of("docs/guide/a.zh-hant.md").name == "docs/guide/a.md"
    assert page_of("docs/guide/v2-notes.md").name == "docs/guide/v2-notes.md"


def test_copies_are_named_under_the_one_that_is_shown_and_others_take_their_places(
    libraries: Callable[[], Any],
) -> None:
    library = libraries()
    for number in range(20):
        library.add(f"copy-{number:02}.md", f"lamp {WORDS}")
    for number in range(4):
        library.add(f"own-{number}.md", f"a lamp of its own number{number}")
    hits = library.ask("lamp", 5).hits
    assert len({hit.path.split("-")[0] for hit in hits}) == 2
    assert sorted(hit.path for hit in hits if hit.path.startswith("own")) == [f"own-{n}.md" for n in range(4)]
    (shown,) = (hit for hit in hits if hit.path.startswith("copy"))
    assert f"{shown.path} (the same text)" not in shown.same_in
    assert "copy-01.md (the same text)" in shown.same_in


def test_a_copy_in_another_workspace_is_named_with_it(libraries: Callable[[], Any], tmp_path: Path) -> None:
    library = libraries()
    library.roots |= {"w": tmp_path / "kestrel", "v": tmp_path / "harrier"}
    for workspace in "wvu":
        for path in ("rota.md", "copy.md"):
            library.add(path, f"lamp {WORDS}", workspace=workspace)
    (hit,) = library.ask("lamp", 1).hits
    folders = {"w": f"{tmp_path}/kestrel/", "v": f"{tmp_path}/harrier/"}
    names = {
        path
        if workspace == hit.workspace
        else f"{folders.get(workspace, '')}{path}" + " of workspace u" * (workspace == "u")
        for workspace in "wvu"
        for path in ("rota.md", "copy.md")
    }
    assert set(hit.same_in) == {f"{name} (the same text)" for name in names - {hit.path}}


def test_two_places_of_one_file_are_both_shown(match: Any) -> None:
    assert likeness(ranked(match, "a.md", WORDS), ranked(match, "a.md", WORDS, ord=1)) is None


def test_reports_that_differ_in_their_numbers_are_both_shown(match: Any) -> None:
    one, other = ranked(match, "2001.md", f"{WORDS} sales 417"), ranked(match, "2002.md", f"{WORDS} sales 433")
    assert likeness(one, other) is None
    assert likeness(one, ranked(match, "copy.md", f"{WORDS} sales 417")) is Kind.SAME
