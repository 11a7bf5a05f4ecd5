"""One over-long span of text becomes parts within a token limit, cut at the best border there is.

Parts are about equal and tile the span. Borders, best first: row (HTML), line, sentence, word, character; never between
a letter and its marks. Each span is encoded once, so time is linear in its length.
"""

from __future__ import annotations

import re
import unicodedata
from bisect import bisect_right
from itertools import accumulate

from markdown_rag.markdown.tokens import byte_lengths, encode

MAX_TEXT = 60_000  # bytes of a chunk's text; the store's field holds 65,535

_HTML_ROW = re.compile(r"\n(?=[ \t]*<(?:tr|thead|tbody|table|div|p|ul|ol|li|dl|dt|section|details|h[1-6])\b)")
_LINE = re.compile(r"\n")
_SENTENCE = re.compile(r"[.!?…][\"'”’)\]]*\s(?=\S)|[。！？；…]+[」』”’）]*|[।॥؟۔]\s?")
_WORD = re.compile(r"\s(?=\S)")
_BORDERS = (_LINE, _SENTENCE, _WORD)
_MAX_MARKS = 32  # a longer stack of marks on one letter is cut like any text


def cut(text: str, start: int, end: int, room: int, html: bool = False) -> list[tuple[int, int, int]]:
    """Tile text[start:end] with (start, end, tokens), each of at most `room` tokens and MAX_TEXT bytes.

    Tokens are those of the whole span that fall into the part; a part encoded alone may differ by one or two where it
    was not cut at a line, which is why a little room is kept free.
    """
    segment = text[start:end]
    ends = list(accumulate(byte_lengths(encode(segment))))
    room = max(1, room - 2)
    if not ends or (len(ends) <= room and ends[-1] <= MAX_TEXT):
        return [(start, end, len(ends))]
    data = segment.encode()
    borders = (_HTML_ROW, *_BORDERS) if html else _BORDERS
    parts: list[tuple[int, int, int]] = []
    char = byte = token = 0
    while len(ends) - token > room or ends[-1] - byte > MAX_TEXT:
        left = len(ends) - token
        count = max(-(-left // room), -(-(ends[-1] - byte) // MAX_TEXT))
        target = token + -(-left // count)
        wish, last = (min(ends[t - 1], byte + MAX_TEXT) for t in (target, min(token + room, len(ends))))
        near = char + len(data[byte:wish].decode("utf-8", "ignore"))
        far = near + len(data[byte + len(segment[char:near].encode()) : last].decode("utf-8", "ignore"))
        border = _border(segment, (char, near, far), borders)
        if border >= len(segment):
            break  # the rest is one character
        byte += len(segment[char:border].encode())
        following = bisect_right(ends, byte)
        parts.append(
            (start + char, start + border, following - token + (byte > (ends[following - 1] if following else 0)))
        )
        char, token = border, following
    parts.append((start + char, end, len(ends) - token))
    return parts


def _border(text: str, window: tuple[int, int, int], borders: tuple[re.Pattern[str], ...]) -> int:
    """The border nearest to the wish, of the best kind there is. window: the part's start, the wish, the last place."""
    floor, wish, high = window
    low = floor + (wish - floor) // 2
    for pattern in borders:
        found = [match.end() for match in pattern.finditer(text, low, high + 1) if low < match.end() <= high]
        if found:
            return min(found, key=lambda position: (abs(position - wish), position))
    position = max(high, floor + 1)
    for back in range(min(_MAX_MARKS, position - floor - 1)):
        if not _joined(text, position - back):
            return position - back
    return position


def _joined(text: str, position: int) -> bool:
    """Whether the characters on both sides of a position are one to a reader."""
    if not 0 < position < len(text):
        return False
    after = text[position]
    return text[position - 1] == "\u200d" or after == "\u200d" or unicodedata.category(after) in {"Mn", "Mc", "Me"}


def overlap_start(text: str, floor: int, start: int, overlap: int) -> int:
    """Where a part that begins at `start` begins when it repeats up to `overlap` tokens of what stands before it."""
    low = max(floor, start - 16 * overlap)
    ids = encode(text[low:start])
    if len(ids) > overlap:
        dropped = sum(byte_lengths(ids[:-overlap]))
        # A token may begin inside a character; the next whole one is within the limit.
        low += len(text[low:start].encode()[:dropped].decode("utf-8", "ignore"))
        low += int(len(encode(text[low:start])) > overlap)
    for pattern in _BORDERS:
        match = pattern.search(text, max(low - 1, floor), start)
        if match and match.end() < start:
            return match.end()
    return low
