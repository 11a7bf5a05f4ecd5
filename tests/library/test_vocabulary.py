"""What an agent is told it can filter by."""

from __future__ import annotations

from typing import Any

from markdown_rag.library.vocabulary import EXAMPLES, PROPERTIES, TAGS, Property, Vocabulary, vocabulary
from markdown_rag.search.conditions import parse_condition
from markdown_rag.store.base import FileEntry


def entry(path: str, *tags: str, **properties: Any) -> FileEntry:
    return FileEntry("w", path, 1, 1, "", tags, (), properties, "", "")


def test_tags_and_properties_are_counted_by_file_the_most_frequent_first() -> None:
    found = vocabulary(
        [
            entry("a.md", "office", "security", status="active", reviewed="2025-03-01"),
            entry("b.md", "office", status="active", project={"name": "Atlas", "team": {"lead": "Ann"}}),
            entry("c.md", status="done", published=True, rank=7, notes=["x", "y"], nothing=None),
        ]
    )
    assert found.tags == (("office", 2), ("security", 1))
    assert found.properties[0] == Property("status", 3, ("active", "done"))
    others = {each.name: each.values for each in found.properties[1:]}
    assert others == {
        "nothing": (),
        "notes": ("x", "y"),
        "project.name": ("Atlas",),
        "project.team.lead": ("Ann",),
        "published": ("true",),
        "rank": ("7",),
        "reviewed": ("2025-03-01",),
    }
    assert (found.all_tags, found.all_properties) == (2, 8)


def test_what_is_shown_can_be_filtered_by() -> None:
    entries = [entry("a.md", a={"b": [True, 1.5, "Words here"]}, c="x"), entry("b.md")]
    for each in vocabulary(entries).properties:
        assert each.values
        for value in each.values:
            assert parse_condition(f"{each.name}={value}").holds(entries[0])


def test_however_large_a_vault_is_its_vocabulary_is_short() -> None:
    entries = [
        entry(f"{n}.md", f"tag{n}", "all", **{f"name{n}": "x" * n, "common": f"value {n}"}) for n in range(1_200)
    ]
    found = vocabulary(entries)
    assert (len(found.tags), len(found.properties)) == (TAGS, PROPERTIES)
    assert (found.all_tags, found.all_properties) == (1_201, 1_201)
    assert found.tags[0] == ("all", 1_200)
    assert found.properties[0].files == 1_200
    assert all(
        len(each.values) <= EXAMPLES and all(len(value) <= 40 for value in each.values) for each in found.properties
    )


def test_a_vault_without_any_has_an_empty_one() -> None:
    assert vocabulary([]) == Vocabulary()
    assert vocabulary([entry("a.md")]) == Vocabulary()
