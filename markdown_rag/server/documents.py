"""The MCP tools that read, list and follow: signatures and words; the façade does the work."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Annotated

from mcp.server.mcpserver.tools import Tool
from mcp.types import CallToolResult
from pydantic import Field

from markdown_rag.facade import Facade, Json, LinksCall, ListCall, ReadCall
from markdown_rag.server import render, schemas, words
from markdown_rag.server.making import NONE, answer, make_tool

Ask = Callable[[Callable[[], Json]], Awaitable[Json]]


def document_tools(facade: Facade, ask: Ask) -> list[Tool]:
    """The tools. ask: runs a blocking call in a thread."""

    async def read_document(  # noqa: PLR0917 - hosts call by name
        id: Annotated[str, Field(description=words.READ_ID)] = "",  # noqa: A002 - the name of the field in a hit
        path: Annotated[str, Field(description=words.READ_PATH)] = "",
        heading: Annotated[str, Field(description=words.READ_HEADING)] = "",
        lines: Annotated[str, Field(description=words.READ_LINES)] = "",
        before: Annotated[int, Field(description=words.BEFORE)] = 0,
        after: Annotated[int, Field(description=words.AFTER)] = 0,
        section: Annotated[bool, Field(description=words.SECTION)] = False,
        reconstruct: Annotated[bool, Field(description=words.RECONSTRUCT)] = False,
        max_tokens: Annotated[int, Field(description=words.READ_TOKENS)] = 4000,
        continue_from: Annotated[str, Field(description=words.CONTINUE)] = "",
        workspace: Annotated[str, Field(description=words.WORKSPACE)] = "",
    ) -> CallToolResult:
        call = ReadCall(
            id=id,
            path=path,
            heading=heading,
            lines=lines,
            before=before,
            after=after,
            section=section,
            reconstruct=reconstruct,
            max_tokens=max_tokens,
            continue_from=continue_from,
            workspace=workspace,
        )
        structured = await ask(lambda: facade.read(call))
        return answer(structured, render.read_text(structured))

    async def list_documents(  # noqa: PLR0917 - hosts call by name
        path: Annotated[str, Field(description=words.LIST_PATH)] = "",
        recursive: Annotated[bool, Field(description=words.LIST_RECURSIVE)] = False,
        exclude_path: Annotated[list[str], Field(description=words.EXCLUDE)] = NONE,
        tags: Annotated[list[str], Field(description=words.TAGS)] = NONE,
        properties: Annotated[list[str], Field(description=words.PROPERTIES)] = NONE,
        after: Annotated[str, Field(description=words.LIST_AFTER)] = "",
        limit: Annotated[int, Field(description=words.LIST_LIMIT)] = 50,
        max_tokens: Annotated[int, Field(description=words.MOST_TOKENS)] = 4000,
        workspace: Annotated[str, Field(description=words.WORKSPACE)] = "",
    ) -> CallToolResult:
        call = ListCall(
            path=path,
            recursive=recursive,
            exclude_path=tuple(exclude_path),
            tags=tuple(tags),
            properties=tuple(properties),
            after=after,
            limit=limit,
            max_tokens=max_tokens,
            workspace=workspace,
        )
        structured = await ask(lambda: facade.list_documents(call))
        return answer(structured, render.list_text(structured))

    async def follow_links(
        path: Annotated[str, Field(description=words.READ_PATH)],
        *,
        direction: Annotated[str, Field(description=words.DIRECTION)] = "both",
        hops: Annotated[int, Field(description=words.HOPS)] = 1,
        max_tokens: Annotated[int, Field(description=words.LINK_TOKENS)] = 2000,
        workspace: Annotated[str, Field(description=words.WORKSPACE)] = "",
    ) -> CallToolResult:
        call = LinksCall(path=path, direction=direction, hops=hops, max_tokens=max_tokens, workspace=workspace)
        structured = await ask(lambda: facade.follow_links(call))
        return answer(structured, render.links_text(structured))

    return [
        make_tool(read_document, words.READ, schemas.READ, read_only_hint=True),
        make_tool(list_documents, words.LIST, schemas.LIST, read_only_hint=True),
        make_tool(follow_links, words.LINKS, schemas.LINKS, read_only_hint=True),
    ]
