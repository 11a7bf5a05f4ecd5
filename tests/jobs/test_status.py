"""What clients are shown: the old tool's fields and words, and the new ones."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

from markdown_rag.indexing.report import Phase, Progress
from markdown_rag.jobs.job import Broken, Done, IndexRequest, Job, accept, ask_to_cancel, beat, finish, start
from markdown_rag.jobs.owner import Owner
from markdown_rag.jobs.status import JobStatus, no_status, queue_position, to_status
from markdown_rag.paths import Scope, Workspace

PARAMS = {"current_working_directory": "/notes", "directory": "a", "recursive": True, "force_reindex": False}
FIGURES = Progress(
    Phase.EMBED,
    total_files=40,
    processed_files=10,
    total_chunks=90,
    processed_chunks=34,
    total_bytes=800,
    processed_bytes=200,
    note="Slow.",
)
OLD_FIELDS = {
    *("job_id", "status", "phase", "progress_percent", "processed_files", "total_files", "processed_chunks"),
    *("total_chunks", "target_path", "params", "note", "result", "error", "created_at", "started_at", "finished_at"),
    *("updated_at", "elapsed_seconds", "found", "active_jobs"),
}


def job(number: int = 1, path: str = "a") -> Job:
    request = IndexRequest(Scope(Workspace("notes", Path("/notes")), path), params=PARAMS, requested_by="codex")
    owner = Owner(7, "boot", "1", "q")
    return accept(request, owner, 1000.0, job_id=f"0000000{number}", number=number, follows="")


def test_a_running_job_in_full() -> None:
    running = beat(start(job(), 1001.0), FIGURES, 1003.0)
    assert to_status(running, [running], 1004.5) == {
        "found": True,
        "job_id": "00000001",
        "status": "running",
        "phase": "embed",
        "progress_percent": 25.0,
        "processed_files": 10,
        "total_files": 40,
        "processed_chunks": 34,
        "total_chunks": 90,
        "target_path": "/notes/a",
        "params": PARAMS,
        "note": "Slow.",
        "result": None,
        "error": None,
        "resumable": False,
        "created_at": "1970-01-01T00:16:40.000+00:00",
        "started_at": "1970-01-01T00:16:41.000+00:00",
        "finished_at": None,
        "updated_at": "1970-01-01T00:16:43.000+00:00",
        "elapsed_seconds": 3.5,
        "active_jobs": 1,
        "queue_position": 0,
        "waits_for": "",
        "follows": "",
        "joined": 0,
        "cancel_requested": False,
        "requested_by": "codex",
        "pid": 7,
    }


def test_every_field_of_the_old_tool_is_there_at_every_stage() -> None:
    running = start(job(), 1001.0)
    stages = [
        job(),
        running,
        ask_to_cancel(running, "No.", 1002.0),
        finish(running, Done({"delta_counts": {"new": 1}}), FIGURES, 1003.0),
        finish(running, Broken("No.", resumable=True), FIGURES, 1003.0),
    ]
    for stage in stages:
        shown = to_status(stage, [], 1004.0)
        assert set(shown) >= OLD_FIELDS
        assert json.loads(json.dumps(shown)) == shown


def test_a_succeeded_job_shows_its_result_and_stops_counting_time() -> None:
    ended = finish(start(job(), 1001.0), Done({"delta_counts": {"new": 1}}), FIGURES, 1003.0)
    shown = to_status(ended, [], 9999.0)
    assert (shown["status"], shown["phase"], shown["progress_percent"]) == ("succeeded", "done", 100.0)
    assert shown["result"] == {"delta_counts": {"new": 1}}
    assert shown["elapsed_seconds"] == 2.0


def test_a_failed_job_shows_error_and_whether_asking_again_helps() -> None:
    ended = finish(start(job(), 1001.0), Broken("The provider is away.", resumable=True), FIGURES, 1003.0)
    shown = to_status(ended, [], 1004.0)
    assert (shown["status"], shown["phase"], shown["error"]) == ("failed", "failed", "The provider is away.")
    assert shown["resumable"] is True


def test_a_waiting_job_says_what_it_waits_for() -> None:
    running = beat(start(job(1, "a"), 1001.0), FIGURES, 1003.0)
    same, other, third = job(2, "a/b"), job(3, "c"), job(4, "a/b")
    active = [running, same, other, third]
    shown = to_status(same, active, 1004.0)
    assert (shown["queue_position"], shown["waits_for"]) == (1, "00000001")
    assert shown["note"] == "Waits for job 00000001, which works on the same files (10 of 40 files done)."
    shown = to_status(other, active, 1004.0)
    assert (shown["queue_position"], shown["waits_for"]) == (2, "")
    assert shown["note"] == "Waits for its turn: 1 running, 1 waiting before it."
    assert to_status(third, [same, third], 1004.0)["note"].endswith("(queued).")
    assert to_status(job(), [job()], 1004.0)["note"] == ""
    assert to_status(other, [running, other], 1004.0)["note"] == "Waits for its turn: 1 running, 0 waiting before it."
    assert to_status(other, [same, other], 1004.0)["note"] == "Waits for its turn: 0 running, 1 waiting before it."


def test_a_job_being_cancelled_says_so_while_it_still_runs() -> None:
    shown = to_status(ask_to_cancel(start(job(), 1001.0), "Cancelled on request.", 1002.0), [], 1003.0)
    assert shown["cancel_requested"] is True
    assert shown["note"] == "Cancelled on request. Stopping; what is stored is kept."


def test_elapsed_time_is_never_negative() -> None:
    assert to_status(start(job(), 1001.0), [], 900.0)["elapsed_seconds"] == 0.0


def test_a_root_that_is_not_valid_unicode_is_shown_as_text() -> None:
    odd = replace(job(), request=IndexRequest(Scope(Workspace("notes", Path("/no\udcfetes")))))
    shown = to_status(odd, [], 1000.0)["target_path"]
    assert shown == r"/no\xfetes"


def test_no_job_is_told_in_the_old_words() -> None:
    assert no_status(0) == {
        "found": False,
        "message": "No indexing jobs found.",
        "job_id": None,
        "active_jobs": 0,
    }


def test_an_unknown_id_is_not_told_as_if_there_were_no_job_at_all() -> None:
    message = no_status(2, "zzz")["message"]
    assert message.startswith("No indexing jobs found with the id zzz: ")
    assert "without an id" in message


def test_a_status_is_the_dictionary_of_its_moment() -> None:
    waiting = job()
    assert JobStatus(waiting, (waiting,), 1002.0).as_dict() == to_status(waiting, [waiting], 1002.0)
    assert queue_position(waiting, [waiting]) == 1
