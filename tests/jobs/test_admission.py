"""What becomes of a request: one line for each truth, then the laws behind them."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from markdown_rag.jobs.admission import (
    Decision,
    FollowUp,
    Join,
    Limits,
    Refuse,
    Run,
    covers,
    decide,
    meant,
    obstacle,
    overlaps,
    repeats,
    startable,
)
from markdown_rag.jobs.job import IndexRequest, Job, Status, accept, ask_to_cancel, start
from markdown_rag.jobs.owner import Owner
from markdown_rag.paths import Scope, Workspace

OWNER = Owner(1, "boot", "1", "q")
FLAGS = {"force": True, "nocache": False, "verify": True, "confirm": True}
FIELDS = {"force": "force", "nocache": "use_cache", "verify": "verify", "confirm": "confirm_deletions"}


def parse(words: str) -> IndexRequest:
    """ "a/b force" → a request; "other:a" is in another workspace, "flat" is not recursive; "root=x", "target=x", …"""
    place, *rest = words.split()
    workspace, _, path = place.rpartition(":")
    named = dict(word.split("=") for word in rest if "=" in word)
    root = Path("/", named.get("root", workspace or "notes"))
    scope = Scope(Workspace(workspace or "notes", root), path.strip("."), "flat" not in rest)
    flags = {FIELDS[word]: FLAGS[word] for word in rest if word in FLAGS}
    return IndexRequest(scope, target=named.get("target", ""), policy=named.get("policy", ""), **flags)


def parse_jobs(text: str) -> list[Job]:
    """ "running a; queued a force" → jobs j1, j2; "stopping" is running with a cancel recorded."""
    jobs = []
    for number, words in enumerate(filter(None, (part.strip() for part in text.split(";"))), 1):
        word, _, rest = words.partition(" ")
        job = accept(parse(rest), OWNER, 0.0, job_id=f"j{number}", number=number, follows="")
        if word != "queued":
            job = start(job, 0.0)
        jobs.append(ask_to_cancel(job, "No.", 0.0) if word == "stopping" else job)
    return jobs


def told(decision: Decision) -> str:
    match decision:
        case Run():
            return "run"
        case Join(job_id, request):
            flags = [word for word, field in FIELDS.items() if getattr(request, field) == FLAGS[word]]
            return " ".join(["join", job_id, *flags])
        case FollowUp(after):
            return f"after {after}"
        case Refuse():
            return "refuse"


@pytest.mark.parametrize(
    ("active", "request_", "verdict"),
    [
        ("", "a", "run"),
        ("queued a", "a", "join j1"),
        ("queued .", "a", "join j1"),
        ("queued .", "a/b.md", "join j1"),
        ("queued a", ".", "after j1"),
        ("queued a", "ab", "run"),
        ("queued a", "other:a", "run"),
        ("running a", "a", "after j1"),
        ("running .", "a", "after j1"),
        ("running a", ".", "after j1"),
        ("running a", "b", "run"),
        ("stopping a", "a", "after j1"),
        ("running a; queued a", "a", "join j2"),
        ("running a; queued a", "a/b", "join j2"),
        ("running a; queued a; running b", "b", "after j3"),
        ("queued b; queued a", "a", "join j2"),
        # not recursive
        ("queued a flat", "a", "after j1"),
        ("queued a", "a flat", "join j1"),
        ("queued a flat", "a flat", "join j1"),
        # flags: what is asked for in the same place is added to what waits there
        ("queued a force", "a", "join j1 force"),
        ("queued a", "a force", "join j1 force"),
        ("queued a", "a force nocache", "join j1 force nocache"),
        ("queued a force", "a verify", "join j1 force"),
        ("queued a verify", "a confirm", "join j1 verify confirm"),
        ("queued a force", "a confirm", "join j1 force confirm"),
        ("queued a nocache", "a force", "join j1 force nocache"),
        ("queued a confirm", "a force", "join j1 force confirm"),
        ("queued a", "a verify", "join j1 verify"),
        ("queued .", "a force", "after j1"),
        ("queued . force", "a force", "join j1 force"),
        ("queued . force", "a force nocache", "after j1"),
        ("queued . force nocache", "a force", "join j1 force nocache"),
        ("queued .", "a confirm", "after j1"),
        ("queued .", "a verify", "after j1"),
        ("running a; queued a", "a force", "join j2 force"),
        # two checkouts that share an id write the same rows from other files
        ("queued a root=x", "a root=y", "after j1"),
        # other store, other business; same store with other rules, not the same work
        ("running a target=s1", "a target=s2", "run"),
        ("queued a target=s1", "a target=s2", "run"),
        ("queued a policy=p1", "a policy=p2", "after j1"),
        # the bound on waiting jobs; joining needs no room
        ("queued a; queued b; queued c", "d", "refuse"),
        ("queued a; queued b; queued c", "c", "join j3"),
        ("running a; queued b; queued c", "d", "run"),
    ],
)
def test_a_request_runs_joins_follows_or_is_refused(active: str, request_: str, verdict: str) -> None:
    assert told(decide(parse(request_), parse_jobs(active), Limits(running=1, queued=3))) == verdict


@pytest.mark.parametrize(
    ("active", "limit", "may_start"),
    [
        ("queued a", 1, "j1"),
        ("queued a; queued b", 1, "j1"),
        ("queued a; queued b", 2, "j1 j2"),
        ("queued a; queued a/b; queued c", 2, "j1 j3"),
        ("running a; queued b", 1, ""),
        ("running a; queued b", 2, "j2"),
        ("running a; queued a; queued a/b; queued b", 3, "j4"),
        ("running a; queued .; queued b", 3, ""),
        ("stopping a; queued a", 2, ""),
        ("running a; running b; queued c", 1, ""),
        ("running a target=s1; queued a target=s2", 2, "j2"),
        ("running a root=x; queued a root=y", 2, ""),
    ],
)
def test_jobs_start_in_order_and_never_two_on_the_same_files(active: str, limit: int, may_start: str) -> None:
    assert " ".join(job.id for job in startable(parse_jobs(active), limit)) == may_start


@pytest.mark.parametrize(
    ("active", "of", "waits_for"),
    [
        ("running a; queued a", 1, "j1"),
        ("queued a; queued a/b; queued b", 1, "j1"),
        ("queued a; queued a/b; queued b", 2, None),
        ("queued a; running .", 0, "j2"),
        ("queued a; queued a", 0, None),
    ],
)
def test_a_waiting_job_names_the_job_that_holds_its_files(active: str, of: int, waits_for: str | None) -> None:
    jobs = parse_jobs(active)
    found = obstacle(jobs[of], jobs)
    assert (found and found.id) == waits_for


requests = st.builds(
    IndexRequest,
    st.builds(
        Scope,
        st.builds(Workspace, st.sampled_from("AB"), st.sampled_from([Path("/x"), Path("/y")])),
        st.sampled_from(["", "a", "a/b", "ab"]),
        st.booleans(),
    ),
    force=st.booleans(),
    use_cache=st.booleans(),
    verify=st.booleans(),
    confirm_deletions=st.booleans(),
    target=st.sampled_from("ST"),
    policy=st.sampled_from("PQ"),
)


@st.composite
def active_jobs(draw: st.DrawFn) -> list[Job]:
    jobs: list[Job] = []
    for number, request in enumerate(draw(st.lists(requests, max_size=6)), 1):
        job = accept(request, OWNER, 0.0, job_id=f"j{number}", number=number, follows="")
        free = not any(overlaps(request, other.request) for other in jobs if other.status is Status.RUNNING)
        jobs.append(start(job, 0.0) if free and draw(st.booleans()) else job)
    return jobs


@given(active_jobs(), requests)
def test_a_joined_job_does_all_that_either_asked_for_and_has_not_begun(
    active: list[Job], request: IndexRequest
) -> None:
    decision = decide(request, active, Limits())
    if isinstance(decision, Join):
        before = next(job for job in active if job.id == decision.job_id)
        assert before.status is Status.QUEUED
        assert covers(decision.request, request)
        assert covers(decision.request, before.request)


@given(active_jobs(), requests)
def test_only_what_touches_no_active_job_runs_at_once(active: list[Job], request: IndexRequest) -> None:
    decision = decide(request, active, Limits())
    if isinstance(decision, Run):
        assert not any(overlaps(job.request, request) for job in active)
    if isinstance(decision, FollowUp):
        assert overlaps(next(job for job in active if job.id == decision.after).request, request)


@given(active_jobs(), requests)
def test_asking_again_for_what_waits_adds_no_job(active: list[Job], request: IndexRequest) -> None:
    waiting = accept(request, OWNER, 0.0, job_id="new", number=len(active) + 1, follows="")
    assert isinstance(decide(request, [*active, waiting], Limits()), Join)


@given(active_jobs(), st.integers(1, 4))
def test_what_may_start_fits_beside_what_runs(active: list[Job], limit: int) -> None:
    chosen = startable(active, limit)
    running = [job for job in active if job.status is Status.RUNNING]
    assert len(chosen) + len(running) <= max(limit, len(running))
    together = running + chosen
    assert not any(
        overlaps(one.request, other.request) for i, one in enumerate(together) for other in together[i + 1 :]
    )


@given(active_jobs(), st.integers(1, 4))
def test_no_job_waits_for_ever(active: list[Job], limit: int) -> None:
    waiting = [job for job in active if job.status is Status.QUEUED]
    if waiting and not any(job.status is Status.RUNNING for job in active):
        assert startable(active, limit)[0] == waiting[0]


@given(requests, requests, requests)
def test_covering_is_an_order(one: IndexRequest, two: IndexRequest, three: IndexRequest) -> None:
    assert covers(one, one)
    if covers(one, two):
        assert overlaps(one, two)
        if covers(two, three):
            assert covers(one, three)


@pytest.mark.parametrize(
    ("active", "chosen", "with_it"),
    [
        ("", "", ""),
        ("queued a; queued b", "j2", ""),
        ("running a; queued b", "j1", ""),
        ("running a; queued a", "j1", "j2"),
        ("running a; queued a/b; queued a target=else; queued a flat", "j1", ""),
        ("running a; running b; queued a", "j2", ""),
        ("stopping a; queued a", "j2", ""),
        ("stopping a; stopping b", "j2", ""),
        ("running mine:a; running b", "j1", ""),
        ("running a; queued mine:a; queued b", "j2", ""),
        ("running mine:a; queued mine:a; queued mine:b; running c", "j1", "j2"),
    ],
)
def test_who_names_no_job_means_their_own_first_and_of_that_what_runs(active: str, chosen: str, with_it: str) -> None:
    jobs = parse_jobs(active)
    found = meant(jobs, lambda job: job.request.scope.workspace.id == "mine")
    assert (found.id if found else "") == chosen
    assert "".join(job.id for job in jobs if found and repeats(job, found)) == with_it
