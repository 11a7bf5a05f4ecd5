"""Tool arguments as hosts really send them, made what the schema says, or refused in plain words.

Models write "5" for 5, "true" for true, null for "not given", a lone string for a list of one. Those are taken as
meant. Anything else is one sentence that names the argument, what came and what is allowed. A name that a tool does not
have is refused too: a filter that was misspelled would widen the answer, a folder that was would clear another one.
Only what hosts add of their own is let pass: names with an underscore in front, and HOSTS_OWN. Pure.
"""

from __future__ import annotations

import contextlib
import difflib
import json
from collections.abc import Mapping, Sequence
from typing import Any

from markdown_rag.errors import InputError

SHOWN = 80  # characters of a wrong value that an error repeats

HOSTS_OWN = frozenset({"wait_for_previous"})  # Gemini CLI adds it to every tool and sends it along

# Names that mean the same to whoever did not look: of these, what a tool has is suggested, its first one first.
_ALIKE = (
    frozenset(
        {
            *("path", "paths", "file", "files", "filename", "folder", "folders", "dir", "directory", "root", "cwd"),
            *("vault", "project", "scope", "scope_path", "workspace", "current_working_directory"),
        }
    ),
    frozenset({"query", "q", "question", "text", "search", "prompt", "keywords"}),
    frozenset({"k", "n", "limit", "top_k", "count", "num_results", "max_results"}),
    frozenset({"tags", "properties", "filter", "filters", "where", "metadata"}),
    frozenset({"confirm", "yes", "force", "sure"}),
    frozenset({"after", "continue_from", "cursor", "page", "offset"}),
)
_TRUE = frozenset({"true", "yes", "on", "1"})
_FALSE = frozenset({"false", "no", "off", "0", ""})


def check(tool: str, schema: Mapping[str, Any], given: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments of one call, typed as the tool's input schema says; nulls and what hosts add left out.

    Raises InputError.
    """
    properties: Mapping[str, Any] = schema.get("properties", {})
    for name, value in given.items():
        if name not in properties and value is not None and not name.startswith("_") and name not in HOSTS_OWN:
            raise _unknown(tool, name, [each for each in properties if not each.startswith("_")])
    known = {name: value for name, value in given.items() if name in properties and value is not None}
    for name in schema.get("required", ()):
        if name not in known:
            raise InputError(f"The argument {name} is missing.", f"Pass {name}: {properties[name]['description']}")
    return {name: _typed(name, properties[name], value) for name, value in known.items()}


def _unknown(tool: str, name: str, has: Sequence[str]) -> InputError:
    shown = name if len(name) <= SHOWN else name[:SHOWN] + "…"
    takes = " and ".join(filter(None, (", ".join(has[:-1]), *has[-1:])))
    near = _nearest(name.lower(), has)
    return InputError(
        f"There is no argument `{shown}`.", f"{tool} takes {takes}" + (f"; did you mean {near}?" if near else ".")
    )


def _nearest(name: str, has: Sequence[str]) -> str:
    """The argument that is most likely meant: spelled alike, part of the name or round it, or meaning the same."""
    alike = difflib.get_close_matches(name, has, n=1, cutoff=0.75)
    inside = [each for each in has if name in each.split("_") or each in name.split("_")]
    same = [each for each in has for names in _ALIKE if name in names and each in names]
    return next(iter([*alike, *inside, *same]), "")


def _typed(name: str, schema: Mapping[str, Any], value: Any) -> Any:
    match schema.get("type"):
        case "integer":
            return _integer(name, value)
        case "number":
            return _number(name, value)
        case "boolean":
            return _boolean(name, value)
        case "array":
            items = _listed(value) if isinstance(value, str) else value
            if isinstance(items, list):
                return [_text(name, item) for item in items]
            raise _wrong(name, value, "a list of texts")
        case _:
            return _text(name, value)


def _listed(text: str) -> list[Any]:
    """A list of one, none for a blank text, or the list that a model wrote as JSON."""
    if text.lstrip().startswith("["):
        with contextlib.suppress(ValueError):
            found = json.loads(text)
            if isinstance(found, list):
                return found
    return [text] if text.strip() else []


def _integer(name: str, value: Any) -> int:
    number = _number(name, value, "a whole number")
    if not number.is_integer():
        raise _wrong(name, value, "a whole number")
    return int(number)


def _number(name: str, value: Any, what: str = "a number") -> float:
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        raise _wrong(name, value, what)
    try:
        number = float(value)
    except (ValueError, OverflowError):
        raise _wrong(name, value, what) from None
    if number != number or number in (float("inf"), float("-inf")):  # noqa: PLR0124 - the test for NaN
        raise _wrong(name, value, what)
    return number


def _boolean(name: str, value: Any) -> bool:
    if isinstance(value, bool):
        return value
    if isinstance(value, int) and value in (0, 1):
        return bool(value)
    if isinstance(value, str) and value.strip().lower() in _TRUE | _FALSE:
        return value.strip().lower() in _TRUE
    raise _wrong(name, value, "true or false")


def _text(name: str, value: Any) -> str:
    if isinstance(value, bool | int | float):
        value = str(value)
    if not isinstance(value, str):
        raise _wrong(name, value, "text")
    if "\0" in value:
        raise InputError(f"The argument {name} holds a NUL character.", "Pass it as plain text.")
    # Lone surrogates (half an emoji, cut by a host) can be neither stored nor sent on.
    return value.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def _wrong(name: str, value: Any, allowed: str) -> InputError:
    shown = str(value)
    shown = shown if len(shown) <= SHOWN else shown[:SHOWN] + "…"
    return InputError(f"The argument {name} must be {allowed}, not {shown!r}.", f"Pass {name} as {allowed}.")
