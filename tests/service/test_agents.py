"""What an agent's own process is once the service works for it: small, and gone without a trace."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.service.conftest import BOUND, Environ, Opener, end_services, indexed, only_service, services_of
from tests.service.stdio import StdioAgent
from tests.waiting import bounded

HEAVY = ("numpy", "grpc", "pyarrow", "pandas", "faiss", "tiktoken", "Stemmer")  # each maps a library of its own
EMPTY = "from mcp.server.mcpserver import MCPServer; MCPServer('empty').run('stdio')"

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="reads /proc/PID/maps")


@pytest.fixture
def server(environ: Environ, agent: Opener, vault: Path):
    indexed(agent(), vault)
    started = StdioAgent(environ, vault)
    yield started
    started.close()


def test_an_agent_loads_neither_store_nor_model_nor_sdk_whatever_it_is_asked(
    server: StdioAgent, vault: Path, state_dir: Path
) -> None:
    for tool, arguments in (
        ("index_documents", {"current_working_directory": str(vault)}),
        ("get_index_status", {"wait_seconds": 20}),
        ("search_documents", {"query": "when does the password change?"}),
        ("clear_index", {"workspace": str(vault)}),
    ):
        answer, is_error = server.call(tool, **arguments)
        assert not is_error, answer
    maps = Path(f"/proc/{server.process.pid}/maps").read_text(encoding="utf-8")
    assert [name for name in HEAVY if f"/{name}" in maps] == []
    service = Path(f"/proc/{only_service(state_dir)}/maps").read_text(encoding="utf-8")
    assert "/numpy" in service, "the looking works"


def most_memory(pid: int) -> int:
    """The largest it has been, in kB: what a process holds at an instant changes with what the machine needs."""
    status = Path(f"/proc/{pid}/status").read_text(encoding="utf-8")
    return int(next(line.split()[1] for line in status.splitlines() if line.startswith("VmHWM")))


def test_an_agent_is_hardly_larger_than_an_empty_server(server: StdioAgent, environ: Environ, tmp_path: Path) -> None:
    server.call("search_documents", query="password")
    empty = subprocess.Popen(
        [sys.executable, "-c", EMPTY], env=environ, cwd=tmp_path, stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    assert empty.stdin
    assert empty.stdout
    empty.stdin.write(
        b'{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},'
        b'"clientInfo":{"name":"test","version":"1"}}}\n'
    )
    empty.stdin.flush()
    with bounded(empty):
        assert empty.stdout.readline()
    floor = most_memory(empty.pid)
    empty.kill()
    empty.communicate()
    # The figure is the benchmark's; numpy alone would be a quarter more.
    assert most_memory(server.process.pid) <= 1.5 * floor


def test_a_killed_agent_leaves_nothing_running_but_what_others_use(
    server: StdioAgent, state_dir: Path, agent: Opener
) -> None:
    server.call("search_documents", query="password")
    keeper = agent()
    keeper.status()
    pid = only_service(state_dir)
    server.process.kill()
    server.process.wait(BOUND)
    keeper.status()
    assert only_service(state_dir) == pid


def test_the_service_is_started_when_a_host_asks_for_the_tools_so_that_no_call_waits_for_it(
    environ: Environ, vault: Path, state_dir: Path
) -> None:
    started = StdioAgent(environ, vault)
    assert services_of(state_dir) == [], "a host that only says hello starts nothing"
    started.request("tools/list")
    assert only_service(state_dir)
    started.close()
    end_services(state_dir)
