"""The installed command as a host runs it: a real MCP client over stdio calls every tool once.

    python tests/smoke.py .venv/bin/markdown-fastrag-mcp

Prints a line for each step and exits 1 at the first that is wrong. Folder, home and state directory are thrown away.
"""

from __future__ import annotations

import os
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import anyio
from mcp import Client, StdioServerParameters

NOTES = {
    "guests.md": "# Guests\n\nThe guest wifi password changes every Monday and hangs at the front desk.\n",
    "backup/plan.md": "# Backups\n\n## Restore\n\nA restore is rehearsed every quarter. [[guests]]\n",
}
TOOLS = {
    "index_documents", "get_index_status", "search_documents", "read_document", "list_documents", "follow_links",
    "cancel_index", "clear_index",
}  # fmt: skip
SECONDS = 120


class Failed(Exception):
    """A step gave something else than what users rely on."""


def expect(condition: object, step: str, seen: object) -> None:
    if not condition:
        raise Failed(f"{step}: {seen}")
    print(f"ok  {step}")


async def call(client: Client, tool: str, *, fails: bool = False, **arguments: Any) -> dict[str, Any]:
    result = await client.call_tool(tool, arguments)
    if result.is_error != fails or result.structured_content is None:
        raise Failed(f"{tool}: {result.content}")
    return result.structured_content


async def use_every_tool(client: Client, folder: Path) -> None:
    tools = {tool.name for tool in (await client.list_tools()).tools}
    expect(tools >= TOOLS, "every tool is there", sorted(tools))

    accepted = await call(client, "index_documents", current_working_directory=str(folder))
    expect(accepted["accepted"] and accepted["job_id"], "index_documents answers with a job", accepted)
    status = await wait_for(client, accepted["job_id"])
    expect(status["status"] == "succeeded", "get_index_status sees it succeed", status)
    expect(status["processed_files"] == len(NOTES), "all files are indexed", status)

    for query, name in (("what is the guest wifi password", "guests.md"), ("rehearse restoring data", "plan.md")):
        found = await call(client, "search_documents", query=query, k=2)
        expect(found["hits"] and found["hits"][0]["path"].endswith(name), f"search_documents finds {name}", found)

    hit = found["hits"][0]
    read = await call(client, "read_document", id=hit["id"], section=True)
    expect("rehearsed" in read["text"] and read["freshness"] == "fresh", "read_document gives the text of a hit", read)
    listed = await call(client, "list_documents", workspace=str(folder))
    expect(listed["files"] == len(NOTES) and listed["folders"], "list_documents shows the folder", listed)
    links = await call(client, "follow_links", path=hit["path"])
    expect([each["path"] for each in links["links"]] == ["guests.md"], "follow_links finds the neighbour", links)

    cancelled = await call(client, "cancel_index", fails=True)
    expect(not cancelled["cancelled"], "cancel_index says that nothing is running", cancelled)
    asked = await call(client, "clear_index", workspace=str(folder))
    expect(not asked["cleared"], "clear_index asks first", asked)
    cleared = await call(client, "clear_index", workspace=str(folder), confirm=True)
    expect(cleared["cleared"], "clear_index removes the folder", cleared)
    left = await call(client, "search_documents", query="guest wifi password")
    expect(left["hits"] == [], "nothing is found any more", left)


async def wait_for(client: Client, job_id: str) -> dict[str, Any]:
    while True:
        status = await call(client, "get_index_status", job_id=job_id, wait_seconds=20)
        if status["status"] not in {"queued", "running"}:
            return status


async def smoke(command: str, directory: Path) -> None:
    for name, text in NOTES.items():
        path = directory / "notes" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    home = directory / "home"
    home.mkdir()
    environment = {"PATH": os.environ["PATH"], "HOME": str(home), "MARKDOWN_RAG_CACHE_DIR": str(home / "state")}
    environment["MARKDOWN_RAG_IDLE_MINUTES"] = "0"
    server = StdioServerParameters(command=command, args=[], env=environment, cwd=str(home))
    started = time.monotonic()
    with anyio.fail_after(SECONDS):
        async with Client(server) as client:
            print(f"ok  connected in {time.monotonic() - started:.1f} s")
            await use_every_tool(client, directory / "notes")


def leaves(error: BaseException) -> list[BaseException]:
    """The errors in nested groups: each task group on the way wraps them once more."""
    if isinstance(error, BaseExceptionGroup):
        return [leaf for inner in error.exceptions for leaf in leaves(inner)]
    return [error]


def main() -> int:
    failures: list[BaseException] = []
    with tempfile.TemporaryDirectory(prefix="markdown-rag-smoke-", ignore_cleanup_errors=True) as directory:
        try:
            anyio.run(smoke, str(Path(sys.argv[1]).absolute()), Path(directory))
        except* (Failed, TimeoutError) as group:
            failures.extend(leaves(group))
    print(*(f"FAILED  {failure}" for failure in failures), sep="\n", end="\n" if failures else "", file=sys.stderr)
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
