"""Headings and blocks are those of CommonMark, with exact positions."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from markdown_rag.markdown.outline import Heading, heading_at, headings_before, joined_path, parse_outline


def headings(text: str) -> list[tuple[int, str]]:
    return [(heading.level, heading.text) for heading in parse_outline(text).headings]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("# I/O and TCP/IP\n\n## CI/CD\n", [(1, "I/O and TCP/IP"), (2, "CI/CD")]),
        ("# Top #\n\n## T ##\n", [(1, "Top"), (2, "T")]),
        ("Top\n===\n\nLow\n---\n", [(1, "Top"), (2, "Low")]),
        (f"{'A paragraph ' * 20}\n===\n\n# Top\n", [(1, "Top")]),  # prose above a rule
        (f"# {'Long ' * 60}\n", [(1, ("Long " * 60).strip())]),
        ("####### seven\n\n#nospace\n\n\\# escaped\n", []),
        ("~~~sh\n# no\n~~~\n# Yes\n", [(1, "Yes")]),
        ("````md\n```sh\n# no\n```\n## nor this\n````\n# Yes\n", [(1, "Yes")]),
        ("# Yes\n\n```sh\n# never closed\n", [(1, "Yes")]),
        ("- item\n\n  ```sh\n  # no\n  ```\n\n# Yes\n", [(1, "Yes")]),
        ("    # indented\n\n# Yes\n", [(1, "Yes")]),
        ("<!--\n# hidden\n-->\n\n# Yes\n", [(1, "Yes")]),
        ("> # quoted\n\n- # listed\n\n# Yes\n", [(1, "Yes")]),
        ("<details>\n\n<h2>Not markdown</h2>\n\n</details>\n\n# Yes\n", [(1, "Yes")]),
        ("# The `code` and **bold** [link](x.md)\n", [(1, "The `code` and bold link")]),
        ('# <a name="x"></a> Anchored {#id .class}\n', [(1, "Anchored")]),
        ("## GET /users/{id}\n", [(2, "GET /users/{id}")]),
        ("# Kram {: #down}\n", [(1, "Kram")]),
        ("# Tom &amp; Jerry \\* ok\n", [(1, "Tom & Jerry * ok")]),
        ("# 설치 안내\n## かな\n", [(1, "설치 안내"), (2, "かな")]),
        ("$$\n\\begin{a} x \\\\ # &= z\n$$\n\n# Yes\n", [(1, "Yes")]),
        ("#\n\n##\n\n# Real\n", [(1, ""), (2, ""), (1, "Real")]),
    ],
)
def test_a_heading_is_what_commonmark_says(text: str, expected: list[tuple[int, str]]) -> None:
    assert headings(text) == expected


def test_positions_are_characters_of_the_text() -> None:
    text = "머리말\n\n# 제목 🗂\n\n- 하나\n  - 둘\n\n| a | b |\n|---|---|\n| 字 | 2 |\n"
    outline = parse_outline(text, 5)
    assert text[outline.headings[0].start : outline.headings[0].end] == "# 제목 🗂\n"
    assert [block.kind for block in outline.blocks] == ["heading", "list", "table"]
    nested = outline.blocks[1].children[0].children[0]
    assert (nested.kind, text[nested.start : nested.end].strip()) == ("list", "- 둘")
    row = outline.blocks[2].children[1]
    assert (row.kind, text[row.start : row.end]) == ("row", "| 字 | 2 |\n")


def test_inline_tags_are_found_in_prose_alone() -> None:
    text = "#one two#no #nested/tag, #123 `#code` [x](y.md#frag) [#no](z) **b**#no\n\n# Head #no\n\n"
    text += "```\n#no\n```\n- #in-list #one\n"
    assert parse_outline(text).tags == ("one", "nested/tag", "in-list")


def test_deep_nesting_is_bounded() -> None:
    outline = parse_outline("- " * 5000 + "x\n\n" + ">" * 5000 + " y\n\n# End\n")
    depth, blocks = 0, outline.blocks[:1]
    while blocks:
        depth, blocks = depth + 1, blocks[0].children
    assert depth <= 13
    assert outline.headings[0].text == "End"


@pytest.mark.parametrize(
    ("path", "text", "word", "expected"),
    [
        (("Top",), "## A\n\nx\n\n## B\n\nhere\n", "here", ("Top", "B")),
        (("Top",), "# Top\n\nintro\n\n## B\n\nhere\n", "here", ("Top", "B")),
        (("Top",), "# Top\n\nintro here\n\n## B\n\ny\n", "here", ("Top",)),
        (("Log", "Notes"), "## Notes\n\nsecond\n\n## Notes\n\nhere\n", "here", ("Log", "Notes")),
        (("Top", "Part"), "rest of it here\n", "here", ("Top", "Part")),
        ((), "### Deep\n\nx\n\n# Top\n\n#### Far\n\nhere\n", "here", ("Top", "Far")),
    ],
)
def test_a_merged_chunk_knows_the_heading_of_each_place(
    path: tuple[str, ...], text: str, word: str, expected: tuple[str, ...]
) -> None:
    assert heading_at(path, text, text.index(word)) == expected


@pytest.mark.parametrize(
    ("stored", "inside", "expected"),
    [
        ("", (), ""),
        ("", ("A",), "A"),
        ("A", ("A", "B"), "A › B"),
        ("Config › Paths", ("Config › Paths", "A > B"), "Config › Paths › A > B"),
        ("A › B", ("B", "C"), "A › B › C"),
        ("A › XB", ("B", "C"), "A › XB › B › C"),
    ],
)
def test_a_heading_that_holds_the_joint_is_not_doubled(stored: str, inside: tuple[str, ...], expected: str) -> None:
    assert joined_path(stored, inside, " › ") == expected


@settings(max_examples=300, deadline=None)
@given(text=st.text("a#=- \n\t>*`|:1.x\u00a0\x0c", max_size=40), offset=st.integers(0, 40))
def test_a_place_stands_under_the_headings_that_the_outline_has_above_it(text: str, offset: int) -> None:
    expected: list[Heading] = []
    for heading in parse_outline(text).headings:
        if heading.start <= offset and heading.text:
            expected = [*(each for each in expected if each.level < heading.level), heading]
    assert headings_before(text, offset) == tuple(heading.text for heading in expected)
