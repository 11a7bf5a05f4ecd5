"""Filters mean on the engine what they mean in Python, whatever names hold."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from markdown_rag.store.base import Where
from markdown_rag.store.filters import NOTHING, accepts, parent_folder, quote, to_expression
from markdown_rag.store.opening import StoreSettings, open_store

from .conftest import MODEL, record

HOSTILE = [
    "' or ord >= 0 or path == '.md",
    '" or ord >= 0 or path == ".md',
    "a\\",
    '\\"',
    "a\\n",
    "%",
    "_",
    "a_b",
    "aXb",
    "100%",
    "line\nbreak",
    "tab\there",
    "cr\rhere",
    "\x01\x1f\x7f",
    "日本語",
    "é",
    "e\u0301",
    "\U0001f600",
    "\u2028\u2029\u0085",
    "path in [1]",
    "{p}",
    "$meta",
    "-- comment",
    "docs",
    "docs0",
    "docs-",
    "docs/",
]
characters = st.characters(exclude_categories=["Cs"], exclude_characters="/\0")
parts = st.one_of(st.sampled_from([name.strip("/") for name in HOSTILE]), st.text(characters, min_size=1, max_size=6))
paths = st.lists(parts, min_size=1, max_size=3).map("/".join)


@st.composite
def cases(draw) -> tuple[list[str], Where]:
    """Some paths, and a filter made of them, of their folders and of strangers."""
    stored = draw(st.lists(paths, min_size=1, max_size=12, unique=True))
    folders = [parent_folder(path) for path in stored if "/" in path]
    known = st.sampled_from([*stored, *folders, ""]) if folders else st.sampled_from([*stored, ""])
    named = st.lists(st.one_of(st.sampled_from(stored), paths), max_size=4).map(tuple)
    where = Where(
        scope=draw(st.one_of(known, paths)),
        recursive=draw(st.booleans()),
        paths=draw(st.one_of(st.none(), named)),
        exclude_paths=draw(named),
    )
    return stored, where


@pytest.fixture(scope="module", params=["embedded", pytest.param("server", marks=pytest.mark.server)])
def milvus(request: pytest.FixtureRequest):
    served = request.param == "server"
    address = request.getfixturevalue("milvus_server") if served else str(request.getfixturevalue("engine_dir"))
    state_dir = request.getfixturevalue("tmp_path_factory").mktemp("state")
    store = open_store(StoreSettings(address, "", "filters", 100, 30.0, state_dir), MODEL)
    yield store
    store.close()


_workspaces = itertools.count()


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(cases())
def test_the_engine_finds_exactly_the_paths_that_the_filter_means(milvus, case):
    stored, where = case
    workspace = f'w{next(_workspaces)}"\\'
    rows = [record(path, workspace=workspace) for path in stored]
    milvus.insert(rows)
    asked = Where((workspace,), where.scope, where.recursive, where.paths, where.exclude_paths)
    found = {key.path for key in milvus.keys(asked)}
    assert found == {path for path in stored if accepts(asked, workspace, path)}
    assert {entry.path for entry in milvus.catalog(Where((workspace,)))} == set(stored)


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_name_finds_and_removes_only_itself(milvus, name: str):
    workspace = f"hostile{next(_workspaces)}"
    rows = [record(path, workspace=workspace) for path in dict.fromkeys([name, "other.md", name + "x"])]
    milvus.insert(rows)
    (key,) = milvus.keys(Where((workspace,), paths=(name,)))
    assert key.path == name
    milvus.delete([key.id])
    assert {key.path for key in milvus.keys(Where((workspace,)))} == {"other.md", name + "x"}


@given(st.text())
def test_a_literal_holds_no_character_that_ends_it(text: str):
    inside = quote(text)[1:-1]
    unescaped = inside.replace("\\\\", "").replace('\\"', "")
    assert '"' not in unescaped
    assert not set(inside) & set("\n\r\t")


def test_everything_is_no_filter_and_no_paths_are_no_rows():
    assert to_expression(Where()) == ""
    assert not accepts(Where(paths=()), "w", "a.md")
    assert "ord < 0" in to_expression(Where(paths=()))


def test_leaving_out_everything_leaves_nothing() -> None:
    where = Where(outside=("",))
    assert to_expression(where) == NOTHING
    assert not accepts(where, "w", "a.md")
