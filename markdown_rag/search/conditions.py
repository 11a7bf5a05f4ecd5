"""What a user asks of front matter: ``status=done``, ``tags~x``, ``date>2024-01-01`` are read and judged here.

Pure. A condition names a property (dots lead into nested ones, case does not matter; ``title``, ``aliases``, ``tags``
and ``path`` are properties too), a comparison and a value. A property that is a list meets it when one of its items
does. Text is compared without regard to case and Unicode form, numbers as numbers, dates as dates: a value without a
time stands for its whole day.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime
from typing import Any

from markdown_rag.errors import InputError
from markdown_rag.paths import nfc
from markdown_rag.store.base import FileEntry

_CONDITION = re.compile(r"\s*([^=~<>!]+?)\s*(!=|>=|<=|=|~|>|<)\s*(.*?)\s*", re.DOTALL)
_PARTIAL_DATE = re.compile(r"\d{4}(-\d{2})?")
_LOOKED_AT = 1_000  # items of one property
GRAMMAR = "Write name=value, name!=value, name~part, name>2024-01-31, name<=7, or a name alone for any value."


@dataclass(frozen=True, slots=True)
class Condition:
    """One comparison. operator: one of = != ~ > >= < <=, or "" for "has any value"."""

    name: str
    operator: str
    value: str

    def holds(self, entry: FileEntry) -> bool:
        """Whether a file meets it. ``!=`` also holds where there is no such property."""
        values = list(values_of(entry, self.name))
        match self.operator:
            case "":
                return bool(values)
            case "!=":
                return not any(_equal(value, self.value) for value in values)
            case "=":
                return any(_equal(value, self.value) for value in values)
            case "~":
                return any(_folded(self.value) in _folded(text_of(value)) for value in values)
            case _:
                return any(_ordered(value, self.operator, self.value) for value in values)


def parse_condition(given: str) -> Condition:
    """A condition as typed. Raises InputError, with the grammar, for what is none."""
    found = _CONDITION.fullmatch(given)
    if found is None:
        name = given.strip()
        if not name or re.search(r"[=~<>!]", name):
            raise InputError(f"properties: {given!r} is no condition.", GRAMMAR)
        return Condition(name, "", "")
    name, operator, value = found.groups()
    if operator in {">", ">=", "<", "<="} and _number(value) is None and _moment(value) is None:
        raise InputError(f"properties: {given!r} compares with neither a number nor a date.", GRAMMAR)
    if not value and operator == "~":
        raise InputError(f"properties: {given!r} looks for nothing.", GRAMMAR)
    return Condition(name, operator, value)


def values_of(entry: FileEntry, name: str) -> Iterator[Any]:
    """The scalars of a file's property, lists taken apart; none where it is missing or null."""
    special: dict[str, Any] = {
        "title": entry.title,
        "aliases": entry.aliases,
        "tags": entry.tags,
        "path": entry.path,
    }
    wanted = _folded(name)
    found = _lookup(entry.properties, wanted)
    return _scalars(special.get(wanted) if found is None else found)


def names_of(entry: FileEntry) -> Iterator[str]:
    """The properties a file has, nested ones with dots."""
    yield from _paths(entry.properties, "", 3)


def _paths(properties: Mapping[str, Any], prefix: str, depth: int) -> Iterator[str]:
    for name, value in properties.items():
        yield prefix + name
        if isinstance(value, Mapping) and depth:
            yield from _paths(value, f"{prefix}{name}.", depth - 1)


def _lookup(properties: Mapping[str, Any], wanted: str) -> Any:
    for name, value in properties.items():
        folded = _folded(name)
        if folded == wanted:
            return value
        if isinstance(value, Mapping) and wanted.startswith(folded + "."):
            inner = _lookup(value, wanted[len(folded) + 1 :])
            if inner is not None:
                return inner
    return None


def _scalars(value: Any) -> Iterator[Any]:
    if isinstance(value, list | tuple):
        for item in value[:_LOOKED_AT]:
            yield from _scalars(item)
    elif isinstance(value, str | int | float | bool) and value != "":
        yield value


def _folded(text: str) -> str:
    return nfc(text).casefold()


def text_of(value: Any) -> str:
    """A value as front matter and conditions write it."""
    return ("true" if value else "false") if isinstance(value, bool) else str(value)


def _equal(value: Any, wanted: str) -> bool:
    if _folded(text_of(value)) == _folded(wanted):
        return True
    number = _number(wanted)
    if number is not None and _number(value) == number:
        return True
    day, moment = _day(wanted), _moment(value)
    if day is not None:
        return moment is not None and moment.date() == day
    # Both with a time of day: the same instant, in whichever time zone each is written.
    return moment is not None and _day(value) is None and moment == _moment(wanted)


def _ordered(value: Any, operator: str, wanted: str) -> bool:
    bound, number = _number(wanted), _number(value)
    if bound is not None and number is not None:
        return _compare(number, operator, bound)
    limit, moment = _moment(wanted), _moment(value)
    if limit is None or moment is None:
        return False
    if _day(wanted) is not None or _day(value) is not None:
        return _compare(moment.date().toordinal(), operator, limit.date().toordinal())
    return _compare(moment.timestamp(), operator, limit.timestamp())


def distance(value: Any, wanted: str) -> float | None:
    """How far a value is from what was wanted, as numbers or in seconds; None where they are not of one kind."""
    bound, number = _number(wanted), _number(value)
    if bound is not None and number is not None:
        apart = abs(number - bound)
        return None if math.isnan(apart) else apart
    limit, moment = _moment(wanted), _moment(value)
    return None if limit is None or moment is None else abs((moment - limit).total_seconds())


def _compare(left: float, operator: str, right: float) -> bool:
    if left == right:
        return operator in {">=", "<="}
    return (left > right) == operator.startswith(">")


def _number(value: Any) -> float | None:
    if isinstance(value, bool):
        return None
    try:
        return float(value)
    except (ValueError, OverflowError):
        return None


def _day(value: Any) -> date | None:
    """A date without a time of day; a year or a month stands for its first day."""
    text = str(value).strip()
    if _PARTIAL_DATE.fullmatch(text):
        text = f"{text}-01-01"[:10]
    try:
        return date.fromisoformat(text)
    except ValueError:
        return None


def _moment(value: Any) -> datetime | None:
    """A date or a date with time, in UTC where it says nothing else."""
    day = _day(value)
    if day is not None:
        return datetime(day.year, day.month, day.day, tzinfo=UTC)
    try:
        found = datetime.fromisoformat(str(value).strip())
    except ValueError:
        return None
    return found if found.tzinfo else found.replace(tzinfo=UTC)
