"""Excerpts: exact, centred on the match, within the budget, never empty."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from markdown_rag.markdown.lexical import tokens
from markdown_rag.search.excerpt import MIN_BUDGET, excerpt
from markdown_rag.search.policy import SearchPolicy
from markdown_rag.search.query import prepare

WORDS = st.sampled_from(
    ["alpha", "beta", "gamma", "# Title", "설정", "設定方法", "日本", ".", "x" * 300, "\U0001f600" * 30]
)
TEXTS = st.lists(st.lists(WORDS, max_size=12).map(" ".join), min_size=1, max_size=25).map("\n".join)
BUDGETS = st.integers(MIN_BUDGET, 400)


def weights(query: str) -> dict[str, float]:
    return dict.fromkeys(tokens(query, query=True), 1.0)


@given(
    TEXTS.filter(str.strip),
    BUDGETS,
    st.sampled_from(["alpha", "gamma beta", "設定", "nothing here"]),
    st.integers(1, 99),
)
@settings(max_examples=150)
def test_an_excerpt_is_an_exact_slice_on_the_lines_it_says(text: str, budget: int, query: str, first: int) -> None:
    shown = excerpt(text, first, weights(query), budget)
    assert shown.text.strip()
    assert shown.text in text
    assert len(shown.text.encode()) <= budget
    lines = text.split("\n")[shown.start_line - first : shown.end_line - first + 1]
    assert shown.text in "\n".join(lines)
    assert shown.text.count("\n") == shown.end_line - shown.start_line
    assert shown.before or shown.after or shown.text.strip() == text.strip()
    assert len(shown.marked().encode()) <= budget
    assert (shown.marked() == shown.text) is (shown.text.strip() == "\n".join(lines).strip())


@given(TEXTS.filter(str.strip), BUDGETS)
@settings(max_examples=100)
def test_an_excerpt_shows_a_word_of_the_query_where_the_body_has_one(text: str, budget: int) -> None:
    shown = excerpt(text, 1, weights("alpha"), budget)
    body = [line for line in text.split("\n") if not line.lstrip().startswith("#")]
    if any("alpha" in line for line in body):
        assert "alpha" in shown.text


def test_a_short_chunk_is_shown_whole() -> None:
    shown = excerpt("One line.\nTwo lines.", 10, weights("two"), 700)
    assert (shown.text, shown.start_line, shown.end_line) == ("One line.\nTwo lines.", 10, 11)
    assert not shown.before
    assert not shown.after


def test_the_match_stands_in_the_middle() -> None:
    lines = [f"Filler sentence number {n} says little." for n in range(41)]
    lines[20] = "Here the rollback is described."
    shown = excerpt("\n".join(lines), 1, weights("rollback"), 400)
    assert "rollback" in shown.text
    assert 16 <= shown.start_line <= 18
    assert 24 <= shown.end_line <= 26
    assert shown.before
    assert shown.after


def test_the_window_with_most_of_the_query_wins_over_an_earlier_one_with_less() -> None:
    filler = "\n".join(["Nothing to see on this line."] * 20)
    text = f"A token appears here.\n{filler}\nThe refresh token is rotated daily.\n{filler}"
    assert "rotated" in excerpt(text, 1, weights("refresh token"), 200).text


def test_a_rare_word_outweighs_a_common_one() -> None:
    filler = "\n".join(["Nothing to see on this line."] * 20)
    text = f"The server starts.\n{filler}\nThe quorum is lost.\n{filler}"
    assert "quorum" in excerpt(text, 1, {"server": 0.5, "quorum": 3.0}, 120).text


def test_the_chunks_own_heading_is_not_repeated() -> None:
    shown = excerpt("## Rollback\n\nRevert the release first.", 4, weights("rollback"), 700)
    assert (shown.text, shown.start_line) == ("Revert the release first.", 6)


@pytest.mark.parametrize(
    "silent", ["<!-- end -->", "<!-- a --> <!-- b -->", "[TOC]", "[[_TOC_]]", "{:toc}", "${toc}", "  <!-- table: x -->"]
)
def test_an_excerpt_neither_begins_nor_ends_with_a_line_no_reader_sees(silent: str) -> None:
    text = f"{silent}\n\n## Providers\n\n{silent}\n\nWhen the provider is down.\n\n{silent}\n"
    shown = excerpt(text, 1, weights("provider end table toc"), 700)
    assert (shown.text, shown.start_line, shown.end_line) == ("When the provider is down.", 7, 7)
    filler = "\n".join(["Nothing to see on this line."] * 20)
    shown = excerpt(f"{filler}\n{silent}\nThe quorum is lost.\n{silent}\n{filler}", 1, weights("quorum"), 80)
    assert silent not in (shown.text.split("\n")[0], shown.text.split("\n")[-1])
    assert excerpt(f"{silent}\n", 1, weights("x"), 100).text.strip() == silent.strip()


def test_a_comment_with_words_beside_it_is_text() -> None:
    shown = excerpt("<!-- note --> Keep this line.\nLast.", 1, weights("last"), 700)
    assert shown.text.startswith("<!-- note -->")


def test_the_line_that_answers_is_told_from_the_lines_round_it() -> None:
    text = "Who is on call.\n\n## Escalation\n\nAfter 25 minutes the lead is called.\n"
    shown = excerpt(text, 1, weights("lead after 25 minutes on call"), 700)
    assert shown.text == text.rstrip()
    assert text[shown.answers_at :].startswith("After 25 minutes")
    assert excerpt(text, 1, weights("nothing"), 700).answers_at == 0


@pytest.mark.parametrize("name", ["MILVUS_WAIT_SECONDS", "--wait-for-more", "store.wait.seconds", "waitSeconds"])
def test_the_line_with_the_exact_name_is_shown_before_lines_with_more_of_the_other_words(name: str) -> None:
    others = "\n".join(f"| `OTHER_{n}` | The default wait of milvus and its store, in seconds. |" for n in range(20))
    text = f"## Others\n\n{others}\n\n## Waiting\n\n| `{name}` | How long. |\n"
    question = f"default of {name} for the milvus store"
    identifiers = prepare(question, SearchPolicy()).identifiers
    assert identifiers == (name,)
    shown = excerpt(text, 1, dict.fromkeys(tokens(question), 1.0), 300, identifiers=identifiers)
    assert f"`{name}`" in shown.text
    assert text[shown.answers_at :].startswith(f"| `{name}`")


def test_of_lines_with_the_exact_name_the_one_with_most_of_the_question_is_shown() -> None:
    filler = "\n".join(["Nothing to see on this line."] * 20)
    text = f"See `MAX_SIZE`.\n{filler}\nThe default of MAX_SIZE is 5.\n{filler}\nThe default of all default values.\n"
    shown = excerpt(text, 1, weights("default max_size"), 120, identifiers=["MAX_SIZE"])
    assert text[shown.answers_at :].startswith("The default of MAX_SIZE")


def test_a_chunk_with_nothing_but_headings_shows_them() -> None:
    shown = excerpt("# One\n\n## Two\n", 1, weights("two"), 700)
    assert (shown.text, shown.start_line, shown.end_line) == ("# One\n\n## Two", 1, 3)


def test_without_a_word_of_the_query_the_beginning_is_shown() -> None:
    text = "\n".join(f"Line {n} of prose." for n in range(200))
    shown = excerpt(text, 5, weights("冷蔵庫"), 200)
    assert shown.start_line == 5
    assert shown.text.startswith("Line 0")
    assert shown.after


def test_a_long_line_is_cut_at_a_sentence() -> None:
    text = "This sentence fills the line. " * 100 + "The needle is here. " + "More of the same. " * 100
    shown = excerpt(text, 1, weights("needle"), 300)
    assert "The needle is here." in shown.text
    assert (shown.start_line, shown.end_line) == (1, 1)
    assert shown.text[0].isupper()
    assert shown.marked() == f"…{shown.text}…"


def test_only_a_cut_inside_a_line_is_marked_and_only_on_its_side() -> None:
    sentence = "This sentence fills the line. "
    begins = excerpt(f"The needle is here. {sentence * 100}", 1, weights("needle"), 300)
    assert begins.marked() == f"{begins.text}…"
    ends = excerpt(f"{sentence * 100}The needle is here.\nAnd so on.", 1, weights("needle"), 300)
    assert ends.marked() == f"…{ends.text}"
    lines = excerpt("\n".join([sentence] * 40), 1, weights("needle"), 300)
    assert lines.after
    assert lines.marked() == lines.text
    assert begins.marked(before=True, after=True) == f"…{begins.text}…"
    assert lines.marked(after=True) == lines.text  # its last line is whole; what goes on is the chunk's


def test_wide_characters_count_by_their_bytes() -> None:
    text = "。".join(["設定を変更する方法について説明します"] * 60)
    shown = excerpt(text, 1, weights("設定"), 300)
    assert 150 <= len(shown.text.encode()) <= 300


def test_a_text_without_a_visible_character_gives_no_excerpt() -> None:
    assert excerpt(" \n ", 3, weights("x"), 100).text == ""


def test_sixty_thousand_bytes_of_one_letter_lines_are_bounded_work() -> None:
    shown = excerpt("a\n" * 30_000, 1, weights("a"), 700)
    assert 0 < len(shown.text) <= 700
