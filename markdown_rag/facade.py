"""What the edges can ask for: one interface, spoken by the MCP server, the shell and the service alike.

Calls are values, answers are JSON objects, so the same interface works inside a process and across one. Every method
blocks, is bounded in time, may be called from any thread, and raises only FastRagError.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from markdown_rag.errors import FastRagError, JobError

Json = dict[str, Any]


@dataclass(frozen=True, slots=True)
class IndexCall:
    """A request to index. root and directory as the caller named them ("" = default).

    force: write every file again; use_cache False also pays for every vector again. verify: hash files even where
    size and time say unchanged. confirm_deletions: go on although more than half of the files are gone. request_id:
    the same for a call that is repeated because its answer was lost, so that it leads to the same job.
    """

    root: str = ""
    directory: str = ""
    recursive: bool = True
    force: bool = False
    use_cache: bool = True
    verify: bool = False
    confirm_deletions: bool = False
    params: Mapping[str, Any] = field(default_factory=dict)
    request_id: str = ""


def job_of(answer: Json) -> str:
    """The id of the job that an index call led to. JobError with its reason where it was refused."""
    if not answer["accepted"]:
        raise JobError(answer["message"])
    job_id: str = answer["job_id"]
    return job_id


@dataclass(frozen=True, slots=True)
class SearchCall:
    """A question. k: how many files to answer with.

    workspace: "" for the default, "all", or a name. explain: show what each score is made of. mode: "hybrid",
    "lexical" or "dense". every_passage: no limit on the hits of one file. max_tokens: of the answer, 0 = what k needs.
    scope_path, exclude_path: folders and files, absolute or relative, to search in and to leave out. tags: all of
    them, each with what is nested in it. properties: conditions on front matter (search/conditions.py), all of them.
    expand: "requires" and "links", what to add to the hits. wait_for_fresh: index what changed there first.
    diverse: hits that say different things come first. from_here: relative paths are first taken from the agent's
    working directory, as people type them in a shell, then from the workspace.
    """

    query: str
    k: int = 5
    scope_path: tuple[str, ...] = ()
    workspace: str = ""
    explain: bool = False
    mode: str = "hybrid"
    every_passage: bool = False
    exclude_path: tuple[str, ...] = ()
    tags: tuple[str, ...] = ()
    properties: tuple[str, ...] = ()
    expand: tuple[str, ...] = ()
    max_tokens: int = 0
    wait_for_fresh: bool = False
    diverse: bool = False
    from_here: bool = False


@dataclass(frozen=True, slots=True)
class ReadCall:
    """Text to read: by a hit's id, or a path with a heading or lines ("10-40"), else the whole document.

    before, after: chunks round a hit that come with it. section: the whole section a hit stands in. reconstruct: the
    file's exact text and what proves it. max_tokens: of the text. continue_from: what an answer that was cut gave.
    from_here: as of a search.
    """

    id: str = ""
    path: str = ""
    heading: str = ""
    lines: str = ""
    before: int = 0
    after: int = 0
    section: bool = False
    reconstruct: bool = False
    max_tokens: int = 4_000
    continue_from: str = ""
    workspace: str = ""
    from_here: bool = False


@dataclass(frozen=True, slots=True)
class ListCall:
    """What is indexed, by folder. path: a folder, "" = the root. recursive: files of subfolders one by one.

    The filters and from_here are a search's. after: the last path of the page before. limit: files of a page.
    """

    path: str = ""
    recursive: bool = False
    exclude_path: tuple[str, ...] = ()
    tags: tuple[str, ...] = ()
    properties: tuple[str, ...] = ()
    after: str = ""
    limit: int = 50
    max_tokens: int = 4_000
    workspace: str = ""
    from_here: bool = False


@dataclass(frozen=True, slots=True)
class LinksCall:
    """The neighbours of a document. direction: "out", "in" or "both"; hops: 1 to 3. from_here: as of a search."""

    path: str
    direction: str = "both"
    hops: int = 1
    max_tokens: int = 2_000
    workspace: str = ""
    from_here: bool = False


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
        """A job's status ("" = the latest, or what runs while that waits); with wait_seconds, when it has ended."""
        ...

    def cancel(self, job_id: str = "") -> Json:
        """Ask a job to stop ("" = that of the caller's folder, else the latest); what is stored stays."""
        ...

    def search(self, call: SearchCall) -> Json:
        """Ranked, bounded, cited passages."""
        ...

    def read(self, call: ReadCall) -> Json:
        """The text of a document or of a part of it."""
        ...

    def list_documents(self, call: ListCall) -> Json:
        """What is indexed, and what was left out."""
        ...

    def follow_links(self, call: LinksCall) -> Json:
        """What a document links to, and what links to it."""
        ...

    def clear(self, workspace: str = "", *, confirm: bool = False) -> Json:
        """Remove one workspace from the index; without confirm only say what would go."""
        ...

    def audit(self, call: IndexCall, *, repair: bool = False) -> Json:
        """Compare the index with the disk; where no folder is named, that of the workspace a search looks into."""
        ...

    def migrate(self, address: str, on_progress: Callable[[Json], None] | None = None) -> Json:
        """Copy the index to another Milvus, vectors and all; the original stays."""
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

    def read(self, call: ReadCall) -> Json:
        """Raise the reason."""
        del call
        raise self._reason

    def list_documents(self, call: ListCall) -> Json:
        """Raise the reason."""
        del call
        raise self._reason

    def follow_links(self, call: LinksCall) -> Json:
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

    def migrate(self, address: str, on_progress: Callable[[Json], None] | None = None) -> Json:
        """Raise the reason."""
        del address, on_progress
        raise self._reason

    def health(self) -> Json:
        """Raise the reason."""
        raise self._reason

    def close(self) -> None:
        """Nothing is open."""
