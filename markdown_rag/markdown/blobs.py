"""Text becomes the spans that hold no words: data URIs and runs without blanks.

Long ones are not stored at all (design: I11 names them in the report); shorter ones stay in the text, but are neither
embedded nor searched.
"""

from __future__ import annotations

import re
from bisect import bisect_right
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
        found = []
        for first, last in self.short[max(0, bisect_right(self.short, (start, start)) - 1) :]:
            if first >= end:
                break
            if last > start:
                found.append((max(first, start), min(last, end)))
        return found


def find_blobs(text: str, start: int) -> Blobs:
    """The spans without words of text[start:]."""
    longest = max(map(len, text.split()), default=0)
    if longest <= _MIN_CIPHER and "data:" not in text:
        return Blobs()
    spans: list[tuple[int, int, str]] = []
    if "data:" in text:
        spans += [(m.start(), m.end(), "data URI") for m in _DATA_URI.finditer(text, start)]
    spans += [(m.start(), m.end(), "run without blanks") for m in _CIPHER.finditer(text, start)]
    long = [(first, last, what) for first, last, what in spans if what == "data URI" and _bytes(text, first, last)]
    # A data URI is taken out by itself: the caption and brackets around it stay.
    for match in _RUN.finditer(text, start):
        edge = match.start()
        for first, last, _ in [span for span in long if match.start() <= span[0] < match.end()]:
            long += _run(text, edge, first)
            edge = last
        long += _run(text, edge, match.end())
    long = sorted(set(long))
    short: list[tuple[int, int]] = []
    for first, last, _ in sorted(spans):
        inside = any(a <= first and last <= b for a, b, _ in _near(long, first))
        if not inside and (not short or first >= short[-1][1]):
            short.append((first, last))
    return Blobs(tuple(long), tuple(short))


def _near(spans: list[tuple[int, int, str]], position: int) -> list[tuple[int, int, str]]:
    index = bisect_right(spans, (position, position, "\uffff"))
    return spans[max(0, index - 1) : index + 1]


def _bytes(text: str, start: int, end: int) -> bool:
    return end - start >= _MIN_RUN and len(text[start:end].encode()) > MAX_RUN


def _run(text: str, start: int, end: int) -> list[tuple[int, int, str]]:
    return [(start, end, "run without blanks")] if _bytes(text, start, end) else []
