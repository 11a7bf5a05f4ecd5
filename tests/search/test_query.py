"""What may be typed."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from markdown_rag.errors import InputError
from markdown_rag.search.policy import MAX_QUERY_CHARACTERS, SearchPolicy
from markdown_rag.search.query import prepare


@pytest.mark.parametrize("blank", ["", "   ", "\n\t", "\0", "\ud800", "\u3000"])
def test_a_blank_query_is_refused_with_the_way_out(blank: str) -> None:
    with pytest.raises(InputError, match="blank"):
        prepare(blank, SearchPolicy())


@given(st.text(max_size=50))
def test_any_text_is_searched_or_refused_and_what_is_searched_can_be_sent(typed: str) -> None:
    try:
        query = prepare(typed, SearchPolicy())
    except InputError:
        return
    assert "\0" not in query.text
    assert query.text.encode()
    assert len(set(query.tokens)) == len(query.tokens)


def test_a_very_long_query_is_cut_and_the_answer_says_so() -> None:
    query = prepare("word " * 40_000, SearchPolicy())
    assert len(query.text) <= MAX_QUERY_CHARACTERS
    assert "200,000" in query.note


@pytest.mark.parametrize(
    ("typed", "names"),
    [
        ("--dry-run", ("--dry-run",)),
        ("MARKDOWN_CHUNK_SIZE", ("MARKDOWN_CHUNK_SIZE",)),
        ("what does --force do", ("--force",)),
        ("src/app.py", ("src/app.py",)),
        ("getUserName or E1234", ("getUserName", "E1234")),
        ("Dataview", ("Dataview",)),
        ("dataview", ()),
        ("how to write tests", ()),
        ("Templates in notes", ()),
    ],
)
def test_exact_names_are_recognised(typed: str, names: tuple[str, ...]) -> None:
    assert prepare(typed, SearchPolicy()).names == names


@pytest.mark.parametrize(
    ("typed", "identifiers"),
    [
        ("default of MILVUS_WAIT_SECONDS", ("MILVUS_WAIT_SECONDS",)),
        ("what does `--wait-for-fresh` do?", ("--wait-for-fresh",)),
        ("how long, in the usual case, is a server waited for (see store.wait.seconds).", ("store.wait.seconds",)),
        ("is .gitignore obeyed, e.g. by indexing and/or watching?", (".gitignore",)),
        ("Why is the sky blue?", ()),
    ],
)
def test_an_exact_name_is_known_wherever_it_stands_and_whatever_stands_round_it(
    typed: str, identifiers: tuple[str, ...]
) -> None:
    assert prepare(typed, SearchPolicy()).identifiers == identifiers
