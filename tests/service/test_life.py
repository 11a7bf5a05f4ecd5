"""How long a service lives, what its death and an agent's death mean, and that work goes on under its id."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import psutil
import pytest

from markdown_rag.errors import SettingsError
from markdown_rag.facade import IndexCall, SearchCall
from markdown_rag.jobs import owner
from markdown_rag.jobs.owner import this_process
from markdown_rag.service import control, launcher
from markdown_rag.service.identity import identify
from markdown_rag.service.shared import Shared
from markdown_rag.service.wire import Agent
from markdown_rag.settings import load_settings
from tests.data.stub_embeddings import StubServer
from tests.service.conftest import (
    BOUND,
    Environ,
    Held,
    Opener,
    end_services,
    engines_of,
    finish,
    hang,
    indexed,
    lives,
    many_notes,
    only_engine,
    only_service,
    services_of,
)
from tests.waiting import eventually, remove

FILES = 120


def kill_service(state: Path) -> int:
    (process,) = services_of(state)
    process.kill()
    psutil.wait_procs([process], BOUND)
    return process.pid


def test_a_job_goes_on_under_its_id_when_the_service_is_killed(agent: Opener, held: Held) -> None:
    facade, vault = agent(**held.variables), held.folder
    job_id = facade.index(IndexCall(root=str(vault)))["job_id"]
    killed = held.under_way(facade, job_id)
    os.kill(killed, signal.SIGKILL)
    held.let_go()
    status = finish(facade, job_id)
    assert (status["status"], status["job_id"]) == ("succeeded", job_id)
    assert status["pid"] != killed
    assert facade.audit(IndexCall(root=str(vault)))["findings"] == []
    assert indexed(facade, vault)["result"]["unchanged_files"] == held.files


@pytest.mark.slow
def test_a_job_goes_on_under_its_id_after_the_service_was_stopped(agent: Opener, state_dir: Path, held: Held) -> None:
    facade, vault = agent(**held.variables), held.folder
    job_id = facade.index(IndexCall(root=str(vault)))["job_id"]
    held.under_way(facade, job_id)
    end_services(state_dir)
    assert services_of(state_dir) == []
    held.let_go()
    assert finish(facade, job_id)["status"] == "succeeded"
    assert facade.audit(IndexCall(root=str(vault)))["ok"]


@pytest.mark.slow
def test_a_killed_service_is_not_noticed_by_who_calls_next(agent: Opener, state_dir: Path, vault: Path) -> None:
    facade = agent()
    indexed(facade, vault)
    before = facade.search(SearchCall("password"))
    kill_service(state_dir)
    assert facade.search(SearchCall("password")) == before


@pytest.mark.slow
def test_the_engine_killed_under_the_service_is_not_noticed_by_who_calls_next(
    agent: Opener, state_dir: Path, vault: Path
) -> None:
    facade = agent()
    indexed(facade, vault)
    before = facade.search(SearchCall("password"))
    engine = only_engine(state_dir)
    engine.kill()
    psutil.wait_procs([engine], BOUND)
    assert facade.search(SearchCall("password")) == before


@pytest.mark.slow
@pytest.mark.parametrize("gone", ["milvus_markdown.db", ""], ids=["index", "state"])
@pytest.mark.parametrize("caller", ["same", "next"])
def test_what_is_deleted_under_the_service_is_made_again_by_the_next_job(
    agent: Opener, state_dir: Path, vault: Path, gone: str, caller: str
) -> None:
    facade = agent()
    indexed(facade, vault)
    (vault / "new.md").write_text("# New\n\nThe lantern of the harbour.\n")
    remove(state_dir / gone)
    facade = facade if caller == "same" else agent()
    status = indexed(facade, vault)
    assert (status["status"], status["result"]["delta_counts"]["new"]) == ("succeeded", 3), status
    assert facade.audit(IndexCall(root=str(vault)))["ok"]
    assert "harbour" in str(facade.search(SearchCall("lantern")))


def test_a_job_says_why_it_waits_for_an_embedding_server_that_is_down_and_goes_on_when_it_is_back(
    agent: Opener, tmp_path: Path
) -> None:
    vault = many_notes(tmp_path / "vault", 5)
    with StubServer(dim=16, status=503) as stub:
        variables = {"EMBEDDING_PROVIDER": "openai-compatible", "EMBEDDING_BASE_URL": stub.url, "EMBEDDING_DIM": "16"}
        facade = agent(**variables, EMBEDDING_API_KEY="sk-0123456789-SECRET")
        job_id = facade.index(IndexCall(root=str(vault)))["job_id"]
        seen = eventually(lambda: facade.status(job_id), lambda status: "trying again" in status["note"], seconds=BOUND)
        assert seen["note"].startswith("The embedding server answered 503"), seen
        assert "SECRET" not in seen["note"]
        stub.control(status=200)
        ended = finish(facade, job_id)
        assert (ended["status"], ended["note"]) == ("succeeded", ""), ended
        facade.close()


@pytest.mark.parametrize("then", ["nothing", "a job"])
def test_a_state_directory_that_was_moved_away_does_not_come_back_by_what_still_runs(
    agent: Opener, held: Held, tmp_path: Path, then: str
) -> None:
    place = tmp_path / "deep" / "state"
    facade = agent(MARKDOWN_RAG_CACHE_DIR=str(place), **held.variables)
    job_id = facade.index(IndexCall(root=str(held.folder)))["job_id"]
    held.under_way(facade, job_id)
    running = [*services_of(place), *engines_of(place)]
    assert running
    if then == "a job":
        held.let_go()
    place.parent.rename(tmp_path / "moved")
    psutil.wait_procs(running, BOUND)
    assert not any(process.is_running() for process in running)
    assert not place.parent.exists()
    assert (tmp_path / "moved" / "state" / "jobs.db").exists()
    facade.close()
    held.let_go()


def test_an_agent_that_asks_and_exits_has_its_job_done_and_the_next_one_reads_it(
    environ: Environ, agent: Opener, state_dir: Path, tmp_path: Path
) -> None:
    vault = many_notes(tmp_path / "vault", FILES)
    code = (
        "import os, sys; from pathlib import Path; from markdown_rag.facade import IndexCall;"
        "from markdown_rag.service.opening import open_facade;"
        "print(open_facade(os.environ, Path.cwd()).index(IndexCall(root=sys.argv[1]))['job_id'], flush=True);"
        "os._exit(0)"
    )
    asked = subprocess.run(
        [sys.executable, "-c", code, str(vault)],
        env=environ | {"PYTHONPATH": os.getcwd()},
        capture_output=True,
        text=True,
        check=True,
    )
    job_id = asked.stdout.strip()
    status = finish(agent(), job_id)
    assert (status["status"], status["job_id"], status["result"]["delta_counts"]["new"]) == ("succeeded", job_id, FILES)
    assert "process " in status["requested_by"]
    only_service(state_dir)


@pytest.mark.slow
def test_a_service_without_clients_and_jobs_leaves_and_its_engine_too(
    agent: Opener, state_dir: Path, held: Held
) -> None:
    facade = agent(**held.variables)
    job_id = facade.index(IndexCall(root=str(held.folder)))["job_id"]
    service, engine = held.under_way(facade, job_id), only_engine(state_dir)
    facade.close()
    held.let_go()
    eventually(lambda: [*services_of(state_dir), *engines_of(state_dir)], lambda living: not living, seconds=BOUND)
    assert not psutil.pid_exists(service)
    assert not lives(engine)
    assert list((state_dir / "service").glob("*.json")) == []
    again = agent(**held.variables)
    status = again.status(job_id)
    assert status["status"] == "succeeded", "it stayed until the job was done"


def test_the_death_of_its_starter_and_a_hangup_do_not_end_it(agent: Opener, state_dir: Path) -> None:
    facade = agent()
    facade.status()
    (service,) = services_of(state_dir)
    assert service.ppid() == 1 or psutil.Process(service.ppid()).pid != os.getpid()
    assert os.getsid(service.pid) != os.getsid(0)
    service.send_signal(signal.SIGHUP)
    facade.status()
    assert [process.pid for process in services_of(state_dir)] == [service.pid]


def test_status_stop_and_logs_say_what_runs_and_end_it(agent: Opener, state_dir: Path, environ: Environ) -> None:
    settings = load_settings(environ)
    assert control.status(settings) == []
    assert control.stop(settings) == 0
    facade = agent()
    facade.status()
    (shown,) = control.status(settings)
    assert (shown["answers"], shown["clients"], shown["busy"]) == (True, 1, False)
    assert shown["pid"] == services_of(state_dir)[0].pid
    assert isinstance(shown["started_at"], float)
    assert control.stop(settings) == 1
    assert services_of(state_dir) == []
    assert "leaving" in control.logs(settings)


def test_a_job_that_failed_leaves_one_line_in_the_log_and_no_key(agent: Opener, environ: Environ, vault: Path) -> None:
    key = "sk-nobody-may-read-this"
    with StubServer(dim=16, need_key="another", echo_key=True) as stub:
        where = {"EMBEDDING_PROVIDER": "openai-compatible", "EMBEDDING_BASE_URL": stub.url, "EMBEDDING_DIM": "16"}
        status = indexed(agent(**where, EMBEDDING_API_KEY=key), vault)
    assert status["status"] == "failed"
    told = control.logs(load_settings(environ))
    (line,) = [line for line in told.splitlines() if status["job_id"] in line]
    folder, said = line.partition(f" job {status['job_id']} of ")[2].split(" failed: ")
    assert folder == str(vault)
    assert status["error"].startswith(said)
    assert said.endswith(".")
    assert key not in told


HOLDER = """
import pathlib, sys, time
from markdown_rag.jobs import owner
from markdown_rag.service.identity import Identity
from markdown_rag.service.process import _take_life
owner._PROC = pathlib.Path("/nowhere")
folder, fingerprint, version = sys.argv[1:]
assert _take_life(Identity(pathlib.Path(folder), fingerprint, version))
print("held", flush=True)
time.sleep(600)
"""


def test_on_a_system_without_proc_a_hung_service_is_shown_healed_and_stopped(
    environ: Environ, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(owner, "_PROC", Path("/nowhere"))  # as on macOS, in this process and in the one it looks at
    settings = load_settings(environ)
    identity = identify(settings)
    command = [sys.executable, "-c", HOLDER, str(identity.folder), identity.fingerprint, identity.version]

    def hold() -> subprocess.Popen[str]:
        process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        assert process.stdout is not None
        assert process.stdout.readline() == "held\n"
        return process

    assert control.stop(settings) == 0
    with hold() as held:
        assert [(shown["pid"], shown["answers"]) for shown in control.status(settings)] == [(held.pid, False)]
        assert launcher.kill(identity)
    assert control.status(settings) == []
    assert not launcher.kill(identity)
    with hold():
        assert control.stop(settings) == 1
    assert control.status(settings) == []


def test_stop_waits_for_the_end_of_a_service_also_where_ps_does_not_answer_meanwhile(
    environ: Environ, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tools = tmp_path / "tools"
    tools.mkdir()
    monkeypatch.setattr(owner, "_PROC", Path("/nowhere"))
    monkeypatch.setattr(control, "STOP_SECONDS", 1.0)
    settings = load_settings(environ)
    identity = identify(settings)
    command = [sys.executable, "-c", HOLDER, str(identity.folder), identity.fingerprint, identity.version]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as held:
        assert held.stdout is not None
        assert held.stdout.readline() == "held\n"
        (tools / "ps").write_text(
            "#!/bin/sh\n"
            f'case "$*" in *"-p {held.pid}") echo asked >>{tools}/asked;; esac\n'
            f'case $(grep -c asked {tools}/asked) in 2|3) exit 1;; *) exec /bin/ps "$@";; esac\n'
        )
        (tools / "ps").chmod(0o755)
        monkeypatch.setitem(owner._PS_ENVIRONMENT, "PATH", f"{tools}:/bin:/usr/bin")
        try:
            assert control.stop(settings) == 1
            assert eventually(held.poll, lambda code: code is not None) == -signal.SIGKILL
        finally:
            held.kill()


@pytest.mark.slow
def test_a_service_that_hangs_is_shown_and_stopped(agent: Opener, state_dir: Path, environ: Environ) -> None:
    agent().status()
    (service,) = services_of(state_dir)
    hang(service.pid)
    settings = load_settings(environ)
    assert [shown["answers"] for shown in control.status(settings)] == [False]
    assert control.stop(settings) == 1
    eventually(lambda: not lives(service))


@pytest.mark.slow
def test_no_key_is_in_any_file_of_the_service(agent: Opener, state_dir: Path) -> None:
    key = "sk-very-secret-0123456789"
    facade = agent(EMBEDDING_PROVIDER="openai", OPENAI_API_KEY=key)
    facade.status()
    facade.health()
    files = [path for path in (state_dir / "service").rglob("*") if path.is_file()]
    assert files
    assert all(key.encode() not in path.read_bytes() for path in files)


def test_a_bad_variable_of_an_agent_is_told_by_its_own_process_and_by_the_service(
    agent: Opener, environ: Environ, tmp_path: Path
) -> None:
    with pytest.raises(SettingsError, match="MARKDOWN_CHUNK_SIZE"):
        agent(MARKDOWN_CHUNK_SIZE="1")
    # A client of another version may know other bounds: the service judges for itself.
    with closing(Shared(environ)) as shared, pytest.raises(SettingsError, match="MARKDOWN_CHUNK_SIZE"):
        shared.open(Agent(tmp_path, {"MARKDOWN_CHUNK_SIZE": "1"}, this_process()))
