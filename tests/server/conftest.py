"""A real server over a real app, for tests of the edge."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import anyio
import pytest
from mcp import Client
from mcp.types import CallToolResult

from markdown_rag.app import App
from markdown_rag.server.tools import create_server
from markdown_rag.settings import load_settings
from markdown_rag.wiring import Parts
from tests.doctor import folders_end_well, known_folders

NOTES = {
    "guests.md": "---\ntags: [office]\naliases: [visitors]\n---\n# Guests\n\n## Wifi\n\n"
    "The guest password changes every Monday.\n",
    "backup/plan.md": "# Backups\n\n## Restore\n\nA restore is rehearsed on the first day of every quarter.\n",
    "backup/ERR.md": "# Errors\n\nThe code ERR_0x80070005 means that the disk refused the backup.\n",
}


@pytest.fixture
def vault(tmp_path: Path) -> Path:
    for name, text in NOTES.items():
        path = tmp_path / "vault" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return tmp_path / "vault"


@pytest.fixture
def app(state_dir: Path, vault: Path, request: pytest.FixtureRequest) -> Iterator[App]:
    """The app, whose doctor is asked about every folder that it indexed when the test ends."""
    settings = load_settings({"MARKDOWN_RAG_CACHE_DIR": str(state_dir)})
    parts = Parts(settings)
    made = App(parts, settings, vault)
    yield made
    try:
        folders_end_well(request.node, made, known_folders(parts))
    finally:
        parts.close()


def undescribed(answer: Any, schema: Mapping[str, Any], place: str = "") -> list[str]:
    """Fields of an answer that its schema, from which the documentation's tables are made, does not name."""
    if isinstance(answer, list):
        return [name for each in answer for name in undescribed(each, schema.get("items", {}), place)]
    known = schema.get("properties")
    if not isinstance(answer, dict) or known is None:
        return []
    missing = [f"{place}{name}" for name in answer if name not in known]
    return missing + [
        name for field in known if field in answer for name in undescribed(answer[field], known[field], f"{field}.")
    ]


class Agent:
    """A client of a server, asked one call at a time: structure, text, whether it is an error.

    No answer has a field that the documentation does not name.
    """

    def __init__(self, client: Client) -> None:
        self.client = client
        self._schemas: dict[str, Any] = {}

    async def ask(self, tool: str, **arguments: Any) -> tuple[dict[str, Any], str, bool]:
        result: CallToolResult = await self.client.call_tool(tool, arguments)
        assert result.structured_content is not None, result.content
        if not self._schemas:
            self._schemas = {each.name: each.output_schema for each in (await self.client.list_tools()).tools}
        assert undescribed(result.structured_content, self._schemas[tool]) == []
        return dict(result.structured_content), result.content[0].text, bool(result.is_error)  # type: ignore[union-attr]

    async def index(self, folder: Path, **arguments: Any) -> dict[str, Any]:
        accepted, _, _ = await self.ask("index_documents", current_working_directory=str(folder), **arguments)
        status: dict[str, Any] = {}
        while status.get("status") not in {"succeeded", "failed", "cancelled"}:
            status, _, _ = await self.ask("get_index_status", job_id=accepted["job_id"], wait_seconds=25)
        assert status["status"] == "succeeded", status
        return status

    async def hit(self, query: str, **arguments: Any) -> dict[str, Any]:
        found, _, _ = await self.ask("search_documents", query=query, k=1, **arguments)
        (hit,) = found["hits"]
        return dict(hit)

    async def read(self, **arguments: Any) -> dict[str, Any]:
        found, text, failed = await self.ask("read_document", **arguments)
        assert not failed, text
        return found


@pytest.fixture
def talk(app: App) -> Callable[[Callable[[Agent], Awaitable[None]]], None]:
    """Runs a conversation with a server over the app."""

    def run(conversation: Callable[[Agent], Awaitable[None]]) -> None:
        async def within() -> None:
            with anyio.fail_after(120):
                async with Client(create_server(app)) as client:
                    await conversation(Agent(client))

        anyio.run(within)

    return run
