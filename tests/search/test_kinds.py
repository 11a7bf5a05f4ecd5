"""Rules for kinds of queries: pasted messages, several questions at once, names, scripts without blanks."""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from markdown_rag.search import evidence, ranking
from markdown_rag.search.names import Names, likeness
from markdown_rag.search.parts import split, take_turns
from markdown_rag.search.pasted import message_of
from markdown_rag.search.policy import RECIPE, SearchPolicy
from markdown_rag.search.query import Query, prepare
from markdown_rag.store.base import Match

Make = Callable[..., Match]
POLICY = SearchPolicy()


TRACEBACK = """Traceback (most recent call last):
  File "/a/b.py", line 3, in main
    run(x)
  File "/a/c.py", line 9, in run
    raise LockError()
app.LockError: the lock is held by another process"""
THROWN = """TypeError: cannot read properties of undefined
    at go (/srv/x.js:3:4)
    at Object.<anonymous> (y.js:1:1)"""


@pytest.mark.parametrize(
    ("pasted", "message"),
    [
        (TRACEBACK, "app.LockError: the lock is held by another process"),
        (
            "2024-01-02T03:04:05Z ERROR listen tcp 127.0.0.1:80: bind: address already in use",
            "ERROR listen tcp : bind: address already in use",
        ),
        (THROWN, "TypeError: cannot read properties of undefined"),
        ("panic: nil map\ngoroutine 1 [running]:\nmain.main()\n\t/src/a.go:3 +0x1d", "panic: nil map main.main()"),
        ("error: pointer 0x7ffd12 is bad for 3f2a9c01-1111-2222-3333-444455556666", "error: pointer is bad for"),
    ],
)
def test_a_pasted_error_is_searched_for_by_its_message(pasted: str, message: str) -> None:
    assert message_of(pasted) == message
    query = prepare(pasted, POLICY)
    assert query.text == message
    assert message[:30] in query.note


@pytest.mark.parametrize(
    "text",
    [
        "how do I handle a timeout in the client",
        "ValueError",
        "why does the build print a warning about fonts",
        "Note: use the second form of the command",
        "ERROR 0x1 0x2 0x3 0x4",
    ],
)
def test_what_is_not_pasted_or_holds_nothing_else_stays_as_it_is(text: str) -> None:
    assert message_of(text) == text


@given(st.text(max_size=300))
def test_any_text_has_a_message_that_is_not_blank_unless_it_is(text: str) -> None:
    assert bool(message_of(text).strip()) == bool(text.strip())


@pytest.mark.parametrize(
    ("start", "repeated"),
    [
        ("how a", " "),
        ("one two three four five Error at ", "(:"),
        ("Error one two three four\n at ", "(:x"),
        ("Error one two three four\n at ", ":"),
        ("Error a b c d\n at x ", "("),
        ("Error: ", "a.b/"),
        ("ERROR at x ", "1"),
        ("Error: x y z q\n", "^ ~"),
        ("Error one two three four ", "\n"),
    ],
)
def test_reading_a_query_takes_no_more_than_its_length(start: str, repeated: str) -> None:
    def seconds(length: int) -> float:
        query = (start + repeated * length)[: length - 1] + "b"
        begun = time.thread_time()
        prepare(query, SearchPolicy())
        return time.thread_time() - begun

    # Four times as long: sixteen times as much where it grows with the square, and seconds instead of milliseconds.
    tries = ((min(seconds(2_000) for _ in range(3)), min(seconds(8_000) for _ in range(3))) for _ in range(3))
    assert any(long < 8 * short + 0.25 for short, long in tries)


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("How do I sync? What does a month cost?", ("How do I sync", "What does a month cost")),
        ("how do I sync my notes and what is the price", ("how do I sync my notes", "what is the price")),
        ("Explain how to sync; also tell me the price", ("Explain how to sync", "tell me the price")),
        ("料金はいくらですか。また、返金はできますか。", ("料金はいくらですか", "返金はできますか")),
        ("요금은 얼마인가요? 그리고 환불은 언제까지 되나요?", ("요금은 얼마인가요", "환불은 언제까지 되나요")),
        ("怎么同步笔记？费用是多少钱呢？", None),
    ],
)
def test_a_question_that_asks_several_things_is_taken_apart(text: str, parts: tuple[str, ...] | None) -> None:
    assert split(text, 3) == (parts or (text,))


@pytest.mark.parametrize(
    "text",
    [
        "import and export",
        "how do I import and export notes",
        "search and replace",
        "What is a vault?",
        "ready? go!",
        "how do I build a bundle, and how can I load it in the head",
        "first one here? second one here? third one here? fourth one here?",
        "",
    ],
)
def test_a_question_that_asks_one_thing_or_too_many_stays_whole(text: str) -> None:
    assert split(text, 3) == (text,)
    assert split("How do I sync? What is the price?", 1) == ("How do I sync? What is the price?",)


@given(st.lists(st.lists(st.integers(), max_size=4), max_size=4))
def test_taking_turns_loses_nothing_and_keeps_each_order(lists: list[list[int]]) -> None:
    tagged = [[(n, at, value) for at, value in enumerate(items)] for n, items in enumerate(lists)]
    taken = take_turns(tagged)
    assert [[item for item in taken if item[0] == n] for n in range(len(lists))] == tagged
    assert [at for _, at, _ in taken] == sorted(at for _, at, _ in taken)


def test_the_whole_question_and_then_each_part_of_it_have_their_turn_in_the_answer(library) -> None:
    for n in range(4):
        library.add(f"sync{n}.md", f"sync notes phone evening train sync sync {n}")
    library.add("price.md", "price in euro")
    asked = "how do I sync notes with a phone in the evening train"
    assert library.paths(f"{asked} for the price", k=2) == ["sync0.md", "sync1.md"]
    assert library.paths(f"{asked}, and what is the price", k=2) == ["sync0.md", "price.md"]


def test_a_part_may_find_what_another_found_and_it_is_shown_once(library) -> None:
    library.add("a.md", "sync notes phone monthly price")
    library.add("b.md", "weather")
    found = library.paths("how do I sync notes with a phone, and what is the monthly price", k=5)
    assert sorted(found) == ["a.md", "b.md"]


@pytest.mark.parametrize(
    ("typed", "tokens"),
    [
        ("long now", ("long", "now")),
        ("did documents", ("did", "document")),
        ("what did he document", ("document",)),
        ("谷川鉄道はいつ開業しましたか", ("谷川", "川鉄", "鉄道", "道は", "つ開", "開業", "業し")),
        ("환불은 언제까지 되나요", ("환불", "불은")),
        ("如何加快查询", ("何加", "加快", "快查", "查询")),
        ("りんご", ("りん", "んご")),
        ("どうすればよいですか", ("どう", "うす", "すれ", "れば", "ばよ", "よい", "いで", "です", "すか")),
    ],
)
def test_function_words_are_left_out_where_something_else_is_there(typed: str, tokens: tuple[str, ...]) -> None:
    assert prepare(typed, POLICY).tokens == tokens


@pytest.mark.parametrize(
    ("one", "other", "alike"),
    [
        ("children", "child", True),
        ("convivi", "convivial", True),
        ("datenbank", "datenbanken", True),
        ("kolmogorov", "klmogorov", True),
        ("заметки", "заметках", True),
        ("cat", "car", False),
        ("index", "sync", False),
    ],
)
def test_words_that_share_most_of_their_letters_are_alike(one: str, other: str, alike: bool) -> None:
    assert (likeness(one, other) >= POLICY.name_likeness) is alike
    assert likeness(one, other) == likeness(other, one)


def test_a_file_named_as_the_query_comes_before_one_that_only_holds_its_words(match: Make) -> None:
    asked = Query("tuple store", ("tupl", "store"), 2, (), 2)
    lexical = [
        match(path="other.md", score=9.0, lexical="tupl store", title="the tuple store and more"),
        match(path="tuple store.md", score=5.0, lexical="tupl store"),
    ]
    placed = ranking.rank(ranking.score_chunks(asked, ranking.gather(asked, [], lexical), POLICY, 0.2), POLICY, id)
    assert placed[0].match.path == "tuple store.md"


def test_a_file_is_also_called_by_its_folder_and_its_name(match: Make) -> None:
    asked = Query("first pager", ("first", "pager"), 2, (), 2)
    row = match(path="pager/first.md")
    assert Names(asked, POLICY).overlap(row) == pytest.approx(1.0)
    assert Names(asked, SearchPolicy(folder_names=False)).overlap(row) == pytest.approx(0.5**0.5)
    assert not Names(asked, POLICY).exact(row)


def test_a_folder_alone_is_no_name_of_its_files(match: Make) -> None:
    asked = Query("pager sizes", ("pager", "size"), 2, (), 2)
    assert Names(asked, POLICY).overlap(match(path="pager/first.md")) == 0.0


def test_neighbouring_words_of_a_question_count_where_they_stand_side_by_side(match: Make) -> None:
    asked = Query("x", ("open", "pull", "request"), 9, (), 9)
    weights = dict.fromkeys(asked.tokens, 1.0)
    every = frozenset(asked.tokens)
    assert evidence.phrase(asked, match(lexical="open pull request"), every, weights) == 1.0
    assert evidence.phrase(asked, match(lexical="pull request open"), every, weights) == 0.5
    assert evidence.phrase(asked, match(lexical="request pull open"), every, weights) == 0.0
    assert evidence.phrase(asked, match(lexical="open x"), frozenset({"open"}), weights) == 0.0


@pytest.mark.parametrize("start", [0, 5000])
def test_a_chunk_that_is_no_more_than_a_heading_counts_half(match: Make, start: int) -> None:
    rows = [
        match(path="stub.md", score=0.5, start_byte=start, end_byte=start + 20),
        match(path="text.md", score=0.45),
        match(path="z.md", score=0.1),
    ]
    asked = Query("w v", ("w", "v"), 2, (), 2)
    for policy, first in ((POLICY, "text.md"), (SearchPolicy(thin_bytes=0), "stub.md")):
        scored = ranking.score_chunks(asked, ranking.gather(asked, rows, []), policy, 0.2)
        assert ranking.rank(scored, policy, lambda row: row.path)[0].match.path == first


@pytest.mark.parametrize(
    ("typed", "telling"), [("what does --force do?", 1), ("--force", 1), ("use --force to sync notes", 4)]
)
def test_a_question_about_a_name_is_about_that_name(typed: str, telling: int) -> None:
    assert prepare(typed, POLICY).telling == telling
    assert prepare(typed, POLICY).names == ("--force",)


def test_a_question_prefers_the_opening_of_a_page_and_a_name_does_not(match: Make) -> None:
    rows = [match(path="a.md", ord=3, score=0.5), match(path="b.md", ord=0, score=0.5)]
    for words, first in ((9, "b.md"), (2, "a.md")):
        asked = Query("x", ("w", "v"), words, (), words)
        scored = ranking.score_chunks(asked, ranking.gather(asked, rows, []), POLICY, 0.2)
        assert ranking.rank(scored, POLICY, lambda row: row.path)[0].match.path == first


def test_the_recipe_switches_every_later_step_off() -> None:
    text = "How do I sync? What is the price?\nERROR: x: y"
    assert prepare(text, RECIPE).text == text
    assert prepare(text, RECIPE).parts == ()
    assert prepare("long now", RECIPE).tokens == ("long",)
