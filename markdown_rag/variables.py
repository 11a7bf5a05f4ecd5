"""How a variable is declared: type, limits, and the words of the documentation, in one field. Pure.

``range`` says what is allowed; ``default`` and ``formerly`` in the notes replace what the documentation shows for them.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Collection, Iterable
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BeforeValidator, Field, SecretStr
from pydantic_settings import NoDecode

from markdown_rag.paths import is_store_address

Default = int | None | Callable[[dict[str, Any]], int]  # the last one: from the values of the fields before it


def text(value: str, allowed: str, meaning: str, *, pattern: str | None = None, **notes: str) -> Any:
    """A text; pattern: what it has to match."""
    return Field(value, pattern=pattern, repr=False, description=meaning, json_schema_extra={"range": allowed, **notes})


def whole(value: Default, smallest: int, largest: int, meaning: str, **notes: str) -> Any:
    """A whole number; a callable value reads its default from the variables before it."""
    given: dict[str, Any] = {"default_factory": value} if callable(value) else {"default": value}
    extra: dict[str, Any] = {"range": f"a whole number from {smallest} to {largest}", **notes}
    return Field(**given, ge=smallest, le=largest, description=meaning, json_schema_extra=extra)


def value(default: object, allowed: str, meaning: str) -> Any:
    """Anything else, its type being what checks it."""
    return Field(default, description=meaning, json_schema_extra={"range": allowed})


def _split(value: object) -> object:
    return tuple(part for part in map(str.strip, value.split(",")) if part) if isinstance(value, str) else value


def _sendable(key: SecretStr) -> SecretStr:
    # A key goes into an HTTP header, and libraries repeat a header they refuse, key and all, in their error.
    if not re.fullmatch(r"[\x21-\x7e]+", key.get_secret_value()):
        raise ValueError
    return key


def _reachable(address: str) -> str:
    if not is_store_address(address):
        raise ValueError
    return address


Address = Annotated[str, AfterValidator(_reachable)]
Names = Annotated[tuple[str, ...], NoDecode, BeforeValidator(_split)]
Key = Annotated[SecretStr, AfterValidator(_sendable)]
NO_KEY = SecretStr("")
NAMES = "names or paths from the root, with commas between"
_ALIKE, _LONGER = 0.9, 2  # how alike two names are that are meant to be one, and by how many characters they differ
Switch = Literal["on", "off"]


def misspelt(given: Iterable[str], known: Collection[str]) -> list[tuple[str, str]]:
    """Names that are nobody's and nearly one of the known, each with that one; in order."""
    found = []
    for name in sorted(set(given) - set(known)):
        close = difflib.get_close_matches(name.upper(), known, n=1, cutoff=_ALIKE)
        if close and abs(len(close[0]) - len(name)) <= _LONGER:
            found.append((name, close[0]))
    return found


def switch(value: Switch, meaning: str) -> Any:
    """On or off."""
    return Field(value, description=meaning, json_schema_extra={"range": "on or off"})
