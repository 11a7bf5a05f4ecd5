"""One folder is one workspace however it is named, and no file stands in an answer twice."""

from __future__ import annotations

import os
import unicodedata
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest

from markdown_rag.app import App
from markdown_rag.facade import IndexCall, Json, SearchCall
from markdown_rag.settings import load_settings
from markdown_rag.wiring import Parts
from tests.doctor import folders_end_well, known_folders

Ask = Callable[..., App]
ROOT = unicodedata.normalize("NFC", "Größe und Maß")


@pytest.fixture
def vault(tmp_path: Path) -> Path:
    folder = tmp_path / ROOT
    (folder / "sub").mkdir(parents=True)
    (folder / "wifi.md").write_text("# Guests\n\nThe guest wifi password is zebra cobalt.\n")
    (folder / "sub" / "valve.md").write_text("# Boiler\n\nOpen the relief valve slowly.\n")
    (tmp_path / "link").symlink_to(folder)
    return folder


@pytest.fixture
def agent(state_dir: Path, tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Ask]:
    """agent(folder, **variables): an agent that was started in a folder; all share one set of parts."""
    parts = Parts(load_settings({"MARKDOWN_RAG_CACHE_DIR": str(state_dir)}))

    latest = [parts.settings]

    def start(folder: Path, **variables: str) -> App:
        latest.append(load_settings({"MARKDOWN_RAG_CACHE_DIR": str(state_dir), **variables}))
        return App(parts, latest[-1], folder)

    yield start
    with closing(parts):
        folders_end_well(request.node, App(parts, latest[-1], tmp_path), known_folders(parts))


def indexed(app: App, **call: str) -> Json:
    job = app.index(IndexCall(**call))
    status = app.status(job["job_id"], 60.0)
    assert status["status"] == "succeeded", status
    return status["result"]


def found(app: App, query: str, **how: str) -> list[str]:
    return [hit["path"] for hit in app.search(SearchCall(query, **how))["hits"]]


def test_a_folder_is_indexed_once_whatever_it_is_called(agent: Ask, vault: Path, tmp_path: Path) -> None:
    first = indexed(agent(tmp_path), root=str(vault))
    assert first["delta_counts"]["new"] == 2
    os.makedirs(vault / "b")
    spellings = [
        (tmp_path, {"root": f"./{ROOT}"}),
        (tmp_path, {"root": f"{vault}/"}),
        (tmp_path, {"root": f"{vault}/b/.."}),
        (tmp_path, {"root": str(tmp_path / "link")}),
        (tmp_path / "link", {}),
        (vault, {"root": "."}),
        (tmp_path, {"root": unicodedata.normalize("NFD", str(vault))}),
        (vault / "b", {"root": ".."}),
        (tmp_path, {"root": str(vault), "directory": "b/../sub/"}),
        (tmp_path, {"root": str(vault), "directory": str(tmp_path / "link" / "sub")}),
    ]
    for folder, call in spellings:
        again = indexed(agent(folder), **call)
        assert (again["delta_counts"], again["embedded"]) == ({"new": 0, "modified": 0, "deleted": 0}, 0), call
    assert agent(tmp_path).audit(IndexCall(root=str(vault)))["ok"]
    assert len(found(agent(tmp_path), "guest wifi password", workspace="all")) <= 2


def test_a_locked_workspace_is_the_same_one_however_it_is_spelled(agent: Ask, vault: Path, tmp_path: Path) -> None:
    indexed(agent(tmp_path), root=str(vault))
    for locked in (str(tmp_path / "link"), unicodedata.normalize("NFD", str(vault)), f"{vault}/sub/.."):
        app = agent(tmp_path, MARKDOWN_WORKSPACE=locked)
        assert indexed(app)["embedded"] == 0
        assert found(app, "guest wifi password")[0] == str(vault / "wifi.md")


def test_a_file_of_two_overlapping_workspaces_stands_in_an_answer_once(agent: Ask, vault: Path, tmp_path: Path) -> None:
    indexed(agent(tmp_path), root=str(vault))
    inner = indexed(agent(tmp_path), root=str(vault / "sub"))
    assert (inner["delta_counts"]["new"], inner["embedded"]) == (1, 0)
    for query in ("relief valve", "guest wifi password"):
        paths = found(agent(tmp_path), query, workspace="all")
        assert sorted(paths) == sorted(set(paths))
    assert found(agent(tmp_path), "relief valve", workspace="all")[0] == str(vault / "sub" / "valve.md")


def test_a_shared_id_is_one_workspace_in_two_folders(agent: Ask, vault: Path, tmp_path: Path) -> None:
    copy = tmp_path / "copy"
    (copy / "sub").mkdir(parents=True)
    for name in ("wifi.md", "sub/valve.md"):
        (copy / name).write_bytes((vault / name).read_bytes())
    assert indexed(agent(vault, MARKDOWN_WORKSPACE_ID="team"))["embedded"] == 2
    again = indexed(agent(copy, MARKDOWN_WORKSPACE_ID="team"))
    assert (again["delta_counts"], again["embedded"]) == ({"new": 0, "modified": 0, "deleted": 0}, 0)
    assert found(agent(copy, MARKDOWN_WORKSPACE_ID="team"), "relief valve")[0].endswith("sub/valve.md")
