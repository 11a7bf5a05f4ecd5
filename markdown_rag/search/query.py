"""What somebody typed, turned into what both legs search for.

Any string is accepted or refused with a reason: blank is refused, a very long one is cut and the answer says so,
characters that no provider takes (NUL, lone surrogates) become blanks.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from markdown_rag.errors import InputError
from markdown_rag.markdown.lexical import looks_like_identifier, tokens
from markdown_rag.search.policy import MAX_QUERY_CHARACTERS

_LOOKED_AT = 8  # words; longer queries are questions, whatever names they hold
_HARMFUL = re.compile(r"[\x00\ud800-\udfff]")


@dataclass(frozen=True, slots=True)
class Query:
    """A query as it is searched.

    text: what is embedded. tokens: the analyzer's distinct tokens, in order. words: how many words were typed. names:
    those of them that look like exact names. note: what was cut, or "".
    """

    text: str
    tokens: tuple[str, ...]
    words: int
    names: tuple[str, ...]
    note: str = ""


def prepare(given: str) -> Query:
    """The query behind what was typed; InputError when nothing is left to search for."""
    text = _HARMFUL.sub(" ", given[:MAX_QUERY_CHARACTERS]).strip()
    if not text:
        raise InputError("The query is blank.", "Say in words what you want to find, or give an exact name.")
    note = ""
    if len(given) > MAX_QUERY_CHARACTERS:
        note = f"The query had {len(given):,} characters; only the first {MAX_QUERY_CHARACTERS:,} were searched for."
    words = text.split()
    return Query(text, tuple(dict.fromkeys(tokens(text, query=True))), len(words), _names(words), note)


def _names(words: list[str]) -> tuple[str, ...]:
    alone = len(words) == 1
    return tuple(word for word in words[:_LOOKED_AT] if looks_like_identifier(word, alone))
