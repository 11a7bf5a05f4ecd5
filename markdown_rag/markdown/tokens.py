"""Text becomes cl100k_base tokens, offline, in time linear in its size.

The vocabulary is data of this package (MIT, OpenAI; checksum pinned by tiktoken), so that nothing is ever downloaded.
`count` is exact for every text up to 65,536 characters, which no chunk exceeds; longer ones are counted in windows.
"""

from __future__ import annotations

import base64
import gzip
import hashlib
from functools import lru_cache
from importlib.resources import files
from typing import TYPE_CHECKING

from markdown_rag.errors import StateError

if TYPE_CHECKING:
    import tiktoken

SHA256 = "223921b76ee99bde995b7ff738513eef100fb51d18c93597a113bcffe865b2a7"
# tiktoken 0.14's cl100k_base: possessive quantifiers, no backtracking inside words.
_PATTERN = (
    r"""'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}++|\p{N}{1,3}+| ?[^\s\p{L}\p{N}]++[\r\n]*+"""
    r"""|\s++$|\s*[\r\n]|\s+(?!\S)|\s"""
)
# A run of a million blanks overflows the stack of tiktoken's regex engine; half a million does not.
WINDOW = 65_536


@lru_cache(maxsize=1)
def _encoding() -> tuple[tiktoken.Encoding, tuple[int, ...]]:
    """The encoding and the byte length of each token; built once, 0.2 s."""
    import tiktoken  # noqa: PLC0415 - 0.1 s and a native library, on first use only

    packed = files("markdown_rag").joinpath("data/cl100k_base.tiktoken.gz").read_bytes()
    try:
        table = gzip.decompress(packed)
    except (OSError, EOFError) as error:
        raise _damaged() from error
    if hashlib.sha256(table).hexdigest() != SHA256:
        raise _damaged()
    words = [base64.b64decode(line.split()[0]) for line in table.splitlines()]
    ranks = {word: rank for rank, word in enumerate(words)}
    encoding = tiktoken.Encoding("cl100k_base", pat_str=_PATTERN, mergeable_ranks=ranks, special_tokens={})
    return encoding, tuple(map(len, words))


def _damaged() -> StateError:
    return StateError("The token table of this installation is damaged.", "Install markdown-fastrag-mcp again.")


def encode(text: str) -> list[int]:
    """The token ids of a text (valid Unicode)."""
    encoding, _ = _encoding()
    if len(text) <= WINDOW:
        return encoding.encode_ordinary(text)
    ids: list[int] = []
    start = 0
    while start < len(text):
        end = min(len(text), start + WINDOW)
        if end < len(text):
            # After a line end nothing that follows changes how what stands before it is cut.
            end = text.rfind("\n", start + WINDOW // 2, end) + 1 or end
        ids += encoding.encode_ordinary(text[start:end])
        start = end
    return ids


def count(text: str) -> int:
    """How many tokens a text has."""
    return len(encode(text))


def byte_lengths(ids: list[int]) -> list[int]:
    """How many UTF-8 bytes each token stands for."""
    lengths = _encoding()[1]
    return [lengths[token] for token in ids]
