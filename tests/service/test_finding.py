"""Whoever comes, and whatever lies where the service says it answers: one service, found or started."""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import asdict, replace
from pathlib import Path

import psutil
import pytest

from markdown_rag import __version__
from markdown_rag.errors import StartError
from markdown_rag.facade import SearchCall
from markdown_rag.processes.endpoint import Connection, Endpoint, find, greeting, read_endpoint, write_endpoint
from markdown_rag.processes.findable import Findable
from markdown_rag.processes.sockets import remove_stale
from markdown_rag.service import launcher, siblings
from markdown_rag.service.identity import Identity, identify, service_environment
from markdown_rag.settings import load_settings
from tests import disks
from tests.service.conftest import BOUND, Environ, Opener, end_services, environ_for, hang, only_service, services_of
from tests.waiting import bounded, eventually, joined, remove

PYTHON = sys.executable
# A disk that was made read-only under a process, told by the interpreter's own audit hook.
REFUSES_TO_REMOVE = """
import errno, sys
def refuse(event, arguments):
    if event == "os.remove" and str(arguments[0]).endswith((".json", ".h", ".p")):
        raise OSError(errno.EROFS, "Read-only file system")
sys.addaudithook(refuse)
"""


@pytest.fixture
def identity(environ: Environ) -> Identity:
    return identify(load_settings(environ))


@pytest.fixture
def connect(environ: Environ, identity: Identity, state_dir: Path) -> Iterator[Callable[..., Connection]]:
    opened: list[Connection] = []

    def start(**more: object) -> Connection:
        given = service_environment(environ, load_settings(environ))
        opened.append(launcher.connect(identity, given, **more))  # type: ignore[arg-type]
        return opened[-1]

    yield start
    for connection in opened:
        connection.close()
    end_services(state_dir)


def test_all_who_come_at_once_get_the_same_one(connect: Callable[..., Connection], state_dir: Path) -> None:
    gate, pids = threading.Barrier(8), []

    def come() -> None:
        gate.wait(30)
        pids.append(connect().endpoint.pid)

    threads = [threading.Thread(target=come) for _ in range(8)]
    for thread in threads:
        thread.start()
    joined(*threads, seconds=2 * BOUND)
    assert len(pids) == 8
    assert set(pids) == {only_service(state_dir)}


@pytest.mark.slow
def test_processes_that_come_at_once_get_the_same_one(environ: Environ, state_dir: Path, tmp_path: Path) -> None:
    code = (
        "import os, sys; from pathlib import Path; from markdown_rag.service.opening import open_facade;"
        "sys.stdin.readline(); f = open_facade(os.environ, Path.cwd()); f.status();"
        "print(f._link.connection.endpoint.pid, flush=True); sys.stdin.readline(); f.close()"
    )
    agents = [
        subprocess.Popen(
            [PYTHON, "-c", code],
            env=environ | {"PYTHONPATH": os.getcwd()},
            cwd=tmp_path,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for _ in range(4)
    ]
    for agent in agents:
        assert agent.stdin
        agent.stdin.write("\n")
        agent.stdin.flush()
    pids = set()
    for agent in agents:
        assert agent.stdout
        with bounded(agent):
            pids.add(int(agent.stdout.readline()))
    assert pids == {only_service(state_dir)}
    for agent in agents:
        agent.communicate("\n", timeout=60)
    end_services(state_dir)


def lying(identity: Identity) -> Endpoint:
    return Endpoint(identity.kind, os.getpid(), "tcp:127.0.0.1:1", "tcp:127.0.0.1:1", "token")


BROKEN: dict[str, Callable[[Identity], object]] = {
    "empty": lambda i: i.endpoint.write_bytes(b""),
    "truncated": lambda i: i.endpoint.write_bytes(b'{"kind": "markdown-rag'),
    "binary": lambda i: i.endpoint.write_bytes(bytes(range(256)) * 1000),
    "another program's": lambda i: i.endpoint.write_text('{"listening": true}'),
    "of another kind": lambda i: write_endpoint(i.endpoint, replace(lying(i), kind="markdown-rag service 0 x")),
    "stale": lambda i: write_endpoint(i.endpoint, lying(i)),
    "no address": lambda i: write_endpoint(i.endpoint, replace(lying(i), presence="nonsense")),
    "no such port": lambda i: write_endpoint(i.endpoint, replace(lying(i), presence="tcp:127.0.0.1:99999")),
    "an endless number": lambda i: i.endpoint.write_text(
        json.dumps(asdict(lying(i))).replace(f'"pid": {os.getpid()}', '"pid": 1e999')
    ),
    "no such socket": lambda i: write_endpoint(i.endpoint, replace(lying(i), presence="unix:/nowhere/x.p")),
    "a dangling link": lambda i: i.endpoint.symlink_to("/nowhere/x.json"),
    "a damaged life file": lambda i: i.life_lock.write_bytes(b"\xff\xfe"),
}


@pytest.mark.parametrize("name", BROKEN)
def test_a_broken_endpoint_names_no_service(name: str, identity: Identity) -> None:
    BROKEN[name](identity)
    assert find(identity.endpoint, identity.kind) is None


@pytest.mark.parametrize("name", ["truncated", "stale", "a dangling link", "a damaged life file"])
def test_a_broken_endpoint_is_replaced(
    name: str, connect: Callable[..., Connection], identity: Identity, state_dir: Path
) -> None:
    BROKEN[name](identity)
    assert siblings.about(connect().endpoint)["pid"] == only_service(state_dir)


def test_who_answers_with_another_greeting_is_not_taken_for_the_service(
    connect: Callable[..., Connection], identity: Identity
) -> None:
    with closing(socket.create_server(("127.0.0.1", 0))) as liar:

        def answer() -> None:
            talk, _ = liar.accept()
            with closing(talk):
                talk.recv(256)
                talk.sendall(greeting("markdown-rag service 1 of somebody else"))

        thread = threading.Thread(target=answer)
        thread.start()
        here = f"tcp:127.0.0.1:{liar.getsockname()[1]}"
        write_endpoint(identity.endpoint, replace(lying(identity), presence=here, address=here))
        assert connect().endpoint.pid != os.getpid()
        joined(thread)


@pytest.mark.slow
def test_a_service_that_hangs_is_ended_and_another_takes_its_place(
    connect: Callable[..., Connection], state_dir: Path
) -> None:
    hanging = connect().endpoint.pid
    hang(hanging)
    fresh = connect(hang_seconds=0.5).endpoint.pid
    assert only_service(state_dir) == fresh != hanging


def test_a_service_that_is_leaving_is_waited_for(connect: Callable[..., Connection]) -> None:
    first = connect()
    siblings.leave(first.endpoint)
    second = connect()
    assert second.endpoint.pid != first.endpoint.pid
    assert siblings.about(second.endpoint)["clients"] == 1


@pytest.mark.parametrize("damage", [lambda file: file.write_bytes(b"garbage"), Path.unlink], ids=["garbage", "gone"])
def test_a_living_service_whose_endpoint_file_was_damaged_is_found_again(
    connect: Callable[..., Connection], identity: Identity, damage: Callable[[Path], object], state_dir: Path
) -> None:
    first = connect()
    damage(identity.endpoint)
    assert connect().endpoint == first.endpoint
    assert only_service(state_dir) == first.endpoint.pid


@pytest.mark.slow
def test_a_service_whose_state_directory_was_removed_ends(connect: Callable[..., Connection], state_dir: Path) -> None:
    connect()
    (service,) = services_of(state_dir)
    remove(state_dir)
    service.wait(BOUND)


def test_a_service_whose_state_directory_was_removed_and_made_anew_leaves_it_to_the_next_one(
    connect: Callable[..., Connection], identity: Identity, environ: Environ, state_dir: Path
) -> None:
    first = psutil.Process(connect().endpoint.pid)
    first.suspend()  # so that the next one has taken its place when it looks
    shutil.rmtree(state_dir)
    assert identify(load_settings(environ)) == identity
    second = connect().endpoint
    first.resume()
    first.wait(BOUND)
    assert only_service(state_dir) == second.pid
    assert read_endpoint(identity.endpoint, identity.kind) == second


def test_a_process_that_has_withdrawn_is_never_published_again(tmp_path: Path, identity: Identity) -> None:
    path, leaving = tmp_path / "endpoint.json", threading.Event()
    findable = Findable(path, lying(identity), lambda: True)
    path.unlink()
    findable.mend()
    assert path.exists()
    findable.withdraw()
    findable.mend()
    assert not path.exists()
    leaving.set()
    assert findable.keep(leaving)


def test_a_service_ends_where_the_disk_refuses_to_remove_its_files(
    identity: Identity, environ: Environ, state_dir: Path
) -> None:
    code = "from markdown_rag.service.process import main; main()"
    arguments = ["--folder", identity.folder, "--fingerprint", identity.fingerprint, "--version", identity.version]
    subprocess.run(
        [PYTHON, "-c", REFUSES_TO_REMOVE + code, *arguments, "--log", identity.log],
        env=environ | {"PYTHONPATH": os.getcwd()},
        check=True,
    )
    deadline = time.monotonic() + 30
    while (connection := find(identity.endpoint, identity.kind)) is None:
        assert time.monotonic() < deadline
        time.sleep(0.05)
    with closing(connection):
        service = psutil.Process(connection.endpoint.pid)
        siblings.leave(connection.endpoint)
        service.wait(BOUND)
    assert identity.endpoint.exists(), "the disk did refuse"
    connection = launcher.connect(identity, service_environment(environ, load_settings(environ)))
    assert only_service(state_dir) == connection.endpoint.pid != service.pid, "what was left is in nobody's way"
    connection.close()
    end_services(state_dir)


@pytest.mark.slow
def test_a_service_ends_where_the_disk_answers_no_longer(
    identity: Identity, environ: Environ, state_dir: Path, tmp_path: Path
) -> None:
    since = tmp_path / "since"
    code = disks.dead(identity.endpoint.name, since) + "from markdown_rag.service.process import main; main()"
    arguments = ["--folder", identity.folder, "--fingerprint", identity.fingerprint, "--version", identity.version]
    subprocess.run(
        [PYTHON, "-c", code, *arguments, "--log", identity.log], env=environ | {"PYTHONPATH": os.getcwd()}, check=True
    )
    connection = eventually(lambda: find(identity.endpoint, identity.kind))
    assert connection is not None
    with closing(connection):
        service = psutil.Process(connection.endpoint.pid)
        since.touch()
        eventually(disks.asked(since).exists)
        service.terminate()
        service.wait(BOUND)
    end_services(state_dir)


def test_the_loopback_interface_serves_where_sockets_cannot(connect: Callable[..., Connection]) -> None:
    connection = connect(loopback=True)
    assert connection.endpoint.address.startswith("tcp:127.0.0.1:")
    assert siblings.about(connection.endpoint)["pid"] == connection.endpoint.pid


def test_sockets_that_killed_processes_left_are_taken_away_and_no_living_one() -> None:
    with tempfile.TemporaryDirectory(prefix="sockets-", dir="/tmp") as folder, socket.socket(socket.AF_UNIX) as living:
        gone, here = pid_of_the_dead(), os.getpid()
        names = (f"a-{gone}.p", f"b-{gone}.p", f"c-{gone}.p", f"d-{gone}.p", f"e-{here}.p", "f.p")
        left, young, used, note, stuck, other = (Path(folder) / name for name in names)
        for path in (left, young, stuck, other):  # all of them refuse, as on macOS those of a stuck process do
            with socket.socket(socket.AF_UNIX) as dead:
                dead.bind(str(path))
        living.bind(str(used))
        living.listen()
        note.touch()
        for path in (left, used, note, stuck, other):
            os.utime(path, (1, 1))
        remove_stale(Path(folder) / "z")
        assert sorted(Path(folder).iterdir()) == [young, used, note, stuck, other]


def test_a_socket_that_cannot_be_removed_is_left_and_keeps_no_process_from_starting() -> None:
    """A directory in the place of a socket cannot be unlinked, whoever asks."""
    with tempfile.TemporaryDirectory(prefix="sockets-", dir="/tmp") as folder:
        stays = Path(folder) / "e-1.p"
        stays.mkdir()
        remove_stale(Path(folder) / "e")
        assert stays.exists()


def pid_of_the_dead() -> int:
    process = subprocess.Popen([PYTHON, "-c", ""])
    process.wait()
    return process.pid


def test_a_state_directory_too_deep_for_a_socket_is_no_obstacle(tmp_path: Path) -> None:
    state = tmp_path / ("d" * 120) / ("e" * 120)
    environ = environ_for(state)
    settings = load_settings(environ)
    connection = launcher.connect(identify(settings), service_environment(environ, settings))
    assert len(connection.endpoint.address) < 107
    connection.close()
    end_services(state)


def test_nobody_is_answered_without_the_token(connect: Callable[..., Connection]) -> None:
    endpoint = connect().endpoint
    for token in ("-", "x" * 64):
        with siblings.http_client(replace(endpoint, token=token)) as client:
            answers = [client.get("/about"), client.post("/leave"), client.post("/call/status", content=b"{}")]
        assert [(answer.status_code, answer.content) for answer in answers] == [(401, b"")] * 3


def test_sockets_and_files_are_closed_to_everybody_else(connect: Callable[..., Connection], identity: Identity) -> None:
    endpoint = connect().endpoint
    place = Path(endpoint.address.partition(":")[2])
    assert place.parent.stat().st_mode & 0o777 == 0o700
    for path in (identity.endpoint, identity.life_lock, identity.start_lock, identity.folder / "salt"):
        assert path.stat().st_mode & 0o077 == 0
    assert identity.folder.stat().st_mode & 0o077 == 0


@pytest.mark.skipif(os.getuid() != 0, reason="only root can be somebody else")
def test_another_user_of_the_machine_can_read_nothing_and_call_nothing(
    connect: Callable[..., Connection], identity: Identity
) -> None:
    endpoint = connect().endpoint
    code = """
import os, socket, sys
os.setgroups([]); os.setgid(65534); os.setuid(65534)
address, presence, *files = sys.argv[1:]
for place in (address, presence):
    try:
        socket.socket(socket.AF_UNIX).connect(place.partition(":")[2]); print("connected", place)
    except PermissionError:
        pass
for name in files:
    try:
        open(name).read(); print("read", name)
    except PermissionError:
        pass
"""
    files = [identity.endpoint, identity.life_lock, identity.log, identity.folder / "salt"]
    done = subprocess.run(
        [PYTHON, "-c", code, endpoint.address, endpoint.presence, *map(str, files)],
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout == ""


def test_a_place_that_cannot_be_written_is_named(identity: Identity, environ: Environ) -> None:
    shutil.rmtree(identity.folder)
    identity.folder.write_text("in the way")
    with pytest.raises(StartError, match=r"service.* cannot be written"):
        launcher.connect(identity, service_environment(environ, load_settings(environ)))


def test_a_process_with_no_file_left_is_told_so_and_one_with_many_open_gets_its_service(
    environ: Environ, state_dir: Path
) -> None:
    code = """
import os, resource
from markdown_rag.errors import StartError
from markdown_rag.service import launcher
from markdown_rag.service.identity import identify, service_environment
from markdown_rag.settings import load_settings

def limit(count):
    resource.setrlimit(resource.RLIMIT_NOFILE, (count, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))

settings = load_settings(os.environ)
given = identify(settings), service_environment(os.environ, settings)
first = os.open(os.devnull, os.O_RDONLY)
for spare in range(5):
    limit(first + 1 + spare)
    try:
        print("started", launcher.connect(*given, seconds=1))
    except StartError as error:
        print("told")
limit(2048)
held = [os.open(os.devnull, os.O_RDONLY) for _ in range(1100)]
connection = launcher.connect(*given)
print(connection.endpoint.pid)
"""
    given = environ | {"PYTHONPATH": os.getcwd()}
    done = subprocess.run([PYTHON, "-c", code], env=given, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.split()[:-1] == ["told"] * 5
    end_services(state_dir)


def test_a_service_that_cannot_open_its_part_says_why(environ: Environ, identity: Identity) -> None:
    identity.endpoint.mkdir()
    with pytest.raises(StartError, match=r"could not start: .*directory"):
        launcher.connect(identity, service_environment(environ, load_settings(environ)))


def test_without_a_service_everything_runs_in_the_process_and_says_so(agent: Opener, state_dir: Path) -> None:
    (state_dir / "service").write_text("in the way")
    facade = agent()
    assert "Nothing is indexed" in facade.search(SearchCall("anything"))["note"]
    (check,) = (c for c in facade.health()["checks"] if c["name"] == "service")
    assert "everything runs in this process" in check["detail"]
    assert "cannot be written" in check["detail"]
    assert services_of(state_dir) == []


@pytest.mark.slow
def test_an_older_version_leaves_as_soon_as_nobody_uses_it_when_a_newer_one_has_come(
    identity: Identity, environ: Environ, state_dir: Path
) -> None:
    given = service_environment({**environ, "MARKDOWN_RAG_IDLE_MINUTES": "60"}, load_settings(environ))
    older, newer = (replace(identity, version=version) for version in ("1.9.0", "1.10.0"))
    one = launcher.connect(older, given)
    (first,) = services_of(state_dir)
    two = launcher.connect(newer, given)
    siblings.retire_older(newer)  # it does so by itself as well, a moment after its start
    assert siblings.about(one.endpoint)["version"] == __version__, "it stays while it has a client"
    one.close()
    first.wait(BOUND)
    assert only_service(state_dir) == two.endpoint.pid
    two.close()
    end_services(state_dir)
