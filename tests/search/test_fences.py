"""Excerpts of code: whatever of a fence is shown is shown as code, and what follows it is not."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from markdown_rag.markdown.lexical import tokens
from markdown_rag.markdown.outline import parse_outline
from markdown_rag.search.excerpt import excerpt
from markdown_rag.search.fences import Fence, fences_of

PROSE = st.integers(1, 9).map(lambda count: "\n".join(f"prose {n} says a few words." for n in range(count)))
MARKS = st.sampled_from(
    [("```bash", "```"), ("```", "```"), ("~~~~ python title=x", "~~~~"), (f"````{'x' * 90}", "`````")]
)
CODE = st.tuples(MARKS, st.integers(1, 12)).map(
    lambda drawn: "\n".join([drawn[0][0], *(f"code {n} --option value" for n in range(drawn[1])), drawn[0][1]])
)
TEXTS = st.lists(st.one_of(PROSE, CODE), min_size=1, max_size=6).map("\n\n".join)


def weights(query: str) -> dict[str, float]:
    return dict.fromkeys(tokens(query, query=True), 1.0)


@given(TEXTS, st.integers(250, 500), st.sampled_from(["code 7", "prose 3", "code 2 prose 8", "nothing"]))
@settings(max_examples=150)
def test_code_is_shown_as_code_and_nothing_else_is(text: str, budget: int, query: str) -> None:
    shown = excerpt(text, 1, weights(query), budget)
    marked = shown.marked()
    assert len(marked.encode()) <= budget
    assert shown.text in text
    page = f"{marked}\n\nprose after\n"
    spans = [(block.start, block.end) for block in parse_outline(page).blocks if block.kind == "fence"]
    at = 0
    for line in page.splitlines(keepends=True):
        if line.strip("…").startswith(("code", "prose")):
            assert any(start <= at < end for start, end in spans) is line.strip("…").startswith("code"), page
        at += len(line)


def test_the_lines_cited_are_those_of_the_text_without_what_keeps_code_code() -> None:
    text = "```sh\n" + "\n".join(f"step {n} of many" for n in range(40)) + "\n```\n"
    shown = excerpt(text, 10, weights("step 20"), 300)
    assert shown.text.count("\n") == shown.end_line - shown.start_line
    assert shown.marked() == f"```sh\n{shown.text}\n```"


def test_a_chunk_that_begins_inside_a_fence_is_shown_inside_it() -> None:
    shown = excerpt("step 1\nstep 2\n```\n\nThe end.\n", 10, weights("step"), 300, "```sh\n")
    assert shown.marked() == "```sh\nstep 1\nstep 2\n```\n\nThe end."


@pytest.mark.parametrize("text", ["Words with ``` in them.", "- item\n\n  ```\n  code\n  ```\n", "    ```\n    code\n"])
def test_what_is_no_fence_of_the_page_is_left_as_it_is(text: str) -> None:
    assert fences_of(text) == []
    shown = excerpt(text, 1, weights("code"), 300)
    assert shown.marked() == shown.text


def test_a_fence_knows_where_its_code_is() -> None:
    assert fences_of("Words.\n\n```sh\ncode\n```\n") == [Fence("```sh", "```", 8, 14, 19)]
