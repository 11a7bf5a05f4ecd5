"""A path typed in a shell means what is there, as tab completion gives it; the tools' paths start at the workspace."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from markdown_rag import cli
from markdown_rag.app import App
from markdown_rag.facade import Json, ListCall, ReadCall, SearchCall
from markdown_rag.wiring import Parts

from .conftest import indexed, write

PLACES = ("monitoring", "security", "runbooks", "runbooks/monitoring", "runbooks/only")


@pytest.fixture
def shell(
    agent: Callable[..., App], parts: Parts, vault: Path, capsys: pytest.CaptureFixture[str]
) -> Callable[..., Json]:
    """Runs a command as typed in the subfolder ``runbooks`` of an indexed workspace, or in another folder."""
    for place in PLACES:
        (vault / place).mkdir()
        write(vault / place, place.replace("/", "-"), "same", words="tea")
    app = agent()
    indexed(app)

    def typed(*words: str, folder: str = "runbooks") -> Json:
        options = cli._parser().parse_args([*words, "--json"])
        options.run(App(parts, app._settings, vault / folder), options)
        found: Json = json.loads(capsys.readouterr().out)
        return found

    return typed


def hit_in(answer: Json, vault: Path) -> set[str]:
    return {Path(hit["path"]).relative_to(vault).parent.as_posix() for hit in answer["hits"]}


@pytest.mark.parametrize(
    ("scope", "found"),
    [
        ("monitoring", {"runbooks/monitoring"}),
        ("monitoring/same.md", {"runbooks/monitoring"}),
        ("./monitoring/", {"runbooks/monitoring"}),
        ("../security", {"security"}),
        ("../monitoring", {"monitoring"}),
        (".", {"runbooks", "runbooks/monitoring", "runbooks/only"}),
        ("security", {"security"}),  # not there: of the workspace
        ("runbooks/only", {"runbooks/only"}),
    ],
)
def test_a_scope_typed_in_a_subfolder_is_what_is_there_or_else_of_the_workspace(
    shell: Callable[..., Json], vault: Path, scope: str, found: set[str]
) -> None:
    assert hit_in(shell("search", "tea", "-k", "20", "--scope", scope), vault) == found


def test_what_is_typed_to_be_left_out_is_what_is_there(shell: Callable[..., Json], vault: Path) -> None:
    answer = shell("search", "tea", "-k", "20", "--exclude", "monitoring", "--exclude", "../security")
    assert hit_in(answer, vault) == {"monitoring", "runbooks", "runbooks/only"}


def test_list_read_and_links_take_what_is_there_too(shell: Callable[..., Json], vault: Path) -> None:
    assert shell("list", "monitoring")["path"] == "runbooks/monitoring"
    assert shell("list", "../security")["path"] == "security"
    assert shell("list", "security")["path"] == "security"
    assert shell("read", "same.md")["path"] == str(vault / "runbooks" / "same.md")
    assert shell("read", "../security/same.md")["path"] == str(vault / "security" / "same.md")
    assert shell("read", "security/same.md")["path"] == str(vault / "security" / "same.md")
    assert shell("links", "same.md")["path"] == "runbooks/same.md"


def test_a_folder_that_is_called_as_a_document_does_not_hide_it(shell: Callable[..., Json], vault: Path) -> None:
    (vault / "runbooks" / "security").mkdir()
    assert shell("read", "security")["path"] == str(vault / "security" / "security.md")


def test_what_is_there_but_outside_what_is_searched_does_not_count(
    shell: Callable[..., Json], vault: Path, tmp_path: Path
) -> None:
    (tmp_path / "elsewhere" / "security").mkdir(parents=True)
    answer = shell("search", "tea", "--workspace", str(vault), "--scope", "security", folder="../elsewhere")
    assert hit_in(answer, vault) == {"security"}


@pytest.mark.usefixtures("shell")
def test_the_tools_take_relative_paths_from_the_workspace_wherever_the_agent_works(
    agent: Callable[..., App], parts: Parts, vault: Path
) -> None:
    app = App(parts, agent()._settings, vault / "runbooks")
    assert hit_in(app.search(SearchCall("tea", 20, scope_path=("monitoring",))), vault) == {"monitoring"}
    assert app.list_documents(ListCall("monitoring"))["path"] == "monitoring"
    assert app.read(ReadCall(path="monitoring/same.md"))["path"] == str(vault / "monitoring" / "same.md")
