"""What somebody typed, turned into what both legs search for.

Any string is accepted or refused with a reason: blank is refused, a very long one is cut and the answer says so,
characters that no provider takes (NUL, lone surrogates) become blanks.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

from markdown_rag.amounts import amount
from markdown_rag.errors import InputError
from markdown_rag.markdown.functionwords import ENGLISH
from markdown_rag.markdown.lexical import looks_like_identifier, tokens
from markdown_rag.search.parts import split
from markdown_rag.search.pasted import looks_pasted, message_of
from markdown_rag.search.policy import MAX_QUERY_CHARACTERS, SearchPolicy

_PUNCTUATION = "?!.,:;\"'()"
_ROUND = "?!,:;\"'()*`"  # what stands round a name
_LOOKED_AT = 8  # words; longer queries are questions, whatever names they hold
_SHOWN = 160  # characters of a message in the note
_HARMFUL = re.compile(r"[\x00\ud800-\udfff]")


@dataclass(frozen=True, slots=True)
class Query:
    """A query as it is searched.

    text: what is embedded. tokens: the analyzer's distinct tokens, in order. words: how many words it has; two
    pairs of a script without blanks count as one. telling: those of them that are no function words. names: those
    of them that look like exact names. note: what was cut, or "". parts: the questions it asks where they are
    several, each a query of its own. identifiers: every exact name in it, bare, for what is shown of a hit.
    """

    text: str
    tokens: tuple[str, ...]
    words: int
    names: tuple[str, ...]
    telling: int = 0
    note: str = ""
    parts: tuple[Query, ...] = ()
    identifiers: tuple[str, ...] = ()


def prepare(given: str, policy: SearchPolicy) -> Query:
    """The query behind what was typed; InputError when nothing is left to search for."""
    text = _HARMFUL.sub(" ", given[:MAX_QUERY_CHARACTERS]).strip()
    if not text:
        raise InputError("The query is blank.", "Say in words what you want to find, or give an exact name.")
    note = ""
    if len(given) > MAX_QUERY_CHARACTERS:
        length = amount(len(given), "character")
        note = f"The query had {length}; only the first {MAX_QUERY_CHARACTERS:,} were searched for."
    if policy.messages and looks_pasted(text):
        message = message_of(text)
        if message != text:
            note = f"{note} Of the pasted text this was searched for: {message[:_SHOWN]}".strip()
        return replace(_query(message, policy), note=note)
    parts = split(text, policy.parts)
    several = tuple(_query(part, policy) for part in parts) if len(parts) > 1 else ()
    return replace(_query(text, policy), note=note, parts=several)


def _query(text: str, policy: SearchPolicy) -> Query:
    words = text.split()
    found = tuple(dict.fromkeys(tokens(text, query=len(words) > policy.whole_words or not text.isascii())))
    length = max(len(words), sum(not token.isascii() for token in found) // 2)
    telling = length - sum(word.strip(_PUNCTUATION).casefold() in ENGLISH for word in words)
    return Query(text, found, length, _names(words), telling, identifiers=_identifiers(words))


def _names(words: list[str]) -> tuple[str, ...]:
    alone = len(words) == 1
    return tuple(word for word in words[:_LOOKED_AT] if looks_like_identifier(word, alone))


def _identifiers(words: list[str]) -> tuple[str, ...]:
    """The words that are exact names, without what stands round them; "e.g." and "and/or" are none."""
    bare = (word.strip(_ROUND).rstrip("." + _ROUND) for word in words)
    return tuple(dict.fromkeys(word for word in bare if looks_like_identifier(word) and _names_something(word)))


def _names_something(word: str) -> bool:
    parts = re.findall(r"[^\W_]+", word.casefold())
    return any(part.isdigit() or (len(part) > 1 and part not in ENGLISH) for part in parts)
