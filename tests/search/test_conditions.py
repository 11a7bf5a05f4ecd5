"""What a condition on front matter means, one truth a line."""

from __future__ import annotations

import pytest

from markdown_rag.errors import InputError
from markdown_rag.search.conditions import Condition, parse_condition
from markdown_rag.store.base import FileEntry

PROPERTIES = {
    "status": "Done",
    "rank": 7,
    "share": 0.5,
    "draft": False,
    "date": "2024-03-15",
    "updated": "2024-03-15T22:30:00+02:00",
    "meeting": "2024-01-31T18:30:00Z",
    "owners": ["Ann", "Björn"],
    "project": {"name": "Atlas", "phase": {"number": 2}},
    "empty": "",
    "nothing": None,
    "dotted.name": "x",
}


def entry(**given: object) -> FileEntry:
    values = {
        "workspace": "w",
        "path": "plans/atlas.md",
        "gen": 1,
        "chunk_count": 1,
        "title": "The Atlas plan",
        "tags": ("work/plans", "Urgent"),
        "aliases": ("roadmap",),
        "properties": PROPERTIES,
        "file_hash": "",
        "policy": "",
    } | given
    return FileEntry(**values)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("condition", "holds"),
    [
        ("status=done", True),
        ("STATUS = DONE", True),
        ("status=don", False),
        ("status!=done", False),
        ("status!=open", True),
        ("missing!=open", True),
        ("missing=open", False),
        ("status~on", True),
        ("status~x", False),
        ("status", True),
        ("missing", False),
        ("empty", False),
        ("nothing", False),
        ("rank=7", True),
        ("rank=7.0", True),
        ("rank>6", True),
        ("rank>7", False),
        ("rank>=7", True),
        ("rank<10", True),
        ("rank<=6.5", False),
        ("share<1", True),
        ("status>3", False),
        ("draft=false", True),
        ("draft=true", False),
        ("draft", True),
        ("draft<1", False),
        ("date=2024-03-15", True),
        ("date>2024-03-14", True),
        ("date>2024-03-15", False),
        ("date>=2024-03-15", True),
        ("date<2024-04", True),
        ("date>2024", True),
        ("date>2025", False),
        ("date<2024-03-15T08:00", False),
        ("updated=2024-03-15", True),
        ("meeting=2024-01-31T19:30:00+01:00", True),
        ("meeting=2024-01-31T18:30", True),
        ("meeting!=2024-01-31T19:30:00+01:00", False),
        ("meeting=2024-01-31T18:30:00+01:00", False),
        ("meeting>=2024-01-31T19:30:00+01:00", True),
        ("meeting>2024-01-31T19:30:00+01:00", False),
        ("date=2024-03-15T00:00", False),
        ("updated>2024-03-15", False),
        ("updated>2024-03-15T20:00:00", True),
        ("updated<2024-03-15T21:00:00+00:00", True),
        ("owners=ann", True),
        ("owners=bjo\u0308rn", True),
        ("owners~jö", True),
        ("owners=carl", False),
        ("owners!=ann", False),
        ("project.name=atlas", True),
        ("project.phase.number>=2", True),
        ("project=atlas", False),
        ("dotted.name=x", True),
        ("title~atlas", True),
        ("tags=urgent", True),
        ("tags~plans", True),
        ("aliases=roadmap", True),
        ("path~plans/", True),
        ("status=", False),
        ("missing=", False),
    ],
)
def test_a_condition_holds_for_what_it_says(condition: str, holds: bool) -> None:
    assert parse_condition(condition).holds(entry()) is holds


@pytest.mark.parametrize("text", ["=x", "", "a>", "a>b", "a<=soon", "~x", "a~", "!"])
def test_what_is_no_condition_is_refused_with_the_grammar(text: str) -> None:
    with pytest.raises(InputError, match="name=value"):
        parse_condition(text)


def test_a_value_may_hold_anything() -> None:
    assert parse_condition("url=https://x.org/?a=b>c") == Condition("url", "=", "https://x.org/?a=b>c")
    assert parse_condition("note ~ a = b") == Condition("note", "~", "a = b")


def test_a_property_named_like_a_field_goes_first() -> None:
    assert parse_condition("title=other").holds(entry(properties={"Title": "other"}))
