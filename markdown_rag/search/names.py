"""How near a file's names come to a query. Pure; one object a query, each file's names are analysed once.

A file is called by its title, its stem and its aliases, and where the query names both, by its stem together with its
folder (``pager/first``). Two words that share most of their letters count by how many: inflections, the parts of German
compounds and slips of the hand meet where a stem would not.
"""

from __future__ import annotations

import math
from functools import lru_cache
from pathlib import PurePosixPath

from markdown_rag.markdown.lexical import tokens as analyze
from markdown_rag.search.policy import SearchPolicy
from markdown_rag.search.query import Query
from markdown_rag.store.base import Match

_SHORTEST = 4  # letters of a word that may be like another; shorter ones share letters by chance
_LONGEST = 32  # tokens of a query that is compared letter by letter; longer ones hold every name's letters

Name = frozenset[str]


class Names:
    """The names of files against one query."""

    def __init__(self, query: Query, policy: SearchPolicy) -> None:
        self._wanted = frozenset(query.tokens)
        self._policy = policy
        self._best: dict[str, float] = dict.fromkeys(self._wanted, 1.0)
        self._cosines: dict[Name, float] = {}
        self._files: dict[tuple[str, str, tuple[str, ...]], float] = {}
        # The query's words by their letter triples: most words of names share none with any of them.
        self._by_triple: dict[str, list[str]] = {}
        if policy.name_likeness < 1 and len(self._wanted) <= _LONGEST:
            for word in sorted(self._wanted):
                for triple in _triples(word) if len(word) >= _SHORTEST else ():
                    self._by_triple.setdefault(triple, []).append(word)
        self._triples = frozenset(self._by_triple)

    def overlap(self, match: Match) -> float:
        """The best cosine between the query's words and one of the file's names, 0 to 1."""
        file = match.title, match.path, match.aliases
        known = self._files.get(file)
        if known is None:
            known = self._files[file] = self._overlap(*file)
        return known

    def _overlap(self, title: str, path: str, aliases: tuple[str, ...]) -> float:
        words = _words(title, path, aliases)
        if self._wanted.isdisjoint(words) and self._triples.isdisjoint(_triples_of(words)):
            return 0.0
        best = max((self._cosine(name) for name in _names(title, path, aliases)), default=0.0)
        if self._policy.folder_names:
            folder, stem = _place(path)
            if self._cosine(folder) and self._cosine(stem):  # a folder alone tells its files not apart
                best = max(best, self._cosine(folder | stem))
        return best

    def exact(self, match: Match) -> bool:
        """Whether the query is one of the file's own names, word by word."""
        return self._wanted in _names(match.title, match.path, match.aliases)

    def _cosine(self, name: Name) -> float:
        known = self._cosines.get(name)
        if known is None:
            best = self._best
            if self._triples.isdisjoint(_triples_of(name)):
                shared = float(len(name & self._wanted))
            else:
                shared = math.fsum([best[word] if word in best else self._likeness(word) for word in name])
            known = min(1.0, shared / math.sqrt(len(self._wanted) * len(name))) if name else 0.0
            self._cosines[name] = known
        return known

    def _likeness(self, word: str) -> float:
        """How like the likest word of the query is to one that is none, 0 below the policy's least."""
        best, triples = 0.0, _triples(word)
        if not self._triples.isdisjoint(triples):
            alike = {wanted for triple in triples for wanted in self._by_triple.get(triple, ())}
            best = max(likeness(word, wanted) for wanted in alike)
            best = best if best >= self._policy.name_likeness else 0.0
        self._best[word] = best
        return best


def likeness(one: str, other: str) -> float:
    """Dice's coefficient over the letter triples of two words with their borders, 0 to 1; 0 for short words."""
    if min(len(one), len(other)) < _SHORTEST:
        return 0.0
    mine, theirs = _triples(one), _triples(other)
    return 2 * len(mine & theirs) / (len(mine) + len(theirs))


@lru_cache(maxsize=20_000)
def _triples(word: str) -> frozenset[str]:
    framed = f"^{word}$"
    return frozenset(framed[at : at + 3] for at in range(len(framed) - 2))


@lru_cache(maxsize=2_000)  # 6 KB each, so no more than a few searches look at
def _triples_of(name: Name) -> frozenset[str]:
    """The triples of all words that may be like others."""
    return frozenset().union(*(_triples(word) for word in name if len(word) >= _SHORTEST))


@lru_cache(maxsize=10_000)
def _names(title: str, path: str, aliases: tuple[str, ...]) -> frozenset[Name]:
    """The words of everything a file is called alone, without what has no words."""
    return frozenset(
        name for called in (title, PurePosixPath(path).stem, *aliases) if (name := frozenset(analyze(called)))
    )


@lru_cache(maxsize=10_000)
def _words(title: str, path: str, aliases: tuple[str, ...]) -> Name:
    """The words of all that a file is called, with its folder."""
    return frozenset().union(*_names(title, path, aliases), *_place(path))


@lru_cache(maxsize=10_000)
def _place(path: str) -> tuple[Name, Name]:
    """The words of a file's folder and of its stem."""
    place = PurePosixPath(path)
    return frozenset(analyze(place.parent.name)), frozenset(analyze(place.stem))
