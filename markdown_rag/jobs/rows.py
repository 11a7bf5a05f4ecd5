"""A job as a row of the ledger and back. Exact both ways, for any path the disk can have.

Structured parts are JSON in ASCII: a file name that is not valid Unicode comes as lone surrogates, which SQLite's text
cannot hold and JSON's escapes can.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any

from markdown_rag.indexing.report import Phase, Progress
from markdown_rag.jobs.job import IndexRequest, Job, Status
from markdown_rag.jobs.owner import Owner
from markdown_rag.paths import Scope, Workspace

COLUMNS = tuple(item.name for item in fields(Job))
_JSON = frozenset({"request", "owner", "progress", "note", "error", "cancel", "result"})


def to_row(job: Job) -> tuple[Any, ...]:
    """The row's values in the order of COLUMNS."""
    values: dict[str, Any] = {name: getattr(job, name) for name in COLUMNS}
    values["request"] = _request_to_json(job.request)
    values["owner"] = asdict(job.owner)
    values["progress"] = asdict(job.progress)
    values["result"] = None if job.result is None else dict(job.result)
    return tuple(_encode(name, value) for name, value in values.items())


def from_row(row: Sequence[Any]) -> Job:
    """The job of a row."""
    values = {name: _decode(name, value) for name, value in zip(COLUMNS, row, strict=True)}
    known = Progress.__dataclass_fields__  # another version may have kept other figures
    figures = {name: value for name, value in values["progress"].items() if name in known}
    return Job(
        **values
        | {
            "request": _request_from_json(values["request"]),
            "owner": Owner(**values["owner"]),
            "status": Status(values["status"]),
            "progress": Progress(**figures | {"phase": Phase(figures["phase"])}),
            "suspected": bool(values["suspected"]),
            "resumable": bool(values["resumable"]),
        }
    )


def _encode(name: str, value: Any) -> Any:
    return json.dumps(value) if name in _JSON and value is not None else value


def _decode(name: str, value: Any) -> Any:
    return json.loads(value) if name in _JSON and value is not None else value


def _request_to_json(request: IndexRequest) -> dict[str, Any]:
    scope = request.scope
    return {item.name: getattr(request, item.name) for item in fields(request)} | {
        "scope": {
            "workspace": scope.workspace.id,
            "root": str(scope.workspace.root),
            "path": scope.path,
            "recursive": scope.recursive,
        },
        "params": dict(request.params),
    }


def _request_from_json(value: dict[str, Any]) -> IndexRequest:
    scope = value["scope"]
    workspace = Workspace(scope["workspace"], Path(scope["root"]))
    return IndexRequest(**value | {"scope": Scope(workspace, scope["path"], scope["recursive"])})
