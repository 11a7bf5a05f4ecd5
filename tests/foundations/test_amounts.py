"""Counts read as a person writes them."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from markdown_rag import amounts
from markdown_rag.amounts import amount, noun

PACKAGE = Path(amounts.__file__).parent
NOUNS = "files|chunks|documents|rows|hits|questions|tokens|jobs|clients|vectors|texts|characters|places|bytes"


@pytest.mark.parametrize(
    ("number", "said"), [(0, "0 files"), (1, "1 file"), (2, "2 files"), (1200, "1,200 files"), (-1, "-1 files")]
)
def test_one_is_one_and_everything_else_is_several(number: int, said: str) -> None:
    assert amount(number, "file") == said


def test_an_odd_plural_is_named() -> None:
    assert [amount(number, "index", "indexes") for number in (1, 2)] == ["1 index", "2 indexes"]
    assert noun(1, "is", "are") == "is"


def test_no_message_counts_with_a_plural_of_its_own() -> None:
    own = re.compile(rf"\{{(?![A-Z_]+(?::,)?\}})[^{{}}]+\}} (?:[a-z]+ )?(?:{NOUNS})\b|\w\(s\)")
    lines = [
        f"{path.name}:{number}: {line.strip()}"
        for path in sorted(PACKAGE.rglob("*.py"))
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1)
        if own.search(line) and "SELECT" not in line and re.search(r"\bf[\"']", line)
    ]
    assert lines == []
