"""What is read while documents change."""

from __future__ import annotations

from pathlib import Path

import pytest

from markdown_rag.clock import SystemClock
from markdown_rag.library.passages import parse_id, passage_id
from markdown_rag.library.reader import ReadAnswer, Reader, ReadRequest
from markdown_rag.markdown.chunking import ChunkPolicy
from markdown_rag.search.catalog import Catalog
from markdown_rag.search.freshness import Freshness
from markdown_rag.store.base import EVERYTHING
from tests.indexing.conftest import NewBench
from tests.indexing.parts import Bench


@pytest.fixture
def bench(new_bench: NewBench, tmp_path: Path) -> Bench:
    return new_bench(
        tmp_path / "vault", tmp_path / "state", chunking=ChunkPolicy(max_tokens=64, min_tokens=16, min_final=8)
    )


def document(parts: int, word: str) -> str:
    return "# Top\n\n" + "".join(f"## Part {i}\n\n{word} {i} " + "and so on " * 20 + "\n\n" for i in range(parts))


@pytest.mark.parametrize(("before", "after"), [(2, 6), (6, 2)])
def test_a_document_that_was_indexed_anew_after_it_was_found_is_read_whole(
    bench: Bench, before: int, after: int
) -> None:
    bench.write("a.md", document(before, "amber"))
    bench.run()
    catalog = Catalog(bench.store, SystemClock())
    (found,) = catalog.snapshot().files.values()
    bench.write("a.md", document(after, "birch"))
    bench.run()
    (now,) = bench.store.catalog()
    assert now.chunk_count != found.chunk_count
    answer = Reader(bench.store, catalog, bench.chunking).read(ReadRequest(found, max_tokens=50_000), None)
    assert answer.text == document(after, "birch")
    assert answer.continuation is None


def read(bench: Bench, **asked: object) -> ReadAnswer:
    catalog = Catalog(bench.store, SystemClock())
    (entry,) = catalog.snapshot().files.values()
    return Reader(bench.store, catalog, bench.chunking).read(ReadRequest(entry, **asked), bench.root)  # type: ignore[arg-type]


def lines_of(text: str, answer: ReadAnswer) -> str:
    return "".join(text.splitlines(keepends=True)[answer.start_line - 1 : answer.end_line])


@pytest.mark.parametrize("asked", [{"lines": "2-4"}, {"lines": "4"}, {"heading": "Part 1"}, {"lines": "3-"}, {}])
def test_the_lines_that_are_said_are_those_that_are_returned_blank_ones_too(
    bench: Bench, asked: dict[str, str]
) -> None:
    text = document(3, "amber") + "\n\n"
    bench.write("a.md", text)
    bench.run()
    answer = read(bench, **asked)
    assert answer.text == lines_of(text, answer)


def test_pages_go_on_with_the_line_after_the_one_they_ended_with(bench: Bench) -> None:
    text = document(9, "amber").replace("and so on ", "and so on\n\n")
    bench.write("a.md", text)
    bench.run()
    answer = read(bench, max_tokens=60)
    last, pages = answer.end_line, 1
    assert answer.start_line == 1
    while answer.continuation:
        answer = read(bench, continuation=answer.continuation, max_tokens=60)
        assert answer.start_line == last + 1
        assert answer.text == lines_of(text, answer)
        last, pages = answer.end_line, pages + 1
    assert last == text.count("\n")
    assert pages > 5


@pytest.mark.ends_with("stale")
def test_a_passage_is_fresh_where_it_stood_moved_elsewhere_and_changed_where_it_is_not(bench: Bench) -> None:
    text = document(4, "amber")
    bench.write("a.md", text)
    bench.run()
    row = next(row for row in bench.store.rows(EVERYTHING) if "amber 2" in row.text)
    passage = parse_id(passage_id(row.workspace, row.path, row.ord, row.text_hash))
    for now, freshness, shift in (
        (text, Freshness.FRESH, 0),
        (f"{text}\nA tail.\n", Freshness.FRESH, 0),
        (text.replace("amber 0", "birch 0"), Freshness.FRESH, 0),
        (f"One.\n\n{text}", Freshness.MOVED, 2),
        (text.replace("## Part 0\n\n", ""), Freshness.MOVED, -2),
    ):
        bench.write("a.md", now)
        answer = read(bench, passage=passage)
        assert answer.freshness is freshness
        assert answer.stale == (now != text)
        assert (answer.start_line, answer.end_line) == (row.start_line + shift, row.end_line + shift)
        assert answer.was_lines == ((row.start_line, row.end_line) if shift else None)
        assert answer.text == row.text
        assert answer.text in lines_of(now, answer)
        assert bool(answer.notes) == bool(shift)
        wider = read(bench, passage=passage, before=1)
        assert (wider.freshness, wider.was_lines) == (freshness, None)
    bench.write("a.md", text.replace("amber 2", "birch 2"))
    assert read(bench, passage=passage).freshness is Freshness.CHANGED


def test_a_document_that_is_gone_from_disk_says_that_indexing_takes_it_out(bench: Bench) -> None:
    bench.write("a.md", document(2, "amber"))
    bench.run()
    (bench.root / "a.md").unlink()
    answer = read(bench)
    assert (answer.freshness, answer.text) == (Freshness.DELETED, "")
    assert "index_documents" in answer.notes[0]
    bench.run(confirm_deletions=True)


def test_a_section_is_found_by_its_path_as_hits_show_it_also_where_a_heading_holds_the_joint(bench: Bench) -> None:
    bench.write("a.md", "# Config › Paths\n\nOver.\n\n## A > B\n\nInner words.\n\n## C\n\nLast.\n")
    bench.run()
    for shown in ("Config › Paths › A > B", "A > B", "Config › Paths › C"):
        assert read(bench, heading=shown).text.startswith(f"## {shown.rsplit(' › ')[-1]}")


@pytest.mark.parametrize("head", ["# Notes\n\nOver all.\n\n", "", "---\ntags: [x]\n---\nBefore any heading.\n\n"])
def test_the_section_of_a_passage_that_is_of_several_sections_holds_all_of_it(bench: Bench, head: str) -> None:
    sections = "".join(f"## Part {n}\n\nThe {word} is here.\n\n" for n, word in enumerate(("amber", "birch", "cobalt")))
    bench.write("a.md", head + sections + "## Far\n\n" + "A long end. " * 400)
    bench.run()
    row = next(row for row in bench.store.rows(EVERYTHING) if "birch" in row.text)
    assert row.text.count("\n## ") > 0, "small sections share a passage"
    passage = parse_id(passage_id(row.workspace, row.path, row.ord, row.text_hash))
    answer = read(bench, passage=passage, section=True)
    assert row.text.strip() in answer.text
    assert not answer.notes
    assert "A long end" not in answer.text, "and no section besides"
