"""What is indexed as the JSON that clients get: a page of a folder, or the workspaces there are. All of it bounded."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from markdown_rag.amounts import amount
from markdown_rag.citing import NAMES, meanwhile, some, without_blanks
from markdown_rag.clock import iso
from markdown_rag.facade import Json
from markdown_rag.jobs.job import Job
from markdown_rag.workspaces import Searched

if TYPE_CHECKING:
    from markdown_rag.library.listing import Page
    from markdown_rag.library.vocabulary import Vocabulary
    from markdown_rag.store.base import FileEntry


def list_answer(
    page: Page,
    searched: Searched,
    skipped: Mapping[str, Any],
    root: Path | None,
    *,
    active: Sequence[Job] = (),
    vocabulary: Vocabulary | None = None,
) -> Json:
    """A page of a folder, and what the latest run left out of the workspace. vocabulary: what can be filtered by.

    root: of the workspace on this machine; each file is looked for there. active: jobs that index it at this moment.
    """
    documents = [_document(entry, root) for entry in page.files]
    shown: Json = {
        "searched": searched.label,
        "path": page.folder,
        "files": page.total_files,
        "chunks": page.total_chunks,
        "vocabulary": _words(vocabulary) if vocabulary else {},
        "folders": [{"path": each.path, "files": each.files, "chunks": each.chunks} for each in page.folders],
        "documents": documents,
        "skipped": _skipped(skipped, page.folder),
        "after": page.after,
    }
    notes = [meanwhile(searched, active)] if active else []
    if page.within != page.folder:
        notes.append(f"All of it lies in {page.within}, whose entries are shown.")
    if gone := sum("freshness" in each for each in documents):
        notes.append(f"Deleted from disk since they were indexed: {gone}; index_documents takes them out.")
    if page.after:
        shares = f"{len(page.files)} of {amount(page.listed, 'document')}"
        notes.append(f"{shares} named; pass after={page.after!r} for the next page.")
    return without_blanks({**shown, "note": " ".join(notes)}, keep=("folders", "documents"))


def workspaces_answer(
    entries: Iterable[FileEntry], roots: Mapping[str, Path], searched: Searched, active: Sequence[Job] = ()
) -> Json:
    """Which workspaces there are, where a list was not asked for one.

    roots: of those on this machine, by id. active: jobs that index something of what is listed at this moment.
    """
    rows: dict[str, Json] = {}
    for entry in entries:
        id_ = entry.workspace
        blank = {"workspace": id_, "path": str(roots.get(id_, "")), "files": 0, "chunks": 0}
        row = rows.setdefault(id_, blank)
        row["files"] += 1
        row["chunks"] += entry.chunk_count
    call = "Nothing is stored yet." if active else "Nothing is indexed; call index_documents."
    note = "Pass workspace= one of these to list its documents." if rows else call
    files, chunks = (sum(row[name] for row in rows.values()) for name in ("files", "chunks"))
    return {
        "searched": "all workspaces",
        "files": files,
        "chunks": chunks,
        "workspaces": sorted(rows.values(), key=lambda row: (row["path"], row["workspace"])),
        "folders": [],
        "documents": [],
        "note": f"{meanwhile(searched, active)} {note}".strip(),
    }


def _words(found: Vocabulary) -> Json:
    """Tags and properties with their counts."""
    shown = {
        "tags": [{"tag": tag, "files": files} for tag, files in found.tags],
        "properties": [
            {"name": each.name, "files": each.files, "values": list(each.values)} for each in found.properties
        ],
        "all_tags": found.all_tags,
        "all_properties": found.all_properties,
    }
    return {name: value for name, value in shown.items() if value}


def _document(entry: FileEntry, root: Path | None) -> Json:
    is_gone, changed = _on_disk(entry, root)
    shown = {
        "path": entry.path,
        "title": entry.title,
        **some("tags", entry.tags),
        **some("aliases", entry.aliases),
        "chunks": entry.chunk_count,
        "freshness": "deleted" if is_gone else "",
        "changed": changed,
        "indexed": _day(entry.gen / 1e9),
    }
    return without_blanks(shown)


def _on_disk(entry: FileEntry, root: Path | None) -> tuple[bool, str]:
    """Whether a file is gone from its workspace, and when it last changed, "" where that cannot be told."""
    if root is None:
        return False, ""
    try:
        return False, _day((root / entry.path).lstat().st_mtime)
    except (FileNotFoundError, NotADirectoryError):
        return root.is_dir(), ""  # an unmounted root says nothing about its files
    except (OSError, ValueError):
        return False, ""


def _day(seconds: float) -> str:
    return (iso(seconds) or "")[:16]


def _skipped(told: Mapping[str, Any], folder: str) -> Json:
    """What was left out, by reason; single files only where they lie in the folder."""
    prefix = f"{folder}/" if folder else ""
    problems = [problem for problem in told.get("problems", []) if f"{problem['path']}/".startswith(prefix)]
    shown = {
        "by_rule": told.get("left_out", {}),
        "by_reason": told.get("counts", {}),
        "examples": problems[:NAMES],
        "told_at": told.get("told_at") if told.get("left_out") or told.get("counts") else "",
    }
    return {name: value for name, value in shown.items() if value}
