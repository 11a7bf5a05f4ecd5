"""What the files of a vault can be filtered by: its tags and properties, the most frequent first. Pure.

Every file counts; the values that are shown as examples are taken from about two hundred of them.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any

from markdown_rag.store.base import FileEntry

TAGS, PROPERTIES, EXAMPLES = 20, 15, 3
MAX_EXAMPLE = 40  # characters; a longer value is prose, and nobody filters by it
_READ_FOR_EXAMPLES = 200  # files
_ITEMS, _DEPTH = 20, 3  # of one property


@dataclass(frozen=True, slots=True)
class Property:
    """A front matter property: how many files have it, and its most frequent short values."""

    name: str
    files: int
    values: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Vocabulary:
    """tags: each with the number of files that have it. all_tags, all_properties: how many different ones there are."""

    tags: tuple[tuple[str, int], ...] = ()
    properties: tuple[Property, ...] = ()
    all_tags: int = 0
    all_properties: int = 0


def vocabulary(entries: Sequence[FileEntry]) -> Vocabulary:
    """The most frequent tags and properties of some files; nested properties with dots, as a filter names them."""
    tags = Counter(chain.from_iterable(entry.tags for entry in entries))
    names = Counter(chain.from_iterable(_names(entry.properties) for entry in entries))
    values = _values(entries[:: max(1, len(entries) // _READ_FOR_EXAMPLES)])
    properties = tuple(
        Property(name, files, tuple(value for value, _ in _first(values[name], EXAMPLES)))
        for name, files in _first(names, PROPERTIES)
    )
    return Vocabulary(tuple(_first(tags, TAGS)), properties, len(tags), len(names))


def _names(properties: Mapping[str, Any], prefix: str = "", depth: int = _DEPTH) -> Iterator[str]:
    """The properties that have values, nested ones with dots."""
    for name, value in properties.items():
        if isinstance(value, dict):
            if depth:
                yield from _names(value, f"{prefix}{name}.", depth - 1)
        else:
            yield prefix + name if prefix else name


def _values(entries: Sequence[FileEntry]) -> defaultdict[str, Counter[str]]:
    """In how many files each short value of each property occurs."""
    found: defaultdict[str, Counter[str]] = defaultdict(Counter)
    for entry in entries:
        for name in _names(entry.properties):
            found[name].update({text for text in map(_text, _items(entry.properties, name)) if text})
    return found


def _items(properties: Mapping[str, Any], name: str) -> list[Any]:
    """A property's value, or the first of its values."""
    if name not in properties:
        outer, _, inner = name.partition(".")
        return _items(properties[outer], inner) if isinstance(properties.get(outer), dict) else []
    value = properties[name]
    return value[:_ITEMS] if isinstance(value, list) else [value]


def _text(value: Any) -> str:
    """A value as a filter has it, "" where none would."""
    if isinstance(value, bool):
        return str(value).lower()
    text = str(value).strip() if isinstance(value, str | int | float) else ""
    return text if len(text) <= MAX_EXAMPLE and "\n" not in text else ""


def _first(counts: Counter[str], limit: int) -> list[tuple[str, int]]:
    """The most frequent, by name where they are equally frequent."""
    return sorted(counts.items(), key=lambda item: (-item[1], item[0]))[:limit]
