"""The embedded engine as a process: one a directory, found by everybody, there when needed and gone when not."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import stat
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import psutil
import pytest

from markdown_rag.errors import StoreFormatError, StoreUnavailable
from markdown_rag.processes.endpoint import Endpoint, greet
from markdown_rag.store import columns, listing
from markdown_rag.store import endpoint as endpoints
from markdown_rag.store.base import Store, Where
from markdown_rag.store.daemon import LINGER_SECONDS
from markdown_rag.store.launcher import EngineConnection, connect_engine
from markdown_rag.store.memory import MemoryStore
from markdown_rag.store.opening import StoreSettings, find_collections, open_store
from markdown_rag.store.rows import to_row
from tests import disks
from tests.waiting import bounded, eventually, joined, remove

from .conftest import DIMENSION, MODEL, record, vector, wait_until_gone

CLIENT = """
import sys, os
from pathlib import Path
from markdown_rag.store.launcher import connect_engine
sys.stdin.readline()
print(connect_engine(Path(sys.argv[1])).pid, flush=True)
sys.stdin.readline()
"""


def settings(data_dir: Path) -> StoreSettings:
    return StoreSettings(str(data_dir), "", "t", 100, 30.0, data_dir.parent)


@pytest.fixture
def opened(data_dir: Path) -> Iterator[Store]:
    store = open_store(settings(data_dir), MODEL)
    yield store
    store.close()


def one_row(name: str) -> object:
    return columns.insertion(name, [to_row(record("b.md"), DIMENSION)[0]], DIMENSION, upsert=False)


def engines_of(data_dir: Path) -> list[int]:
    found = []
    for process in psutil.process_iter(["cmdline", "status"]):
        command = process.info["cmdline"] or []
        if "markdown_rag.store.daemon" in command and str(data_dir) in command:
            found.append(process.pid)
    return found


def wait_until_alone(data_dir: Path, pid: int) -> None:
    """Only this engine is left: one that found the place taken needs a moment to leave."""

    def others() -> list[int]:
        found = engines_of(data_dir)
        assert pid in found, found
        return [other for other in found if other != pid]

    eventually(others, lambda found: not found)


def listening(connection: EngineConnection) -> list[str]:
    """Addresses on which the engine takes connections over a network."""
    found = psutil.Process(connection.pid).net_connections("inet")
    return [one.laddr.ip for one in found if one.status == psutil.CONN_LISTEN]


def clients(count: int, data_dir: Path) -> list[subprocess.Popen]:
    started = [
        subprocess.Popen(
            [sys.executable, "-c", CLIENT, str(data_dir)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        for _ in range(count)
    ]
    for client in started:
        client.stdin.write("go\n")
        client.stdin.flush()
    return started


def said_by(client: subprocess.Popen) -> int:
    """The process id of the engine that a client has."""
    with bounded(client, 120):
        return int(client.stdout.readline())


def end(started: list[subprocess.Popen]) -> None:
    for client in started:
        client.communicate("end\n", timeout=60)


def test_any_number_of_processes_that_start_at_once_share_exactly_one_engine(data_dir: Path):
    started = clients(5, data_dir)
    pids = {said_by(client) for client in started}
    assert len(pids) == 1
    wait_until_alone(data_dir, *pids)
    end(started)
    wait_until_gone(pids.pop())


def test_the_engine_leaves_by_itself_after_its_last_clients_end_and_leaves_nothing(data_dir: Path):
    def leaves_no_socket() -> bool:
        first, second = connect_engine(data_dir), connect_engine(data_dir)
        assert first.pid == second.pid
        first.close()
        second.close()
        wait_until_gone(first.pid)
        assert not (data_dir / endpoints.ENDPOINT_FILE).exists()
        return not Path(first.uri.removeprefix("unix:")).exists()

    # One that a stalled machine kept from closing within CLOSE_SECONDS leaves its socket for the next to remove.
    eventually(leaves_no_socket)


@pytest.mark.slow
def test_a_killed_client_counts_as_gone_and_a_living_one_keeps_the_engine(data_dir: Path):
    (client,) = clients(1, data_dir)
    pid = said_by(client)
    mine = connect_engine(data_dir)
    client.kill()
    client.communicate()
    assert mine.pid == pid
    with pytest.raises(AssertionError):
        wait_until_gone(pid, 3)
    mine.close()
    wait_until_gone(pid)


@pytest.mark.slow
def test_a_client_that_comes_while_the_engine_waits_for_its_end_keeps_it(data_dir: Path):
    """A machine may be too slow to come back in time: what counts is three times in time, and never one too early."""
    kept = 0
    last, left = connect_engine(data_dir), time.monotonic()
    last.close()

    def comes_back() -> int:
        nonlocal last, left, kept
        connection = connect_engine(data_dir)
        in_time = time.monotonic() - left < LINGER_SECONDS
        assert connection.pid == last.pid or not in_time, "it left before its time"
        kept += connection.pid == last.pid
        last, left = connection, time.monotonic()
        connection.close()
        return kept

    eventually(comes_back, lambda times: times == 3, seconds=120)
    wait_until_gone(last.pid)


def kill_engine(data_dir: Path) -> None:
    pid = endpoints.read_endpoint(data_dir).pid
    os.kill(pid, signal.SIGKILL)
    wait_until_gone(pid)


@pytest.mark.parametrize(
    "call",
    [
        lambda store: store.insert([record("b.md")]),
        pytest.param(lambda store: store.delete([record("a.md", 1).id]), marks=pytest.mark.slow),
        pytest.param(lambda store: store.dense(vector(1), 5), marks=pytest.mark.slow),
        pytest.param(lambda store: store.lexical("text", 5), marks=pytest.mark.slow),
        pytest.param(lambda store: list(store.rows(Where())), marks=pytest.mark.slow),
        pytest.param(lambda store: store.flush(), marks=pytest.mark.slow),
    ],
    ids=["insert", "delete", "dense", "lexical", "rows", "flush"],
)
def test_a_killed_engine_is_started_again_by_the_next_call_and_nothing_is_lost(opened: Store, data_dir: Path, call):
    expected = MemoryStore(MODEL)
    for store in (opened, expected):
        store.insert([record("a.md", number) for number in range(20)])
    kill_engine(data_dir)
    for store in (opened, expected):
        call(store)
    assert {key.id for key in opened.keys()} == {key.id for key in expected.keys()}  # noqa: SIM118


@pytest.mark.parametrize(
    "ask",
    [
        lambda client, name, seconds: client.query(name, "ord == 0", output_fields=["id"], timeout=seconds),
        lambda client, name, seconds: client.search(
            name, data=[vector(0)], anns_field="vector", limit=1, timeout=seconds
        ),
        lambda client, name, seconds: columns.write(client, one_row(name), seconds) is None,
        lambda client, _name, seconds: client.list_collections(timeout=seconds),
    ],
    ids=["query", "search", "insert", "list"],
)
def test_a_call_whose_connection_another_caller_replaces_meanwhile_is_repeated(engine_dir: Path, ask):
    with contextlib.closing(open_store(settings(engine_dir), MODEL)) as store:
        store.insert([record("a.md")])
        session, clients = store._session, []

        def call(client, seconds):
            if not clients:
                session._renew(session._generation)  # what another thread does whose own call was lost
            clients.append(client)
            return ask(client, store.collection, seconds)

        assert session.call(call)
        assert len(set(map(id, clients))) == len(clients) == 2


CLOSED_UNDER_A_CALL = """
import sys
from pathlib import Path
from markdown_rag.store.opening import StoreSettings, open_store
from markdown_rag.store.base import Model

store = open_store(StoreSettings(sys.argv[1], "", "closed", 100, 30.0, Path(sys.argv[2])), Model("local", "m", 8))
clients = []


def call(client, seconds):
    clients.append(client)
    if len(clients) == 1:
        client._get_connection()._channel.close()
    return client.list_databases(timeout=seconds)


print(store._session.call(call), len(clients))
store.close()
"""


def test_the_first_call_of_its_kind_on_a_connection_just_closed_is_repeated_and_ends_no_process(
    engine_dir: Path, tmp_path: Path
):
    asked = [sys.executable, "-c", CLOSED_UNDER_A_CALL, str(engine_dir), str(tmp_path)]
    ended = subprocess.run(asked, capture_output=True, text=True, timeout=60, check=False)
    assert (ended.returncode, ended.stdout) == (0, "['default'] 2\n"), ended.stderr[-1000:]


def test_a_catalog_larger_than_one_answer_is_whole_also_while_files_get_new_generations(
    opened: Store, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(listing, "ANSWER_ROWS", 10)  # it takes 20,000 rows in use
    monkeypatch.setattr(listing, "PIECE", 5)
    paths = [f"{number:02}.md" for number in range(40)]
    opened.insert([record(path) for path in paths])
    assert sorted(entry.path for entry in opened.catalog()) == paths
    written = threading.Event()

    def write() -> None:
        for gen in range(2, 8):
            for path in paths:
                opened.insert([record(path, gen=gen)])
                opened.delete([record(path, gen=gen - 1).id])
        written.set()

    writer = threading.Thread(target=write)
    writer.start()
    seen = []
    while not written.is_set():
        seen.append({entry.path for entry in opened.catalog()})
    writer.join()
    assert seen
    assert [found for found in seen if found != set(paths)] == []
    assert {entry.gen for entry in opened.catalog()} == {7}


def large_logs(data_dir: Path) -> list[Path]:
    """Write-ahead logs with rows in them; the engine that serves may remove one meanwhile."""
    found = []
    for path in data_dir.rglob("wal/*"):
        with contextlib.suppress(FileNotFoundError):
            if path.stat().st_size > 5000:
                found.append(path)
    return found


@pytest.mark.slow
def test_a_terminated_engine_closes_its_database_and_another_one_takes_over_at_once(opened: Store, data_dir: Path):
    opened.insert([record("a.md")])
    pid = endpoints.read_endpoint(data_dir).pid
    os.kill(pid, signal.SIGTERM)
    assert opened.count() == 1
    wait_until_gone(pid)
    assert opened.count() == 1
    assert endpoints.read_endpoint(data_dir).pid != pid
    eventually(lambda: large_logs(data_dir), lambda found: not found)


def test_an_engine_closes_its_database_where_the_disk_refuses_to_remove_its_files(opened: Store, data_dir: Path):
    """The disk refuses through the interpreter's audit hook, as one that was made read-only for these files."""
    code = f"""
import errno, sys
def refuse(event, arguments):
    if event == "os.remove" and str(arguments[0]).endswith((".p", ".g", "{endpoints.ENDPOINT_FILE}")):
        raise OSError(errno.EROFS, "Read-only file system")
sys.addaudithook(refuse)
from markdown_rag.store.daemon import main
main()
"""
    data_dir.mkdir(parents=True)
    log = data_dir.parent / "engine.log"
    subprocess.run([sys.executable, "-c", code, str(data_dir), "--log", str(log)], check=True)
    deadline = time.monotonic() + 30
    while endpoints.read_endpoint(data_dir) is None:
        assert time.monotonic() < deadline
        time.sleep(0.05)
    opened.insert([record("a.md", number) for number in range(20)])
    pid = endpoints.read_endpoint(data_dir).pid
    os.kill(pid, signal.SIGTERM)
    wait_until_gone(pid)
    assert endpoints.read_endpoint(data_dir).pid == pid, "the disk did refuse"
    assert [path for path in data_dir.rglob("wal/*") if path.stat().st_size > 5000] == []
    assert opened.count() == 20


def test_an_engine_ends_where_the_disk_answers_no_longer(opened: Store, data_dir: Path, tmp_path: Path):
    since = tmp_path / "since"
    code = disks.dead(endpoints.ENDPOINT_FILE, since) + "from markdown_rag.store.daemon import main; main()"
    data_dir.mkdir(parents=True)
    log = data_dir.parent / "engine.log"
    subprocess.run([sys.executable, "-c", code, str(data_dir), "--log", str(log)], check=True)
    eventually(lambda: endpoints.read_endpoint(data_dir))
    opened.insert([record("a.md")])
    pid = endpoints.read_endpoint(data_dir).pid
    since.touch()
    eventually(disks.asked(since).exists)
    os.kill(pid, signal.SIGTERM)
    wait_until_gone(pid)
    assert opened.count() == 1


@pytest.mark.parametrize(
    "content",
    [b"", b"{", b"null", b"[1]", b'{"protocol": 1}', b"\xff\x00" * 50, b"[" * 100_000, b'{"protocol": 99, "pid": 1}'],
    ids=["empty", "truncated", "null", "list", "partial", "binary", "deep", "foreign"],
)
def test_a_damaged_endpoint_file_is_made_anew(data_dir: Path, content: bytes):
    data_dir.mkdir(parents=True)
    (data_dir / endpoints.ENDPOINT_FILE).write_bytes(content)
    assert endpoints.read_endpoint(data_dir) is None


@pytest.mark.slow
@pytest.mark.parametrize("damage", [lambda file: file.write_bytes(b"garbage"), Path.unlink], ids=["garbage", "gone"])
def test_a_living_engine_whose_endpoint_file_was_damaged_is_found_again(data_dir: Path, damage):
    with contextlib.closing(connect_engine(data_dir)) as first:
        damage(data_dir / endpoints.ENDPOINT_FILE)
        with contextlib.closing(connect_engine(data_dir)) as second:
            assert second.pid == first.pid
            wait_until_alone(data_dir, first.pid)
    wait_until_gone(first.pid)


@pytest.mark.slow
def test_an_engine_whose_database_was_removed_serves_it_no_longer(data_dir: Path):
    connection = connect_engine(data_dir)
    remove(data_dir)
    wait_until_gone(connection.pid)
    connection.close()


def test_an_endpoint_of_a_dead_process_or_a_stranger_is_not_believed(data_dir: Path, tmp_path: Path):
    data_dir.mkdir(parents=True)
    with socket.create_server(("127.0.0.1", 0)) as stranger:
        place = f"tcp:127.0.0.1:{stranger.getsockname()[1]}"
        answering = threading.Thread(target=lambda: stranger.accept()[0].close())  # noqa: PLW0108 - not before start
        answering.start()
        endpoint = Endpoint(endpoints.KIND, 1, "127.0.0.1:1", place, "token")
        assert greet(endpoint) is None
        joined(answering)
    for presence in (f"unix:{tmp_path / 'none'}", "tcp:127.0.0.1:1", "tcp:", "tcp:x:99999", "odd", ""):
        assert greet(Endpoint(endpoints.KIND, 1, "x", presence, "t")) is None


def test_a_wrong_token_is_neither_greeted_nor_served(data_dir: Path):
    connection = connect_engine(data_dir)
    right = endpoints.read_endpoint(data_dir)
    wrong = replace(right, token="0" * 32)
    assert greet(wrong) is None
    grpc = pytest.importorskip("grpc")
    with grpc.insecure_channel(right.address) as channel:
        call = channel.unary_unary("/milvus.proto.milvus.MilvusService/GetVersion")
        with pytest.raises(grpc.RpcError) as refused:
            call(b"", timeout=60)
        assert refused.value.code() is grpc.StatusCode.UNAUTHENTICATED
    connection.close()


def test_no_other_user_can_reach_the_engine(data_dir: Path):
    connection = connect_engine(data_dir)
    place = Path(connection.uri.removeprefix("unix:"))
    assert stat.S_IMODE(place.parent.stat().st_mode) == 0o700
    assert stat.S_IMODE((data_dir / endpoints.ENDPOINT_FILE).stat().st_mode) == 0o600
    assert listening(connection) == []
    connection.close()


@pytest.mark.slow
def test_where_sockets_cannot_be_used_the_engine_answers_on_loopback_alone(data_dir: Path):
    connection = connect_engine(data_dir, loopback=True)
    assert connection.uri.startswith("http://127.0.0.1:")
    assert {address.removeprefix("::ffff:") for address in listening(connection)} == {"127.0.0.1"}
    store = open_store(settings(data_dir), MODEL)
    store.insert([record("a.md")])
    assert store.count() == 1
    store.close()
    connection.close()
    wait_until_gone(connection.pid)


def test_an_old_single_file_database_is_named_and_left_alone(data_dir: Path):
    data_dir.write_bytes(b"SQLite format 3\0")
    with pytest.raises(StoreFormatError, match="older Milvus Lite"):
        open_store(settings(data_dir), MODEL).count()
    assert data_dir.read_bytes() == b"SQLite format 3\0"


@pytest.mark.slow
def test_a_directory_held_by_another_program_is_reported_as_held(data_dir: Path):
    import fcntl

    data_dir.mkdir(parents=True)
    with (data_dir / "LOCK").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        with pytest.raises(StoreUnavailable, match="in use by another program"):
            connect_engine(data_dir, seconds=12.0)


@pytest.mark.skipif(os.getuid() == 0, reason="root writes everywhere")
def test_a_directory_that_cannot_be_written_is_named(data_dir: Path):
    data_dir.mkdir(parents=True)
    data_dir.chmod(0o500)
    with pytest.raises(StoreUnavailable, match="cannot be written"):
        connect_engine(data_dir)
    data_dir.chmod(0o700)


def test_a_directory_under_a_file_is_named(tmp_path: Path):
    (tmp_path / "file").write_text("x")
    with pytest.raises(StoreUnavailable, match="cannot be written"):
        connect_engine(tmp_path / "file" / "index.db", tmp_path)


def test_an_index_in_a_state_directory_that_was_moved_away_is_not_made_again(opened: Store, data_dir: Path):
    opened.insert([record("a.md")])
    moved = data_dir.parent.rename(data_dir.parents[1] / "moved")
    with pytest.raises(StoreUnavailable, match=r"state is not there: it was deleted or moved"):
        connect_engine(data_dir)
    with pytest.raises(StoreUnavailable):
        opened.insert([record("b.md")])
    assert not data_dir.parent.exists()
    moved.rename(data_dir.parent)
    opened.insert([record("b.md")])
    assert opened.count() == 2


def test_looking_for_collections_makes_nothing(data_dir: Path):
    assert find_collections(settings(data_dir)) == []
    assert list(data_dir.parent.iterdir()) == []


def test_collections_are_found_with_their_models_and_rows(opened: Store, data_dir: Path):
    opened.insert([record("a.md"), record("b.md")])
    (found,) = find_collections(settings(data_dir))
    assert (found.name, found.model, found.rows) == (opened.collection, MODEL, 2)


@pytest.mark.slow
def test_the_engine_gets_no_secret_of_its_starter(data_dir: Path):
    os.environ["SOME_API_KEY"] = "secret"
    try:
        connection = connect_engine(data_dir)
    finally:
        del os.environ["SOME_API_KEY"]
    assert "SOME_API_KEY" not in psutil.Process(connection.pid).environ()
    connection.close()


def test_what_was_written_survives_the_engines_end(data_dir: Path):
    store = open_store(settings(data_dir), MODEL)
    rows = [record("a.md", number) for number in range(50)]
    store.insert(rows)
    store.delete([rows[0].id])
    count = store.change_count()
    pid = endpoints.read_endpoint(data_dir).pid
    store.close()
    wait_until_gone(pid)
    again = open_store(settings(data_dir), MODEL)
    assert {key.id for key in again.keys()} == {row.id for row in rows[1:]}  # noqa: SIM118
    assert {match.id for match in again.lexical("text", 100)} == {row.id for row in rows[1:]}
    assert again.change_count() > count
    again.close()
