"""What an agent can rely on: the tools as a client sees them, over a real app, store and model."""

from __future__ import annotations

import json
import re
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import anyio
from mcp import Client
from mcp.types import CallToolResult

from markdown_rag.app import App
from markdown_rag.errors import SettingsError
from markdown_rag.facade import Unusable
from markdown_rag.server.tools import create_server

# What the clients of the tool's first version send and read.
OLD_STATUS_FIELDS = {
    "job_id", "status", "phase", "progress_percent", "processed_files", "total_files", "processed_chunks",
    "total_chunks", "target_path", "params", "note", "result", "error", "created_at", "started_at", "finished_at",
    "updated_at", "elapsed_seconds", "found", "active_jobs",
}  # fmt: skip
OLD_RESULT_FIELDS = {
    "insert_count", "message", "processed_files", "total_chunks", "files", "pruned_files", "delta_counts",
    "timings_seconds", "reconciled_orphans",
}  # fmt: skip
OLD_PARAMETERS = {
    "index_documents": {"current_working_directory", "directory", "recursive", "force_reindex"},
    "get_index_status": {"job_id", "_"},
    "search_documents": {"query", "k", "scope_path"},
    "clear_index": {"_"},
}


def talk(app: Any, conversation: Callable[[Client], Awaitable[None]]) -> None:
    """Run a conversation with a server over the app."""

    async def run() -> None:
        with anyio.fail_after(120):
            async with Client(create_server(app)) as client:
                await conversation(client)

    anyio.run(run)


async def ask(client: Client, tool: str, **arguments: Any) -> tuple[dict[str, Any], str, bool]:
    result: CallToolResult = await client.call_tool(tool, arguments)
    assert result.structured_content is not None
    return dict(result.structured_content), result.content[0].text, bool(result.is_error)  # type: ignore[union-attr]


async def indexed(client: Client, folder: Path, **arguments: Any) -> dict[str, Any]:
    accepted, _, _ = await ask(client, "index_documents", current_working_directory=str(folder), **arguments)
    status: dict[str, Any] = {}
    while status.get("status") not in {"succeeded", "failed", "cancelled"}:
        status, _, _ = await ask(client, "get_index_status", job_id=accepted["job_id"], wait_seconds=25)
    return status


def test_a_folder_is_indexed_searched_and_cleared_with_words_and_fields_that_old_clients_know(
    app: App, vault: Path
) -> None:
    async def conversation(client: Client) -> None:
        accepted, text, failed = await ask(client, "index_documents", current_working_directory=str(vault))
        assert not failed
        assert accepted["accepted"] is True
        assert accepted["status"] == "queued"
        assert re.fullmatch("[0-9a-f]{8}", accepted["job_id"])
        assert json.loads(text) == accepted
        status = await indexed(client, vault)
        assert status.keys() >= OLD_STATUS_FIELDS
        assert status["result"].keys() >= OLD_RESULT_FIELDS
        assert status["status"] == "succeeded"
        assert status["phase"] == "done"

        found, text, _ = await ask(client, "search_documents", query="password for visitors", k=1)
        (hit,) = found["hits"]
        assert hit["path"] == str(vault / "guests.md")
        assert hit["lines"] == "9-9"
        assert hit["tags"] == ["office"]
        for line in ("File: **guests.md** (relevance: ", f"Path: `{hit['path']}`", "Lines: 9-9", "Tags: office",
                     "Aliases: visitors", "---\nText: "):  # fmt: skip
            assert line in text
        assert hit["text"] in text

        would, _, _ = await ask(client, "clear_index")
        assert not would["cleared"]
        assert would["files"] == 3
        did, _, _ = await ask(client, "clear_index", confirm=True)
        assert did["cleared"]
        found, text, failed = await ask(client, "search_documents", query="password for visitors")
        assert found["hits"] == []
        assert not failed
        assert text.startswith("No meaningful results found.")
        assert "Nothing is indexed" in text

    talk(app, conversation)


def test_every_schema_is_one_that_all_hosts_take(app: App) -> None:
    async def conversation(client: Client) -> None:
        for tool in (await client.list_tools()).tools:
            schema = tool.input_schema
            text = json.dumps([schema, tool.output_schema])
            assert not re.search(r'"(\$ref|\$defs|anyOf|oneOf|allOf|format)":|"title": "', text), tool.name
            assert '"null"' not in text
            assert schema["type"] == "object"
            assert schema["properties"]
            for name, each in schema["properties"].items():
                assert each["type"] in {"string", "integer", "number", "boolean", "array"}
                assert each["description"]
                assert name in schema.get("required", []) or "default" in each or each["type"] == "array"
            assert len(f"mcp__markdown-fastrag-mcp__{tool.name}") < 60
            assert (tool.output_schema or {}).get("properties")
            assert set(schema["properties"]) >= OLD_PARAMETERS.get(tool.name, set())
        tools = (await client.list_tools()).tools
        # What a host gives its model of every tool, in every conversation.
        assert len(json.dumps([[t.name, t.description, t.input_schema] for t in tools])) < 12_000

    talk(app, conversation)


def test_no_answer_has_a_field_that_the_documentation_does_not_name(talk: Any, vault: Path) -> None:
    (vault / "long.md").write_text("# Long\n\n" + "## Part\n\nMany words of [[guests]] and [[nobody]].\n\n" * 400)

    async def conversation(agent: Any) -> None:  # whose every question looks for such fields
        for _ in range(2):
            _, answer, failed = await agent.ask("index_documents", current_working_directory=str(vault))
            assert not failed, answer
        assert (await agent.ask("get_index_status"))[0]["found"]
        await agent.index(vault)
        await agent.hit("wifi password", explain=True)
        await agent.read(path="long.md", max_tokens=100, reconstruct=True)
        for tool, arguments in (
            ("search_documents", {"query": "restore", "expand": ["requires", "links"]}),
            ("list_documents", {}),
            ("list_documents", {"path": "backup"}),
            ("follow_links", {"path": "long.md"}),
            ("follow_links", {"path": "guests.md", "hops": 2}),
            ("get_index_status", {"job_id": "none"}),
            ("cancel_index", {}),
            ("clear_index", {}),
            ("clear_index", {"confirm": True}),
            ("read_document", {"path": "gone.md"}),
        ):
            await agent.ask(tool, **arguments)

    talk(conversation)


def test_errors_are_errors_in_our_words_with_the_next_step_and_fit_the_output_schema(app: App, vault: Path) -> None:
    cases: list[tuple[str, dict[str, Any], str]] = [
        ("search_documents", {"query": "   "}, "blank"),
        ("search_documents", {"query": "x", "k": 0}, "k must be"),
        ("search_documents", {"query": "x", "k": "many"}, "whole number"),
        ("search_documents", {}, "query is missing"),
        ("search_documents", {"query": "x", "workspace": "nowhere"}, "No indexed workspace is called nowhere"),
        ("search_documents", {"query": "x", "scope_path": "/etc"}, "scope_path must be under"),
        ("index_documents", {"current_working_directory": "/no/such/folder"}, "does not exist"),
        ("index_documents", {"current_working_directory": "/"}, "file system's root"),
        ("index_documents", {"current_working_directory": str(vault), "directory": "../.."}, "outside the workspace"),
        ("index_documents", {"current_working_directory": str(vault), "directory": "missing"}, "does not exist"),
        ("cancel_index", {"job_id": "ffffffff"}, "There is no job"),
        ("clear_index", {"workspace": "all", "confirm": True}, "one workspace"),
        ("no_such_tool", {}, "There is no tool"),
    ]

    async def conversation(client: Client) -> None:
        for tool, arguments, words in cases:
            structured, text, failed = await ask(client, tool, **arguments)
            assert failed, (tool, arguments)
            assert words in text, (tool, text)
            assert text.startswith("Error: ")
            assert "Traceback" not in text
            assert tool == "no_such_tool" or structured["code"], structured

    talk(app, conversation)


def test_a_bad_variable_is_the_answer_of_every_tool() -> None:
    reason = SettingsError("EMBEDDING_PROVIDER=nobody is not allowed: give one of local, openai.")

    async def conversation(client: Client) -> None:
        for tool in (await client.list_tools()).tools:
            arguments = dict.fromkeys(tool.input_schema.get("required", []), "x")
            _, text, failed = await ask(client, tool.name, **arguments)
            assert failed
            assert "EMBEDDING_PROVIDER=nobody" in text

    talk(Unusable(reason), conversation)


def test_progress_is_reported_while_a_status_call_waits(app: App, vault: Path) -> None:
    heard: list[str] = []

    async def hear(_progress: float, _total: float | None, message: str | None) -> None:
        heard.append(message or "")

    async def conversation(client: Client) -> None:
        accepted, _, _ = await ask(client, "index_documents", current_working_directory=str(vault))
        result = await client.call_tool(
            "get_index_status", {"job_id": accepted["job_id"], "wait_seconds": 25}, progress_callback=hear
        )
        assert result.structured_content
        assert result.structured_content["status"] == "succeeded"
        assert any("files" in message for message in heard)

    talk(app, conversation)


def test_an_unknown_job_and_no_job_at_all_are_told_apart_from_errors(app: App) -> None:
    async def conversation(client: Client) -> None:
        for job_id in ("", "ffffffff"):
            status, _, failed = await ask(client, "get_index_status", job_id=job_id)
            assert not failed
            assert status["found"] is False
            assert status["message"].startswith("No indexing jobs found")
            assert job_id in status["message"]

    talk(app, conversation)


def test_a_scope_is_a_folder_or_a_file_absolute_or_relative_and_an_unknown_one_is_named(app: App, vault: Path) -> None:
    async def conversation(client: Client) -> None:
        await indexed(client, vault)
        for scope in ("backup", "backup/", "./backup", str(vault / "backup"), "backup/plan.md"):
            found, _, _ = await ask(client, "search_documents", query="restore backup disk", scope_path=scope, k=9)
            paths = {Path(hit["path"]).relative_to(vault).as_posix() for hit in found["hits"]}
            assert paths == ({"backup/plan.md"} if scope.endswith(".md") else {"backup/plan.md", "backup/ERR.md"})
        found, text, _ = await ask(client, "search_documents", query="restore", scope_path="bakcup")
        assert found["hits"] == []
        assert "backup" in text

    talk(app, conversation)


def test_filters_narrow_an_answer_and_what_no_file_has_is_named_with_the_nearest(app: App, vault: Path) -> None:
    (vault / "plans").mkdir()
    for name, front in {
        "atlas": "tags: [project/atlas]\nstatus: done\ndate: 2024-03-01",
        "borealis": "tags: [project/borealis]\nstatus: open\ndate: 2024-05-01",
    }.items():
        (vault / "plans" / f"{name}.md").write_text(f"---\n{front}\n---\n# {name}\n\nA restore plan for {name}.\n")

    async def conversation(client: Client) -> None:
        await indexed(client, vault)

        async def paths(**filters: Any) -> set[str]:
            found, _, failed = await ask(client, "search_documents", query="restore plan", k=9, **filters)
            assert not failed
            return {Path(hit["path"]).stem for hit in found["hits"]}

        assert await paths(tags=["project"]) == {"atlas", "borealis"}
        assert await paths(tags="#project/atlas") == {"atlas"}
        assert await paths(properties=["status=open"]) == {"borealis"}
        assert await paths(properties='["date>2024-04-01"]') == {"borealis"}
        assert await paths(tags=["project"], properties=["status!=open", "date"]) == {"atlas"}
        assert await paths(scope_path=["backup", "plans/atlas.md"]) == {"plan", "ERR", "atlas"}
        assert await paths(exclude_path=[str(vault / "plans"), "guests.md"]) == {"plan", "ERR"}
        found, text, _ = await ask(client, "search_documents", query="restore", tags=["projects"])
        assert found["hits"] == []
        assert "the nearest: project" in found["note"]
        assert found["note"] in text
        found, text, failed = await ask(client, "search_documents", query="restore", properties=["status is done="])
        assert not failed
        assert "status" in found["note"]
        _, text, failed = await ask(client, "search_documents", query="restore", properties=["date>soon"])
        assert failed
        assert "neither a number nor a date" in text

    talk(app, conversation)


def test_another_projects_notes_do_not_stray_into_an_answer_unless_asked_for(
    app: App, vault: Path, tmp_path: Path
) -> None:
    other = tmp_path / "other"
    other.mkdir()
    (other / "wifi.md").write_text("# Wifi\n\nThe guest password of the other house is on the fridge.\n")

    async def conversation(client: Client) -> None:
        await indexed(client, vault)
        await indexed(client, other)
        here, _, _ = await ask(client, "search_documents", query="guest password", k=9)
        assert all(hit["path"].startswith(str(vault)) for hit in here["hits"])
        assert str(vault) in here["searched"]
        everywhere, _, _ = await ask(client, "search_documents", query="guest password", k=9, workspace="all")
        assert any(hit["path"].startswith(str(other)) for hit in everywhere["hits"])
        named, _, _ = await ask(client, "search_documents", query="guest password", k=9, workspace="other")
        assert {Path(hit["path"]).parent for hit in named["hits"]} == {other}

    talk(app, conversation)


def test_an_answer_of_five_hits_is_small_and_says_what_was_searched(app: App, tmp_path: Path) -> None:
    folder = tmp_path / "long"
    folder.mkdir()
    for number in range(8):
        words = "\n\n".join(f"Paragraph {n} tells of valve {number} and its lamp in many words." * 8 for n in range(20))
        (folder / f"valve-{number}.md").write_text(f"# Valve {number}\n\n{words}\n")

    async def conversation(client: Client) -> None:
        await indexed(client, folder)
        found, text, _ = await ask(client, "search_documents", query="valve lamp", workspace="long")
        assert len(found["hits"]) == 5
        assert len({hit["path"] for hit in found["hits"]}) == 5
        assert len(text.encode()) < 6_000
        assert len(json.dumps(found, ensure_ascii=False).encode()) < 8_000
        assert found["files"] == 8

    talk(app, conversation)


def test_a_misspelled_argument_does_nothing_and_clears_nothing(app: App, vault: Path, tmp_path: Path) -> None:
    async def conversation(client: Client) -> None:
        await indexed(client, vault)
        for tool, arguments in (
            ("clear_index", {"path": str(tmp_path / "other"), "confirm": True}),
            ("search_documents", {"query": "password", "tag": "office"}),
            ("index_documents", {"path": str(tmp_path)}),
        ):
            structured, text, failed = await ask(client, tool, **arguments)
            assert failed
            assert text.startswith("Error: There is no argument `")
            assert structured["code"] == "input"
        left, _, _ = await ask(client, "clear_index", _=True)
        assert left["files"] == 3
        status, _, _ = await ask(client, "get_index_status", _=True)
        assert status["found"]

    talk(app, conversation)


def test_the_text_of_a_search_says_what_was_searched_and_whether_there_is_more(
    app: App, vault: Path, tmp_path: Path
) -> None:
    other = tmp_path / "other"
    other.mkdir()

    async def conversation(client: Client) -> None:
        async def first_line(**arguments: Any) -> str:
            _, text, _ = await ask(client, "search_documents", **{"query": "restore backup disk", **arguments})
            return text.split("\n---\n")[0]

        await indexed(client, vault)
        assert await first_line() == f"Searched: workspace {vault}, 3 files."
        assert await first_line(k=1) == f"Searched: workspace {vault}, 3 files; a larger k shows more."
        assert await first_line(scope_path="backup") == f"Searched: workspace {vault}, scope backup, 2 files."
        several = await first_line(scope_path=["backup/plan.md", "guests.md"])
        assert several == f"Searched: workspace {vault}, scope backup/plan.md, guests.md, 2 files."
        assert await first_line(workspace="all") == "Searched: all workspaces, 3 files."
        assert (await first_line(scope_path="bakcup")).endswith(
            f"\nSearched: workspace {vault}, scope bakcup, 0 files."
        )

    talk(app, conversation)
    elsewhere = App(app._parts, app._settings, other)

    async def from_outside(client: Client) -> None:
        found, text, _ = await ask(client, "search_documents", query="guest password", k=3)
        assert found["searched"] == f"every indexed folder, since {other} is not indexed"
        assert text.startswith(f"Searched: {found['searched']}, 3 files")

    talk(elsewhere, from_outside)


def test_a_budget_below_the_least_is_raised_and_said_and_none_at_all_is_refused(app: App, vault: Path) -> None:
    async def conversation(client: Client) -> None:
        await indexed(client, vault)
        for tool, needed, least in (
            ("search_documents", {"query": "restore"}, 200),
            ("list_documents", {}, 200),
            ("follow_links", {"path": "guests"}, 200),
            ("read_document", {"path": "guests"}, 50),
        ):
            found, text, failed = await ask(client, tool, **needed, max_tokens=5)
            assert not failed
            assert f"max_tokens=5 was taken as {least}." in found["note"]
            assert found["note"] in text
            _, text, failed = await ask(client, tool, **needed, max_tokens=-5)
            assert failed
            assert "max_tokens must be at least 1, not -5." in text
            found, _, _ = await ask(client, tool, **needed, max_tokens=least)
            assert "was taken as" not in found.get("note", "")

    talk(app, conversation)


def test_a_folder_that_is_not_there_is_told_with_the_argument_that_named_it(app: App, vault: Path) -> None:
    async def conversation(client: Client) -> None:
        await indexed(client, vault)
        found, text, failed = await ask(client, "list_documents", path="nosuch")
        assert not failed
        assert "Leave path empty for everything." in found["note"]
        assert "scope_path" not in text
        _, text, failed = await ask(client, "list_documents", path="/etc")
        assert text.startswith("Error: path must be under an indexed folder")
        _, text, failed = await ask(client, "clear_index", workspace="nope", confirm=True)
        assert failed
        assert f"vault ({vault})" in text
        assert '"all"' not in text

    talk(app, conversation)
