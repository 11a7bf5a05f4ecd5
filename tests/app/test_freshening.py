"""What is brought up to date before an answer or by watching: what is indexed, never what a job left alone."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from markdown_rag.app import App
from markdown_rag.errors import StoreUnavailable
from markdown_rag.facade import IndexCall, SearchCall
from markdown_rag.freshening import watches_of
from markdown_rag.jobs.job import Status
from markdown_rag.paths import workspace_for
from markdown_rag.store.base import Model, Record
from markdown_rag.store.opening import open_store
from markdown_rag.wiring import Parts
from tests.indexing.parts import DIMENSION, HashingEmbedder, embeddings_over
from tests.waiting import eventually

from .conftest import HoldingStore, indexed, write


class OpeningStore(HoldingStore):
    """A store that can be held while a job opens it. room: how many rows it takes before it goes away."""

    room = 1_000_000
    opens_at_once = False

    def insert(self, records: Sequence[Record]) -> None:
        if self.count() + len(records) > self.room:
            raise StoreUnavailable("The store has gone away.", "Ask again.")
        super().insert(records)

    def ensure(self) -> None:
        if self.opens_at_once:
            return
        self.reached.set()
        assert self.go_on.wait(60.0)


@pytest.fixture
def store() -> OpeningStore:
    return OpeningStore()


@pytest.fixture
def elsewhere(tmp_path: Path) -> Path:
    folder = tmp_path / "elsewhere"
    folder.mkdir()
    return folder


def cancelled_at_once(app: App, store: HoldingStore) -> None:
    """A job that is cancelled before it stored anything."""
    store.reached.clear()
    store.go_on.clear()
    job = app.index(IndexCall())["job_id"]
    assert store.reached.wait(60.0)
    app.cancel(job)
    store.go_on.set()
    status = app.status(job, 60.0)
    assert (status["status"], status["processed_files"]) == ("cancelled", 0)
    assert status["note"] == "Cancelled on request."


def test_a_folder_whose_job_was_cancelled_before_it_stored_anything_is_not_indexed_by_a_search(
    agent: Callable[..., App], parts: Parts, store: HoldingStore, vault: Path, elsewhere: Path
) -> None:
    write(vault, "a", "b")
    cancelled_at_once(agent(), store)
    outside = App(parts, agent()._settings, elsewhere)
    for search in (SearchCall("words", wait_for_fresh=True), SearchCall("words", workspace="all", wait_for_fresh=True)):
        assert outside.search(search)["files"] == 0
        assert not [job for job in parts.queue.active() if job.status is Status.QUEUED]
    assert store.count() == 0


def test_a_folder_whose_job_was_cancelled_before_it_stored_anything_is_called_indexed_nowhere(
    agent: Callable[..., App], parts: Parts, store: HoldingStore, vault: Path
) -> None:
    inner = vault / "inner"
    inner.mkdir()
    write(inner, "a")
    cancelled_at_once(agent(), store)
    assert parts.workspaces.all() == []
    assert "warning" not in App(parts, agent()._settings, inner).index(IndexCall())


def test_a_folder_inside_an_indexed_one_whose_job_was_cancelled_does_not_hide_the_outer_one(
    agent: Callable[..., App], parts: Parts, store: HoldingStore, vault: Path
) -> None:
    inner = vault / "inner"
    inner.mkdir()
    write(vault, "a")
    write(inner, "b")
    indexed(agent())
    inside = App(parts, agent()._settings, inner)
    cancelled_at_once(inside, store)
    agent().search(SearchCall("words", workspace="all", wait_for_fresh=True))
    assert inside.search(SearchCall("words"))["searched"] == f"workspace {vault}"


@pytest.mark.ends_with("not_indexed")
def test_a_folder_whose_process_died_before_it_stored_anything_is_not_indexed_by_a_search(
    agent: Callable[..., App], parts: Parts, store: HoldingStore, vault: Path
) -> None:
    write(vault, "a")
    parts.workspaces.remember(workspace_for(vault))
    agent().search(SearchCall("words", workspace="all", wait_for_fresh=True))
    assert store.count() == 0


def test_a_folder_that_was_empty_when_it_was_indexed_is_brought_up_to_date_like_any_other(
    agent: Callable[..., App], vault: Path
) -> None:
    indexed(agent())
    write(vault, "a", words="about the heron")
    assert agent().search(SearchCall("heron", workspace="all", wait_for_fresh=True))["files"] == 1


@pytest.mark.ends_with("missing")
def test_a_folder_with_files_that_were_stored_before_its_job_broke_stays_known(
    agent: Callable[..., App], parts: Parts, store: OpeningStore, vault: Path
) -> None:
    store.room = 200
    write(vault, "a", "z")
    for name in ("m", "n"):
        (vault / f"{name}.md").write_text("\n\n".join(f"# Part {n}\n\n{f'words {n} ' * 300}" for n in range(150)))
    app = agent()
    status = app.status(app.index(IndexCall())["job_id"], 60.0)
    assert (status["status"], status["processed_files"]) == ("failed", 0)
    assert store.commits()
    assert [known.root for known in parts.workspaces.all()] == [vault]
    assert Path(app.search(SearchCall("words"))["hits"][0]["path"]).is_absolute()
    del store.room


def test_a_folder_whose_job_was_begun_by_a_process_that_died_and_stored_nothing_is_called_indexed_nowhere(
    agent: Callable[..., App], parts: Parts, store: HoldingStore, vault: Path
) -> None:
    write(vault, "a")
    parts.workspaces.remember(workspace_for(vault))  # by the one that died
    cancelled_at_once(agent(), store)
    assert parts.workspaces.all() == []


@pytest.mark.ends_with("missing")
def test_a_folder_that_was_indexed_whole_stays_known_when_a_later_job_is_cancelled(
    agent: Callable[..., App], parts: Parts, store: HoldingStore, vault: Path
) -> None:
    indexed(agent())  # it is empty
    write(vault, "a")
    cancelled_at_once(agent(), store)
    assert [known.root for known in parts.workspaces.all()] == [vault]


def test_a_watched_folder_whose_first_job_was_cancelled_is_not_indexed_by_watching(
    agent: Callable[..., App], parts: Parts, store: HoldingStore, vault: Path
) -> None:
    write(vault, "a")
    app = agent(MARKDOWN_WATCH="on")
    cancelled_at_once(app, store)
    (entry,) = watches_of(parts)._entries.values()
    write(vault, "b")
    entry.watch._changed("")
    assert parts.queue.active() == []


def test_a_pinned_folder_is_indexed_by_watching_also_where_another_agent_watched_it_first(
    agent: Callable[..., App], parts: Parts, store: HoldingStore, vault: Path
) -> None:
    write(vault, "a", words="about the heron")
    cancelled_at_once(agent(MARKDOWN_WATCH="on"), store)
    (entry,) = watches_of(parts)._entries.values()
    assert not entry.watch.over
    pinned = agent(MARKDOWN_WATCH="on", MARKDOWN_WORKSPACE=str(vault))
    eventually(lambda: pinned.search(SearchCall("heron"))["files"])


def test_what_changes_while_the_first_job_is_at_work_is_found_soon_after_it(
    agent: Callable[..., App], parts: Parts, store: OpeningStore, vault: Path
) -> None:
    store.opens_at_once = True  # and is held when the folder has been listed
    write(vault, "a")
    app = agent(MARKDOWN_WATCH="on")
    store.go_on.clear()
    job = app.index(IndexCall())["job_id"]
    assert store.reached.wait(60.0)
    (entry,) = watches_of(parts)._entries.values()
    looks: list[str] = []
    look = entry.watch._changed

    def noted(folder: str) -> None:
        look(folder)
        looks.append(folder)

    entry.watch._changed = noted
    eventually(lambda: looks)  # the one when events begin to flow; the next without an event is a minute away
    before = len(looks)
    write(vault, "b", words="about the heron")
    eventually(lambda: len(looks) > before)
    store.go_on.set()
    assert app.status(job, 60.0)["status"] == "succeeded"
    eventually(lambda: app.search(SearchCall("heron"))["files"] == 2)


def test_a_folder_that_only_a_former_index_holds_is_brought_up_to_date_by_its_watch_as_by_a_search(
    agent: Callable[..., App], parts: Parts, store: HoldingStore, vault: Path
) -> None:
    (vault / "part").mkdir()
    write(vault, "a")
    write(vault / "part", "b")
    settings = parts.settings
    former = Parts(settings)
    former.once("store", lambda: open_store(former.store_settings, Model("test", "former", DIMENSION)))
    former.once("embeddings", lambda: embeddings_over(HashingEmbedder(), settings.state_directory, former.clock))
    try:
        of_part = App(former, settings, vault)
        status = of_part.status(of_part.index(IndexCall(directory="part"))["job_id"], 60.0)
        assert status["status"] == "succeeded"
        assert of_part.audit(IndexCall(directory="part"))["ok"]
    finally:
        former.close()
    assert parts.workspaces.complete() == set()
    app = agent(MARKDOWN_WATCH="on")
    app.search(SearchCall("words"))
    eventually(store.commits)
