"""What the shell does when a job is refused, joined or interrupted, and when nobody reads what it prints."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from markdown_rag import cli
from markdown_rag.app import App
from markdown_rag.errors import JobError
from markdown_rag.evaluation import evaluate_folder
from markdown_rag.facade import IndexCall, Json
from markdown_rag.jobs.job import IndexRequest
from markdown_rag.paths import Scope, Workspace
from markdown_rag.wiring import Parts

from .conftest import HoldingStore, indexed, write


class Interrupted(App):
    """An app whose user presses Ctrl-C while a job is followed."""

    def status(self, *_: object, **__: object) -> Json:
        raise KeyboardInterrupt


@pytest.fixture
def busy(agent: Callable[..., App], store: HoldingStore, vault: Path) -> None:
    """A job runs until the store lets it go on."""
    write(vault, "a")
    store.go_on.clear()
    agent().index(IndexCall())
    assert store.reached.wait(60.0)


def index(app: App) -> int:
    return cli.index(app, cli._parser().parse_args(["index", "--json"]))


@pytest.mark.usefixtures("busy")
def test_a_request_that_is_refused_is_an_error_and_not_the_job_of_somebody_else(
    agent: Callable[..., App], parts: Parts, tmp_path: Path
) -> None:
    number = 0
    while parts.queue.submit(IndexRequest(Scope(Workspace(f"w{number}", tmp_path)))).accepted:
        number += 1
    with pytest.raises(JobError, match="Wait until one has ended"):
        index(agent())
    (tmp_path / "set" / "docs").mkdir(parents=True)
    (tmp_path / "set" / "queries.jsonl").write_text(json.dumps({"query": "q", "gold_files": ["a.md"]}))
    with pytest.raises(JobError, match="Wait until one has ended"):
        evaluate_folder(agent(), tmp_path / "set", print)
    for job in parts.queue.active():
        parts.queue.cancel(job.id)


@pytest.mark.usefixtures("busy")
def test_an_interrupt_stops_the_job_that_was_asked_for_but_none_that_was_joined(
    agent: Callable[..., App], store: HoldingStore
) -> None:
    waiting = agent().index(IndexCall())["job_id"]
    with pytest.raises(KeyboardInterrupt):
        index(agent(Interrupted))
    store.go_on.set()
    assert agent().status(waiting, 60.0)["status"] == "succeeded"
    store.reached.clear()
    store.go_on.clear()
    with pytest.raises(KeyboardInterrupt):
        index(agent(Interrupted))
    assert agent().status()["cancel_requested"]


def test_a_state_file_that_fails_costs_no_index_job(agent: Callable[..., App], state_dir: Path, vault: Path) -> None:
    (state_dir / "workspaces.sqlite3").mkdir()
    write(vault, "a")
    assert indexed(agent())["result"]["insert_count"] == 1


def test_a_reader_that_goes_away_gets_no_traceback() -> None:
    command = [sys.executable, "-c", "from markdown_rag.server.guard import main; main()", "status", "--json"]
    shell = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert shell.stdout
    assert shell.stderr
    shell.stdout.close()
    errors = shell.stderr.read()
    shell.stderr.close()
    assert (shell.wait(60.0), errors) == (cli.UNREAD, "")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs a device that is always full")
@pytest.mark.parametrize(
    ("output", "code", "said"),
    [
        (">/dev/full", 1, "Error: the output cannot be written: No space left on device.\n"),
        (">&-", 1, ""),
        ("2>&-", 1, ""),
    ],
)
def test_output_that_cannot_be_written_is_said_in_words(
    state_dir: Path, tmp_path: Path, output: str, code: int, said: str
) -> None:
    program = "from markdown_rag.server.guard import main; main()"
    ended = subprocess.run(
        ["sh", "-c", f'exec "$0" -c "$1" search tea {output}', sys.executable, program],
        env={**os.environ, "MARKDOWN_RAG_CACHE_DIR": str(state_dir), "MARKDOWN_RAG_SERVICE": "off"},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=60.0,
        check=False,
    )
    assert (ended.returncode, ended.stderr) == (code, said)
