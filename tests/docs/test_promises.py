"""Every promise in the documentation is held by tests that exist."""

from __future__ import annotations

import re

import pytest

from tests.docs.tables import ROOT

PAGE = (ROOT / "docs" / "promises.md").read_text(encoding="utf-8")
PROMISES = re.findall(r"^\| ([A-Z]\d+) \| (.+?) \| (.+?) \|$", PAGE, re.MULTILINE)


@pytest.fixture(scope="module")
def tests_there_are() -> set[str]:
    sources = [path.read_text(encoding="utf-8") for path in (ROOT / "tests").rglob("test_*.py")]
    return {name for source in sources for name in re.findall(r"^(?:async )?def (test_\w+)", source, re.MULTILINE)}


@pytest.mark.parametrize(("number", "promise", "tests"), PROMISES, ids=[number for number, _, _ in PROMISES])
def test_a_promise_is_held_by_tests_that_exist(
    number: str, promise: str, tests: str, tests_there_are: set[str]
) -> None:
    named = re.findall(r"`(test_\w+)`", tests)
    assert named, f"{number}: {promise}"
    assert set(named) <= tests_there_are


def test_promises_are_numbered_without_gaps() -> None:
    sections: dict[str, list[int]] = {}
    for number, _, _ in PROMISES:
        sections.setdefault(number[0], []).append(int(number[1:]))
    assert sections
    assert all(numbers == list(range(1, len(numbers) + 1)) for numbers in sections.values())
