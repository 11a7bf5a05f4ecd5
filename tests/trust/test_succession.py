"""Another model is another index: the old one answers until the new one is complete, and goes when it is cleared."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from markdown_rag.app import App
from markdown_rag.facade import IndexCall, Json, ReadCall, SearchCall
from markdown_rag.settings import load_settings
from markdown_rag.wiring import Parts
from tests.data.stub_embeddings import StubServer
from tests.doctor import folders_end_well, known_folders

Start = Callable[..., App]
NOTES = {f"{word}.md": f"# {word.title()}\n\nThe {word} is in the cupboard.\n" for word in ("amber", "birch", "cobalt")}


@pytest.fixture
def stub() -> Iterator[StubServer]:
    with StubServer(dim=64) as server:
        yield server


@pytest.fixture
def vault(tmp_path: Path) -> Path:
    for name, text in NOTES.items():
        (tmp_path / "vault" / "sub").mkdir(parents=True, exist_ok=True)
        (tmp_path / "vault" / name).write_text(text)
    return tmp_path / "vault"


@pytest.fixture
def start(request: pytest.FixtureRequest, state_dir: Path, vault: Path, stub: StubServer) -> Iterator[Start]:
    """start(model): a process with this model over one state directory; the one before it ends unless beside.

    The doctor of the last one is asked at the end: its model's index is whole, or holds nothing at all.
    """
    running: list[Parts] = []
    apps: list[App] = []

    def restart(model: str = "first", *, beside: bool = False, **more: str) -> App:
        while running and not beside:
            running.pop().close()
        settings = load_settings(
            {
                "MARKDOWN_RAG_CACHE_DIR": str(state_dir),
                "EMBEDDING_PROVIDER": "openai-compatible",
                "EMBEDDING_BASE_URL": stub.url,
                "EMBEDDING_MODEL": model,
                "EMBEDDING_DIM": "64",
                **more,
            }
        )
        running.append(Parts(settings))
        apps.append(App(running[-1], settings, vault))
        return apps[-1]

    try:
        yield restart
        if vault in known_folders(running[-1]) and is_indexed(apps[-1], vault):
            folders_end_well(request.node, apps[-1], [vault])
    finally:
        while running:
            running.pop().close()


def is_indexed(app: App, vault: Path) -> bool:
    said = app.audit(IndexCall(root=str(vault)))
    return bool(said["ok"] or said["findings"])


def indexed(app: App, vault: Path, **call: str) -> Json:
    job = app.index(IndexCall(root=str(vault), **call))
    return app.status(job["job_id"], 60.0)


def asked(app: App, query: str) -> Json:
    return app.search(SearchCall(query))


def names(answer: Json) -> list[str]:
    return [Path(hit["path"]).name for hit in answer["hits"]]


def test_until_the_new_index_is_complete_the_old_one_answers_with_its_model(start: Start, vault: Path) -> None:
    indexed(start(), vault)
    app = start("second")
    before = asked(app, "amber cupboard")
    assert names(before)[0] == "amber.md"
    assert "Answered from the index of openai-compatible first" in before["degraded"]
    (vault / "sub" / "new.md").write_text("# New\n\nThe damson is in the cellar.\n")
    indexed(app, vault, directory="sub")  # a part only
    answer = asked(app, "amber cupboard")
    assert names(answer)[0] == "amber.md"
    assert "degraded" in answer
    assert indexed(app, vault)["status"] == "succeeded"
    after = asked(app, "damson cellar")
    assert names(after)[0] == "new.md"
    assert "degraded" not in after


def test_a_key_that_is_missing_for_the_new_model_is_named_while_the_old_one_answers(start: Start, vault: Path) -> None:
    indexed(start(), vault)
    known = {"EMBEDDING_PROVIDER": "openai", "EMBEDDING_BASE_URL": ""}
    answer = asked(start("text-embedding-3-small", **known), "amber cupboard")
    assert names(answer)[0] == "amber.md"
    assert "until the index of openai text-embedding-3-small (64 dimensions) is complete." in answer["note"]
    assert "OPENAI_API_KEY is not set" in answer["note"]
    keyed = asked(start("text-embedding-3-small", **known, OPENAI_API_KEY="sk-none"), "amber cupboard")
    assert "OPENAI_API_KEY" not in keyed["note"]


@pytest.mark.slow
def test_a_hit_of_the_old_index_can_be_read(start: Start, vault: Path) -> None:
    indexed(start(), vault)
    app = start("second")
    hit = asked(app, "amber cupboard")["hits"][0]
    assert "The amber is in the cupboard." in app.read(ReadCall(id=hit["id"]))["text"]
    assert "The amber is in the cupboard." in app.read(ReadCall(path="amber.md"))["text"]


@pytest.mark.slow
@pytest.mark.ends_with("missing")
def test_a_failed_first_run_of_a_new_model_leaves_the_old_answers(start: Start, vault: Path, stub: StubServer) -> None:
    indexed(start(), vault)
    app = start("second")
    stub.control(poison="cobalt")
    indexed(app, vault)
    stub.control(poison="")
    answer = asked(app, "amber cupboard")
    assert names(answer)[0] == "amber.md"


def test_where_the_old_model_cannot_be_asked_the_old_index_answers_by_keywords(start: Start, vault: Path) -> None:
    indexed(start(), vault)
    app = start("", EMBEDDING_PROVIDER="local", EMBEDDING_DIM="", EMBEDDING_BASE_URL="")
    answer = asked(app, "amber cupboard")
    assert names(answer)[0] == "amber.md"
    assert "Keyword matches only" in answer["degraded"]


@pytest.mark.slow
def test_another_dimension_is_another_index_and_search_goes_on(start: Start, vault: Path) -> None:
    indexed(start(), vault)
    app = start("first", EMBEDDING_DIM="32")
    assert names(asked(app, "amber cupboard"))[0] == "amber.md"
    indexed(app, vault)
    answer = asked(app, "amber cupboard")
    assert names(answer)[0] == "amber.md"
    assert "degraded" not in answer


@pytest.mark.slow
def test_files_that_are_gone_do_not_hold_the_old_index_in_place(start: Start, vault: Path, state_dir: Path) -> None:
    indexed(start(), vault)
    (vault / "cobalt.md").unlink()
    app = start("second")
    indexed(app, vault)
    (state_dir / "workspaces.sqlite3").unlink()  # what was remembered of it is lost; the disk tells the same
    indexed(app, vault, directory="sub")
    assert "degraded" not in asked(app, "amber cupboard")


def test_the_doctor_lists_old_indexes_and_clearing_removes_them(start: Start, vault: Path) -> None:
    def former(app: App) -> str:
        return next(check["detail"] for check in app.health()["checks"] if check["name"] == "former models")

    indexed(start(), vault)
    app = start("second")
    indexed(app, vault)
    assert "_first_64_" in former(app)
    assert "3 rows" in former(app)
    told = app.clear(str(vault))
    assert "3 files (6 chunks)" in told["message"]
    assert "from the index and from 1 index of former models. Pass" in told["message"]
    assert app.clear(str(vault), confirm=True)["chunks"] == 6
    assert former(app) == "none"
    assert asked(app, "amber cupboard")["hits"] == []
    app = start()
    assert asked(app, "amber cupboard")["hits"] == []


def test_clearing_removes_what_another_process_indexed_with_another_model_since(start: Start, vault: Path) -> None:
    app = start()
    assert asked(app, "amber cupboard")["hits"] == []  # it has looked, and there was nothing
    for model, dimension in (("second", "64"), ("first", "32")):
        indexed(start(model, beside=True, EMBEDDING_DIM=dimension), vault)
    told = app.clear()
    assert (told["files"], told["chunks"]) == (3, 6)
    assert "3 files (6 chunks)" in told["message"]
    assert "from the index and from 2 indexes of former models. Pass" in told["message"]
    assert "Removed 3 files (6 chunks)" in app.clear(confirm=True)["message"]
    assert asked(start("second"), "amber cupboard")["hits"] == []
    nothing = start(MARKDOWN_WORKSPACE=str(vault)).clear()
    assert (nothing["files"], nothing["chunks"]) == (0, 0)
    assert nothing["message"].startswith("0 files (0 chunks) of ")
    assert " would be removed from the index. Pass" in nothing["message"]


def test_only_an_answer_that_should_hold_a_folder_says_that_a_former_model_has_it(
    start: Start, vault: Path, tmp_path: Path
) -> None:
    other = tmp_path / "other"
    other.mkdir()
    (other / "dune.md").write_text("# Dune\n\nThe dune is behind the cupboard.\n")
    indexed(start(), other)
    app = start("second")
    indexed(app, vault)
    assert "degraded" not in asked(app, "amber cupboard")
    assert "degraded" not in app.search(SearchCall("amber", workspace="all", scope_path=(str(vault),)))
    everywhere = app.search(SearchCall("amber cupboard", workspace="all"))
    assert everywhere["degraded"] == "1 folder is indexed with a former model only."
    for call in (SearchCall("dune", workspace=str(other)), SearchCall("dune", scope_path=(str(other),))):
        answer = app.search(call)
        assert names(answer) == ["dune.md"]
        assert "Answered from the index of openai-compatible first" in answer["degraded"]
