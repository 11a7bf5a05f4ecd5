"""A preview says what a run then does, and does nothing itself."""

from __future__ import annotations

import pytest

from markdown_rag.clock import StopSignal
from markdown_rag.indexing.preview import Preview, preview
from markdown_rag.markdown import tokens

from .parts import Bench


def look(bench: Bench, **how: bool) -> Preview:
    return preview(
        bench.scope(),
        bench.chunking,
        bench.scanning,
        StopSignal(),
        store=bench.store,
        embeddings=bench.embeddings,
        cache=bench.cache,
        clock=bench.clock,
        **how,
    )


def test_a_preview_tells_the_run_and_changes_nothing(bench: Bench) -> None:
    for name in ("same", "gone", "edited"):
        bench.note(f"{name}.md")
    bench.run()
    (bench.root / "gone.md").unlink()
    bench.note("edited.md", "other words")
    bench.note("new.md")
    bench.write("blank.md", "\n")
    writes, sent = bench.store.change_count(), len(bench.embedder.sent)
    seen = look(bench)
    assert (seen.new, seen.modified, seen.deleted) == (["new.md"], ["edited.md"], ["gone.md"])
    assert (seen.chunks, seen.cached, seen.texts_to_embed, seen.unchanged) == (2, 0, 2, 2)
    assert (bench.store.change_count(), len(bench.embedder.sent)) == (writes, sent)
    report = bench.run()
    assert (report.new, report.modified, report.deleted, report.embedded) == (1, 1, 1, seen.texts_to_embed)
    assert report.tokens == seen.tokens_to_embed
    assert seen.tokens_to_embed == sum(tokens.count(text) for text in bench.embedder.sent[sent:])


@pytest.mark.ends_with("missing")
def test_texts_that_are_known_or_equal_cost_nothing(bench: Bench) -> None:
    bench.note("a.md", "amber")
    bench.run()
    bench.note("b.md", "birch")
    (bench.root / "copy.md").write_bytes((bench.root / "a.md").read_bytes())
    (bench.root / "twin.md").write_bytes((bench.root / "b.md").read_bytes())
    seen = look(bench)
    assert (seen.chunks, seen.cached, seen.texts_to_embed) == (3, 2, 1)


def test_a_forced_run_without_the_cache_pays_for_everything(bench: Bench) -> None:
    bench.note("a.md")
    bench.run()
    assert look(bench, force=True).texts_to_embed == 0
    assert look(bench, force=True, use_cache=False).texts_to_embed == 1


def test_a_preview_names_what_is_left_out(bench: Bench) -> None:
    bench.note("build/a.md")
    bench.write("binary.md", bytes(range(256)) * 20)
    seen = look(bench)
    assert seen.left_out == {"folder build": 1}
    assert [(problem.path, problem.kind.value) for problem in seen.problems] == [("binary.md", "not_text")]
