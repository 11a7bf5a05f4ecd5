"""What an answer advises: never what was just done, or what is being done at this moment."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from markdown_rag.app import App
from markdown_rag.facade import IndexCall, ListCall, SearchCall
from markdown_rag.wiring import Parts

from .conftest import HoldingStore, indexed, write


@pytest.fixture
def elsewhere(tmp_path: Path) -> Path:
    folder = tmp_path / "elsewhere"
    folder.mkdir()
    return folder


@pytest.fixture
def first_run(
    agent: Callable[..., App], parts: Parts, store: HoldingStore, vault: Path, elsewhere: Path
) -> tuple[App, str]:
    """An agent in a folder whose first run is under way and has stored nothing, and the job; another one is indexed."""
    write(elsewhere, "heron")
    indexed(App(parts, parts.settings, elsewhere))
    write(vault, "a", "b")
    store.reached.clear()
    store.go_on.clear()
    app = agent()
    job = app.index(IndexCall())["job_id"]
    assert store.reached.wait(60.0)
    return app, job


def nothing_found(app: App, **how: object) -> str:
    found = app.search(SearchCall("unheard", mode="lexical", **how))
    assert not found["hits"]
    return found["note"]


def test_who_waited_for_what_changed_is_not_told_to_wait_for_it(agent: Callable[..., App], vault: Path) -> None:
    write(vault, "a")
    app = agent()
    indexed(app)
    assert "wait_for_fresh=true" in nothing_found(app)
    told = nothing_found(app, wait_for_fresh=True)
    assert "wait_for_fresh" not in told
    assert "index_documents" not in told


def test_who_searched_everything_is_not_told_to_search_everything(agent: Callable[..., App], vault: Path) -> None:
    write(vault, "a")
    (vault / "part").mkdir()
    write(vault / "part", "b")
    app = agent()
    assert "workspace=" not in nothing_found(app)
    indexed(app)
    assert 'workspace="all"' in nothing_found(app)
    assert "workspace=" not in nothing_found(app, workspace="all")
    assert "wider scope" not in nothing_found(app, workspace="all")
    assert "wider scope" in nothing_found(app, scope_path=("part",))


@pytest.mark.ends_with("stale")
def test_a_hit_that_changed_since_it_was_brought_up_to_date_advises_no_second_wait(
    agent: Callable[..., App], vault: Path
) -> None:
    write(vault, "a")

    class Late(App):
        """Somebody writes between the run and the search."""

        def search(self, call: SearchCall) -> dict[str, object]:
            self._attendant.bring_up_to_date(self._questions.places(call))
            write(vault, "a", words="something else")
            return self._questions.search(call)

    app = agent(Late)
    indexed(app)
    note = app.search(SearchCall("words", wait_for_fresh=True))["note"]
    assert "behind the disk (1 changed): call index_documents." in note


def test_a_folder_whose_first_run_is_under_way_is_said_to_be_indexed_right_now(
    first_run: tuple[App, str], vault: Path
) -> None:
    app, job = first_run
    for found in (app.search(SearchCall("heron")), app.list_documents(ListCall())):
        assert found["files"] == 1
        assert f"{vault} is being indexed right now (job {job}, " in found["note"]
        assert "the answer is from elsewhere" in found["note"]
        assert "index_documents" not in found["note"]
    told = app.audit(IndexCall())["message"]
    assert told.startswith(f"{vault} is being indexed right now (job {job}, ")


def test_nobody_is_told_to_index_what_is_being_indexed(
    agent: Callable[..., App], store: HoldingStore, vault: Path
) -> None:
    write(vault, "a")
    store.go_on.clear()
    app = agent()
    app.index(IndexCall())
    assert store.reached.wait(60.0)
    for note in (nothing_found(app), app.list_documents(ListCall())["note"]):
        assert f"{vault} is being indexed right now" in note
        assert "stored yet" in note
        assert "index_documents" not in note


def test_who_works_elsewhere_is_told_nothing_of_a_first_run_but_that_there_is_one(
    first_run: tuple[App, str], parts: Parts, tmp_path: Path, vault: Path
) -> None:
    third = tmp_path / "third"
    third.mkdir()
    note = App(parts, parts.settings, third).search(SearchCall("heron"))["note"]
    assert f"Index job {first_run[1]} of {vault} is under way" in note
    assert "right now" not in note
