"""What a user can rely on about workspaces, scopes and paths."""

import os
import unicodedata
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from markdown_rag import paths
from markdown_rag.errors import InputError, WorkspaceError
from markdown_rag.paths import Scope, Workspace, is_within, open_root, relative_to, state_directory, workspace_for

parts = st.text(st.characters(codec="utf-8", exclude_characters="/\0"), min_size=1, max_size=8).filter(
    lambda part: part not in {".", ".."}
)
relative = st.lists(parts, min_size=1, max_size=4).map("/".join)


@pytest.fixture
def vault(tmp_path: Path) -> Workspace:
    (tmp_path / "vault" / "notes" / "deep").mkdir(parents=True)
    (tmp_path / "vault" / "notes" / "a.md").write_text("x")
    (tmp_path / "outside").mkdir()
    return workspace_for(tmp_path / "vault")


@pytest.mark.parametrize("spelling", ["{0}", "{0}/", "{0}/.", "{0}/notes/..", "{0}/./notes/../", "{link}"])
def test_however_a_folder_is_spelled_it_is_one_workspace(vault: Workspace, tmp_path: Path, spelling: str) -> None:
    link = tmp_path / "link"
    link.symlink_to(vault.root)
    assert open_root(spelling.format(vault.root, link=link)) == vault


@pytest.mark.parametrize("form", ["NFC", "NFD"])
def test_a_folder_typed_in_another_unicode_form_is_the_one_on_disk(tmp_path: Path, form: str) -> None:
    on_disk = tmp_path / unicodedata.normalize(form, "Größe") / unicodedata.normalize(form, "é")
    on_disk.mkdir(parents=True)
    (on_disk / unicodedata.normalize(form, "ü.md")).write_text("x")
    for typed in ("NFC", "NFD"):
        workspace = open_root(unicodedata.normalize(typed, str(on_disk)))
        assert workspace == workspace_for(on_disk)
        assert relative_to(workspace, unicodedata.normalize(typed, "ü.md")) == unicodedata.normalize(form, "ü.md")


def test_the_same_folder_on_two_machines_is_two_workspaces(tmp_path: Path) -> None:
    ids = {workspace_for(tmp_path, host=host).id for host in ("", "one", "two")}
    assert len(ids) == 3
    assert len({workspace_for(tmp_path, "shared", host=host).id for host in ("", "one", "two")}) == 1


UNUSABLE = ["\ud800", "a\udfffb", "\0", "x" * 200_000, "\xe9" * 200_000, "a/" * 100_000, "\xe9/" * 50_000]


@pytest.mark.parametrize("given_path", UNUSABLE, ids=range(len(UNUSABLE)))
def test_a_path_that_no_file_system_takes_is_refused_in_our_words(vault: Workspace, given_path: str) -> None:
    with pytest.raises(InputError, match=r"NUL|not valid Unicode|bytes long"):
        open_root(given_path)
    with pytest.raises(InputError, match=r"NUL|not valid Unicode|bytes long"):
        relative_to(vault, given_path)


def test_a_name_longer_than_the_file_system_allows_is_a_folder_that_does_not_exist(vault: Workspace) -> None:
    with pytest.raises(WorkspaceError, match="does not exist"):
        open_root(str(vault.root / ("x" * 300)))
    assert relative_to(vault, "x" * 300) == "x" * 300


def test_two_folders_are_two_workspaces_and_a_shared_id_is_taken_as_given(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    assert open_root(str(tmp_path / "a")).id != open_root(str(tmp_path / "b")).id
    assert (
        open_root(str(tmp_path / "a"), "team-docs").id == open_root(str(tmp_path / "b"), "team-docs").id == "team-docs"
    )


@pytest.mark.parametrize(
    ("given_path", "expected"),
    [
        ("", ""),
        (".", ""),
        ("notes", "notes"),
        ("./notes/", "notes"),
        ("notes/../notes/a.md", "notes/a.md"),
        ("{root}/notes/a.md", "notes/a.md"),
        ("{root}", ""),
        ("not there yet/x.md", "not there yet/x.md"),
    ],
)
def test_a_path_inside_is_understood_absolute_or_relative(vault: Workspace, given_path: str, expected: str) -> None:
    assert relative_to(vault, given_path.format(root=vault.root)) == expected


@pytest.mark.parametrize(
    "given_path", ["..", "../outside", "/", "/etc", "{root}/../outside", "{root}x", "notes/../../outside"]
)
def test_a_path_outside_is_refused_with_the_root_named(vault: Workspace, given_path: str) -> None:
    with pytest.raises(InputError, match="outside the workspace"):
        relative_to(vault, given_path.format(root=vault.root))


def test_a_link_that_leaves_the_workspace_is_outside(vault: Workspace, tmp_path: Path) -> None:
    (vault.root / "door").symlink_to(tmp_path / "outside")
    with pytest.raises(InputError):
        relative_to(vault, "door")
    with pytest.raises(InputError):
        relative_to(vault, "door/secret.md")


def test_a_link_inside_the_workspace_stands_for_what_it_leads_to(vault: Workspace) -> None:
    (vault.root / "current").symlink_to(vault.root / "notes")
    assert relative_to(vault, "current/a.md") == "notes/a.md"
    assert relative_to(vault, str(vault.root / "current")) == "notes"


def test_the_root_of_the_file_system_and_the_home_directory_are_refused_with_a_way_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    for refused in ("/", "~", str(tmp_path)):
        with pytest.raises(WorkspaceError, match="MARKDOWN_WORKSPACE"):
            open_root(refused)


def test_a_folder_that_is_missing_or_a_file_says_which(vault: Workspace) -> None:
    with pytest.raises(WorkspaceError, match="does not exist"):
        open_root(str(vault.root / "nowhere"))
    with pytest.raises(WorkspaceError, match=r"a\.md is a file, not a folder\. .* directory=a\.md for this file alone"):
        open_root(str(vault.root / "notes" / "a.md"))
    for named in ("nowhere", "notes/a.md"):
        with pytest.raises(WorkspaceError, match=r"as MARKDOWN_WORKSPACE\.$"):
            open_root(str(vault.root / named), argument="MARKDOWN_WORKSPACE")
    with pytest.raises(InputError, match="NUL"):
        open_root("a\0b")


@given(relative, relative)
def test_within_is_exact_and_knows_no_wildcards(path: str, folder: str) -> None:
    split_path, split_folder = path.split("/"), folder.split("/")
    assert is_within(path, folder) == (split_path[: len(split_folder)] == split_folder)


@pytest.mark.parametrize(
    ("outer", "inner", "covers"),
    [
        (("", True), ("a", True), True),
        (("a", True), ("a/b.md", True), True),
        (("a", True), ("ab", True), False),
        (("a", True), ("", True), False),
        (("a", False), ("a", True), False),
        (("a", False), ("a", False), True),
        (("a", True), ("a", False), True),
        (("a", False), ("a/b", True), False),
    ],
)
def test_a_scope_covers_what_indexing_it_would_index(
    vault: Workspace, outer: tuple[str, bool], inner: tuple[str, bool], covers: bool
) -> None:
    assert Scope(vault, *outer).covers(Scope(vault, *inner)) is covers


def test_scopes_of_different_workspaces_never_meet(vault: Workspace, tmp_path: Path) -> None:
    other = workspace_for(tmp_path / "outside")
    assert not Scope(vault).covers(Scope(other))
    assert not Scope(vault).overlaps(Scope(other))
    assert Scope(vault, "a/b").overlaps(Scope(vault, "a"))
    assert not Scope(vault, "a/b").overlaps(Scope(vault, "a/c"))


def test_names_compare_in_composed_form() -> None:
    assert paths.nfc(unicodedata.normalize("NFD", "café 한글")) == "café 한글"
    assert paths.is_utf8("한글")
    assert not paths.is_utf8(os.fsdecode(b"latin-\xe9.md"))


def test_the_state_directory_does_not_depend_on_the_working_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.platform", "linux")
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    here = state_directory()
    assert here == tmp_path / "markdown-fastrag-mcp" / ".db"
    monkeypatch.setenv("XDG_DATA_HOME", "relative/is/ignored")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert state_directory() == tmp_path / ".local" / "share" / "markdown-fastrag-mcp" / ".db"
    assert state_directory("~/kb") == tmp_path / "kb"
