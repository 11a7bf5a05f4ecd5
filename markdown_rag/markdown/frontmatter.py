"""The head of a document becomes title, aliases, tags, description and other properties.

YAML between ``---`` and ``---`` or ``...``, TOML between ``+++``, a JSON object. What cannot be read stays in the body
with a warning: nothing is ever lost here. Prose between two rules is prose. Values are plain JSON; dates stay as they
are written.
"""

from __future__ import annotations

import json
import math
import re
import tomllib
from dataclasses import dataclass
from datetime import date, datetime, time
from functools import partial
from typing import Any, TypeAlias

from markdown_rag.markdown.lexical import looks_like_identifier
from markdown_rag.markdown.plainyaml import MAX_DEPTH, Unreadable, load_yaml

Json: TypeAlias = "str | int | float | bool | list[Json] | dict[str, Json] | None"

MAX_BLOCK = 524_288  # characters; longer blocks are text
MAX_PROPERTIES = 32_768  # bytes of JSON; the store's limit is 65,536
MAX_NAMES = 200  # tags, and aliases
MAX_NAME = 400  # bytes of a tag or an alias
MAX_TITLE = 1_000  # bytes
MAX_DESCRIPTION = 8_000  # bytes
_MAX_NODES = 20_000
_MAX_INT = 2**63 - 1  # JSON integers of the store are 64 bits wide

_TITLE = ("title",)
_ALIASES = ("aliases", "alias")
_TAGS = ("tags", "tag")
_DESCRIPTION = ("description", "summary")
_KNOWN = {*_TITLE, *_ALIASES, *_TAGS, *_DESCRIPTION, "date", "layout", "draft", "author", "slug", "id", "weight"}

_OPEN_YAML = re.compile(r"---[ \t]*\n")
_CLOSE_YAML = re.compile(r"^(?:---|\.\.\.)[ \t]*(?:\n|\Z)", re.MULTILINE)
_OPEN_TOML = re.compile(r"\+\+\+[ \t]*\n")
_CLOSE_TOML = re.compile(r"^\+\+\+[ \t]*(?:\n|\Z)", re.MULTILINE)
_OPEN_JSON = re.compile(r"\{\s*\"")
_DATE = re.compile(r"\d{4}-\d{2}")
_KEY_LINE = re.compile(r"[\w\"'.-]+(?:[ \t][\w\"'.-]+){0,2}[ \t]*:(?:\s|\Z)")
_YAML_LINE = re.compile(r"[ \t]+\S|-(?:[ \t]|\Z)|#|[\]}]|" + _KEY_LINE.pattern)


@dataclass(frozen=True, slots=True)
class FrontMatter:
    """What stands before the body. end: where the body starts (0: no front matter).

    kept: a block that was meant as front matter but cannot be read ends here; it is body, but holds no markdown.
    """

    title: str = ""
    aliases: tuple[str, ...] = ()
    tags: tuple[str, ...] = ()
    description: str = ""
    properties: dict[str, Json] | None = None
    end: int = 0
    warnings: tuple[str, ...] = ()
    kept: int = 0


def split_front_matter(text: str) -> FrontMatter:
    """Read the front matter of a document; the body starts at ``end``."""
    if match := _OPEN_YAML.match(text):
        return _delimited(text, match.end(), _CLOSE_YAML, partial(load_yaml, first_line=2))
    if match := _OPEN_TOML.match(text):
        return _delimited(text, match.end(), _CLOSE_TOML, _toml)
    if _OPEN_JSON.match(text):
        return _json(text)
    return FrontMatter()


def _delimited(text: str, start: int, closing: re.Pattern[str], read: Any) -> FrontMatter:
    close = closing.search(text, start)
    meant = _looks_meant(text, start)
    if close is None or close.start() - start > MAX_BLOCK:
        why = "is never closed" if close is None else f"is longer than {MAX_BLOCK} characters"
        return FrontMatter(warnings=(f"Front matter {why}; it is kept as text.",) if meant else ())
    block = text[start : close.start()]
    try:
        values = read(block)
        if isinstance(values, dict) and values and not _is_prose(block, values):
            return _fields(_plain(values), close.end())
        if values is None and not block.strip():
            return FrontMatter(end=close.end())
        if not isinstance(values, list):
            return FrontMatter()
        reason = "not a mapping"
    except Unreadable as error:
        reason = str(error)
        if not meant:
            return FrontMatter()
    return FrontMatter(
        warnings=(f"Front matter is {reason}; it is kept as text.",), kept=_meant_end(text, start, close)
    )


def _looks_meant(text: str, start: int) -> bool:
    """Whether the first line that is no comment reads like front matter."""
    for line in text[start : start + 4096].split("\n"):
        if not line.startswith("#"):
            return bool(_KEY_LINE.match(line) or line.startswith("- ") or re.match(r"[\w.-]+\s*=", line))
    return False


def _is_prose(block: str, values: dict[Any, Any]) -> bool:
    """Whether a mapping is a paragraph with a colon in it, between two rules."""
    keys = [str(key) for key in values]
    if block[:1] == "\n":
        return not any(key.lower() in _KNOWN for key in keys)
    return all(len(key.split()) > 3 for key in keys)


def _meant_end(text: str, start: int, close: re.Match[str]) -> int:
    """Where a broken block ends: at its closing line, or before the first line that is nothing like YAML."""
    position = start
    while position < close.start():
        end = text.find("\n", position) + 1
        if not _YAML_LINE.match(text, position, end):
            return position
        position = end
    return close.end()


def _toml(block: str) -> Any:
    try:
        return tomllib.loads(block)
    except (ValueError, RecursionError) as error:
        raise Unreadable("not valid TOML") from error


def _json(text: str) -> FrontMatter:
    try:
        values, end = json.JSONDecoder().raw_decode(text[:MAX_BLOCK])
    except (ValueError, RecursionError):
        return FrontMatter(warnings=("Front matter is not valid JSON; it is kept as text.",))
    line = text.find("\n", end)
    after = text[end : line if line >= 0 else len(text)]
    if after.strip() or not isinstance(values, dict):
        return FrontMatter()
    try:
        return _fields(_plain(values), len(text) if line < 0 else line + 1)
    except Unreadable as error:
        return FrontMatter(warnings=(f"Front matter is {error}; it is kept as text.",))


def _plain(values: dict[Any, Any]) -> dict[str, Json]:
    """Values as JSON. Shared nodes count each time they appear, so that references cannot explode."""
    budget = _MAX_NODES

    def walk(value: Any, depth: int) -> Json:
        nonlocal budget
        budget -= 1
        if budget < 0 or depth > MAX_DEPTH:
            raise Unreadable("too large or nested too deeply")
        if isinstance(value, dict):
            return {_scalar_text(key): walk(item, depth + 1) for key, item in value.items()}
        if isinstance(value, (list, tuple, set)):
            return [walk(item, depth + 1) for item in value]
        if value is None or isinstance(value, (str, bool)):
            return _clean(value) if isinstance(value, str) else value
        if isinstance(value, int) and abs(value) <= _MAX_INT:
            return value
        if isinstance(value, float) and math.isfinite(value):
            return value
        return _scalar_text(value)

    return {_scalar_text(key): walk(value, 1) for key, value in values.items()}


def _scalar_text(value: Any) -> str:
    if isinstance(value, (datetime, date, time)):
        return value.isoformat()
    if isinstance(value, bool):
        return "true" if value else "false"
    return _clean(value if isinstance(value, str) else str(value))


def _clean(text: str) -> str:
    """Escapes in YAML and JSON can spell what a decoded file never holds."""
    return re.sub("[\0\ud800-\udfff]", "\ufffd", text).replace("\ufeff", "")


def _fields(values: dict[str, Json], end: int) -> FrontMatter:
    named = {key.lower(): value for key, value in reversed(values.items())}
    taxonomies = named.get("taxonomies")  # Zola's place for tags
    nested = taxonomies.get("tags") if isinstance(taxonomies, dict) else None
    tags = tuple(tag.lstrip("#") for key in _TAGS for tag in _names(named.get(key), r"[,\s]+"))
    tags += _names(nested, r"[,\s]+")
    aliases = tuple(alias for key in _ALIASES for alias in _names(named.get(key), r","))
    description = next((text for key in _DESCRIPTION if (text := _text(named.get(key)))), "")
    used = {*_TITLE, *_ALIASES, *_TAGS, *_DESCRIPTION}
    properties, dropped = _bounded({key: value for key, value in values.items() if key.lower() not in used})
    return FrontMatter(
        title=shorten(_text(named.get("title")), MAX_TITLE),
        aliases=bounded_names(aliases),
        tags=bounded_names(tags),
        description=shorten(description, MAX_DESCRIPTION),
        properties=properties,
        end=end,
        warnings=(f"Front matter is too large to keep: {', '.join(dropped)[:200]}.",) if dropped else (),
    )


def _text(value: Json) -> str:
    """A scalar as one line of text."""
    return "" if value is None or isinstance(value, (list, dict)) else " ".join(_scalar_text(value).split())


def _names(value: Json, separator: str) -> tuple[str, ...]:
    """A list, or a text that separates its parts; null and empty ones go."""
    if isinstance(value, str):
        return tuple(part for raw in re.split(separator, value) if (part := _text(raw)))
    if isinstance(value, list):
        return tuple(text for item in value if (text := _text(item)))
    return tuple(text for text in (_text(value),) if text)


def bounded_names(names: tuple[str, ...]) -> tuple[str, ...]:
    """Names in order, without doubles, within the store's limits."""
    kept = dict.fromkeys(shorten(name, MAX_NAME) for name in names if name)
    return tuple(kept)[:MAX_NAMES]


def shorten(text: str, limit: int) -> str:
    """Text of at most `limit` UTF-8 bytes, cut between characters and marked where it was cut."""
    if len(text.encode()) <= limit:
        return text
    return text.encode()[: limit - 3].decode("utf-8", "ignore").rstrip() + "…"


def _bounded(properties: dict[str, Json]) -> tuple[dict[str, Json], list[str]]:
    """The properties that fit, smallest first to stay, and the names of those that do not."""
    sizes = {key: len(json.dumps({key: value}).encode()) for key, value in properties.items()}
    room, kept = MAX_PROPERTIES, set()
    for key in sorted(sizes, key=lambda key: sizes[key]):
        if (room := room - sizes[key]) < 0:
            break
        kept.add(key)
    fitting = {key: value for key, value in properties.items() if key in kept}
    return fitting, [key for key in properties if key not in kept]


def _is_exact_name(value: str) -> bool:
    return looks_like_identifier(value) and not _DATE.match(value)


def exact_names(front: FrontMatter) -> tuple[str, ...]:
    """The values of other properties that are exact names: of an API, a flag, a setting, a code; each once."""
    found: dict[str, None] = {}
    left: list[Json] = [front.properties or {}]
    while left and len(found) < MAX_NAMES:
        value = left.pop()
        if isinstance(value, dict):
            left += reversed(value.values())
        elif isinstance(value, list):
            left += reversed(value)
        elif isinstance(value, str) and len(value) <= MAX_NAME and _is_exact_name(value):
            found[value] = None
    return tuple(found)
