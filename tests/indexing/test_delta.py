"""What a run decides to do, from values alone."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from markdown_rag.indexing.delta import GUARD_FILES, Delta, is_suspicious, lost, moved, plan, refuse_deletions
from markdown_rag.indexing.reading import NotRead, Stamp
from markdown_rag.indexing.report import ProblemKind
from markdown_rag.indexing.scan import ScanResult, Seen
from markdown_rag.indexing.statcache import Noted
from markdown_rag.store.base import FileEntry

NOW = Stamp(5, 10, 10, 1)
LATER = 10**12
POLICY = "p1"


def entry(path: str, gen: int = 1, file_hash: str = "h", policy: str = POLICY) -> FileEntry:
    return FileEntry("w", path, gen, 1, path, (), (), {}, file_hash, policy)


def seen(*paths: str, unreadable: tuple[str, ...] = ()) -> ScanResult:
    files = {path: Seen(path, NOW) for path in paths}
    return ScanResult(files, (), frozenset(unreadable), Counter(), 1, root_is_empty=False)


def known(file_hash: str = "h", policy: str = POLICY, skip: NotRead | None = None, stamp: Stamp = NOW) -> Noted:
    return Noted(stamp, LATER, file_hash, policy, skip)


def work(delta: Delta) -> list[str]:
    return [item.path for item in delta.work]


EMPTY = NotRead(ProblemKind.EMPTY, "empty")

# what is stored, what is remembered, is the file read?
VERDICTS = [
    (None, None, True),
    (entry("a"), None, True),
    (entry("a"), known(), False),
    (entry("a"), known(file_hash="other"), True),
    (entry("a"), known(stamp=NOW._replace(size=6)), True),
    (entry("a", policy="p0"), known(), True),
    (entry("a"), known(skip=EMPTY, file_hash="e"), True),
    (None, known(), True),
    (None, known(skip=EMPTY), False),
    (None, known(skip=EMPTY, policy="p0"), True),
]


@pytest.mark.parametrize(("stored", "remembered", "is_read"), VERDICTS)
def test_only_what_catalog_and_stat_both_prove_is_left_unread(
    stored: FileEntry | None, remembered: Noted | None, is_read: bool
) -> None:
    delta = plan([stored] if stored else [], seen("a"), {"a": remembered} if remembered else {}, POLICY)
    assert work(delta) == (["a"] if is_read else [])


@pytest.mark.parametrize("how", ["force", "verify"])
def test_force_and_verify_read_everything(how: str) -> None:
    delta = plan([entry("a")], seen("a"), {"a": known()}, POLICY, **{how: True})
    assert work(delta) == ["a"]
    assert delta.work[0].always is (how == "force")


def test_another_chunking_policy_writes_a_file_again_even_if_its_bytes_are_the_same() -> None:
    assert plan([entry("a", policy="p0")], seen("a"), {}, POLICY).work[0].always
    assert not plan([entry("a")], seen("a"), {}, POLICY).work[0].always


def test_what_is_stored_and_not_there_is_deleted() -> None:
    delta = plan([entry("a"), entry("b")], seen("b"), {"a": known(), "b": known()}, POLICY)
    assert [item.path for item in delta.deleted] == ["a"]
    assert delta.forgotten == ("a",)


def test_what_could_not_be_looked_at_is_not_deleted() -> None:
    delta = plan([entry("x/a"), entry("y/b")], seen(unreadable=("x",)), {"x/a": known()}, POLICY)
    assert [item.path for item in delta.deleted] == ["y/b"]
    assert delta.protected == ("x/a",)
    assert delta.forgotten == ()


def test_an_unreadable_root_deletes_nothing() -> None:
    assert plan([entry("a")], seen(unreadable=("",)), {}, POLICY).deleted == ()


def test_only_the_newest_generation_counts_and_the_others_are_older() -> None:
    entries = [entry("a", 3, "new"), entry("a", 1, "old"), entry("a", 2, "mid")]
    delta = plan(entries, seen("a"), {"a": known("new")}, POLICY)
    assert delta.unchanged == ("a",)
    assert [item.gen for item in delta.older] == [2, 1]


PATHS = st.sampled_from(["a", "b", "x/a", "x/b", "x/y/a"])


@given(
    stored=st.dictionaries(PATHS, st.sampled_from(["h1", "h2"])),
    there=st.frozensets(PATHS),
    remembered=st.dictionaries(PATHS, st.sampled_from(["h1", "h2"])),
    unreadable=st.frozensets(st.sampled_from(["x", "x/y", ""]), max_size=1),
)
@settings(max_examples=150, deadline=None)
def test_every_file_has_exactly_one_fate(
    stored: dict[str, str], there: frozenset[str], remembered: dict[str, str], unreadable: frozenset[str]
) -> None:
    scan = seen(*sorted(there), unreadable=tuple(unreadable))
    noted = {path: known(file_hash) for path, file_hash in remembered.items()}
    delta = plan([entry(path, file_hash=h) for path, h in stored.items()], scan, noted, POLICY)
    fates = Counter([*work(delta), *delta.unchanged, *(e.path for e in delta.deleted), *delta.protected])
    assert set(fates) == set(stored) | there
    assert max(fates.values(), default=1) == 1
    assert all(stored[path] == remembered[path] for path in delta.unchanged)


@pytest.mark.parametrize(
    ("deleted", "total", "suspicious"),
    [
        (20, 20, False),
        (21, 21, True),
        (21, 41, True),
        (21, 42, False),
        (500, 1001, False),
        (501, 1001, True),
        (0, 0, False),
    ],
)
def test_more_than_twenty_and_more_than_half_asks_for_a_second_look(deleted: int, total: int, suspicious: bool) -> None:
    assert GUARD_FILES == 20
    assert is_suspicious(deleted, total) is suspicious


def test_a_file_whose_bytes_arrived_elsewhere_is_not_lost() -> None:
    assert lost([entry("b", file_hash="1"), entry("a", file_hash="2")], {"1"}) == ("a",)


@pytest.mark.parametrize(
    ("stamp", "is_moved"),
    [
        (NOW._replace(ctime_ns=99), True),
        (NOW._replace(inode=2), False),
        (NOW._replace(size=6), False),
        (NOW._replace(mtime_ns=11), False),
    ],
)
def test_a_file_that_was_moved_and_waits_under_its_new_name_keeps_its_rows(stamp: Stamp, is_moved: bool) -> None:
    waiting = [Seen("new", stamp), Seen("other", NOW._replace(inode=3))]
    kept = moved([entry("old"), entry("unknown")], waiting, {"old": known()})
    assert kept == (frozenset({"old"}) if is_moved else frozenset())


def test_the_guard_names_some_files_counts_all_and_says_what_to_do() -> None:
    error = refuse_deletions(tuple(f"{i}.md" for i in range(30)), 40, "/vault")
    assert "30 of 40 indexed files are gone from /vault" in str(error)
    assert "9.md and 20 more" in str(error)
    assert "confirm_deletions" in str(error)
    assert len(error.paths) == 30


def test_the_guard_speaks_of_more_files_only_where_there_are_more() -> None:
    names = tuple(f"{number:02}.md" for number in range(11))
    assert "1 more" in str(refuse_deletions(names, 11, "/vault"))
    assert "more" not in refuse_deletions(names[:10], 10, "/vault").message
