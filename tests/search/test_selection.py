"""Filters are exact, name what nobody has, and reach the engine."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from markdown_rag.search.catalog import Snapshot
from markdown_rag.search.conditions import parse_condition
from markdown_rag.search.generations import key_of
from markdown_rag.search.selection import Place, Selection, explain_nothing, has_tag, narrowed, select
from markdown_rag.store.base import FileEntry, Where
from markdown_rag.store.filters import accepts


def entry(path: str, workspace: str = "w", tags: tuple[str, ...] = (), **properties: object) -> FileEntry:
    return FileEntry(workspace, path, 1, 1, "", tags, (), properties, "", "")


def snapshot(*entries: FileEntry) -> Snapshot:
    return Snapshot({key_of(each): each for each in entries}, None, 0.0, 0.0)


@pytest.mark.parametrize(
    ("wanted", "holds"),
    [
        ("work", True),
        ("work/plans", True),
        ("#Work/Plans", True),
        ("plans", False),
        ("wor", False),
        ("work/plan", False),
    ],
)
def test_a_tag_includes_what_is_nested_in_it_and_nothing_spelled_alike(wanted: str, holds: bool) -> None:
    (tag,) = select(tags=[wanted]).tags
    assert has_tag(entry("a.md", tags=("work/plans", "other")), tag) is holds


def test_all_tags_and_all_conditions_must_hold() -> None:
    files = [
        entry("a.md", tags=("x", "y"), status="done"),
        entry("b.md", tags=("x",), status="done"),
        entry("c.md", tags=("x", "y"), status="open"),
    ]
    selection = select(tags=["#x, #y"], properties=["status=done", "  "])
    assert [each.path for each in files if selection.holds(each)] == ["a.md"]


def test_the_same_path_in_another_workspace_is_another_file() -> None:
    two = snapshot(entry("a.md", "w1", ("x",)), entry("a.md", "w2"), entry("b.md", "w2", ("x",)))
    where = narrowed(Where(), select(tags=["x"]), two)
    assert where.files == (("w1", ("a.md",)), ("w2", ("b.md",)))
    assert [key_of(each) for each in two.select(where)] == [("w1", "a.md"), ("w2", "b.md")]


def test_folders_alone_need_no_list_of_files() -> None:
    selection = Selection((Place((), "docs"), Place((), "notes/a.md")), (Place((), "docs/old"),))
    where = narrowed(Where(workspaces=("w",)), selection, snapshot())
    assert where == Where(workspaces=("w",), within=("docs", "notes/a.md"), outside=("docs/old",))


def test_a_folder_of_one_workspace_says_nothing_about_another() -> None:
    two = snapshot(entry("docs/a.md", "w1"), entry("docs/a.md", "w2"), entry("b.md", "w2"))
    inside = narrowed(Where(), Selection(within=(Place(("w1",), "docs"), Place(("w2",), "b.md"))), two)
    assert {key_of(each) for each in two.select(inside)} == {("w1", "docs/a.md"), ("w2", "b.md")}
    outside = narrowed(Where(), Selection(outside=(Place(("w2",), "docs"),)), two)
    assert {key_of(each) for each in two.select(outside)} == {("w1", "docs/a.md"), ("w2", "b.md")}


FILES = [
    entry("a.md", tags=("project/atlas",), status="done", owner="Ann"),
    entry("b.md", tags=("person",), status="open"),
]


@pytest.mark.parametrize(
    ("selection", "words"),
    [
        (select(tags=["projct"]), "No file has the tag 'projct'; the nearest: project, project/atlas."),
        (select(tags=["zzz"]), "the most frequent: "),
        (select(properties=["stats=done"]), "No file has the property 'stats'; the nearest: status."),
        (select(properties=["status=don"]), "No file has status=don; the nearest: done."),
        (select(properties=["owner~carl"]), "No file has owner~carl; the most frequent: Ann."),
        (select(tags=["person"], properties=["status=done"]), "all of them together by none"),
    ],
)
def test_what_no_file_has_is_answered_with_the_nearest_that_exists(selection: Selection, words: str) -> None:
    assert words in explain_nothing(selection, FILES)


SPARSE = [
    entry("a.md", null_val=None, empty="", project={"name": "Atlas", "phase": 2}, when="2024-01-31", flag=True),
    entry("b.md", when="2024-01-30", flag="true"),
    entry("c.md", flag=False),
]


@pytest.mark.parametrize(
    ("condition", "words"),
    [
        ("null_val", "The property 'null_val' is there, but has no value in any file."),
        ("empty=x", "The property 'empty' is there, but has no value in any file."),
        ("project=Atlas", "The property 'project' has no value of its own; it holds project.name, project.phase."),
        ("when>2024-01-31", "No file has when>2024-01-31; the nearest: 2024-01-31, 2024-01-30."),
        ("when<2001", "No file has when<2001; the nearest: 2024-01-30, 2024-01-31."),
        ("flag=yes", "No file has flag=yes; the most frequent: true, false."),
        ("path!=a.md", "Every file has path=a.md."),
    ],
)
def test_a_single_filter_that_no_file_meets_says_what_there_is_as_a_user_writes_it(condition: str, words: str) -> None:
    files = SPARSE[:1] if "!=" in condition else SPARSE
    told = explain_nothing(select(properties=[condition]), files)
    assert words in told
    assert "leave one out" not in told


@pytest.mark.parametrize(
    ("condition", "nearest"),
    [
        ("date>2024-06-15", "2024-06-15T10:00:00+02:00, 2024-06-14, 2024-03-01"),
        ("date<2023-01-01", "2023-12-31, 2024-03-01, 2024-06-14"),
        ("date=2024-06-16", "2024-06-15T10:00:00+02:00, 2024-06-14, 2024-03-01"),
        ("rank>100", "99, 20, 9"),
        ("rank<=0", "1, 9, 20"),
        ("rank=100", "99, 20, 9"),
        ("rank=10", "9, 1, 20"),
    ],
)
def test_a_date_or_a_number_that_no_file_has_is_answered_with_those_next_to_it(condition: str, nearest: str) -> None:
    dates = ("2024-03-01", "2023-12-31", "2024-06-14", "2024-06-15T10:00:00+02:00", "soon")
    some = [entry("a.md", date=value, rank=rank) for value, rank in zip(dates, (1, 9, 20, 99, 99), strict=True)]
    said = explain_nothing(select(properties=[condition]), some)
    assert said.endswith(f"No file has {condition}; the nearest: {nearest}.")


def test_places_that_hold_no_file_are_named() -> None:
    inside = Selection(within=(Place((), "docs"), Place((), "notes")))
    assert "No file lies in docs or notes." in explain_nothing(inside, FILES)
    outside = Selection(outside=(Place((), "a.md"), Place((), "b.md")))
    assert "Every file is left out by exclude_path." in explain_nothing(outside, FILES)


def test_nothing_is_explained_where_a_file_meets_the_filters_or_there_is_none() -> None:
    assert explain_nothing(select(tags=["person"]), FILES) == ""
    assert explain_nothing(select(tags=["person"]), []) == ""


names = st.sampled_from(["a.md", "docs/a.md", "docs/b.md", "docs/old/c.md", "docs-x/d.md"])
places = st.builds(Place, st.sampled_from([(), ("w1",), ("w2",)]), st.sampled_from(["docs", "docs/old", "a.md", "no"]))


@given(
    files=st.lists(
        st.builds(entry, names, st.sampled_from(["w1", "w2"]), st.sampled_from([(), ("x",), ("x/y",)])), max_size=8
    ),
    within=st.lists(places, max_size=2),
    outside=st.lists(places, max_size=2),
    tags=st.sampled_from([[], ["x"], ["x/y"]]),
    properties=st.sampled_from([[], ["title=z"]]),
)
def test_the_engine_is_asked_for_exactly_the_files_that_meet_the_selection(
    files: list[FileEntry], within: list[Place], outside: list[Place], tags: list[str], properties: list[str]
) -> None:
    known = snapshot(*files)
    selection = select(tags, properties, tuple(within), tuple(outside))
    where = narrowed(Where(), selection, known)
    for each in known.files.values():
        assert accepts(where, each.workspace, each.path) is selection.holds(each)


def test_a_search_gives_k_hits_whenever_k_files_meet_the_filters(new_library: Callable[..., object]) -> None:
    library = new_library()
    try:
        for number in range(300):
            library.add(f"loud-{number}.md", "lamp lamp lamp valve")  # type: ignore[attr-defined]
        for number in range(4):
            library.add(f"quiet/{number}.md", f"one lamp among {number} other words in a long dull text")  # type: ignore[attr-defined]
        known = library.catalog.snapshot()  # type: ignore[attr-defined]
        where = narrowed(Where(), Selection(conditions=(parse_condition("path~quiet"),)), known)
        assert where.files is not None
        found = library.paths("lamp valve", 5, files=where.files)  # type: ignore[attr-defined]
        assert sorted(found) == [f"quiet/{number}.md" for number in range(4)]
    finally:
        library.searcher.close()  # type: ignore[attr-defined]
