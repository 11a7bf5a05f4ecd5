"""The façade's contract, over everything in one process and over the service: the same calls, the same answers."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from markdown_rag.errors import FastRagError, InputError, JobError, NotFound, SettingsError, WorkspaceError
from markdown_rag.facade import Facade, IndexCall, Json, ListCall, ReadCall, SearchCall
from markdown_rag.service.opening import open_facade
from tests.doctor import folders_end_well
from tests.service.conftest import Environ, Opener, end_services, environ_for, finish, indexed, write_notes

SERVICE = {"inside": "off", "service": "on"}


@dataclass(frozen=True)
class Place:
    """A state directory with a vault beside it that is indexed. keeper: the façade that did it, open all along."""

    home: Path
    environ: Environ
    keeper: Facade


@pytest.fixture(scope="module", params=SERVICE)
def place(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    home = tmp_path_factory.mktemp(request.param)
    environ = environ_for(home / "state", HOME=str(home), MARKDOWN_RAG_SERVICE=SERVICE[request.param])
    keeper = open_facade(environ, home)
    indexed(keeper, write_notes(home / "vault"))
    yield Place(home, environ, keeper)
    try:
        folders_end_well(request.node, keeper, [home / "vault"])
    finally:
        keeper.close()
        end_services(home / "state")


@pytest.fixture
def home(place: Place) -> Path:
    return place.home


@pytest.fixture
def start(place: Place) -> Iterator[Opener]:
    """Opens further façades over the place."""
    opened: list[Facade] = []

    def open_another(folder: Path = place.home, **more: str) -> Facade:
        opened.append(open_facade({**place.environ, **more}, folder))
        return opened[-1]

    yield open_another
    for facade in opened:
        facade.close()


@pytest.fixture
def facade(start: Opener) -> Facade:
    return start()


def test_an_index_job_is_accepted_followed_and_ends(facade: Facade, home: Path) -> None:
    accepted = facade.index(IndexCall(root=str(home / "vault"), params={"directory": "x"}))
    assert accepted["accepted"]
    status = finish(facade, accepted["job_id"])
    assert (status["status"], status["params"], status["result"]["unchanged_files"]) == (
        "succeeded",
        {"directory": "x"},
        2,
    )


def test_progress_is_told_while_somebody_waits(facade: Facade, home: Path) -> None:
    told: list[Json] = []
    accepted = facade.index(IndexCall(root=str(home / "vault"), force=True))
    while (status := facade.status(accepted["job_id"], 20.0, told.append))["status"] in {"queued", "running"}:
        pass
    assert status["status"] == "succeeded"
    assert {each["job_id"] for each in told} == {accepted["job_id"]}


def test_the_same_request_twice_is_the_same_job(facade: Facade, home: Path) -> None:
    call = IndexCall(root=str(home / "vault"), request_id=f"again-{home.name}")
    first = facade.index(call)
    finish(facade, first["job_id"])
    assert facade.index(call)["job_id"] == first["job_id"]


def test_a_question_is_answered_with_its_place(facade: Facade, home: Path) -> None:
    found = facade.search(SearchCall("when does the wifi password change?", k=1))
    (hit,) = found["hits"]
    assert (hit["path"], hit["freshness"]) == (str(home / "vault" / "guests.md"), "fresh")


def test_a_document_is_read_and_listed(facade: Facade) -> None:
    (hit,) = facade.search(SearchCall("rehearse a restore", k=1))["hits"]
    assert "first day of every quarter" in str(facade.read(ReadCall(id=hit["id"])))
    assert "plan.md" in str(facade.list_documents(ListCall(recursive=True)))


def test_a_relative_folder_is_meant_from_where_the_agent_was_started(start: Opener, home: Path) -> None:
    accepted = start(home).index(IndexCall(root="vault"))
    assert accepted["target_path"] == str(home / "vault")
    finish(start(home), accepted["job_id"])


def test_an_agent_started_in_a_workspace_searches_that_one(start: Opener, home: Path) -> None:
    assert str(home / "vault") in start(home / "vault" / "backup").search(SearchCall("restore"))["searched"]
    outside = start(home).search(SearchCall("restore"))["searched"]
    assert outside == f"every indexed folder, since {home} is not indexed"


def test_each_agents_own_settings_hold_for_its_calls(start: Opener, home: Path) -> None:
    locked = start(MARKDOWN_WORKSPACE=str(home / "vault"), MARKDOWN_EXCLUDE_DIRS="backup")
    preview = locked.preview(IndexCall())
    assert (preview["target_path"], preview["deleted"]) == (str(home / "vault"), 1)
    assert start().preview(IndexCall(root=str(home / "vault")))["deleted"] == 0


@pytest.mark.parametrize(
    ("error", "call"),
    [
        (InputError, lambda f: f.search(SearchCall(" "))),
        (InputError, lambda f: f.search(SearchCall("x", k=0))),
        (JobError, lambda f: f.cancel("00000000")),
        (JobError, lambda f: f.cancel()),
        (WorkspaceError, lambda f: f.index(IndexCall(root="/nowhere/at/all"))),
        (NotFound, lambda f: f.search(SearchCall("x", workspace="unheard of"))),
    ],
    ids=["blank query", "k", "cancel unknown", "cancel nothing", "no folder", "no workspace"],
)
def test_what_is_wrong_is_told_by_the_same_error(facade: Facade, error: type, call: Callable[[Facade], Any]) -> None:
    with pytest.raises(error) as caught:
        call(facade)
    assert caught.type is error
    assert caught.value.message


def test_a_variable_that_is_not_allowed_is_told_before_anything_starts(start: Opener) -> None:
    with pytest.raises(SettingsError, match="MARKDOWN_CHUNK_SIZE"):
        start(MARKDOWN_CHUNK_SIZE="enormous")


def test_what_would_be_cleared_is_said_first(facade: Facade, home: Path) -> None:
    asked = facade.clear(str(home / "vault"))
    assert (asked["cleared"], asked["files"]) == (False, 2)


def test_index_and_disk_agree_and_every_part_is_healthy(facade: Facade, home: Path) -> None:
    assert facade.audit(IndexCall(root=str(home / "vault")))["ok"]
    health = facade.health()
    assert health["ok"], health
    assert {check["name"].split(":")[0] for check in health["checks"]} >= {
        "embeddings",
        "store",
        "jobs",
        "state directory",
    }


def test_a_closed_facade_says_so_and_closes_again(facade: Facade) -> None:
    facade.status()
    facade.close()
    facade.close()
    with pytest.raises(FastRagError):
        facade.index(IndexCall())


def test_an_agent_that_works_the_other_way_gets_the_same_answers(start: Opener, home: Path) -> None:
    """The service and a process of its own, side by side over one state directory, field by field."""

    def answers(way: str) -> list[Any]:
        facade = start(MARKDOWN_RAG_SERVICE=way)
        status = facade.status()
        call = IndexCall(root=str(home / "vault"))
        return [
            {name: value for name, value in status.items() if name != "elapsed_seconds"},
            facade.search(SearchCall("when is the password changed?", explain=True)),
            facade.audit(call),
            facade.preview(call),
            facade.clear(str(home / "vault")),
            [check for check in facade.health()["checks"] if check["name"] not in {"service", "state directory"}],
        ]

    assert answers("on") == answers("off")
