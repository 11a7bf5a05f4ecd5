r"""A pasted error message or stack trace becomes the words somebody would have documented. Pure.

What a program prints around a message is noise to both ways of searching: times, addresses, paths, frames of the stack,
lines of code. Text that does not look pasted, and one that holds nothing else, stays as it is.
"""

from __future__ import annotations

import re

_LEAST_WORDS = 5
_LONGEST_FRAME = 300  # characters; matching a frame takes their square, and a query has 8,000
_SIGNS = re.compile(
    r"\b\w*(?:Error|Exception|Violation|Failure)\b|\b(?:ERROR|FATAL|WARN|Traceback|SQLSTATE|errno)\b"
    r"|\b(?:error|fatal|panic|failed): |\bexit(?:ed)? (?:status|code)\b|^[ \t]+at \S+[(:]|\bE[A-Z]{4,}\b"
    r"|^[\w./-]+: [^:\n]+: ",
    re.MULTILINE,
)
_PYTHON_FRAME = re.compile(r'\s*File "[^"]*", line \d+')
_FRAME = re.compile(
    r"""\s*(?: at\ .*[(:]\S*:\d+.* | at\ \S+\ ?\(.*\) | goroutine\ \d+.* | \S+\(0x[0-9a-f]+.*\) | \S+:\d+\ \+0x\S+
    | Traceback\ \(most\ recent\ call\ last\): | \d*\ ?\|.* | [~^\ ]*\^[~^\ ]* | \.\.\.\ \d+\ more | LINE\ \d+:.* )$""",
    re.VERBOSE,
)
_NOISE = re.compile(
    r"""\b\d{4}-\d\d-\d\d(?:[T ]\d\d:\d\d(?::\d\d(?:[.,]\d+)?)?)?(?:Z|[+-]\d\d:?\d\d)?\b
    | \b\d\d:\d\d:\d\d(?:[.,]\d+)?\b
    | \b[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\b
    | \b0x[0-9a-fA-F]+\b
    | \b\d{1,3}(?:\.\d{1,3}){3}(?::\d+)?\b
    | https?://\S+
    | (?<!\w)(?:~|\.{0,2})/(?:[\w.@+-]+/)+[\w.@+-]*(?::\d+)*
    | \b[A-Za-z]:\\\S+
    | \b\w+=\S+
    | (?<=\w):\d+(?::\d+)?\b
    | \b(?=[0-9a-f]*\d)[0-9a-f]{8,}\b""",
    re.VERBOSE,
)
_WORD = re.compile(r"[^\W\d_]{2,}")


def looks_pasted(text: str) -> bool:
    """Whether a text was copied from what a program printed."""
    return len(text.split()) >= _LEAST_WORDS and bool(_SIGNS.search(text))


def message_of(text: str) -> str:
    """The message in a pasted text, on one line; the text itself where it is not pasted or holds nothing else."""
    if not looks_pasted(text):
        return text
    kept = " ".join(_NOISE.sub(" ", "\n".join(_without_frames(text.split("\n")))).split())
    return kept if len(_WORD.findall(kept)) >= 2 else text


def _without_frames(lines: list[str]) -> list[str]:
    """The lines that no call stack is made of. A Python frame takes the code under it along."""
    kept: list[str] = []
    in_frame = False
    for line in lines:
        if _PYTHON_FRAME.match(line):
            in_frame = True
        elif (len(line) <= _LONGEST_FRAME and _FRAME.match(line)) or (in_frame and line.startswith("    ")):
            in_frame = False
        else:
            in_frame = False
            kept.append(line)
    return kept
