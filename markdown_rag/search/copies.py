"""Passages that say the same: copies, translations of one page, versions of one page. Pure.

A chunk is a copy of one that is shown where they share nearly all words, and it holds no word of the query that the
shown one lacks. Two files are one page in two languages, or two versions, where their paths differ in nothing but a
language's or a version's name; versions must also share most words. Short texts are alike by chance and are no copies.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum
from functools import lru_cache

from markdown_rag.search.ranking import Ranked
from markdown_rag.store.base import Match

NEAR = 0.92  # the share of common words from which two texts are one
VERSION_NEAR = 0.5
MIN_WORDS = 30  # distinct words; shorter texts are alike by chance
_NAMED, _LONGEST = 4, 30  # words that are named where two texts differ, and characters of each

_LANGUAGES = "ar bg bn cs da de el en es fa fi fr he hi hu id it ja ko ms nb nl no pl pt ro ru sv th tr uk vi zh"
_LANGUAGE = rf"(?:{'|'.join(_LANGUAGES.split())})(?:[-_](?:[a-z]{{2}}|hans|hant))?"
_VERSION = r"v?\d+(?:\.\d+)+(?:\.x)?|v\d+(?:\.x)?|\d+\.x|latest|next|stable|current"
_FOLDER = re.compile(rf"(?:(?P<language>{_LANGUAGE})|(?P<version>{_VERSION}))", re.IGNORECASE)
_SUFFIX = re.compile(rf"(?P<stem>.+)[._](?P<language>{_LANGUAGE})", re.IGNORECASE)


class Kind(StrEnum):
    """How a passage that is not shown is like the one that is."""

    SAME = "the same text"
    NEAR = "nearly the same text"
    TRANSLATION = "translation"
    VERSION = "other version"


@dataclass(frozen=True, slots=True)
class Copy:
    """A passage that is not shown for its likeness to one that is. how: in words, with what is said otherwise."""

    workspace: str
    path: str
    how: str


@dataclass(frozen=True, slots=True)
class Page:
    """A path without what names a language or a version, and those names, "" where it has none.

    suffixed: the language is part of the file's name; then the page without one is the original.
    """

    name: str
    language: str
    version: str
    suffixed: bool

    def is_translation_of(self, other: Page) -> bool:
        """Whether both are one page in two languages."""
        if self.name != other.name or self.language == other.language or self.version != other.version:
            return False
        return bool(self.language and other.language) or self.suffixed or other.suffixed

    def is_version_of(self, other: Page) -> bool:
        """Whether both are one page of two versions."""
        return self.name == other.name and bool(self.version and other.version) and self.version != other.version


@lru_cache(maxsize=4_096)
def page_of(path: str) -> Page:
    """The page a relative path is a translation or a version of."""
    *folders, file = path.split("/")
    kept, language, version = [], "", ""
    for folder in folders:
        found = _FOLDER.fullmatch(folder)
        if found and found["language"] and not language:
            language = found["language"].lower()
        elif found and found["version"] and not version:
            version = found["version"].lower()
        else:
            kept.append(folder)
    stem, dot, extension = file.rpartition(".")
    suffixed = _SUFFIX.fullmatch(stem) if not language else None
    if suffixed:
        stem, language = suffixed["stem"], suffixed["language"].lower()
    return Page("/".join([*kept, f"{stem}{dot}{extension}"]), language, version, bool(suffixed))


def copy_of(shown: Ranked, other: Ranked) -> Copy | None:
    """Another chunk as a copy of one that is shown; None where it says something of its own."""
    kind = likeness(shown, other)
    if kind is None:
        return None
    one, two = shown.candidate.match, other.candidate.match
    return Copy(two.workspace, two.path, f"{kind}{_difference(one, two) if kind is Kind.NEAR else ''}")


def _difference(shown: Match, other: Match) -> str:
    """The first words that only one of two texts has: one word may be all that a newer page says otherwise."""
    mine, theirs = (dict.fromkeys(match.text.split()) for match in (shown, other))
    sides = (
        ("with", [word for word in theirs if word not in mine]),
        ("without", [word for word in mine if word not in theirs]),
    )
    named = [f"{side} {' '.join(word[:_LONGEST] for word in words[:_NAMED])}" for side, words in sides if words]
    return "".join(f", {each}" for each in named)


def likeness(shown: Ranked, other: Ranked) -> Kind | None:
    """How another chunk is like one that is shown; None where it says something of its own."""
    one, two = shown.candidate.match, other.candidate.match
    if (one.workspace, one.path) == (two.workspace, two.path):
        return None  # two places of one file are two places
    if one.workspace == two.workspace:
        page = page_of(one.path)
        if page.is_translation_of(page_of(two.path)):
            return Kind.TRANSLATION
        if page.is_version_of(page_of(two.path)) and _common(one, two) >= VERSION_NEAR:
            return Kind.VERSION
    fewest = min(len(_words(one.lexical)), len(_words(two.lexical)))
    if fewest < MIN_WORDS or not other.candidate.held <= shown.candidate.held:
        return None
    if _plain(one.text) == _plain(two.text):
        return Kind.SAME
    return Kind.NEAR if _common(one, two) >= NEAR and _numbers(one) == _numbers(two) else None


def _common(one: Match, other: Match) -> float:
    """The share of common words of two chunks, 0 for short ones."""
    mine, theirs = _words(one.lexical), _words(other.lexical)
    if min(len(mine), len(theirs)) < max(MIN_WORDS, VERSION_NEAR * max(len(mine), len(theirs))):
        return 0.0
    common = len(mine & theirs)
    return common / (len(mine) + len(theirs) - common)


def _numbers(match: Match) -> frozenset[str]:
    """The words with digits: tables and reports differ in nothing else."""
    return frozenset(word for word in _words(match.lexical) if any(map(str.isdigit, word)))


@lru_cache(maxsize=256)
def _plain(text: str) -> str:
    """A text with nothing but single blanks between its words."""
    return " ".join(text.split())


@lru_cache(maxsize=256)
def _words(lexical: str) -> frozenset[str]:
    return frozenset(lexical.split())
