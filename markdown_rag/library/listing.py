"""A catalog's entries become one page of a folder: its subfolders with counts, and its files in order. Pure.

Pages are told apart by the last path of the one before, so files that come and go meanwhile double and hide nothing.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from markdown_rag.paths import is_within
from markdown_rag.store.base import FileEntry

MAX_LIMIT = 500


@dataclass(frozen=True, slots=True)
class Folder:
    """A subfolder with everything in it, however deep."""

    path: str
    files: int
    chunks: int


@dataclass(frozen=True, slots=True)
class Page:
    """A page of a folder.

    folder: the one it is of. within: the one inside it that holds all of it, where that is passed by; else the same.
    total_files: in it, however deep. listed: those that all pages name. after: the path to go
    on from, "" at the end.
    """

    folder: str
    within: str
    folders: tuple[Folder, ...]
    files: tuple[FileEntry, ...]
    total_files: int
    total_chunks: int
    listed: int
    after: str


def page_of(
    entries: Iterable[FileEntry],
    folder: str,
    *,
    recursive: bool,
    after: str,
    limit: int,
    fits: Callable[[FileEntry], bool],
) -> Page:
    """A page of a folder of one workspace.

    recursive: files of subfolders too. limit: 1 to MAX_LIMIT. fits: whether one more file has room in the answer. A
    folder that holds nothing but another one is passed by.
    """
    inside = [entry for entry in entries if is_within(entry.path, folder)]
    folders = () if recursive or after else _folders(inside, folder)
    within = folder
    while len(folders) == 1 and folders[0].files == len(inside):
        within = folders[0].path
        folders = _folders(inside, within)
    mine = sorted((e for e in inside if recursive or _parent(e.path, within) == within), key=_path)
    left = [entry for entry in mine if entry.path > after]
    shown: list[FileEntry] = []
    for entry in left[:limit]:
        if shown and not fits(entry):
            break
        shown.append(entry)
    more = shown[-1].path if len(shown) < len(left) else ""
    return Page(folder, within, folders, tuple(shown), len(inside), sum(e.chunk_count for e in inside), len(mine), more)


def room(max_tokens: int, shown: int) -> Callable[[FileEntry], bool]:
    """Whether one more document has room in a list of so many tokens, by its length: four bytes are about a token.

    shown: how many of its tags, and of its aliases, are named.
    """
    left = 4 * max(200, max_tokens)

    def fits(entry: FileEntry) -> bool:
        nonlocal left
        names = (entry.path, entry.title, *entry.tags[:shown], *entry.aliases[:shown])
        left -= 120 + sum(len(name.encode("utf-8", "replace")) for name in names)
        return left > 0

    return fits


def _path(entry: FileEntry) -> str:
    return entry.path


def _parent(path: str, folder: str) -> str:
    """The folder a path lies in; a file that is listed by its own name counts as lying in itself."""
    return folder if path == folder else path.rpartition("/")[0]


def _folders(entries: Iterable[FileEntry], folder: str) -> tuple[Folder, ...]:
    files, chunks = Counter[str](), Counter[str]()
    start = len(folder) + 1 if folder else 0
    for entry in entries:
        name, slash, _ = entry.path[start:].partition("/")
        if slash:
            path = f"{folder}/{name}" if folder else name
            files[path] += 1
            chunks[path] += entry.chunk_count
    return tuple(Folder(path, files[path], chunks[path]) for path in sorted(files))
