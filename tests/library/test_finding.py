"""A document is found by its path, or by its name if there is only one; else the nearest are named."""

from __future__ import annotations

from pathlib import Path

import pytest

from markdown_rag.errors import InputError
from markdown_rag.library.finding import by_digest, by_path
from markdown_rag.library.passages import (
    Continuation,
    PassageId,
    parse_continuation,
    parse_id,
    passage_id,
)
from markdown_rag.paths import file_digest
from markdown_rag.search.catalog import Snapshot
from markdown_rag.store.base import FileEntry

PATHS = ["index.md", "notes/Plan.md", "notes/deep/plan.markdown", "notes/Größe.md", "v1.2.md", "a/x.md", "b/x.md"]


def snapshot(*paths: str, workspace: str = "w") -> Snapshot:
    entries = [FileEntry(workspace, path, 1, 1, "", (), (), {}, "", "") for path in paths]
    return Snapshot({(entry.workspace, entry.path): entry for entry in entries}, None, 0.0, 0.0)


@pytest.mark.parametrize(
    ("given", "wanted"),
    [
        ("index.md", "index.md"),
        ("INDEX", "index.md"),
        ("notes/Plan.md", "notes/Plan.md"),
        ("notes/plan.md", "notes/Plan.md"),
        ("deep/plan", "notes/deep/plan.markdown"),
        ("plan.markdown", "notes/deep/plan.markdown"),
        ("gro\u0308sse", "notes/Größe.md"),
        ("gro\u0308ße", "notes/Größe.md"),
        ("v1.2", "v1.2.md"),
        ("v1", ""),
        ("b/x", "b/x.md"),
        ("ndex.md", ""),
        ("deep", ""),
    ],
)
def test_a_document_is_found_by_path_or_name(given: str, wanted: str) -> None:
    if wanted:
        assert by_path(snapshot(*PATHS), ("w",), given).path == wanted
    else:
        with pytest.raises(InputError):
            by_path(snapshot(*PATHS), ("w",), given)


class Untold(FileEntry):
    """An entry whose names must not be asked for."""

    @property
    def aliases(self) -> tuple[str, ...]:
        raise AssertionError("its names were looked at")


def test_a_document_that_is_named_by_its_path_costs_no_look_at_titles_and_aliases() -> None:
    known = snapshot(*PATHS)
    fields = {name: getattr(known.files["w", "index.md"], name) for name in FileEntry.__dataclass_fields__}
    untold = object.__new__(Untold)
    for name in fields.keys() - {"aliases"}:
        object.__setattr__(untold, name, fields[name])
    one = Snapshot({**known.files, ("w", "index.md"): untold}, None, 0.0, 0.0)
    assert by_path(one, ("w",), "index.md") is untold
    with pytest.raises(AssertionError, match="names were looked at"):
        by_path(one, ("w",), "no such name")


def test_a_name_of_several_documents_is_not_guessed() -> None:
    with pytest.raises(InputError, match=r"any of 2 documents: a/x\.md, b/x\.md"):
        by_path(snapshot(*PATHS), (), "x")
    with pytest.raises(InputError, match="The nearest: index"):
        by_path(snapshot(*PATHS), (), "indx.md")


def test_the_same_name_in_several_workspaces_is_told_apart_by_whole_paths() -> None:
    both = Snapshot({**snapshot(*PATHS).files, **snapshot(*PATHS, workspace="other").files}, None, 0.0, 0.0)
    with pytest.raises(InputError, match=r"any of 2 documents: /notes/index\.md, index\.md of workspace other\."):
        by_path(both, (), "index.md", {"w": Path("/notes")}.get)


def test_a_file_that_two_indexes_hold_is_one_document_and_taken_from_the_outer_one() -> None:
    inner = snapshot("x.md", workspace="inner").files
    both = Snapshot({**inner, **snapshot("index.md", "a/x.md").files}, None, 0.0, 0.0)
    roots = {"w": Path("/notes"), "inner": Path("/notes/a")}
    assert by_path(both, (), "x", roots.get).workspace == "w"


def test_a_document_of_another_workspace_is_not_found() -> None:
    with pytest.raises(InputError):
        by_path(snapshot(*PATHS, workspace="other"), ("w",), "index.md")


def test_an_id_leads_back_to_its_file() -> None:
    given = passage_id("w", "notes/Größe.md", 12, "ab" * 32)
    parsed = parse_id(given.upper())
    assert parsed == PassageId(file_digest("w", "notes/Größe.md"), 12, "abababab")
    found = by_digest(snapshot(*PATHS), parsed.file)
    assert found is not None
    assert found.path == "notes/Größe.md"
    assert by_digest(snapshot(*PATHS, workspace="v"), parsed.file) is None
    assert parse_id("docs://" + parsed.file) == PassageId(parsed.file, 0, "")


def test_a_continuation_is_its_text() -> None:
    given = Continuation("disk", "0" * 12, "f" * 12, 3, 90)
    assert parse_continuation(str(given)) == given


@pytest.mark.parametrize("text", ["", "x", "0123456789ab-1", "0123456789ab-1-0123456", "notes/a.md", "disk-1-2-3-4"])
def test_what_is_neither_is_told(text: str) -> None:
    assert parse_id(text) is None
    assert parse_continuation(text) is None
