"""How long an answer may be: what was asked for, what the least is, and the answer cut to it; numbers in bounds. Pure.

A budget is in tokens, taken as four bytes each. What lies outside the bounds is brought to them, and the answer says
so; what is no number of tokens at all is refused.
"""

from __future__ import annotations

import json

from markdown_rag.errors import InputError
from markdown_rag.facade import Json

BYTES_A_TOKEN = 4
LEAST = 200  # of a list of hits, documents or links: one of them, and the words round it


def budget(asked: int, least: int = LEAST, most: int = 0) -> tuple[int, str]:
    """How many tokens an answer may have, and what is to be said of it. most 0: no bound. Raises InputError."""
    if asked < 1:
        raise InputError(f"max_tokens must be at least 1, not {asked}.", "Leave it out for the default.")
    return clamped("max_tokens", asked, least, most or max(asked, least))


def clamped(name: str, asked: int, least: int, most: int) -> tuple[int, str]:
    """A number brought to its bounds, and what is to be said of it."""
    given = min(max(asked, least), most)
    return given, "" if given == asked else f"{name}={asked} was taken as {given}."


def said(*notes: str) -> str:
    """Notes as one, those that say nothing left out."""
    return " ".join(filter(None, notes))


def noted(found: Json, note: str) -> Json:
    """The answer with one more note at its end; "" for none."""
    return {**found, "note": f"{found.get('note', '')} {note}".strip()} if note else found


def bounded(found: Json, name: str, max_tokens: int) -> Json:
    """An answer whose list is cut, last first, until the whole has about max_tokens. The first item stays.

    Raises InputError for less than one token.
    """
    tokens, note = budget(max_tokens)
    items: list[Json] = found[name]
    kept: list[Json] = []
    used = _bytes({**found, name: []})
    for item in items:
        used += _bytes(item)
        if kept and used > BYTES_A_TOKEN * tokens:
            break
        kept.append(item)
    if len(kept) < len(items):
        cut = f"Cut to {len(kept)} of {len(items)} by max_tokens={tokens}; raise it, or ask for less, to see the rest."
        found = noted({**found, name: kept}, cut)
    return noted(found, note)


def _bytes(value: Json) -> int:
    return len(json.dumps(value, ensure_ascii=False).encode("utf-8", "replace"))
