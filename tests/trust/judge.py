"""The judge of every test here: the index is whole, holds what the disk holds, and a second run does nothing."""

from __future__ import annotations

from tests.doctor import findings
from tests.indexing.parts import Bench
from tests.indexing.reference import ReferenceIndex, stored


def holds_the_disk(bench: Bench) -> None:
    """Every file of the disk is stored once, whole and as it is now, and nothing besides; the doctor agrees."""
    reference = ReferenceIndex(bench.root, bench.chunking)
    reference.run()
    assert stored(bench.store, bench.workspace.id) == reference.index
    assert findings(bench) == []


def is_settled(bench: Bench) -> None:
    """The same, and another run embeds, writes and removes nothing (I4)."""
    holds_the_disk(bench)
    sent = len(bench.embedder.sent)
    report = bench.run()
    assert (report.new, report.modified, report.deleted, report.orphans, report.inserted) == (0, 0, 0, 0, 0)
    assert len(bench.embedder.sent) == sent
