"""What travels between client and service: lines of JSON. Errors keep their class, found by its code.

JSON in ASCII: a path that is not valid Unicode holds lone surrogates, which UTF-8 cannot carry and escapes can. An
answer is any number of ``{"progress": ...}`` lines, then one ``{"answer": ...}`` or ``{"error": ...}``.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from markdown_rag.errors import FastRagError, InputError, ServiceError
from markdown_rag.jobs.owner import Owner


@dataclass(frozen=True, slots=True)
class Agent:
    """Who asks: where it was started, its own variables (as texts, checked on arrival), and its process."""

    folder: Path
    variables: Mapping[str, str]
    process: Owner


def line(**values: Any) -> bytes:
    """One line."""
    return json.dumps(values, separators=(",", ":")).encode("ascii") + b"\n"


def request(agent: Agent, arguments: Mapping[str, Any]) -> bytes:
    """A call's body."""
    who = {"folder": str(agent.folder), "variables": dict(agent.variables), "process": asdict(agent.process)}
    return line(agent=who, arguments=dict(arguments))


def read_request(body: bytes) -> tuple[Agent, dict[str, Any]]:
    """Who asks, and with which arguments. Raises InputError."""
    try:
        found = json.loads(body)
        who, arguments = found["agent"], dict(found["arguments"])
        agent = Agent(
            Path(who["folder"]), {str(k): str(v) for k, v in who["variables"].items()}, Owner(**who["process"])
        )
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        raise InputError("This is no request.", "Client and service are of different versions.") from error
    return agent, arguments


def error_to_json(error: FastRagError) -> dict[str, Any]:
    """An error with everything it holds."""
    return {"code": error.code, "values": {**vars(error), "message": error.message, "next_step": error.next_step}}


def error_from_json(found: Mapping[str, Any]) -> FastRagError:
    """The same error, of the same class."""
    classes = {kind.code: kind for kind in _kinds(FastRagError)}
    values: dict[str, Any] = {
        name: tuple(value) if isinstance(value, list) else value for name, value in found["values"].items()
    }
    try:
        return classes[found["code"]](**values)
    except (KeyError, TypeError):
        return ServiceError(str(values.get("message", found["code"])), str(values.get("next_step", "")))


def _kinds(kind: type[FastRagError]) -> Iterator[type[FastRagError]]:
    yield kind
    for narrower in kind.__subclasses__():
        yield from _kinds(narrower)
