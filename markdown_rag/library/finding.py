"""Which document is meant: a path, a name or a passage's file to an entry of the catalog. Pure.

Only what is indexed can be named, so nothing outside the workspaces, and nothing left out of the index, can be read.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Sequence
from pathlib import Path, PurePosixPath

from markdown_rag.amounts import amount
from markdown_rag.errors import InputError, NotFound
from markdown_rag.paths import file_digest, nfc
from markdown_rag.search.catalog import Snapshot
from markdown_rag.store.base import FileEntry

NEAREST = 3


def _nowhere(_: str) -> Path | None:
    """No workspace is on this machine."""
    return None


def by_digest(snapshot: Snapshot, digest: str) -> FileEntry | None:
    """The file that a passage's id names, None where it is not indexed any more."""
    return next((entry for (id_, path), entry in snapshot.files.items() if file_digest(id_, path) == digest), None)


def by_path(
    snapshot: Snapshot, workspaces: Sequence[str], path: str, root_of: Callable[[str], Path | None] = _nowhere
) -> FileEntry:
    """The file at a relative path of one of these workspaces ((), any), or the only one of that name.

    A name may lack its folder and its extension, or be an alias or a title. root_of: where a workspace is on this
    machine; a file that several workspaces hold is taken from the outermost. Raises NotFound with the nearest that
    exist, InputError where several are meant.
    """
    wanted, folded = nfc(path).strip("/"), nfc(path).strip("/").casefold()
    entries = [entry for entry in snapshot.files.values() if not workspaces or entry.workspace in workspaces]
    stages: tuple[Callable[[FileEntry], bool], ...] = (
        lambda entry: nfc(entry.path) == wanted,
        lambda entry: nfc(entry.path).casefold() == folded,
        lambda entry: _ends_with(entry.path, folded),
        lambda entry: any(nfc(name).casefold() == folded for name in _names(entry)),
    )
    for fits in stages:  # each looks at every entry, and only where the ones before found nothing
        different = _different([entry for entry in entries if fits(entry)], root_of)
        if len(different) == 1:
            return different[0]
        if different:
            raise _ambiguous(path, different, root_of)
    raise NotFound(f"No indexed document is called {path!r}.", _nearest(wanted, entries))


def _names(entry: FileEntry) -> tuple[str, ...]:
    return (entry.title, *entry.aliases)


def _different(entries: Sequence[FileEntry], root_of: Callable[[str], Path | None]) -> list[FileEntry]:
    """The entries without those that are another's file in a workspace inside its own."""
    outermost: dict[object, FileEntry] = {}
    for entry in sorted(entries, key=lambda entry: -len(entry.path)):
        root = root_of(entry.workspace)
        outermost.setdefault(root / entry.path if root else (entry.workspace, entry.path), entry)
    return list(outermost.values())


def _ambiguous(path: str, entries: Sequence[FileEntry], root_of: Callable[[str], Path | None]) -> InputError:
    """Which documents a name can be: by their paths in the workspace, in full where there are several workspaces."""
    names = [entry.path for entry in entries]
    if len({entry.workspace for entry in entries}) > 1:
        places = [(root_of(entry.workspace), entry) for entry in entries]
        names = [str(root / e.path) if root else f"{e.path} of workspace {e.workspace}" for root, e in places]
    shown = ", ".join(sorted(names)[:NEAREST])
    return InputError(f"{path} can be any of {amount(len(names), 'document')}: {shown}.", "Give its whole path.")


def _ends_with(path: str, short: str) -> bool:
    """Whether a path ends with whole parts of another, whose last may lack the extension."""
    whole = nfc(path).casefold()
    at = whole.rfind(short)
    if at < 0 or (at and whole[at - 1] != "/"):
        return False
    rest = whole[at + len(short) :]
    return not rest or (rest.startswith(".") and "/" not in rest and "." not in rest[1:])


def _nearest(wanted: str, entries: Sequence[FileEntry]) -> str:
    by_name: dict[str, str] = {}
    for entry in entries:
        by_name.setdefault(nfc(entry.path).casefold(), entry.path)
        by_name.setdefault(PurePosixPath(nfc(entry.path)).stem.casefold(), entry.path)
    names = [wanted.casefold(), PurePosixPath(wanted).stem.casefold()]
    close = [hit for name in names for hit in difflib.get_close_matches(name, list(by_name), n=NEAREST, cutoff=0.6)]
    paths = list(dict.fromkeys(by_name[name] for name in close))[:NEAREST]
    if paths:
        return f"The nearest: {', '.join(paths)}. list_documents shows what is indexed."
    return "list_documents shows what is indexed; index_documents adds new files."
