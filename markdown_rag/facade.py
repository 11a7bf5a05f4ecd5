"""What the edges can ask for: one interface, spoken by the MCP server, the shell and the service alike (D14).

Calls are values, answers are JSON objects, so the same interface works inside a process and across one. Every method
blocks, is bounded in time, may be called from any thread, and raises only FastRagError.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from markdown_rag.errors import FastRagError

Json = dict[str, Any]


@dataclass(frozen=True, slots=True)
class IndexCall:
    """A request to index. root and directory as the caller named them ("" = default).

    force: write every file again; use_cache False also pays for every vector again. verify: hash files even where
    size and time say unchanged. confirm_deletions: go on although more than half of the files are gone.
    """

    root: str = ""
    directory: str = ""
    recursive: bool = True
    force: bool = False
    use_cache: bool = True
    verify: bool = False
    confirm_deletions: bool = False
    params: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class SearchCall:
    """A question. k: how many files to answer with. scope_path: a folder or file, absolute or relative.

    workspace: "" for the default, "all", or a name. explain: show what each score is made of. mode: "hybrid",
    "lexical" or "dense". every_passage: no limit on the hits of one file.
    """

    query: str
    k: int = 5
    scope_path: str = ""
    workspace: str = ""
    explain: bool = False
    mode: str = "hybrid"
    every_passage: bool = False


class Facade(Protocol):
    """Everything the edges can ask for."""

    def index(self, call: IndexCall) -> Json:
        """Accept an index job, or join one; answers at once."""
        ...

    def preview(self, call: IndexCall) -> Json:
        """What an index run would do and cost."""
        ...

    def status(
        self, job_id: str = "", wait_seconds: float = 0.0, on_progress: Callable[[Json], None] | None = None
    ) -> Json:
        """A job's status ("" = the latest); with wait_seconds, returns as soon as the job has ended."""
        ...

    def cancel(self, job_id: str = "") -> Json:
        """Ask a job to stop ("" = the latest active one); what is stored stays."""
        ...

    def search(self, call: SearchCall) -> Json:
        """Ranked, bounded, cited passages."""
        ...

    def clear(self, workspace: str = "", *, confirm: bool = False) -> Json:
        """Remove one workspace from the index; without confirm only say what would go."""
        ...

    def audit(self, call: IndexCall, *, repair: bool = False) -> Json:
        """Compare the index with the disk."""
        ...

    def health(self) -> Json:
        """What this installation is made of, and whether each part works."""
        ...

    def close(self) -> None:
        """Stop own work, keep what is stored, let go of everything. Safe to call twice."""
        ...


class Unusable:
    """A façade that answers every call with the same error: what a server is when a variable is bad.

    Hosts show only "connection closed" for a server that exits, so the reason has to come as an answer.
    """

    def __init__(self, reason: FastRagError) -> None:
        self._reason = reason

    def index(self, call: IndexCall) -> Json:
        """Raise the reason."""
        del call
        raise self._reason

    def preview(self, call: IndexCall) -> Json:
        """Raise the reason."""
        del call
        raise self._reason

    def status(
        self, job_id: str = "", wait_seconds: float = 0.0, on_progress: Callable[[Json], None] | None = None
    ) -> Json:
        """Raise the reason."""
        del job_id, wait_seconds, on_progress
        raise self._reason

    def cancel(self, job_id: str = "") -> Json:
        """Raise the reason."""
        del job_id
        raise self._reason

    def search(self, call: SearchCall) -> Json:
        """Raise the reason."""
        del call
        raise self._reason

    def clear(self, workspace: str = "", *, confirm: bool = False) -> Json:
        """Raise the reason."""
        del workspace, confirm
        raise self._reason

    def audit(self, call: IndexCall, *, repair: bool = False) -> Json:
        """Raise the reason."""
        del call, repair
        raise self._reason

    def health(self) -> Json:
        """Raise the reason."""
        raise self._reason

    def close(self) -> None:
        """Nothing is open."""
