"""Front matter is read where it is one, and nothing is lost where it is not."""

import json

import pytest

from markdown_rag.markdown.chunking import ChunkPolicy, Document, chunk_document
from markdown_rag.markdown.frontmatter import MAX_PROPERTIES, exact_names, split_front_matter

BODY = "\n# Body\n"


def test_yaml_gives_title_tags_aliases_description_and_the_rest() -> None:
    front = split_front_matter(
        "---\ntitle: Plain\ntags: [red, '#blue/green', red]\naliases:\n  - Simple\n"
        "description: What it is\nowner: Ada\n---\n"
    )
    assert (front.title, front.tags, front.aliases) == ("Plain", ("red", "blue/green"), ("Simple",))
    assert (front.description, front.properties) == ("What it is", {"owner": "Ada"})
    assert front.warnings == ()


@pytest.mark.parametrize(
    "text",
    [
        "---\ntitle: T\ntags: red, blue\n---\n",
        "---\nTitle: T\nTags: red blue\n...\n",
        "+++\ntitle = 'T'\ntags = ['red', 'blue']\n+++\n",
        "+++\ntitle = 'T'\n[taxonomies]\ntags = ['red', 'blue']\n+++\n",
        '{\n "title": "T",\n "tags": ["red", "blue"]\n}\n',
    ],
)
def test_every_notation_says_the_same(text: str) -> None:
    front = split_front_matter(text + BODY)
    assert (front.title, front.tags, front.end) == ("T", ("red", "blue"), len(text))


def test_values_stay_as_they_are_written() -> None:
    front = split_front_matter(
        "---\ntitle: 2024\ndate: 2024-02-29\nat: 12:30\nnorway: no\nbig: 12345678901234567890\n---\n"
    )
    assert front.title == "2024"
    assert front.properties == {"date": "2024-02-29", "at": "12:30", "norway": "no", "big": "12345678901234567890"}


def test_toml_dates_are_iso_text() -> None:
    assert split_front_matter("+++\ndate = 2024-02-29T10:00:00Z\n+++\n").properties == {
        "date": "2024-02-29T10:00:00+00:00"
    }


def test_tags_that_are_no_text_become_text_and_null_goes() -> None:
    front = split_front_matter("---\ntags: [2024, true, null, 3.5]\naliases: single\n---\n")
    assert (front.tags, front.aliases) == (("2024", "true", "3.5"), ("single",))


EXPLOSION = "".join(
    f"{key}: &{key} [{', '.join([item] * 9)}]\n"
    for key, item in zip("abcde", ("x", "*a", "*b", "*c", "*d"), strict=True)
)


@pytest.mark.parametrize(
    "block",
    [
        "title: Tabbed\ntags:\n\t- red",
        "title: Notes: part two",
        "- red\n- blue",
        "title: !!python/object/apply:os.getcwd []",
        "title: [open",
        EXPLOSION.rstrip(),
        "deep: " + "[" * 5000 + "]" * 5000,
        "deep: " + "- " * 5000 + "x",
        "loop: &loop [*loop]",
    ],
    ids=["tab", "colon", "list", "python", "open", "explosion", "deep flow", "deep sequence", "loop"],
)
def test_what_cannot_be_read_is_kept_as_text_with_a_warning(block: str) -> None:
    text = f"---\n{block}\n---\n"
    front = split_front_matter(text + BODY)
    assert front.end == 0
    assert front.kept == len(text)
    assert "kept as text" in front.warnings[0]


def test_a_block_that_is_never_closed_is_body() -> None:
    front = split_front_matter("---\ntitle: Open\ntags: [red]\n---1\n\n# Body\n")
    assert (front.end, front.kept, front.title) == (0, 0, "")
    assert "never closed" in front.warnings[0]


@pytest.mark.parametrize(
    "text",
    [
        "---\n\nJust a paragraph between two rules.\n\n---\n\n# Later\n",
        "---\n\nNote: a paragraph with a colon.\n\n---\n",
        "---\nThis is not at all meant: as front matter\n---\n",
        "---\n# A heading between rules\n---\n",
        "# First\n\n---\ntitle: Not me\n---\n",
        "\n---\ntitle: Late\n---\n",
        "{{< shortcode >}}\n",
        "{% include x %}\n",
        '{"a": 1} and more text\n',
        "",
    ],
)
def test_prose_is_no_front_matter(text: str) -> None:
    front = split_front_matter(text)
    assert (front.end, front.kept, front.warnings) == (0, 0, ())


def test_empty_front_matter_ends_at_its_second_line() -> None:
    assert split_front_matter("---\n---\n" + BODY).end == 8


def test_a_broken_block_ends_where_the_markdown_begins() -> None:
    text = "---\ntitle: [Open\n\n# Body\n\nA paragraph of words.\n\n---\n"
    front = split_front_matter(text)
    assert text[: front.kept] == "---\ntitle: [Open\n"


def test_large_properties_are_left_out_by_name() -> None:
    front = split_front_matter(f"---\nowner: Ada\nkeywords: [{', '.join(['word'] * 9000)}]\ndraft: true\n---\n")
    assert front.properties == {"owner": "Ada", "draft": True}
    assert "keywords" in front.warnings[0]
    assert len(json.dumps(front.properties)) < MAX_PROPERTIES


def test_every_value_is_json_without_strange_characters() -> None:
    front = split_front_matter('---\nbad: "a\\0b"\nhalf: .inf\nwhole: {x: [1, 2.5, null, true]}\n---\n')
    assert json.loads(json.dumps(front.properties, allow_nan=False)) == front.properties
    assert front.properties is not None
    assert front.properties["bad"] == "a\ufffdb"


def test_json_escapes_cannot_bring_surrogates_in() -> None:
    assert split_front_matter('{\n"title": "x\\ud800y"\n}\n').title == "x\ufffdy"


@pytest.mark.parametrize(
    ("values", "names"),
    [
        ("signatures: [PAGER.Next, 'PAGER.Prev']\nreturnType: page.Pager", ("PAGER.Next", "PAGER.Prev", "page.Pager")),
        ("slug: hugo_list_all\nflags: {long: --dry-run, short: -n}", ("hugo_list_all", "--dry-run", "-n")),
        ("code: ERR_4711\ncode2: ERR_4711", ("ERR_4711",)),
        ("date: 2024-01-02T10:00:00Z\nday: 2024-01-02\nweight: 12\ndraft: true\nstatus: done", ()),
    ],
)
def test_exact_names_in_front_matter_are_told_from_prose_dates_and_numbers(values: str, names: tuple[str, ...]) -> None:
    assert exact_names(split_front_matter(f"---\n{values}\n---\nText.\n")) == names


def test_a_file_is_found_by_an_exact_name_that_stands_in_its_front_matter_alone() -> None:
    text = "---\nsignatures: [PAGER.Next]\n---\n# Next\n\n" + "".join(
        f"## Part {n}\n\n{'words ' * 200}\n\n" for n in range(3)
    )
    document = chunk_document(text.encode(), "next.md", ChunkPolicy())
    assert isinstance(document, Document)
    holding = [chunk.ord for chunk in document.chunks if "pager_next" in chunk.lexical.split()]
    assert holding == [0]
    assert all("PAGER" not in chunk.embed_text for chunk in document.chunks)
