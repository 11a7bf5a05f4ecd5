r"""Standard input as the lines of a client, made fit for a strict JSON reader.

JSON can write half of a surrogate pair (``\ud800``) as an escape. The protocol's reader refuses it and drops the line,
and whoever sent it waits for ever; here it becomes the replacement character before anybody reads it. File descriptor 0
is the null device from then on, so that no child and no library reads what was meant for us.
"""

from __future__ import annotations

import contextlib
import os
import re
import sys
from collections.abc import AsyncIterator
from io import TextIOWrapper

import anyio

from markdown_rag.server.guard import duplicate_above_standard

_ESCAPE = re.compile(r"\\(u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|u[dD][89a-fA-F][0-9a-fA-F]{2}|.)")
_ONE = len("\\ud800")


def without_lone_surrogates(line: str) -> str:
    """A line of JSON whose strings are valid Unicode; all else stays as it is. Pure."""
    if "\\ud" not in line and "\\uD" not in line:
        return line
    # A pair is longer, and of every other escape only two characters are matched.
    return _ESCAPE.sub(lambda found: r"\ufffd" if len(found[0]) == _ONE else found[0], line)


class Lines:
    """The lines of standard input, read in worker threads."""

    def __init__(self) -> None:
        self._file = anyio.wrap_file(TextIOWrapper(os.fdopen(_taken(), "rb", closefd=False), "utf-8", "replace"))

    async def __aiter__(self) -> AsyncIterator[str]:
        async for line in self._file:
            yield without_lone_surrogates(line)


def _taken() -> int:
    """A descriptor that only we read standard input from; 0 itself where that cannot be had."""
    try:
        wire = duplicate_above_standard(sys.stdin.fileno())
    except (OSError, ValueError, AttributeError):
        return 0
    with contextlib.suppress(OSError):
        null = os.open(os.devnull, os.O_RDONLY)
        os.dup2(null, 0)
        os.close(null)
    return wire
