"""What a name may hold and what of it reaches a line of ours."""

from __future__ import annotations

import json

from hypothesis import given
from hypothesis import strategies as st

from markdown_rag.errors import NotFound, SettingsError
from markdown_rag.oneline import one_line


@given(st.text(st.characters()))
def test_any_text_is_one_line_afterwards_and_stays_as_it_is_the_second_time(text: str) -> None:
    flat = one_line(text)
    assert len(f"x{flat}x".splitlines()) == 1
    assert one_line(flat) == flat


@given(st.text())
def test_json_says_the_same_afterwards(text: str) -> None:
    assert json.loads(one_line(json.dumps([text], ensure_ascii=False))) == [text]


def test_words_of_every_language_stay_as_they_are() -> None:
    text = "Grüße, 世界, العربية, עברית, 👩‍👩‍👧, a\\b"
    assert one_line(text) == text
    assert one_line("a\n\u2028\u202e\x85b") == "a\\n\\u2028\\u202e\\u0085b"


def test_an_error_repeats_names_on_its_line_and_a_bad_setting_has_a_line_each() -> None:
    error = NotFound("No document 'a\nb'.", "The nearest: x\u2028y.")
    assert str(error) == "No document 'a\\nb'. The nearest: x\\u2028y."
    assert str(SettingsError("one\ntwo")) == "one\ntwo"
