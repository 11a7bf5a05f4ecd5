"""Whether a cited file still holds what was indexed."""

from __future__ import annotations

import hashlib
import os
import sys
from collections import Counter
from pathlib import Path
from types import FrameType

import pytest
from hypothesis import given
from hypothesis import strategies as st

from markdown_rag.markdown.decoding import Decoded, decode
from markdown_rag.search.freshness import Cited, Freshness, Standing, find_passage, freshness, standing

LIMIT = 1_000_000


def digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def test_the_same_bytes_are_fresh(tmp_path: Path) -> None:
    (tmp_path / "a.md").write_bytes(b"text")
    assert freshness(tmp_path, "a.md", digest(b"text"), LIMIT) is Freshness.FRESH


def test_an_edit_with_the_same_size_and_time_is_seen(tmp_path: Path) -> None:
    file = tmp_path / "a.md"
    file.write_bytes(b"text")
    os.utime(file, ns=(1, 1))
    file.write_bytes(b"test")
    os.utime(file, ns=(1, 1))
    assert freshness(tmp_path, "a.md", digest(b"text"), LIMIT) is Freshness.CHANGED


def test_a_file_that_is_gone_is_deleted(tmp_path: Path) -> None:
    assert freshness(tmp_path, "gone/a.md", digest(b""), LIMIT) is Freshness.DELETED


def test_a_file_whose_folder_became_a_file_is_deleted(tmp_path: Path) -> None:
    (tmp_path / "gone").write_bytes(b"")
    assert freshness(tmp_path, "gone/a.md", digest(b""), LIMIT) is Freshness.DELETED


def test_an_unmounted_root_says_nothing_about_its_files(tmp_path: Path) -> None:
    assert freshness(tmp_path / "mount", "a.md", digest(b""), LIMIT) is Freshness.UNCHECKED


def test_a_workspace_of_another_machine_is_remote() -> None:
    assert freshness(None, "a.md", digest(b""), LIMIT) is Freshness.REMOTE


def test_a_file_over_the_limit_is_not_read(tmp_path: Path) -> None:
    (tmp_path / "a.md").write_bytes(b"x" * 11)
    assert freshness(tmp_path, "a.md", digest(b"x" * 11), 10) is Freshness.UNCHECKED
    assert freshness(tmp_path, "a.md", digest(b"x" * 11), 11) is Freshness.FRESH


def test_a_folder_or_a_pipe_in_the_files_place_never_blocks(tmp_path: Path) -> None:
    (tmp_path / "folder.md").mkdir()
    os.mkfifo(tmp_path / "pipe.md")
    assert freshness(tmp_path, "folder.md", digest(b""), LIMIT) is Freshness.CHANGED
    assert freshness(tmp_path, "pipe.md", digest(b""), LIMIT) is Freshness.CHANGED


@pytest.mark.parametrize("path", ["nul\0.md", "x" * 300 + ".md"])
def test_a_name_no_disk_can_hold_is_no_error(tmp_path: Path, path: str) -> None:
    assert freshness(tmp_path, path, digest(b""), LIMIT) is Freshness.UNCHECKED


@pytest.mark.skipif(os.geteuid() == 0, reason="root reads everything")
def test_a_file_that_may_not_be_read_is_unchecked(tmp_path: Path) -> None:
    file = tmp_path / "a.md"
    file.write_bytes(b"text")
    file.chmod(0)
    assert freshness(tmp_path, "a.md", digest(b"text"), LIMIT) is Freshness.UNCHECKED


HEAD = "# Guide\n\n"
BEFORE = "First paragraph of the passage.\n\n"
SHOWN = "The rollback is done by reverting the release, and nobody has to be asked before it is done."
INDEXED = f"{HEAD}{BEFORE}{SHOWN}\n"


@pytest.mark.parametrize(
    ("now", "expected"),
    [
        (f"{INDEXED}\nA tail.\n", Standing(Freshness.FRESH)),
        (f"# Guide, renamed\n\n{BEFORE}{SHOWN}\n", Standing(Freshness.FRESH)),
        (f"New.\n\n{INDEXED}", Standing(Freshness.MOVED, 2)),
        (f"{BEFORE}{SHOWN}\n", Standing(Freshness.MOVED, -2)),
        (f"{HEAD}{BEFORE}Put in.\n\n{SHOWN}\n", Standing(Freshness.MOVED, 2, whole=False)),
        (f"{HEAD}Another first paragraph.\n\n{SHOWN}\n", Standing(Freshness.FRESH, whole=False)),
        (f"{HEAD}{BEFORE}The rollback is done by hand.\n", Standing(Freshness.CHANGED)),
        ("", Standing(Freshness.CHANGED)),
    ],
)
def test_what_is_shown_is_changed_only_where_it_does_not_stand_in_the_file_any_more(
    tmp_path: Path, now: str, expected: Standing
) -> None:
    (tmp_path / "a.md").write_text(now)
    passage, shown = Cited(BEFORE + SHOWN, 3), Cited(SHOWN, 5)
    assert standing(tmp_path, "a.md", digest(INDEXED.encode()), LIMIT, passage=passage, shown=shown) == expected


def decoded(text: str) -> Decoded:
    found = decode(text.encode())
    assert isinstance(found, Decoded)
    return found


def plain_search(found: Decoded, text: str, start_line: int) -> int:
    """The line of the nearest place, every place looked at; 0 where there is none."""
    words = text.strip("\n")
    lines = []
    for at in range(len(found.text)):
        before, after = found.text[at - 1 : at], found.text[at + len(words) : at + len(words) + 1]
        if found.text.startswith(words, at) and (len(words) >= 80 or {before, after} <= {"", "\n"}):
            lines.append(found.lines.line(at))
    wanted = start_line + len(text) - len(text.lstrip("\n"))
    return min(lines, key=lambda line: abs(line - wanted), default=0) if words.strip() else 0


PIECES = st.lists(st.sampled_from(["a", "b", "\n", "word " * 20, "a\n"]), max_size=24).map("".join)


@given(PIECES, st.lists(st.sampled_from(["a", "\n", "word " * 20]), max_size=4).map("".join), st.integers(1, 12))
def test_of_all_places_of_a_passage_the_nearest_is_found(text: str, passage: str, line: int) -> None:
    found = decoded(text)
    at = find_passage(found, passage, line)
    assert (0 if at < 0 else found.lines.line(at)) == plain_search(found, passage, line)


@pytest.mark.parametrize("passage", ["word", "word " * 400, "word\n" * 400])
def test_a_text_that_repeats_a_passage_without_end_is_looked_through_in_a_few_steps(passage: str) -> None:
    found = decoded(passage * (2_000_000 // len(passage)))
    steps = Counter[str]()

    def count(_: FrameType, event: str, __: object) -> None:
        steps[event] += 1

    sys.setprofile(count)
    try:
        find_passage(found, passage, 1_000_000)
    finally:
        sys.setprofile(None)
    assert steps.total() < 100, steps
