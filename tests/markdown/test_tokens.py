"""Tokens are cl100k's, offline, whatever the text."""

import gzip
import hashlib
from importlib.resources import files

import pytest

from markdown_rag.markdown.tokens import SHA256, WINDOW, byte_lengths, count, encode


def test_the_table_is_the_published_one() -> None:
    packed = files("markdown_rag").joinpath("data/cl100k_base.tiktoken.gz").read_bytes()
    assert hashlib.sha256(gzip.decompress(packed)).hexdigest() == SHA256


@pytest.mark.parametrize(
    ("text", "expected"),
    [("hello world", [15339, 1917]), ("tiktoken is great!", [83, 1609, 5963, 374, 2294, 0]), ("", [])],
)
def test_known_texts_have_their_known_tokens(text: str, expected: list[int]) -> None:
    assert encode(text) == expected


@pytest.mark.parametrize("unit", ["abcdefghij", " ", "\t ", "\n", "=", "字", "a\n", "e\u0301"])
def test_a_million_characters_are_counted_whole(unit: str) -> None:
    text = unit * (1_000_000 // len(unit))
    ids = encode(text)
    assert sum(byte_lengths(ids)) == len(text.encode())
    assert count(text) >= count(text[:WINDOW])


def test_parts_that_end_at_lines_add_up_to_the_whole() -> None:
    lines = ["# Heading\n", "Some words, and more.\n", "- item\n", "    code();\n", "| a | b |\n", "한글 문장.\n"]
    assert sum(map(count, lines)) == count("".join(lines))
