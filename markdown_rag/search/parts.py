"""A question that asks several things is also asked as several questions, and all answers take turns. Pure.

Searched whole, such a question finds what lies between its parts: a page that answers one of them holds few of its
words. A part alone lacks what the others say, so the whole question has the first turn. It is taken apart only where
its punctuation and a question word say so.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import chain, zip_longest
from typing import TypeVar

T = TypeVar("T")
_ASKING = (
    r"(?:how|what|which|where|when|why|who|whose|is|are|can|could|do|does|did|should|will|explain|tell|show|list"
    r"|wie|was|welche[rsnm]?|wo|wann|warum|wer|kann|comment|pourquoi|quel(?:le)?s?|cómo|qué|dónde|cuándo|por qué)\b"
)
_JOINT = r"(?:and|also|and also|then|plus|und|auch|et|y)"
_BORDER = re.compile(
    rf"[?？]\s*(?:{_JOINT}\s+)?(?=\S)|[。]\s*(?:また、?|そして、?|それから、?)?(?=\S)|;\s+(?:{_JOINT}\s+)?(?={_ASKING})"
    rf"|,?\s+{_JOINT},?\s+(?={_ASKING})|\s*(?:그리고|또한|另外|还有)[,，]?\s*",
    re.IGNORECASE,
)
_WORD = re.compile(r"\w+")
_BACK = re.compile(r"\b(?:it|its|they|them|their|this|these|those)\b", re.IGNORECASE)  # it lives on an earlier part
_LEAST_CHARACTERS = 8


def split(text: str, most: int) -> tuple[str, ...]:
    """The questions in a text, in order; the text alone where it asks one thing or more than the most."""
    # One blank at a time: a border may begin with any number of them, and would be tried from each.
    plain = " ".join(text.split())
    found = tuple(kept for part in _BORDER.split(plain) if (kept := part.strip(" ,;?？。")))
    whole = all(len(part) >= _LEAST_CHARACTERS and _says_enough(part) for part in found)
    apart = whole and 1 < len(found) <= most and not any(_BACK.search(part) for part in found[1:])
    return found if apart else (text,)


def _says_enough(part: str) -> bool:
    """Whether a part can be searched for alone: three words, or one where words are not set apart."""
    return len(_WORD.findall(part)) >= 3 or not part.isascii()


def take_turns(lists: Sequence[Sequence[T]]) -> list[T]:
    """The first of each list, then the second of each, and so on."""
    nothing = object()
    turns = chain.from_iterable(zip_longest(*lists, fillvalue=nothing))
    return [item for item in turns if item is not nothing]  # type: ignore[misc]
