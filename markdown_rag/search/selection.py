"""Filters become the files that meet them: a catalog's snapshot in, a Where out that every engine applies exactly.

Tags and properties are judged here, over the catalog in memory, and handed to the engine as a list of files: k results
whenever k exist, on every engine, at the price of a scope. Folders and files to search or to leave out become
ranges. What no file has is answered with the nearest that some file has. Pure.
"""

from __future__ import annotations

import difflib
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from markdown_rag.amounts import amount
from markdown_rag.paths import is_within, nfc
from markdown_rag.search.catalog import Snapshot
from markdown_rag.search.conditions import Condition, distance, names_of, parse_condition, text_of, values_of
from markdown_rag.store.base import FileEntry, Where

NEAREST = 3
_SHOWN = 80  # characters of a value that an explanation repeats


@dataclass(frozen=True, slots=True)
class Place:
    """A folder or file, in these workspaces (() = in every one that is searched)."""

    workspaces: tuple[str, ...]
    path: str

    def holds(self, entry: FileEntry) -> bool:
        """Whether a file is it or lies in it."""
        return (not self.workspaces or entry.workspace in self.workspaces) and is_within(entry.path, self.path)


@dataclass(frozen=True, slots=True)
class Selection:
    """What files must meet, all of it: in one of the places, in none of those left out, every tag, every condition."""

    within: tuple[Place, ...] = ()
    outside: tuple[Place, ...] = ()
    tags: tuple[str, ...] = ()
    conditions: tuple[Condition, ...] = ()

    @property
    def is_empty(self) -> bool:
        """Whether everything meets it."""
        return self == NOTHING_ASKED

    def holds(self, entry: FileEntry) -> bool:
        """Whether a file meets it."""
        if self.within and not any(place.holds(entry) for place in self.within):
            return False
        if any(place.holds(entry) for place in self.outside):
            return False
        return all(has_tag(entry, tag) for tag in self.tags) and all(each.holds(entry) for each in self.conditions)


NOTHING_ASKED = Selection()


def names_files_alone(where: Where, selection: Selection, snapshot: Snapshot) -> bool:
    """Whether every place to search is a document: then who asks wants its passages, not the best one."""
    files = {path for _, path in snapshot.files}
    places = {where.scope, *(place.path for place in selection.within)} - {""}
    return bool(places) and places <= files


def select(
    tags: Iterable[str] = (),
    properties: Iterable[str] = (),
    within: tuple[Place, ...] = (),
    outside: tuple[Place, ...] = (),
) -> Selection:
    """A selection from what was typed. A tag may come with its ``#``, several in one text. Raises InputError."""
    words = [word.lstrip("#").strip("/") for text in tags for word in re.split(r"[,\s]+", text)]
    wanted = tuple(dict.fromkeys(_folded(word) for word in words if word))
    conditions = tuple(parse_condition(text) for text in properties if text.strip())
    return Selection(within, outside, wanted, conditions)


def has_tag(entry: FileEntry, wanted: str) -> bool:
    """Whether a file has a tag or one nested in it. wanted: as ``select`` gives it."""
    return any(is_within(_folded(tag), wanted) for tag in entry.tags)


def narrowed(where: Where, selection: Selection, snapshot: Snapshot) -> Where:
    """A Where for the files of ``where`` that meet the selection; places alone need no list."""
    if selection.is_empty:
        return where
    native = not selection.tags and not selection.conditions
    places = (*selection.within, *selection.outside)
    if native and all(set(place.workspaces) in (set(), set(where.workspaces)) for place in places):
        return replace(
            where,
            within=tuple(place.path for place in selection.within),
            outside=tuple(place.path for place in selection.outside),
        )
    files: dict[str, list[str]] = {}
    for entry in snapshot.select(where):
        if selection.holds(entry):
            files.setdefault(entry.workspace, []).append(entry.path)
    return replace(where, files=tuple((workspace, tuple(paths)) for workspace, paths in sorted(files.items())))


def explain_nothing(selection: Selection, entries: Sequence[FileEntry]) -> str:
    """Why no file of these meets a selection, with the nearest that exist; "" where some file does."""
    if not entries or any(selection.holds(entry) for entry in entries):
        return ""
    reasons = [
        *_unknown_places(selection, entries),
        *_unknown_tags(selection, entries),
        *(reason for each in selection.conditions if (reason := _unmet(each, entries))),
    ]
    words = " ".join(reasons) or "Each filter is met by some file, all of them together by none; leave one out."
    return f"None of {amount(len(entries), 'file')} meets the filters. {words}"


def _unknown_tags(selection: Selection, entries: Sequence[FileEntry]) -> Iterable[str]:
    known = Counter(parent for entry in entries for tag in entry.tags for parent in _with_parents(tag))
    for tag in selection.tags:
        if not any(_folded(name) == tag for name in known):
            yield f"No file has the tag {tag!r}; " + _nearest(tag, known)


def _unknown_places(selection: Selection, entries: Sequence[FileEntry]) -> Iterable[str]:
    if selection.within and not any(place.holds(entry) for place in selection.within for entry in entries):
        yield "No file lies in " + " or ".join(place.path for place in selection.within) + "."
    if all(any(place.holds(entry) for place in selection.outside) for entry in entries):
        yield "Every file is left out by exclude_path."


def _unmet(condition: Condition, entries: Sequence[FileEntry]) -> str:
    """Why no file meets a condition, "" where one does."""
    if any(condition.holds(entry) for entry in entries):
        return ""
    asked = f"{condition.name}{condition.operator}{condition.value}"
    if condition.operator == "!=":
        return f"Every file has {condition.name}={condition.value}."
    values = [value for entry in entries for value in values_of(entry, condition.name)]
    if values:
        return f"No file has {asked}; {_nearest_values(condition, values)}"
    names = Counter(name for entry in entries for name in names_of(entry))
    wanted = _folded(condition.name)
    if not any(_folded(name) == wanted for name in names):
        return f"No file has the property {condition.name!r}; " + _nearest(condition.name, names)
    inner = Counter({name: count for name, count in names.items() if _folded(name).startswith(f"{wanted}.")})
    if inner:
        held = ", ".join(name for name, _ in inner.most_common(NEAREST))
        return f"The property {condition.name!r} has no value of its own; it holds {held}."
    return f"The property {condition.name!r} is there, but has no value in any file."


def _short(value: Any) -> str:
    return " ".join(text_of(value).split())[:_SHOWN]


def _nearest_values(condition: Condition, values: Sequence[Any]) -> str:
    """The values nearest to the one asked for: numbers and dates by their distance, others by their spelling."""
    apart: dict[str, float] = {}
    for value in values if condition.operator != "~" else ():
        far = distance(value, condition.value)
        if far is not None:
            apart[_short(value)] = far
    if not apart:
        return _nearest(condition.value, Counter(map(_short, values)))
    return "the nearest: " + ", ".join(sorted(apart, key=lambda value: (apart[value], value))[:NEAREST]) + "."


def _nearest(wanted: str, known: Counter[str]) -> str:
    """The known names spelled most alike, else the most frequent."""
    if not known:
        return "there are none at all."
    folded: dict[str, str] = {}
    for name, _ in known.most_common():
        folded.setdefault(_folded(name), name)
    total = Counter[str]()
    for name, count in known.items():
        total[folded[_folded(name)]] += count
    close = difflib.get_close_matches(_folded(wanted), list(folded), n=NEAREST, cutoff=0.6)
    if close:
        return "the nearest: " + ", ".join(folded[name] for name in close) + "."
    return "the most frequent: " + ", ".join(name for name, _ in total.most_common(NEAREST)) + "."


def _with_parents(tag: str) -> Iterable[str]:
    parts = tag.split("/")
    return ("/".join(parts[: depth + 1]) for depth in range(len(parts)))


def _folded(text: str) -> str:
    return nfc(text).casefold()
