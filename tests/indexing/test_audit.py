"""The audit finds each kind of harm, and its repair plan mends it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from markdown_rag.errors import GuardError
from markdown_rag.indexing.audit import FindingKind, plan_repair
from markdown_rag.markdown.chunking import ChunkPolicy
from markdown_rag.store.base import Match, Where, record_id
from tests.doctor import findings

from .conftest import NewBench
from .parts import Bench
from .reference import ReferenceIndex, stored

OLD = 10**18  # a generation of long ago
TEXT = "# Top\n\n" + "".join(f"## Part {i}\n\npart {i} " + "and so on " * 100 + "\n\n" for i in range(3))


def row_ids(bench: Bench, path: str) -> list[str]:
    (entry,) = [entry for entry in bench.store.catalog() if entry.path == path]
    return [record_id(entry.workspace, path, entry.gen, i) for i in range(entry.chunk_count)]


def rewrite(bench: Bench, match: Match, **changes: object) -> None:
    """Store a row with something else in it, under its own id unless the path or generation changes."""
    stored = bench.store.records(Where(workspaces=(match.workspace,), paths=(match.path,)))
    (row,) = [row for row in stored if row.id == match.id]
    bench.store.insert([replace(row, **changes)])


def missing(bench: Bench) -> None:
    bench.note("b.md")


def stale(bench: Bench) -> None:
    bench.note("a.md", "other words")


def orphaned(bench: Bench) -> None:
    for row in bench.store.get(row_ids(bench, "a.md")):
        rewrite(bench, row, path="gone.md")


def doubled(bench: Bench) -> None:
    for row in bench.store.get(row_ids(bench, "a.md")):
        rewrite(bench, row, gen=OLD)


def uncommitted(bench: Bench) -> None:
    for row in bench.store.get(row_ids(bench, "a.md")[1:]):
        rewrite(bench, row, gen=OLD)


def incomplete(bench: Bench) -> None:
    bench.store.delete(row_ids(bench, "a.md")[1:2])


def other_policy(bench: Bench) -> None:
    bench.chunking = ChunkPolicy(max_tokens=300)


def wrong_hash(bench: Bench) -> None:
    rewrite(bench, bench.store.get(row_ids(bench, "a.md")[1:2])[0], text_hash="0" * 64)


def broken_span(bench: Bench) -> None:
    rewrite(bench, bench.store.get(row_ids(bench, "a.md")[1:2])[0], start_line=1)


HARMS = [missing, stale, orphaned, doubled, uncommitted, incomplete, other_policy, wrong_hash, broken_span]


def test_every_kind_of_finding_has_a_test() -> None:
    assert {harm.__name__ for harm in HARMS} == {kind.value for kind in FindingKind}


def test_a_good_index_has_no_findings(bench: Bench) -> None:
    bench.write("a.md", TEXT)
    bench.write("empty.md", "")
    bench.write("binary.md", bytes(range(256)) * 20)
    bench.run()
    assert findings(bench) == []


@pytest.mark.parametrize("harm", HARMS)
def test_each_harm_is_found_as_what_it_is_and_can_be_mended(bench: Bench, harm: Callable[[Bench], None]) -> None:
    bench.write("a.md", TEXT)
    bench.run()
    harm(bench)
    found = findings(bench)
    assert {finding.kind.value for finding in found} == {harm.__name__}
    repair = plan_repair(found)
    bench.store.delete(repair.remove)
    assert repair.prune is (harm is orphaned)
    if repair.prune:
        bench.run()
    for path in repair.reindex:
        bench.run(path, force=True)
    assert findings(bench) == []
    reference = ReferenceIndex(bench.root, bench.chunking)
    reference.run()
    assert stored(bench.store, bench.workspace.id) == reference.index


@pytest.mark.parametrize("left", [0, 3])
def test_a_plan_of_repair_removes_nothing_of_files_that_are_not_to_be_seen(bench: Bench, left: int) -> None:
    for number in range(30):
        bench.note(f"n{number}.md")
    bench.run()
    for number in range(left, 30):
        (bench.root / f"n{number}.md").unlink()
    repair = plan_repair(findings(bench))
    assert (repair.remove, repair.reindex, repair.prune) == ((), (), True)
    with pytest.raises(GuardError):
        bench.run()
    assert bench.run(confirm_deletions=True).deleted == 30 - left


def test_rows_of_a_run_that_may_be_going_on_are_no_finding(bench: Bench) -> None:
    bench.write("a.md", TEXT)
    bench.run()
    for row in bench.store.get(row_ids(bench, "a.md")[1:]):
        rewrite(bench, row, gen=row.gen + 1)
    assert findings(bench) == []


def test_another_workspace_is_not_judged(new_bench: NewBench, bench: Bench, tmp_path: object) -> None:
    other = new_bench(tmp_path / "other", tmp_path / "state2", store=bench.store)
    other.note("theirs.md")
    other.run()
    assert findings(bench) == []
