"""What an index run does, seen from the store."""

from __future__ import annotations

from .parts import Bench


def test_new_files_are_stored_and_counted(bench: Bench) -> None:
    bench.note("a.md", "amber")
    bench.note("deep/b.md", "basket")
    report = bench.run()
    assert (report.new, report.inserted, report.embedded) == (2, 2, 2)
    assert list(bench.rows()) == ["a.md", "deep/b.md"]


def test_a_second_run_embeds_nothing_and_writes_nothing(bench: Bench) -> None:
    bench.note("a.md")
    bench.write("empty.md", "")
    bench.run()
    before = bench.store.change_count()
    bench.embedder.sent.clear()
    report = bench.run()
    assert bench.embedder.sent == []
    assert bench.store.change_count() == before
    assert report.unchanged == 2
