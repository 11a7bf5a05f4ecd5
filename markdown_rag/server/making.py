"""How a tool and a tool's result are made, the same for all of them."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

from mcp.server.mcpserver.tools import Tool
from mcp.types import CallToolResult, TextContent, ToolAnnotations

from markdown_rag.oneline import one_line
from markdown_rag.server import schemas

NONE: list[str] = []  # the default of a list argument; never changed


def answer(structured: Mapping[str, Any], text: str = "", *, is_error: bool = False) -> CallToolResult:
    """A tool result whose text and structure are each complete; text "" means the structure as JSON."""
    body = text or one_line(json.dumps(structured, ensure_ascii=False, separators=(",", ":")))
    return CallToolResult(
        content=[TextContent(type="text", text=body)], structured_content=dict(structured), is_error=is_error
    )


def make_tool(function: Callable[..., Any], description: str, output: schemas.Schema, **hints: bool) -> Tool:
    """A tool with its schemas tidied for every host: no titles, properties always there."""
    tool = Tool.from_function(
        function,
        title=function.__name__.replace("_", " ").title(),
        description=description,
        annotations=ToolAnnotations.model_validate({"open_world_hint": False, **hints}),
        structured_output=False,
    )
    properties = {
        name: {key: value for key, value in schema.items() if key != "title"}
        for name, schema in tool.parameters.get("properties", {}).items()
    }
    if function.__name__ in {"get_index_status", "clear_index"}:
        # The old tool had it for a host that dropped tools without arguments; clients may still send it.
        properties["_"] = {"type": "boolean", "default": False, "description": "Ignored."}
    tool.parameters = {"type": "object", "properties": properties, "required": tool.parameters.get("required", [])}
    tool.fn_metadata.output_schema = output
    return tool
