"""The MCP tools: names, words, argument types. Each asks the façade in a worker thread and puts its answer on the wire.

Text and structure of every answer are each complete, since some hosts pass on only one of them. Only our own errors
reach the model, with what to do next; everything else is a fault, logged to stderr and named without details.
"""

from __future__ import annotations

import contextlib
import logging
import sys
import threading
from collections.abc import AsyncIterator, Callable, Container
from typing import Annotated, Any, cast

import anyio
import anyio.from_thread
import anyio.lowlevel
import anyio.to_thread
from mcp.server.mcpserver import Context, MCPServer
from mcp.server.mcpserver.tools import Tool
from mcp.server.stdio import stdio_server
from mcp.types import CallToolResult
from mcp.types import Tool as ListedTool
from pydantic import Field

from markdown_rag import __version__
from markdown_rag.amounts import amount
from markdown_rag.errors import FastRagError, InputError
from markdown_rag.facade import Facade, IndexCall, Json, SearchCall
from markdown_rag.server import arguments, render, schemas, words
from markdown_rag.server.documents import document_tools
from markdown_rag.server.making import NONE, answer, make_tool
from markdown_rag.server.resources import add_resources
from markdown_rag.server.wire import Lines

WORKERS = 16  # of our own: the SDK's limiter also carries the stdio reader and writer

log = logging.getLogger(__name__)


class FastRagServer(MCPServer[None]):
    """An MCPServer whose arguments are checked by our rules and whose errors are in our words.

    prepare: called once, in a thread, when a host has asked for the tools: its first call may come next.
    """

    def __init__(self, tools: list[Tool], prepare: Callable[[], object]) -> None:
        super().__init__(
            "markdown-fastrag-mcp",
            title="Markdown search",
            version=__version__,
            instructions=words.INSTRUCTIONS,
            tools=tools,
            log_level="WARNING",
            lifespan=_prints_go_to_stderr,
        )
        self._schemas = {tool.name: tool.parameters for tool in tools}
        self._fields = {tool.name: (tool.output_schema or {}).get("properties", {}) for tool in tools}
        self._preparing = threading.Thread(target=prepare, name="prepare", daemon=True)

    async def list_tools(self) -> list[ListedTool]:
        """The tools as they go to the host."""
        listed = await super().list_tools()
        if self._preparing.ident is None:
            self._preparing.start()
        return listed

    async def run_stdio_async(self) -> None:
        """Serve one client over standard input and output."""
        lines = cast("anyio.AsyncFile[str]", Lines())  # the transport only iterates over it
        async with stdio_server(stdin=lines) as (requests, answers):
            lowlevel = self._lowlevel_server
            await lowlevel.run(requests, answers, lowlevel.create_initialization_options())

    def _schema(self, name: str) -> dict[str, Any]:
        if name not in self._schemas:
            raise InputError(f"There is no tool {name}.", "Use one of: " + ", ".join(self._schemas) + ".")
        return self._schemas[name]

    async def call_tool(self, name: str, arguments_: dict[str, Any], context: Any = None) -> Any:
        """Check the arguments, call the tool, turn our errors into answers that say what to do next."""
        try:
            return await super().call_tool(name, arguments.check(name, self._schema(name), arguments_), context)
        except FastRagError as error:
            return failure(error, self._fields.get(name, {}))
        except Exception as error:
            if isinstance(cause := _ours(error), FastRagError):
                return failure(cause, self._fields[name])
            log.exception("fault in tool %s", name)
            raise


@contextlib.asynccontextmanager
async def _prints_go_to_stderr(_server: MCPServer[None]) -> AsyncIterator[None]:
    """Entered once the transport holds the wire: from here on a stray print can only reach stderr (I9)."""
    with contextlib.redirect_stdout(sys.stderr):
        yield


def _ours(error: BaseException | None) -> FastRagError | None:
    """Our error inside the SDK's wrapping, if there is one."""
    while error is not None:
        if isinstance(error, FastRagError):
            return error
        error = error.__cause__
    return None


def failure(error: FastRagError, fields: Container[str]) -> CallToolResult:
    """An error as a tool result: text for the model, the same facts in the structure, also for declared schemas."""
    return answer(render.failure(error, fields), f"Error: {error}", is_error=True)


def create_server(facade: Facade) -> FastRagServer:
    """The MCP server over a façade; nothing is opened or loaded before a host asks for the tools."""
    limiter = anyio.CapacityLimiter(WORKERS)

    async def ask(work: Callable[[], Json]) -> Json:
        return await anyio.to_thread.run_sync(work, limiter=limiter, abandon_on_cancel=True)

    def prepare() -> None:
        with contextlib.suppress(FastRagError):  # the first call says the same
            facade.status()

    async def index_documents(
        current_working_directory: Annotated[str, Field(description=words.CWD)] = "",
        directory: Annotated[str, Field(description=words.DIRECTORY)] = "",
        recursive: Annotated[bool, Field(description="Include subfolders (default true).")] = True,
        force_reindex: Annotated[bool, Field(description=words.FORCE)] = False,
        confirm_deletions: Annotated[bool, Field(description=words.CONFIRM)] = False,
    ) -> CallToolResult:
        params = {
            "current_working_directory": current_working_directory,
            "directory": directory,
            "recursive": recursive,
            "force_reindex": force_reindex,
        }
        call = IndexCall(
            root=current_working_directory,
            directory=directory,
            recursive=recursive,
            force=force_reindex,
            confirm_deletions=confirm_deletions,
            params=params,
        )
        structured = await ask(lambda: facade.index(call))
        return answer(structured, is_error=not structured.get("accepted", True))

    async def get_index_status(
        context: Context,
        job_id: Annotated[str, Field(description=words.STATUS_JOB)] = "",
        wait_seconds: Annotated[float, Field(description=words.WAIT)] = 0,
    ) -> CallToolResult:
        report = progress_reporter(context)
        seconds = min(max(0.0, wait_seconds), words.MAX_WAIT_SECONDS)
        return answer(await ask(lambda: facade.status(job_id, seconds, report)))

    async def cancel_index(
        job_id: Annotated[str, Field(description=words.CANCEL_JOB)] = "",
    ) -> CallToolResult:
        return answer(await ask(lambda: facade.cancel(job_id)))

    async def search_documents(
        query: Annotated[str, Field(description="A question, words or an exact identifier, in any language.")],
        *,
        k: Annotated[int, Field(description="How many hits, 1 to 50 (default 5).")] = 5,
        scope_path: Annotated[list[str], Field(description=words.SCOPE)] = NONE,
        exclude_path: Annotated[list[str], Field(description=words.EXCLUDE)] = NONE,
        tags: Annotated[list[str], Field(description=words.TAGS)] = NONE,
        properties: Annotated[list[str], Field(description=words.PROPERTIES)] = NONE,
        workspace: Annotated[str, Field(description=words.WORKSPACE)] = "",
        explain: Annotated[bool, Field(description="Show what each score is made of (default false).")] = False,
        wait_for_fresh: Annotated[bool, Field(description=words.FRESH)] = False,
        diverse: Annotated[bool, Field(description=words.DIVERSE)] = False,
        expand: Annotated[list[str], Field(description=words.EXPAND)] = NONE,
        max_tokens: Annotated[int, Field(description=words.SEARCH_TOKENS)] = 0,
    ) -> CallToolResult:
        call = SearchCall(
            query=query,
            k=k,
            scope_path=tuple(scope_path),
            exclude_path=tuple(exclude_path),
            tags=tuple(tags),
            properties=tuple(properties),
            workspace=workspace,
            explain=explain,
            wait_for_fresh=wait_for_fresh,
            diverse=diverse,
            expand=tuple(expand),
            max_tokens=max_tokens,
        )
        structured = await ask(lambda: facade.search(call))
        return answer(structured, render.search_text(structured))

    async def clear_index(
        workspace: Annotated[str, Field(description=words.CLEAR)] = "",
        confirm: Annotated[bool, Field(description="true removes; false (default) only says what would go.")] = False,
    ) -> CallToolResult:
        return answer(await ask(lambda: facade.clear(workspace, confirm=confirm)))

    server = FastRagServer(
        [
            make_tool(index_documents, words.INDEX, schemas.INDEX, idempotent_hint=True),
            make_tool(get_index_status, words.STATUS, schemas.STATUS, read_only_hint=True),
            make_tool(cancel_index, words.CANCEL, schemas.CANCEL, idempotent_hint=True),
            make_tool(search_documents, words.SEARCH, schemas.SEARCH, read_only_hint=True),
            *document_tools(facade, ask),
            make_tool(clear_index, words.CLEAR_TOOL, schemas.CLEAR, destructive_hint=True),
        ],
        prepare,
    )
    add_resources(server, facade, ask)
    return server


def progress_reporter(context: Any) -> Callable[[Json], None]:
    """A function for worker threads that sends a job's progress to the client that waits for it."""
    token = anyio.lowlevel.current_token()

    async def send(status: Json) -> None:
        done, total = status.get("processed_files", 0), status.get("total_files", 0)
        await context.report_progress(
            done, total or None, f"{status.get('phase', '')}: {done:,}/{amount(total, 'file')}"
        )

    def report(status: Json) -> None:
        anyio.from_thread.run(send, status, token=token)

    return report
