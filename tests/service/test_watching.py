"""Edits come into the index by themselves, or before an answer that asks for it; and it is said when they do not."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from markdown_rag import watching
from markdown_rag.clock import SystemClock
from markdown_rag.errors import StoreUnavailable
from markdown_rag.facade import Facade, IndexCall, SearchCall
from markdown_rag.service.opening import open_facade
from markdown_rag.watching import Watch, common_folder, file_system
from tests.doctor import folders_end_well
from tests.service.conftest import (
    BOUND,
    Opener,
    end_services,
    environ_for,
    finish,
    indexed,
    indexed_folders,
    only_service,
    services_of,
    write_notes,
)
from tests.waiting import eventually

FOLDERS: dict[str, tuple[list[str], str | None]] = {
    "one document": (["a/b.md"], "a"),
    "one at the top": (["b.md"], ""),
    "two in one folder": (["a/b.md", "a/c.MDX"], "a"),
    "two apart": (["a/x/b.md", "a/y/c.md"], "a"),
    "two far apart": (["a/b.md", "c/d.markdown"], ""),
    "a folder that was renamed": (["a/old", "a/new"], "a"),
    "a folder that is gone": (["gone/deeper/b.md"], ""),
    "rules for ignoring": (["a/.gitignore"], "a"),
    "an edge list": (["a/_graph.yaml"], "a"),
    "a document with a dot": (["a/.b.md"], "a"),
    "a dot folder that counts": (["a/.github/b.md"], "a"),
    "a dot folder that counts by its path": (["c/.notes/b.md"], "c"),
    "one of its name elsewhere": (["a/.notes/b.md"], None),
    "a picture": (["a/b.png"], None),
    "an editor's own files": ([".obsidian/workspace.json", "a/.b.md.swp", ".git/index"], None),
    "a document among other things": (["a/b.png", "a/x/c.md", ".git/HEAD"], "a/x"),
    "nothing": ([], None),
}


@pytest.mark.parametrize("name", FOLDERS)
def test_what_changed_is_looked_for_in_the_smallest_folder_that_holds_it(name: str, tmp_path: Path) -> None:
    paths, expected = FOLDERS[name]
    for folder in ("a/x", "a/y", "c"):
        (tmp_path / folder).mkdir(parents=True)
    counting = frozenset({".github", "c/.notes"})
    assert common_folder(tmp_path, [str(tmp_path / path) for path in paths], counting) == expected


class Heard:
    """What a watch reports, one after the other."""

    def __init__(self) -> None:
        self.folders: list[str] = []
        self.wanted = True
        self._more = threading.Condition()

    def __call__(self, folder: str) -> None:
        with self._more:
            self.folders.append(folder)
            self._more.notify_all()

    def until(self, done: Callable[[list[str]], bool]) -> None:
        with self._more:
            assert self._more.wait_for(lambda: done(self.folders), BOUND)


@pytest.fixture
def heard() -> Heard:
    return Heard()


@pytest.fixture
def watch(heard: Heard, tmp_path: Path) -> Iterator[Callable[..., Watch]]:
    made: list[Watch] = []

    def start(root: Path = tmp_path, **more: bool) -> Watch:
        made.append(Watch(root, heard, lambda: heard.wanted, SystemClock(), **more))
        return made[-1]

    yield start
    for each in made:
        each.close(BOUND)


def test_it_looks_at_everything_first_and_then_where_something_happens(
    watch: Callable[..., Watch], heard: Heard, tmp_path: Path
) -> None:
    (tmp_path / "a").mkdir()
    watcher = watch()
    heard.until(lambda folders: folders[:1] == [""])

    def edit() -> list[str]:
        """Until the events flow, an edit may be too early for them."""
        (tmp_path / "a" / "note.md").write_text(f"{len(heard.folders)}", encoding="utf-8")
        with heard._more:
            heard._more.wait(1.0)
            return list(heard.folders)

    eventually(edit, lambda folders: "a" in folders, seconds=BOUND)
    assert watcher.state.by_events


def test_without_events_it_looks_now_and_then_and_says_why(watch: Callable[..., Watch], heard: Heard) -> None:
    watcher = watch(events=False)
    heard.until(lambda folders: len(folders) >= 2)
    assert set(heard.folders) == {""}
    assert (watcher.state.by_events, watcher.state.reason) == (False, "events are off")


def test_a_watch_that_is_ended_says_nothing_of_a_folder_that_was_replaced(
    watch: Callable[..., Watch], heard: Heard, caplog: pytest.LogCaptureFixture
) -> None:
    watcher = watch()
    heard.until(lambda folders: folders == [""])
    while not watcher.state.by_events:
        watcher._stop.wait(0.05)
    watcher.close(BOUND)
    assert watcher.over
    assert caplog.messages == []


def test_a_folder_that_is_not_there_is_looked_for(watch: Callable[..., Watch], heard: Heard, tmp_path: Path) -> None:
    watcher = watch(tmp_path / "unmounted")
    heard.until(lambda folders: len(folders) >= 2)
    assert not watcher.state.by_events
    assert watcher.state.reason


def test_a_folder_that_is_mounted_again_is_watched_again(
    watch: Callable[..., Watch], heard: Heard, tmp_path: Path
) -> None:
    watcher = watch(tmp_path / "notes")
    heard.until(lambda folders: len(folders) >= 2)
    (tmp_path / "notes").mkdir()
    looked = len(heard.folders)
    heard.until(lambda folders: len(folders) > looked)
    eventually(lambda: watcher.state.by_events, seconds=BOUND)


def test_trouble_is_told_until_it_is_over(tmp_path: Path) -> None:
    looks = threading.Semaphore(0)
    answers = iter([StoreUnavailable("The store is away.")])

    def look(_folder: str) -> None:
        looks.release()
        for error in answers:
            raise error

    watcher = Watch(tmp_path, look, lambda: True, SystemClock(), events=False)
    assert looks.acquire(timeout=BOUND)
    assert looks.acquire(timeout=BOUND)
    assert looks.acquire(timeout=BOUND)
    assert watcher.state.trouble == ""
    watcher.close(BOUND)


def test_it_ends_when_nobody_wants_it(watch: Callable[..., Watch], heard: Heard) -> None:
    watcher = watch(events=False)
    heard.wanted = False
    watcher._thread.join(BOUND)
    assert watcher.over


def test_a_network_file_system_is_told_by_its_kind() -> None:
    assert watching._remote_kind(Path("/")) == ""
    assert {"nfs4", "cifs", "fuse.sshfs"} <= watching._REMOTE


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        ("/home/a", "ext4"),
        ("/mnt/Größe/a", "nfs4"),
        ("/mnt/my notes", "cifs"),
        ("/mnt/my", "ext4"),
        ("/mnt/a\\b", "9p"),
    ],
)
def test_the_file_system_under_a_folder_is_found_whatever_it_is_called(path: str, kind: str) -> None:
    mounts = "/dev/sda / ext4 rw 0 0\nhost:/x /mnt/Größe nfs4 rw 0 0\n//h/x /mnt/my\\040notes cifs rw 0 0\n"
    mounts += "x /mnt/a\\134b 9p rw 0 0\n"
    assert file_system(path.encode(), mounts.encode()) == kind


@pytest.fixture
def inside(state_dir: Path, tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Facade]:
    facade = open_facade(environ_for(state_dir, MARKDOWN_RAG_SERVICE="off"), tmp_path)
    yield facade
    try:
        folders_end_well(request.node, facade, indexed_folders(state_dir))
    finally:
        facade.close()


def texts(facade: Facade, query: str, *, fresh: bool = False) -> str:
    return str([hit["text"] for hit in facade.search(SearchCall(query, wait_for_fresh=fresh))["hits"]])


def test_an_answer_that_waits_for_it_knows_what_was_just_written_moved_and_deleted(
    inside: Facade, tmp_path: Path
) -> None:
    vault = write_notes(tmp_path / "vault")
    indexed(inside, vault)
    (vault / "guests.md").write_text("# Guests\n\nThe lobby is painted in turquoise.\n", encoding="utf-8")
    (vault / "backup" / "plan.md").rename(vault / "backup" / "moved.md")
    assert "turquoise" in texts(inside, "colour of the lobby", fresh=True)
    paths = {hit["path"] for hit in inside.search(SearchCall("restore", k=5))["hits"]}
    assert {Path(path).name for path in paths} == {"guests.md", "moved.md"}


def test_an_answer_that_waits_writes_nothing_where_nothing_changed(inside: Facade, tmp_path: Path) -> None:
    vault = write_notes(tmp_path / "vault")
    first = indexed(inside, vault)["job_id"]
    texts(inside, "restore", fresh=True)
    # Files written within the last two seconds are read again, as their times prove nothing yet.
    latest = finish(inside, inside.status()["job_id"])
    if latest["job_id"] != first:
        assert (latest["result"]["insert_count"], latest["result"]["embedded"]) == (0, 0)
    again = indexed(inside, vault)["result"]
    assert (again["insert_count"], again["embedded"], again["unchanged_files"]) == (0, 0, 2)


def test_an_answer_that_cannot_be_fresh_says_so(inside: Facade, tmp_path: Path) -> None:
    vault = write_notes(tmp_path / "vault", {f"n{n}.md": f"# N {n}\n\nnumber {n}\n" for n in range(30)})
    indexed(inside, vault)
    for path in list(vault.iterdir())[1:]:
        path.unlink()
    note = inside.search(SearchCall("number", wait_for_fresh=True))["note"]
    assert "could not be indexed first" in note
    assert "confirm" in note
    assert finish(inside, inside.index(IndexCall(root=str(vault), confirm_deletions=True))["job_id"])["result"]


def paint_the_lobby(vault: Path) -> None:
    (vault / "guests.md").write_text("# Guests\n\nThe lobby is painted in turquoise.\n", encoding="utf-8")


def until_the_lobby_is_found(facade: Facade) -> None:
    eventually(lambda: texts(facade, "colour of the lobby"), lambda found: "turquoise" in found, seconds=2 * BOUND)


def test_a_watched_workspace_follows_edits_for_as_long_as_its_agent_lives(state_dir: Path, tmp_path: Path) -> None:
    vault = write_notes(tmp_path / "vault")
    facade = open_facade(environ_for(state_dir, MARKDOWN_RAG_SERVICE="off", MARKDOWN_WATCH="on"), vault)
    indexed(facade, vault)
    paint_the_lobby(vault)
    until_the_lobby_is_found(facade)
    status = finish(facade, facade.status()["job_id"])  # the old rows go after the new ones can be found
    assert status["requested_by"] == f"watching {vault}"
    (check,) = (check for check in facade.health()["checks"] if check["name"] == "watching")
    assert check["detail"].startswith(f"{vault} by events")
    assert facade.audit(IndexCall(root=str(vault)))["ok"]
    facade.close()


def test_a_watched_workspace_stays_watched_when_the_service_is_killed_and_its_agent_asks_nothing(
    agent: Opener, state_dir: Path, tmp_path: Path
) -> None:
    vault = write_notes(tmp_path / "vault")
    watcher = agent(vault, MARKDOWN_WATCH="on")
    indexed(watcher, vault)
    killed = only_service(state_dir)
    os.kill(killed, signal.SIGKILL)
    paint_the_lobby(vault)
    eventually(
        lambda: {process.pid for process in services_of(state_dir)},
        lambda living: living and killed not in living,
        seconds=BOUND,
    )
    other = agent(tmp_path)
    until_the_lobby_is_found(other)
    status = finish(other, other.status()["job_id"])
    assert status["requested_by"] == f"watching {vault}"


@pytest.mark.slow
def test_a_service_that_was_stopped_is_not_started_by_an_agent_that_only_watches(
    agent: Opener, state_dir: Path, tmp_path: Path
) -> None:
    vault = write_notes(tmp_path / "vault")
    watcher = agent(vault, MARKDOWN_WATCH="on")
    indexed(watcher, vault)
    end_services(state_dir)
    time.sleep(2.5)  # longer than an agent looks away: what shall not happen cannot be waited for
    assert services_of(state_dir) == []
    watcher.search(SearchCall("password"))
    assert only_service(state_dir)
