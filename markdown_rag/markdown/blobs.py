"""Text becomes the spans that hold no words: data URIs and runs without blanks.

Long ones are not stored at all (I11: the report names them); shorter ones stay in the text, but are neither
embedded nor searched.
"""

from __future__ import annotations

import re
import sys
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass

MAX_RUN = 2_000  # bytes of a run without blanks that is still stored
_MIN_RUN = MAX_RUN // 4 + 1  # characters that can reach it
# Scripts written without blanks between words, and their punctuation: a long run of them is prose.
_UNSPACED = "\u0e00-\u0eff\u0f00-\u109f\u1780-\u17ff\u2e80-\ua4cf\uac00-\ud7ff\uf900-\ufaff\ufe30-\ufe4f\uff00-\uffef"
_UNSPACED += "\U00016fe0-\U00018aff\U0001b000-\U0001b2ff\U00020000-\U0003ffff"
_RUN = re.compile(f"(?<![^\\s{_UNSPACED}])[^\\s{_UNSPACED}]{{{_MIN_RUN},}}")
_DATA_URI = re.compile(r"\bdata:[a-zA-Z]+/[\w.+-]+[;,][^\s)\"'>\]`]*")
_MIN_CIPHER = 201  # characters
# base64, hexadecimal, percent encoding: longer than any name, URL or path that people search for.
_CIPHER = re.compile(rf"(?<![\w+/=%-])[\w+/=%-]{{{_MIN_CIPHER},}}", re.ASCII)

Span = tuple[int, int] | tuple[int, int, str]  # start, end, and why


@dataclass(frozen=True, slots=True)
class Blobs:
    """Spans (start, end) in character offsets, in order. long: not stored. short: stored, not embedded."""

    long: tuple[tuple[int, int, str], ...] = ()
    short: tuple[tuple[int, int], ...] = ()

    def without(self, text: str, start: int, end: int) -> str:
        """text[start:end] without the short spans."""
        if not self.short:
            return text[start:end]
        parts = []
        for first, last in self.within(start, end):
            parts.append(text[start:first])
            start = last
        parts.append(text[start:end])
        return "".join(parts)

    def within(self, start: int, end: int) -> list[tuple[int, int]]:
        """The short spans in text[start:end], cut to it."""
        return _overlapping(self.short, start, end)

    def kept(self, start: int, end: int) -> list[tuple[int, int]]:
        """What is left of text[start:end] without the long spans."""
        return _around(self.long, start, end)


def find_blobs(text: str, start: int) -> Blobs:
    """The spans without words of text[start:]."""
    if max(map(len, text.split()), default=0) < _MIN_CIPHER and "data:" not in text:
        return Blobs()
    uris = [(match.start(), match.end()) for match in _DATA_URI.finditer(text, start)] if "data:" in text else []
    long_uris = [span for span in uris if _too_long(text, *span)]
    long = [(first, last, "data URI") for first, last in long_uris]
    for match in _RUN.finditer(text, start):
        # A data URI is taken out by itself: the caption and the brackets around it stay.
        for first, last in _around(long_uris, match.start(), match.end()):
            if _too_long(text, first, last):
                long.append((first, last, "run without blanks"))
    long.sort()
    short: list[tuple[int, int]] = []
    for first, last in sorted(uris + [(match.start(), match.end()) for match in _CIPHER.finditer(text, start)]):
        if not _overlapping(long, first, last) and (not short or first >= short[-1][1]):
            short.append((first, last))
    return Blobs(tuple(long), tuple(short))


def _too_long(text: str, start: int, end: int) -> bool:
    return end - start >= _MIN_RUN and len(text[start:end].encode()) > MAX_RUN


def _overlapping(spans: Sequence[Span], start: int, end: int) -> list[tuple[int, int]]:
    """The spans, in order and apart from each other, that reach into [start, end), cut to it."""
    found = []
    for index in range(max(0, bisect_right(spans, (start, sys.maxsize)) - 1), len(spans)):
        first, last = spans[index][0], spans[index][1]
        if first >= end:
            break
        if last > start:
            found.append((max(first, start), min(last, end)))
    return found


def _around(spans: Sequence[Span], start: int, end: int) -> list[tuple[int, int]]:
    """What is left of [start, end) without the spans."""
    left = []
    for first, last in _overlapping(spans, start, end):
        left.append((start, first))
        start = last
    return [(first, last) for first, last in [*left, (start, end)] if last > first]
