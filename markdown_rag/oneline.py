"""Names that documents and disks chose, made fit to stand on a line of ours. Pure.

A path, a link's target, a heading or a tag may hold line breaks, and whoever reads an answer as text would take what
follows them for our words. So every text answer passes such values through here; structured answers keep them exact.
"""

from __future__ import annotations

import re

DIRECTION_MARKS = "\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069"
# Control characters (Cc), line and paragraph separators, marks that reverse a line, and halves of characters.
_LOUD = re.compile(f"[\0-\x1f\x7f-\x9f\u2028\u2029{DIRECTION_MARKS}\ud800-\udfff]")
_SHORT = {"\n": "\\n", "\r": "\\r", "\t": "\\t"}


def one_line(text: str) -> str:
    r"""The text on one line: what would break, hide or reverse it as JSON escapes it (``\n``, ``\u2028``)."""
    return _LOUD.sub(_escape, text)


def _escape(found: re.Match[str]) -> str:
    character = found[0]
    return _SHORT.get(character) or f"\\u{ord(character):04x}"
