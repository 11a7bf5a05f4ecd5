"""YAML by YAML 1.2's core rules, from texts of strangers: dates stay text, nothing is constructed, depth is bounded."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Any

MAX_DEPTH = 40
_DEEP = re.compile(r"^[ \t]{80,}\S|(?:[-?:][ \t]+){20}", re.MULTILINE)


class Unreadable(Exception):
    """The text cannot be read; the message says why."""


@lru_cache(maxsize=1)
def _loader() -> Any:
    """A safe loader by YAML 1.2's core rules: dates, `yes` and `12:30` stay the text they are written as."""
    import yaml  # noqa: PLC0415 - 30 ms, on the first file with front matter

    class Loader(getattr(yaml, "CSafeLoader", yaml.SafeLoader)):  # type: ignore[misc]
        pass

    plain = {"tag:yaml.org,2002:bool", "tag:yaml.org,2002:int", "tag:yaml.org,2002:timestamp"}
    Loader.yaml_implicit_resolvers = {
        first: [(tag, pattern) for tag, pattern in rules if tag not in plain]
        for first, rules in yaml.SafeLoader.yaml_implicit_resolvers.items()
    }
    Loader.add_implicit_resolver("tag:yaml.org,2002:bool", re.compile(r"(?i:true|false)\Z"), list("tTfF"))
    Loader.add_implicit_resolver(
        "tag:yaml.org,2002:int", re.compile(r"[-+]?(?:0|[1-9]\d{0,17})\Z"), list("-+0123456789")
    )
    return Loader


def load_yaml(block: str, first_line: int = 1) -> Any:
    """The value of a YAML text that begins on this line of its file. Raises Unreadable."""
    import yaml  # noqa: PLC0415 - see _loader

    if block.count("[") + block.count("{") > MAX_DEPTH or _DEEP.search(block):
        _check_depth(block)
    try:
        return yaml.load(block, Loader=_loader())  # noqa: S506 - a subclass of the safe loader
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        where = f" (line {first_line + mark.line})" if mark else ""
        raise Unreadable(f"not valid YAML{where}") from error
    except (ValueError, OverflowError, TypeError, RecursionError) as error:
        raise Unreadable("not valid YAML") from error


def _check_depth(block: str) -> None:
    """Refuse nesting that would exhaust the loader's stack: its event parser does not recurse."""
    import yaml  # noqa: PLC0415 - see _loader

    depth = 0
    try:
        for event in yaml.parse(block, Loader=_loader()):
            depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
            if depth > MAX_DEPTH:
                raise Unreadable("nested too deeply")
    except yaml.YAMLError as error:
        raise Unreadable("not valid YAML") from error
