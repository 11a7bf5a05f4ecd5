"""File bytes become text whose every character is traced back to its bytes and line.

The text has LF line ends and holds no byte order mark, NUL, U+FEFF or lone surrogate: each is replaced by exactly one
character, with a warning. An encoding is believed only if the text encodes back to the same bytes, so that offsets are
exact. What is not text is `Undecodable`, with the reason.
"""

from __future__ import annotations

import codecs
import contextlib
import hashlib
import re
import unicodedata
from bisect import bisect_left
from dataclasses import dataclass
from itertools import accumulate

from markdown_rag.amounts import amount, noun

REPLACEMENT = "\ufffd"
WORD_JOINER = "\u2060"  # what Unicode recommends for a U+FEFF that is no byte order mark
_STRIDE = 1024

_BOMS = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF32_LE, "utf-32-le"),  # before UTF-16: its mark begins with the same two bytes
    (codecs.BOM_UTF32_BE, "utf-32-be"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)
# Control characters that no text holds; tab, line ends, form feed, backspace and escape may stand in one.
_CONTROLS = bytes(set(range(32)) - {8, 9, 10, 11, 12, 13, 27}) + b"\x7f"
_BINARY_SHARE = 0.3
_BINARY_SHARE_DAMAGED = 0.04  # random bytes hold 10 %
_DAMAGE_SHARE = 0.3
# Maximal subparts of ill-formed UTF-8 (Unicode 3.9, table 3-8) in surrogateescape's spelling: one U+FFFD for each.
_BAD_UTF8 = re.compile(
    "\udce0[\udca0-\udcbf]|[\udce1-\udcec\udcee\udcef][\udc80-\udcbf]|\udced[\udc80-\udc9f]"
    "|\udcf0[\udc90-\udcbf][\udc80-\udcbf]?|[\udcf1-\udcf3][\udc80-\udcbf]{1,2}|\udcf4[\udc80-\udc8f][\udc80-\udcbf]?"
    "|[\udc80-\udcff]"
)
_SURROGATE = re.compile("[\ud800-\udfff]")
# Legacy encodings still found in markdown, the likelier first where two explain the bytes equally well.
_LEGACY = (
    "cp1252", "cp949", "gb18030", "big5", "cp932", "euc_jp", "cp1251", "koi8_r",
    "cp1250", "cp1253", "cp1254", "cp1255", "cp1256", "cp874",
)  # fmt: skip
_SAMPLE = 65_536
_MIN_FOREIGN = 6  # letters of another alphabet that prove an encoding


@dataclass(frozen=True, slots=True)
class LineMap:
    """From positions in the text to bytes and lines of the file.

    raw is the decoding before newlines were normalised, extras the text positions at which raw has one character more.
    """

    raw: str
    codec: str
    errors: str
    mark: int
    size: int
    extras: tuple[int, ...]
    newlines: tuple[int, ...]
    checkpoints: tuple[int, ...]

    def byte_offset(self, index: int) -> int:
        """The offset in the file's bytes at which character `index` of the text begins (its end for len(text))."""
        position = index + bisect_left(self.extras, index)
        if not self.checkpoints:
            return self.mark + position
        checkpoint = position // _STRIDE
        tail = self.raw[checkpoint * _STRIDE : position].encode(self.codec, self.errors)
        return min(self.size, self.checkpoints[checkpoint] + len(tail))

    def line(self, index: int) -> int:
        """The 1-based line that holds character `index`, as an editor counts (LF, CRLF, lone CR)."""
        return 1 + bisect_left(self.newlines, index)

    def start(self, line: int) -> int:
        """The first character of a 1-based line; of the last one for a line beyond it, 0 for one before the first."""
        before = min(line - 1, len(self.newlines))
        return self.newlines[before - 1] + 1 if before > 0 else 0


@dataclass(frozen=True, slots=True)
class Decoded:
    """Text and where it came from. encoding is a Python codec name without byte order mark handling."""

    text: str
    encoding: str
    warnings: tuple[str, ...]
    lines: LineMap


@dataclass(frozen=True, slots=True)
class Undecodable:
    """The bytes are no text we know. reason is a sentence part for the report."""

    reason: str


def decode(data: bytes) -> Decoded | Undecodable:
    """Read a file's bytes as text: by its mark, else UTF-8, UTF-16 without a mark, a legacy encoding, damaged UTF-8."""
    for mark, encoding in _BOMS:
        if data.startswith(mark):
            return _with_mark(data, len(mark), encoding)
    raw = data.decode("utf-8", "surrogateescape")
    controls = len(data) - len(data.translate(None, _CONTROLS))
    damaged = not data.isascii() and _SURROGATE.search(raw) is not None
    if controls and (wide := _utf16_without_mark(data, damaged)):
        return _trace(data, 0, wide, data.decode(wide, "surrogatepass"), ("UTF-16 without a byte order mark.",))
    if controls > len(data) * (_BINARY_SHARE_DAMAGED if damaged else _BINARY_SHARE):
        return Undecodable("binary data, not text")
    return _damaged(data, raw) if damaged else _trace(data, 0, "utf-8", raw, ())


def encoded(text: str, sha256: str) -> bytes | None:
    """The bytes with this digest that decode to text, in whichever encoding we know; None where there are none."""
    for encoding in ("utf-8", *(name for _, name in _BOMS[1:]), *_LEGACY):
        with contextlib.suppress(UnicodeEncodeError):
            data = text.encode(encoding)
            if hashlib.sha256(data).hexdigest() == sha256:
                return data
    return None


def _with_mark(data: bytes, mark: int, encoding: str) -> Decoded | Undecodable:
    if encoding == "utf-8":
        return _trace(data, mark, encoding, data[mark:].decode("utf-8", "surrogateescape"), ())
    unit = 2 if "16" in encoding else 4
    odd = (len(data) - mark) % unit
    body = data[mark : len(data) - odd]
    try:
        raw = body.decode(encoding, "surrogatepass")
    except UnicodeDecodeError:
        return Undecodable(f"starts with the mark of {encoding.upper()} but is not {encoding.upper()}")
    warnings = (f"{amount(odd, 'byte')} at the end: no whole character.",) if odd else ()
    return _trace(data, mark, encoding, raw + REPLACEMENT * bool(odd), warnings)


def _utf16_without_mark(data: bytes, damaged: bool) -> str:
    """The byte order of UTF-16 without a mark, or "". Latin letters, blanks and line ends have one NUL each."""
    even, odd = data[0::2].count(0), data[1::2].count(0)
    nuls = even + odd
    if len(data) % 2 or nuls < 2 or max(even, odd) < 0.9 * nuls or (not damaged and nuls < 0.2 * len(data)):
        return ""
    encoding = "utf-16-le" if odd > even else "utf-16-be"
    try:
        text = data.decode(encoding)
    except UnicodeDecodeError:
        return ""
    sample = text[:4096]
    strange = sum(unicodedata.category(char) in {"Cn", "Co", "Cc"} and char not in "\t\n\r\f" for char in sample)
    return encoding if strange <= 0.02 * len(sample) else ""


def _damaged(data: bytes, raw: str) -> Decoded | Undecodable:
    """UTF-8 with bytes that are not: a legacy encoding if one explains them, else UTF-8 with replacements."""
    bad = len(_SURROGATE.findall(raw))
    good = sum(char > "\x7f" for char in raw) - bad
    if good < bad:
        found = _legacy(data)
        if found:
            text = data.decode(found)
            return _trace(data, 0, found, text, (f"Not UTF-8; read as {found}.",))
        if bad > _DAMAGE_SHARE * len(data):
            return Undecodable("neither UTF-8 nor an encoding that explains the bytes")
    return _trace(data, 0, "utf-8", raw, ())


def _legacy(data: bytes) -> str:
    """The legacy encoding that explains the bytes, or ""."""
    from charset_normalizer import from_bytes  # noqa: PLC0415 - 20 ms that only such files pay

    first = next(i for i, byte in enumerate(data) if byte > 0x7F)
    sample = data[max(0, first - 1024) :][:_SAMPLE]
    matches = [match for match in from_bytes(sample, cp_isolation=list(_LEGACY)) if match.encoding in _LEGACY]
    ranked = sorted(matches, key=lambda m: (round(m.chaos, 2), -round(m.coherence, 1), _LEGACY.index(m.encoding)))
    for match in ranked:
        names = [name for name in _LEGACY if name in match.could_be_from_charset]
        for name in names:
            try:
                text = data.decode(name)
            except UnicodeDecodeError:
                continue
            if text.encode(name, "replace") == data and _reads_like_words(text):
                return name
    return ""


def _reads_like_words(text: str) -> bool:
    """Whether most characters beyond ASCII stand in words: Latin ones beside ASCII, others beside their like."""
    foreign = re.findall(r"[^\x00-\x7f\s]", text)
    beside, alike = 0, 0
    for word in re.findall(r"\w+", text):
        beyond = [char for char in word if char > "\x7f"]
        if beyond and any("LATIN" in unicodedata.name(char, "") for char in beyond):
            beside += len(beyond) if len(beyond) < len(word) else 0
        elif len(beyond) > 1:
            alike += len(beyond)
    if alike < _MIN_FOREIGN:
        alike = 0  # any few damaged bytes are a short word in some alphabet
    signs = sum(char in "“”„‘’‚–—…€©®°§«»·•、。，「」！？：；（）" for char in foreign)
    return bool(beside or alike) and beside + alike + signs >= 0.6 * len(foreign)


def _trace(data: bytes, mark: int, encoding: str, raw: str, warnings: tuple[str, ...]) -> Decoded:
    """Normalise the decoding and keep how to get back to the bytes."""
    notes = list(warnings)
    errors = "surrogateescape" if encoding == "utf-8" else "surrogatepass" if encoding.startswith("utf") else "strict"
    bad = _BAD_UTF8 if errors == "surrogateescape" else _SURROGATE
    text = raw
    extras: tuple[int, ...] = ()
    broken = not raw.isascii() and bad.search(raw) is not None
    if "\r" in raw or broken:
        extras = _extras(raw, bad)
        text = text.replace("\r\n", "\n").replace("\r", "\n")
    if broken:
        text, count = bad.subn(REPLACEMENT, text)
        were = noun(count, "was", "were")
        notes.append(f"{amount(count, 'place')} {were} not valid {encoding.upper()} and {were} replaced by U+FFFD.")
    for char, name, stand_in in (
        ("\0", "NUL character", REPLACEMENT),
        ("\ufeff", "stray byte order mark", WORD_JOINER),
    ):
        if char in text:
            notes.append(f"{amount(text.count(char), f'{name} was', f'{name}s were')} replaced.")
            text = text.replace(char, stand_in)
    checkpoints = () if len(raw) == len(data) - mark else _checkpoints(raw, encoding, errors, mark)
    ends = accumulate(len(line) + 1 for line in text.split("\n"))
    newlines = tuple(end - 1 for end in ends)[:-1]
    lines = LineMap(raw, encoding, errors, mark, len(data), extras, newlines, checkpoints)
    return Decoded(text, encoding, tuple(notes), lines)


def _extras(raw: str, bad: re.Pattern[str]) -> tuple[int, ...]:
    """The text positions that stand for more than one character of raw, once for each character more."""
    extras: list[int] = []
    for match in re.finditer(f"\r\n|{bad.pattern}", raw):
        more = match.end() - match.start() - 1
        if more:
            extras.extend([match.start() - len(extras)] * more)
    return tuple(extras)


def _checkpoints(raw: str, encoding: str, errors: str, mark: int) -> tuple[int, ...]:
    """Byte offsets of every 1,024th character of raw."""
    offsets = [mark]
    for position in range(0, len(raw), _STRIDE):
        offsets.append(offsets[-1] + len(raw[position : position + _STRIDE].encode(encoding, errors)))
    return tuple(offsets)
