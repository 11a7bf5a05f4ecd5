"""The ledger after each step of a story, as text; and what it must survive."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from textwrap import dedent

import pytest

from markdown_rag.database import Database
from markdown_rag.errors import StateError
from markdown_rag.indexing.report import Phase, Progress
from markdown_rag.jobs.admission import Limits, Refuse
from markdown_rag.jobs.job import Done, IndexRequest, Job, Status, abandon, ask_to_cancel, beat, finish
from markdown_rag.jobs.ledger import FILE_NAME, MIGRATIONS, Ledger, open_ledger
from markdown_rag.jobs.owner import Owner, Presence
from markdown_rag.paths import Scope, Workspace

ANNA = Owner(100, "boot", "1", "anna")
BERT = Owner(200, "boot", "2", "bert")
TTL = 1800.0
LIMITS = Limits(running=1, queued=3)
FIGURES = Progress(Phase.EMBED, total_files=40, processed_files=12, processed_chunks=34, stored_files=12)


class World:
    """A ledger under a clock moved by hand, with processes that can go and come back."""

    def __init__(self, path: Path) -> None:
        self.now = 1000.0
        self.seen: dict[Owner, Presence] = {}
        self.ledger = Ledger(
            Database(path / FILE_NAME, MIGRATIONS), lambda owner: self.seen.get(owner, Presence.PRESENT)
        )

    def submit(self, request: IndexRequest, owner: Owner) -> Job | None:
        return self.ledger.submit(request, owner, LIMITS, self.now)[1]

    def claim(self, owner: Owner, limit: int = 1) -> list[str]:
        return [job.id for job in self.ledger.claim(owner, limit, self.now)]

    def change(self, job: Job | None, transition: Callable[[Job], Job]) -> None:
        assert job is not None
        self.ledger.change(job.id, transition)

    def look(self, owner: Owner) -> None:
        self.ledger.sweep(owner, TTL, self.now)

    def text(self, *jobs: Job | None) -> str:
        lines = []
        for job in filter(None, (self.ledger.get(job.id) for job in jobs if job)):
            path = job.request.scope.path or "."
            parts = [f"{job.owner.queue} {path} {job.status}", f"until {job.lease_until:g}"]
            parts += ["suspected"] if job.suspected else []
            parts += [f"joined {job.joined}"] if job.joined else []
            parts += [f"{job.progress.processed_files}/{job.progress.total_files}"] if job.progress.total_files else []
            parts += [text for text in (job.error, job.note) if text]
            lines.append("; ".join(parts))
        return "\n".join(lines)


@pytest.fixture
def world(tmp_path: Path):
    made = World(tmp_path)
    yield made
    made.ledger.close()


def expect(text: str, golden: str) -> None:
    assert text == dedent(golden).strip()


def test_story_of_two_agents_that_want_the_same_folder(world: World, ask) -> None:
    one = world.submit(ask("a"), ANNA)
    world.claim(ANNA)
    world.now += 1
    two = world.submit(ask("a"), BERT)
    three = world.submit(ask("a/b"), ANNA)
    assert three is not None
    assert two is not None
    assert three.id == two.id
    assert two.follows == one.id
    expect(
        world.text(one, two),
        """
        anna a running; until 1015
        bert a queued; until 1016; joined 1
    """,
    )
    assert world.claim(BERT) == []
    world.now += 1
    world.change(one, lambda job: finish(job, Done({}), FIGURES, world.now))
    assert world.claim(ANNA) == []
    assert world.claim(BERT) == [two.id]
    expect(
        world.text(one, two),
        """
        anna a succeeded; until 1015; 12/40
        bert a running; until 1017; joined 1
    """,
    )


def test_story_of_a_killed_process(world: World, ask) -> None:
    one, two = world.submit(ask("a"), ANNA), world.submit(ask("b"), ANNA)
    world.claim(ANNA)
    world.change(one, lambda job: beat(job, FIGURES, world.now))
    world.seen[ANNA] = Presence.GONE
    three = world.submit(ask("a"), BERT)
    expect(
        world.text(one, two, three),
        """
        anna a failed; until 1015; 12/40; The process that accepted the job (pid 100) ended before the job did.; \
What was stored is kept: 12 of 40 files. Ask for the same again to go on.
        anna b failed; until 1015; The process that accepted the job (pid 100) ended before the job did.; \
Ask for the same again to go on.
        bert a queued; until 1015
    """,
    )
    assert world.claim(BERT) == [three.id]


def test_story_of_a_suspended_machine(world: World, ask) -> None:
    """Both processes wake an hour later and the wrong one looks first: the job goes on."""
    one = world.submit(ask("a"), ANNA)
    world.claim(ANNA)
    world.now += 3600
    world.look(BERT)
    expect(world.text(one), "anna a running; until 4605; suspected")
    world.look(BERT)
    world.change(one, lambda job: beat(job, FIGURES, world.now))
    expect(world.text(one), "anna a running; until 4615; 12/40")


def test_story_of_a_frozen_process(world: World, ask) -> None:
    """It is there and does nothing: its place goes to others, and when it thaws the judgement stands."""
    one = world.submit(ask("a"), ANNA)
    two = world.submit(ask("a"), BERT)
    assert (two and two.joined) == 1
    world.claim(ANNA)
    two = world.submit(ask("a"), BERT)
    for _ in range(2):
        world.now += 16
        world.change(two, lambda job: beat(job, job.progress, world.now))
        world.look(BERT)
    expect(
        world.text(one, two),
        """
        anna a failed; until 1021; joined 1; \
The process that accepted the job (pid 100) gave no sign of life for too long.; \
Ask for the same again to go on.
        bert a queued; until 1047
    """,
    )
    assert world.claim(BERT) == [two.id]


def test_story_of_a_cancel_across_processes(world: World, ask) -> None:
    one, two = world.submit(ask("a"), ANNA), world.submit(ask("b"), ANNA)
    world.claim(ANNA)
    for job in (one, two):
        world.change(job, lambda job: ask_to_cancel(job, "Cancelled on request.", world.now))
    world.change(one, lambda job: beat(job, FIGURES, world.now))
    expect(
        world.text(one, two),
        """
        anna a running; until 1015; 12/40
        anna b cancelled; until 1015; Cancelled on request.
    """,
    )
    world.seen[ANNA] = Presence.GONE
    world.look(BERT)
    expect(
        world.text(one),
        """
        anna a cancelled; until 1015; 12/40; \
Cancelled on request. What was stored is kept: 12 of 40 files.
    """,
    )


def test_a_process_never_judges_itself(world: World, ask) -> None:
    one = world.submit(ask("a"), ANNA)
    world.now += 3600
    world.seen[ANNA] = Presence.GONE
    world.look(ANNA)
    expect(world.text(one), "anna a queued; until 1015")


def test_the_limit_counts_running_jobs_of_all_processes(world: World, ask) -> None:
    for place in "ab":
        world.submit(ask(place), ANNA)
    three = world.submit(ask("c"), BERT)
    assert len(world.claim(ANNA, limit=2)) == 2
    assert world.claim(BERT, limit=2) == []
    assert world.claim(BERT, limit=3) == [three.id]


def test_a_queue_that_is_full_refuses_with_the_reason_and_writes_nothing(world: World, ask) -> None:
    for place in "abc":
        world.submit(ask(place), ANNA)
    decision, job = world.ledger.submit(ask("d"), BERT, LIMITS, world.now)
    assert (decision, job) == (Refuse("3 index jobs are waiting already, which is the most that may."), None)
    assert len(world.ledger.active()) == 3


def test_ended_jobs_are_kept_for_their_time_and_then_forgotten(world: World, ask) -> None:
    one = world.submit(ask("a"), ANNA)
    world.change(one, lambda job: ask_to_cancel(job, "No.", world.now))
    world.now += TTL
    world.look(BERT)
    assert world.ledger.latest() is not None
    world.now += 1
    two = world.submit(ask("b"), BERT)
    world.look(BERT)
    assert world.ledger.get(one.id) is None
    assert world.ledger.active() == [two]
    assert two.number > one.number


def test_a_number_is_never_given_twice(world: World, ask) -> None:
    one = world.submit(ask("a"), ANNA)
    world.change(one, lambda job: ask_to_cancel(job, "No.", world.now))
    world.now += TTL + 1
    world.look(BERT)
    assert world.submit(ask("a"), ANNA).number == one.number + 1


def test_ids_are_eight_hex_digits(world: World, ask) -> None:
    job = world.submit(ask("a"), ANNA)
    assert len(job.id) == 8
    assert int(job.id, 16) >= 0


def test_a_job_comes_back_from_the_file_exactly_as_it_went_in(world: World) -> None:
    odd = 'it\'s "q"\\ % _ \n 한글 e\u0301 \udcff.md'
    scope = Scope(Workspace("id'", Path("/no\udcfes")), odd, recursive=False)
    request = IndexRequest(scope, True, False, True, True, {"directory": odd, "n": [1, None]}, "t", "p", "me")
    job = world.submit(request, ANNA)
    assert world.ledger.get(job.id) == job
    ended = world.ledger.change(job.id, lambda job: abandon(job, f"No {odd}", 1.5))
    assert world.ledger.get(job.id) == ended
    assert ended.request == request


def test_an_unknown_id_is_none(world: World) -> None:
    assert world.ledger.get("00000000") is None
    assert world.ledger.change("00000000", lambda job: job) is None
    assert world.ledger.latest() is None


def test_a_transition_that_is_refused_leaves_the_file_as_it_was(world: World, ask) -> None:
    job = world.submit(ask("a"), ANNA)
    with pytest.raises(ZeroDivisionError):
        world.ledger.change(job.id, lambda job: replace(job, number=1 // 0))
    assert world.ledger.get(job.id) == job


def test_a_running_job_whose_file_was_lost_is_written_again(world: World, ask, tmp_path: Path) -> None:
    world.submit(ask("a"), ANNA)
    (running,) = world.ledger.claim(ANNA, 1, world.now)
    (tmp_path / "anew").mkdir()
    fresh = open_ledger(tmp_path / "anew")
    fresh.submit(ask("b"), BERT, LIMITS, world.now)
    fresh.restore(running)
    assert fresh.get(running.id) == replace(running, number=2)
    assert len(fresh.active()) == 2
    fresh.close()


def test_a_damaged_file_is_set_aside_and_the_next_ledger_works(tmp_path: Path, ask) -> None:
    (tmp_path / FILE_NAME).write_bytes(b"not a database, but long enough to be looked at as one" * 50)
    ledger = open_ledger(tmp_path)
    assert ledger.active() == []
    assert ledger.submit(ask("a"), ANNA, LIMITS, 1.0)[1] is not None
    ledger.close()


def test_a_file_of_a_newer_version_is_refused_by_name(tmp_path: Path) -> None:
    with sqlite3.connect(tmp_path / FILE_NAME) as connection:
        connection.execute(f"PRAGMA user_version={len(MIGRATIONS) + 1}")
    connection.close()
    with pytest.raises(StateError, match="newer version"):
        open_ledger(tmp_path)


def test_waiting_jobs_of_a_process_that_is_gone_make_room(world: World, ask) -> None:
    for place in "abc":
        world.submit(ask(place), ANNA)
    world.seen[ANNA] = Presence.GONE
    assert world.submit(ask("d"), BERT).status is Status.QUEUED
    assert len(world.ledger.active()) == 1
