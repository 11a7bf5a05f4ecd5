"""Whatever is put into an argument or a file's name: a clear error or a bounded answer, and nothing from outside."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any
from urllib.parse import quote

import anyio
import pytest
from mcp import Client, MCPError

from markdown_rag.app import App
from markdown_rag.facade import IndexCall
from markdown_rag.server.tools import FastRagServer, create_server
from markdown_rag.settings import load_settings
from markdown_rag.wiring import Parts
from tests.doctor import folders_end_well

from .conftest import Machine
from .judge import is_settled

SECRET = "cormorant ledger seventeen"
ANSWER_BYTES = 400_000  # far above any answer meant for a model; an unbounded one is megabytes
TEXTS = [
    "' or id >= 0 or path == '.md",
    '" or 1==1 or "',
    "\\",
    "..",
    "../outside",
    "../outside/secret.md",
    "sub/../../outside",
    "/",
    "/etc/passwd",
    "~root",
    "~nobody/x",
    "link",
    "link/secret.md",
    "file:///etc/passwd",
    "$(id) `id` ; rm -rf /",
    "%00",
    "\0",
    "a\0b",
    "\ud800",
    "x\udfffy",
    "\n\r\t\v\x1b[2J",
    "%s%n{0}{x}",
    "*?[a-z]",
    "x" * 200_000,
    "\u0627\u0644\u0639" * 1000,
    "\u202e\u200b\ufeff",
    "=1+1",
    "tags~x",
    "a=b=c",
    "date>not a date",
    "10-1",
    "0-0",
    "99999999999999999999-1",
    "-1",
    "(" * 5000,
    "a " * 20_000,
]
NUMBERS = [0, -1, 1, 10**6, 2**63, -(2**63), 10**400, 1.5, float("nan"), float("inf")]


@pytest.fixture
def vault(tmp_path: Path) -> Path:
    folder, outside = tmp_path / "vault", tmp_path / "outside"
    (folder / "sub").mkdir(parents=True)
    outside.mkdir()
    (outside / "secret.md").write_text(f"# Secret\n\n{SECRET}\n")
    (folder / "link").symlink_to(outside)
    (folder / "linked.md").symlink_to(outside / "secret.md")
    (folder / "a.md").write_text("# Wifi\n\nThe guest password is zebra. See [b](sub/b.md).\n")
    (folder / "sub" / "b.md").write_text("---\ntags: [x/y]\nstatus: open\n---\n# Valve\n\nOpen it slowly. " * 50)
    return folder


@pytest.fixture
def server(state_dir: Path, vault: Path, request: pytest.FixtureRequest) -> Iterator[FastRagServer]:
    settings = load_settings({"MARKDOWN_RAG_CACHE_DIR": str(state_dir), "MARKDOWN_WORKSPACE": str(vault)})
    parts = Parts(settings)
    app = App(parts, settings, vault)
    app.status(app.index(IndexCall())["job_id"], 60.0)
    yield create_server(app)
    with closing(parts):
        folders_end_well(request.node, app, [vault])


def attacks(schema: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Every hostile value in every argument of a tool, the others as plain as they can be."""
    properties = schema["properties"]
    plain = dict.fromkeys(schema.get("required", ()), "wifi")
    for name, described in properties.items():
        kind = described.get("type")
        values: list[Any] = []
        if kind == "string":
            values = TEXTS
        elif kind == "array":
            values = [[text] for text in TEXTS] + [TEXTS[:20], ["x"] * 5000]
        elif kind in {"integer", "number"}:
            values = NUMBERS
        for value in values:
            yield {**plain, name: value}
        yield {**plain, name: None}
        yield {**plain, name: {"a": list(values[:3])}}


def judge(name: str, arguments: dict[str, Any], result: Any) -> None:
    shown = f"{name} {str(arguments)[:200]!a}"
    text = "".join(part.text for part in result.content)
    structure = json.dumps(result.structured_content, ensure_ascii=False)
    assert len(text.encode()) < ANSWER_BYTES, shown  # encode: what is no Unicode cannot be sent
    assert len(structure.encode()) < ANSWER_BYTES, shown
    assert SECRET not in text + structure, shown
    assert "root:x:" not in text + structure, shown
    if result.is_error:
        assert text.startswith(("Error: ", "{")), shown


async def attack(client: Client, server: FastRagServer, name: str, schema: dict[str, Any]) -> int:
    count = 0
    for arguments in attacks(schema):
        if can_be_sent(arguments):
            judge(name, arguments, await client.call_tool(name, arguments))
        elif name != "get_index_status":  # which speaks with the client while it waits
            judge(name, arguments, await server.call_tool(name, arguments))
        count += 1
    return count


def can_be_sent(arguments: dict[str, Any]) -> bool:
    """Whether our client's own JSON takes it; that of others may."""
    try:
        json.dumps(arguments, allow_nan=False, ensure_ascii=False).encode()
    except ValueError:
        return False
    return True


def test_every_argument_of_every_tool_takes_anything_and_answers_in_bounds(server: FastRagServer) -> None:
    async def run() -> int:
        async with Client(server) as client:
            tools = (await client.list_tools()).tools
            return sum([await attack(client, server, tool.name, tool.input_schema) for tool in tools])

    assert anyio.run(run) > 300


def test_no_name_of_a_resource_reaches_outside_the_workspace(server: FastRagServer) -> None:
    names = [quote(text, safe="") for text in TEXTS if can_be_sent({"": text}) and len(text) < 2000]
    names += ["../outside/secret.md", "..%2Foutside%2Fsecret.md", "linked.md", "link/secret.md", "link%2Fsecret.md"]

    async def run() -> None:
        async with Client(server) as client:
            for name in names:
                for uri in (f"docs://{name}", f"docs://vault/{name}"):
                    try:
                        result = await client.read_resource(uri)
                    except MCPError:
                        continue
                    assert SECRET not in str(result), uri
            known = await client.read_resource("docs://vault/a.md")
            assert "The guest password is zebra" in str(known)

    anyio.run(run)


NAMES = [
    "' or id >= 0 or path == '.md",
    'a" or 1==1 or "',
    "it's.md",
    "back\\slash.md",
    "tail\\.md",
    "new\nline.md",
    "tab\there.md",
    "100%.md",
    "under_score.md",
    "underXscore.md",
    "-rf.md",
    "$(touch owned).md",
    "\u202etxt.md",
    "e\u0301.md",
    "\u00e9.md",
    "\U0001f600.md",
    " lead and trail .md",
    "a" * 250 + ".md",
]


def test_a_file_of_any_name_is_indexed_edited_and_deleted_alone(machine: Machine) -> None:
    bench = machine("one")
    bench.note("bystander.md")
    for name in NAMES:
        path = name if name.endswith(".md") else f"{name}.md"
        bench.note(path, "first")
        bench.note(f"sub/{path}", "first")
    bench.run()
    is_settled(bench)
    for name in os.listdir(bench.root):
        if name.endswith(".md") and name != "bystander.md":
            bench.note(name, "second")
    bench.run()
    is_settled(bench)
    for name in os.listdir(bench.root / "sub"):
        (bench.root / "sub" / name).unlink()
    bench.run(confirm_deletions=True)
    is_settled(bench)
    assert "bystander.md" in bench.rows()
