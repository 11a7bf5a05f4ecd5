r"""Text becomes the tokens that are indexed and searched lexically; documents and queries pass the same function.

Every token is ``\w+`` (in Python's sense) and at most 80 characters, so that any engine's simplest tokenizer, applied
to the tokens joined by blanks, sees the same ones. There is no language setting: scripts decide.

* Chinese, Japanese, Korean, Thai, Lao, Khmer, Burmese: pairs of neighbouring characters; a single one stays alone.
* Names joined by ``. - / : + #`` or ``_``, camelCase and digits: whole and in parts.
* English stemming (Snowball) on ASCII words of three letters and more.
"""

from __future__ import annotations

import re
import unicodedata
from functools import lru_cache
from itertools import pairwise
from typing import Any

from markdown_rag.markdown.functionwords import ENGLISH, PAIRS

MAX_TOKEN = 80

# Vowel signs of Indic scripts are marks, which `\w` leaves out; shifted into an unused corner of the ideographs they
# are letters, and words stay whole.
_SHIFT = 0x30000 - 0x0900
_INDIC = range(0x0900, 0x1800)


@lru_cache(maxsize=1)
def _fold_table() -> dict[int, int | str | None]:
    """What is folded before words are found: invisible characters, optional marks, spelling variants."""
    table: dict[int, int | str | None] = {}
    for code in range(0x00AD, 0xFFFF):
        category = unicodedata.category(chr(code))
        if category in {"Mn", "Mc", "Me"}:
            table[code] = code + _SHIFT if code in _INDIC else None
        elif category == "Cf":
            table[code] = None  # soft hyphen, joiners, direction marks: the same word with and without
    arabic = {"أ": "ا", "إ": "ا", "آ": "ا", "ٱ": "ا", "ى": "ي", "ی": "ي", "ک": "ك", "ة": "ه", "ۀ": "ه", "ـ": None}
    table |= {ord(char): fold for char, fold in arabic.items()}
    table |= {base + digit: str(digit) for base in (0x0660, 0x06F0, 0x0966) for digit in range(10)}
    return table


_FOLDABLE = (
    "\u00ad\u0300-\u036f\u0483-\u0489\u0591-\u08ff\u0900-\u1fff\u200b-\u200f\u202a-\u202e\u2060-\u206f\u20d0-\u20f0"
    "\u302a-\u302f\u3099\u309a\ua66f-\uabff\ufb1e\ufe00-\ufe2f\ufeff"
)
_CJK = (
    "\u1100-\u11ff\u3005-\u3007\u3041-\u3096\u309d-\u309f\u30a1-\u30fa\u30fc-\u30ff\u3105-\u312f\u3131-\u318e"
    "\u31a0-\u31bf\u31f0-\u31ff\u3400-\u4dbf\u4e00-\u9fff\ua960-\ua97c\uac00-\ud7a3\ud7b0-\ud7c6\ud7cb-\ud7fb"
    "\uf900-\ufa6d\ufa70-\ufad9\U00020000-\U0002a6dd\U0002a700-\U0002b734\U0002b740-\U0002b81d\U0002b820-\U0002cea1"
    "\U0002ceb0-\U0002ebe0\U0002f800-\U0002fa1d"
)
_SEA_MARKS = "\U00030500-\U000305ff\U00030700-\U0003079f\U00030e80-\U00030eff"
_SEA = (
    "\u0e01-\u0e30\u0e32\u0e33\u0e40-\u0e46\u0e81\u0e82\u0e84\u0e86-\u0e8a\u0e8c-\u0ea3\u0ea5\u0ea7-\u0eb0\u0eb2\u0eb3\u0ebd\u0ec0-\u0ec4\u0ec6"
    "\u0edc-\u0edf\u1000-\u102a\u103f\u1050-\u1055\u105a-\u105d\u1061\u1065\u1066\u106e-\u1070\u1075-\u1081\u108e\u1780-\u17b3\u17d7\u17dc"
)
# The bounds keep every match, and with it the cache's keys, short.
_JOINED = r"L{1,80}(?:[.\-/:+#]{1,3}L{1,80}){0,15}(?:['’]s(?!\w))?(?:\+\+(?!\w)|(?<!\w\w)#(?!\w))?"
_ASCII = re.compile(_JOINED.replace("L", r"\w"), re.ASCII)
_LETTER = f"[^\\W{_CJK}{_SEA}{_SEA_MARKS}]"
_ANY = re.compile(f"{_JOINED.replace('L', _LETTER)}|[{_CJK}]+|[{_SEA}{_SEA_MARKS}]+")
_RUN = re.compile(f"[{_CJK}{_SEA}{_SEA_MARKS}]")
_SPECIAL = re.compile(f"[{_FOLDABLE}{_CJK}]")  # what most texts hold nothing of
_CLUSTER = re.compile(f"[{_SEA}][{_SEA_MARKS}]*|[{_SEA_MARKS}]+")
_SEA_CHAR = re.compile(f"[{_SEA}{_SEA_MARKS}]")
_JOINTS = re.compile(r"[.\-/:+#]+")
_NO_WORD = re.compile(r"\W+")
_HUMPS = re.compile(r"[0-9]+|[A-Z]+(?![a-z])|[A-Z]?[a-z]+")
_DIGITS = re.compile(r"\d+|[^\W\d_]+")
_SIGNS = {"++": "_plusplus", "#": "_sharp"}


@lru_cache(maxsize=1)
def _stemmer() -> Any:
    import Stemmer  # noqa: PLC0415 - a native library, on first use only

    # Its own cache is off: `_word` keeps whole words. A call does not let go of the interpreter lock.
    return Stemmer.Stemmer("english", 0)


def analyze(text: str, query: bool = False) -> str:
    """The tokens of a text joined by blanks. query drops function words, unless nothing else is there."""
    found = _analyzed(text, query=True) if query else []
    return " ".join(found or _analyzed(text))


def tokens(text: str, query: bool = False) -> list[str]:
    """The tokens of a text, in order, with doubles."""
    return analyze(text, query).split()


def _analyzed(text: str, *, query: bool = False) -> list[str]:
    """The token strings of each word or run, each one or more tokens joined by blanks."""
    plain = text.isascii()
    if not plain:
        text = unicodedata.normalize("NFKC", text)
        plain = not _SPECIAL.search(text)
        text = text if plain else text.translate(_fold_table())
    words = (_ASCII if text.isascii() else _ANY).findall(text)
    if query:
        words = [word for word in words if word.casefold() not in ENGLISH]
    if plain:
        return list(filter(None, map(_word, words)))
    left_out = PAIRS if query else frozenset[str]()
    return [token for word in words if (token := _run(word, left_out) if _RUN.match(word) else _word(word))]


def _run(run: str, left_out: frozenset[str]) -> str:
    """The pairs of a run of characters written without blanks."""
    if _SEA_CHAR.match(run):
        return pairs(_CLUSTER.findall(run))
    found = pairs(run)
    return " ".join(pair for pair in found.split() if pair not in left_out) if left_out else found


def pairs(units: str | list[str]) -> str:
    """Neighbouring units two by two, joined by blanks; a single one alone."""
    return " ".join(map("".join, pairwise(units))) if len(units) > 1 else "".join(units)


@lru_cache(maxsize=65_536)
def _word(word: str) -> str:
    """The tokens of one word or compound, joined by blanks."""
    found: list[str] = []
    for sign, name in _SIGNS.items():
        if word.endswith(sign):
            word = _owner(word[: -len(sign)])
            found.append(_JOINTS.split(word)[-1] + name)
    parts = _JOINTS.split(_owner(word))
    if len(parts) > 1:
        found.append("_".join(parts))
    for part in parts:
        found += _part(part)
    return " ".join(token for raw in found if (token := _fit(raw)))


def _owner(word: str) -> str:
    """A word without a possessive's ending."""
    return word[:-2] if word[-2:] in ("'s", "’s") else word


def _part(part: str) -> list[str]:
    """A word without joints: whole, its sides of `_`, their humps and digits."""
    if part.isascii() and part.isalpha() and (part.islower() or part.istitle() or part.isupper()):
        return [_stem(part.casefold())]
    sides = [side for side in part.split("_") if side]
    found = [part.strip("_")] if len(sides) > 1 else []
    for side in sides:
        humps = (_HUMPS if side.isascii() else _DIGITS).findall(side)
        found.append(_stem(side.casefold()))
        if len(humps) > 1:
            found += [_stem(hump.casefold()) for hump in humps if len(hump) > 1 or hump.isdigit()]
    return found


def _stem(word: str) -> str:
    return str(_stemmer().stemWord(word)) if len(word) > 2 and word.isascii() and word.isalpha() else word


def _fit(token: str) -> str:
    """A whole longer than a token may be is left to its parts; a single word is cut."""
    folded = token.casefold()
    if not folded.isascii():
        folded = _NO_WORD.sub("", unicodedata.normalize("NFKC", folded))  # folding takes some letters apart
    if len(folded) <= MAX_TOKEN:
        return folded
    return "" if "_" in folded else folded[:MAX_TOKEN]


_IDENTIFIER = re.compile(
    r"^-{1,2}\w|[_\\/@$=]|\w:\w|::|[a-z][A-Z]|\w\.\w|^\.\w|[^\W\d_]\d|\d[^\W\d_]|\w\+\+$|^[A-Za-z]#$"
)


def looks_like_identifier(word: str, alone: bool = False) -> bool:
    """Whether a word of a query is a name to be matched exactly: a flag, path, version, camelCase, letters with digits.

    alone: the word is the whole query; then a capitalised word counts as a name too.
    """
    return bool(_IDENTIFIER.search(word)) or (alone and word[:1].isupper() and word.isalpha())
