"""What a person can rely on who repairs, clears or moves an index."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from markdown_rag.app import App
from markdown_rag.errors import InputError, JobError, StoreFormatError
from markdown_rag.facade import IndexCall
from markdown_rag.freshening import watches_of
from markdown_rag.indexing.statcache import StatCache
from markdown_rag.jobs.job import IndexRequest
from markdown_rag.paths import workspace_for
from markdown_rag.settings import load_settings
from markdown_rag.store.base import EVERYTHING, Model
from markdown_rag.store.memory import MemoryStore
from markdown_rag.store.opening import open_store
from markdown_rag.upkeep import Upkeep, another_place
from markdown_rag.wiring import Parts
from markdown_rag.workspaces import Searched

from .conftest import HoldingStore, indexed, write


def stored(store: MemoryStore) -> set[str]:
    return {entry.path for entry in store.catalog()}


@pytest.mark.parametrize(("files", "gone"), [(3, 3), (30, 25)])
def test_a_repair_removes_nothing_where_so_much_is_gone_that_a_disk_may_be_missing(
    agent: Callable[..., App], store: HoldingStore, vault: Path, files: int, gone: int
) -> None:
    names = [f"n{number}" for number in range(files)]
    write(vault, *names)
    indexed(agent())
    for name in names[:gone]:
        (vault / f"{name}.md").unlink()
    found = agent().audit(IndexCall(), repair=True)
    assert found["counts"] == {"orphaned": gone}
    assert f"Not repaired: {gone} of {files} indexed files are gone" in found["message"]
    assert len(stored(store)) == files
    indexed(agent(), IndexCall(confirm_deletions=True))


def test_a_repair_mends_every_file_also_when_the_call_has_an_id_and_the_folder_is_locked(
    agent: Callable[..., App], store: HoldingStore, vault: Path
) -> None:
    write(vault, "a", "b", "c", "d")
    app = agent(MARKDOWN_WORKSPACE=str(vault))
    indexed(app)
    write(vault, "a", "b", "c", words="others than before")
    (vault / "d.md").unlink()
    assert app.audit(IndexCall())["counts"] == {"stale": 3, "orphaned": 1}
    found = app.audit(IndexCall(request_id="one call"), repair=True)
    assert (found["ok"], found["counts"]) == (True, {})
    assert stored(store) == {"a.md", "b.md", "c.md"}


def test_a_repair_takes_away_the_rows_that_no_reader_sees(
    agent: Callable[..., App], store: HoldingStore, vault: Path
) -> None:
    write(vault, "a")
    app = agent()
    indexed(app)
    (row,) = store.records(EVERYTHING)
    store.insert([replace(row, gen=1), replace(row, gen=2, ord=1)])  # a former generation, and one never committed
    assert app.audit(IndexCall())["counts"] == {"doubled": 1, "uncommitted": 1}
    found = app.audit(IndexCall(), repair=True)
    assert (found["ok"], found["counts"]) == (True, {})
    assert store.get([row.id])
    assert store.count() == 1


def test_nothing_is_cleared_while_a_job_would_write_it_again(
    agent: Callable[..., App], parts: Parts, store: HoldingStore, vault: Path
) -> None:
    write(vault, "a")
    app = agent()
    indexed(app)
    write(vault, "b")
    store.reached.clear()
    store.go_on.clear()
    job = app.index(IndexCall())["job_id"]
    assert store.reached.wait(60.0)
    workspace = workspace_for(vault)
    chores = Upkeep(parts, parts.settings, lambda scope, _: IndexRequest(scope), cancel_wait_s=0.0)
    with pytest.raises(JobError, match=f"Nothing was cleared: index job {job}"):
        chores.clear(Searched((workspace.id,), "here"), "", confirm=True)
    assert stored(store) == {"a.md"}
    store.go_on.set()
    assert app.status(job, 60.0)["status"] == "cancelled"
    assert app.clear(confirm=True)["cleared"]
    assert stored(store) == set()


def test_a_folder_that_is_cleared_is_not_watched_until_it_is_indexed_again(
    agent: Callable[..., App], parts: Parts, vault: Path
) -> None:
    write(vault, "a")
    app = agent(MARKDOWN_WORKSPACE=str(vault), MARKDOWN_WATCH="on")
    indexed(app)
    assert [watched.root for watched in watches_of(parts).state()] == [vault]
    app.clear(confirm=True)
    app.status()
    assert watches_of(parts).state() == []
    indexed(app)
    assert [watched.root for watched in watches_of(parts).state()] == [vault]


@pytest.mark.parametrize("step", [(MemoryStore, "catalog"), (StatCache, "load")], ids=["early", "late"])
def test_a_folder_that_is_cleared_stays_so_though_its_watch_looks_at_it_for_long(
    step: tuple[type, str],
    agent: Callable[..., App],
    store: HoldingStore,
    vault: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    looking, go_on, usual = threading.Event(), threading.Event(), getattr(*step)

    def held(*arguments: object) -> object:
        if threading.current_thread().name == f"watch {vault.name}" and (vault / "b.md").exists():
            looking.set()
            assert go_on.wait(60.0)
        return usual(*arguments)

    monkeypatch.setattr(*step, held)
    write(vault, "a")
    app = agent(MARKDOWN_WORKSPACE=str(vault), MARKDOWN_WATCH="on")
    indexed(app)
    (watch,) = [thread for thread in threading.enumerate() if thread.name == f"watch {vault.name}"]
    write(vault, "b")
    assert looking.wait(60.0)
    assert app.clear(confirm=True)["cleared"]
    last = app.status()["job_id"]
    go_on.set()
    watch.join(60.0)
    assert app.status()["job_id"] == last  # no job came after the clear
    assert stored(store) == set()


def test_a_copy_to_another_server_takes_no_token_database_or_certificates_of_the_first() -> None:
    given = {
        "MILVUS_ADDRESS": "https://ours.example:19530",
        "MILVUS_TOKEN": "ours",
        "MILVUS_DATABASE": "ours",
        "MILVUS_CA_FILE": "/ours.pem",
    }
    source = Parts(load_settings(given)).store_settings
    there = "https://theirs.example:19530"
    target = another_place(source, there, load_settings(given))
    assert (target.address, target.token, target.database, target.ca_file) == (there, "", "", "")
    theirs = {"MILVUS_TARGET_TOKEN": "t", "MILVUS_TARGET_DATABASE": "d", "MILVUS_TARGET_CA_FILE": "/c.pem"}
    target = another_place(source, there, load_settings({**given, **theirs}))
    assert (target.token, target.database, target.ca_file) == ("t", "d", "/c.pem")


@pytest.mark.parametrize("address", ["", "http://me:secret@127.0.0.1:99999", "http://", "localhost:19530", "/data/x"])
def test_a_place_to_copy_to_that_can_be_nowhere_is_the_askers_error(agent: Callable[..., App], address: str) -> None:
    with pytest.raises(InputError, match="--to is not an address") as raised:
        agent().migrate(address)
    assert "secret" not in str(raised.value)


def test_messages_of_a_copy_name_what_was_given_for_its_target(tmp_path: Path) -> None:
    here, there = tmp_path / "here.db", tmp_path / "there.db"
    there.write_text("of version 1")
    settings = load_settings({"MARKDOWN_RAG_CACHE_DIR": str(tmp_path), "MILVUS_ADDRESS": str(here)})
    source = Parts(settings).store_settings
    target = another_place(source, str(there), settings)
    for place, named in ((source, "set MILVUS_ADDRESS to"), (target, "set --to to")):
        store = open_store(replace(place, address=str(there)), Model("p", "m", 4, 0.0))
        with pytest.raises(StoreFormatError, match=named):
            store.count()
        store.close()


@pytest.mark.ends_with("stale")
def test_a_repair_of_one_part_leaves_the_others(agent: Callable[..., App], vault: Path) -> None:
    (vault / "sub").mkdir()
    write(vault, "a", "sub/b")
    app = agent()
    indexed(app)
    write(vault, "a", "sub/b", words="new ones")
    assert app.audit(IndexCall(directory="sub"), repair=True)["ok"]
    assert [finding["path"] for finding in app.audit(IndexCall())["findings"]] == ["a.md"]
