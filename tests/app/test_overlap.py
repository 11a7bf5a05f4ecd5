"""What a person can rely on whose indexed folder lies in another, and who asks from inside one."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from markdown_rag.app import App
from markdown_rag.facade import IndexCall, Json, SearchCall
from markdown_rag.jobs.job import IndexRequest
from markdown_rag.paths import Scope, Workspace
from markdown_rag.shellwords import for_shell
from markdown_rag.wiring import Parts

from .conftest import HoldingStore, indexed, write


@pytest.fixture
def inner(vault: Path) -> Path:
    folder = vault / "runbooks"
    folder.mkdir()
    write(vault, "a")
    write(folder, "b")
    return folder


def finished(app: App, folder: Path) -> Json:
    accepted = app.index(IndexCall(root=str(folder)))
    assert app.status(accepted["job_id"], 60.0)["status"] == "succeeded"
    return accepted


def test_indexing_a_folder_of_an_indexed_one_is_done_and_says_how_to_keep_one_index(
    agent: Callable[..., App], vault: Path, inner: Path
) -> None:
    assert "warning" not in finished(agent(), vault)
    assert "warning" not in finished(agent(), vault)
    accepted = finished(agent(), inner)
    assert accepted["accepted"]
    assert accepted["warning"].startswith(f"{inner} lies in the indexed folder {vault} and gets an index of its own")
    assert f"index_documents(current_working_directory={vault}, directory=runbooks)" in accepted["warning"]
    assert f"clear_index(workspace={inner})" in accepted["warning"]
    said = for_shell(accepted)["warning"]
    assert f"`index {vault} --directory runbooks`" in said
    assert f"`clear --workspace {inner}`" in said


def test_indexing_round_an_indexed_folder_names_it(agent: Callable[..., App], vault: Path, inner: Path) -> None:
    finished(agent(), inner)
    assert f"have an index of their own: {inner}." in finished(agent(), vault)["warning"]
    agent().clear(str(inner), confirm=True)
    assert "warning" not in finished(agent(), vault)


def test_an_audit_from_inside_an_indexed_folder_looks_at_that_one_like_a_search(
    agent: Callable[..., App], parts: Parts, vault: Path, inner: Path
) -> None:
    indexed(agent())
    inside = App(parts, agent()._settings, inner)
    assert str(vault) in inside.search(SearchCall("words"))["searched"]
    found = inside.audit(IndexCall())
    assert (found["ok"], found["target_path"]) == (True, str(vault))
    named = inside.audit(IndexCall(root=str(inner)))
    assert (named["ok"], named["target_path"]) == (False, str(inner))


def test_what_is_asked_without_an_id_is_about_the_job_of_ones_own_folder(
    agent: Callable[..., App], parts: Parts, store: HoldingStore, vault: Path, tmp_path: Path
) -> None:
    write(vault, "a")
    store.go_on.clear()
    mine = agent().index(IndexCall())["job_id"]
    assert store.reached.wait(60.0)
    again = agent().index(IndexCall())["job_id"]
    other = parts.queue.submit(IndexRequest(Scope(Workspace("w", tmp_path)), target=parts.job_target)).job
    assert other
    assert agent().status()["job_id"] == mine
    cancelled = agent().cancel()
    assert (cancelled["job_id"], cancelled["also_cancelled"], cancelled["active_jobs"]) == (mine, [again], 1)
    assert f"Still active: {other.id} ({tmp_path}, queued)." in cancelled["message"]
    parts.queue.cancel(other.id)


def test_a_search_meanwhile_says_which_folder_is_being_indexed(
    agent: Callable[..., App], parts: Parts, store: HoldingStore, vault: Path, tmp_path: Path
) -> None:
    write(vault, "a")
    indexed(agent())
    fresh = tmp_path / "fresh"
    fresh.mkdir()
    write(fresh, "b")
    store.reached.clear()
    store.go_on.clear()
    there = App(parts, agent()._settings, fresh)
    job = there.index(IndexCall())["job_id"]
    assert store.reached.wait(60.0)
    found = there.search(SearchCall("words"))
    assert found["searched"] == f"every indexed folder, since {fresh} is not indexed"
    assert f"{fresh} is being indexed right now (job {job}, " in found["note"]
