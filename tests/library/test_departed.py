"""What an id from before is answered with once the index has caught up: moved where to, changed, or deleted."""

from __future__ import annotations

from pathlib import Path

import pytest

from markdown_rag.clock import SystemClock
from markdown_rag.errors import StateError
from markdown_rag.indexing.statcache import StatCache
from markdown_rag.library.departed import Meant, by_id
from markdown_rag.library.passages import PassageId, parse_id, passage_id
from markdown_rag.library.reader import ReadAnswer, Reader, ReadRequest
from markdown_rag.markdown.chunking import ChunkPolicy
from markdown_rag.search.catalog import Catalog
from markdown_rag.search.freshness import Freshness
from markdown_rag.store.base import EVERYTHING
from tests.indexing.conftest import NewBench
from tests.indexing.parts import Bench


@pytest.fixture
def bench(new_bench: NewBench, tmp_path: Path) -> Bench:
    small = ChunkPolicy(max_tokens=64, min_tokens=16, min_final=8)
    return new_bench(tmp_path / "vault", tmp_path / "state", chunking=small)


def document(word: str, parts: int = 4) -> str:
    return "# Top\n\n" + "".join(f"## Part {i}\n\n{word} {i} " + "and so on " * 12 + "\n\n" for i in range(parts))


def id_of(bench: Bench, words: str) -> PassageId:
    row = next(row for row in bench.store.rows(EVERYTHING) if words in row.text)
    found = parse_id(passage_id(row.workspace, row.path, row.ord, row.text_hash))
    assert found
    return found


def meant(bench: Bench, named: PassageId) -> Meant | None:
    return by_id(named, Catalog(bench.store, SystemClock()), bench.store, lambda: bench.cache)


def read(bench: Bench, named: PassageId) -> ReadAnswer:
    found = meant(bench, named)
    assert found
    reader = Reader(bench.store, Catalog(bench.store, SystemClock()), bench.chunking)
    return found.read(reader, ReadRequest(found.entry, named if named.text else None), bench.root)


def rename(bench: Bench, old: str, new: str) -> None:
    (bench.root / new).parent.mkdir(exist_ok=True)
    (bench.root / old).rename(bench.root / new)


def test_an_id_of_a_renamed_file_leads_to_it_by_its_new_name(bench: Bench) -> None:
    bench.write("a.md", document("amber"))
    bench.write("other/b.md", document("birch"))
    bench.run()
    passage, whole = id_of(bench, "amber 2"), PassageId(id_of(bench, "amber 2").file, 0, "")
    rename(bench, "a.md", "new/c.md")
    bench.run()
    answer = read(bench, passage)
    assert (answer.entry.path, answer.freshness) == ("new/c.md", Freshness.MOVED)
    assert "amber 2" in answer.text
    assert answer.notes[0] == "What was a.md is new/c.md now."
    assert read(bench, whole).text == document("amber")


def test_it_leads_on_through_further_renames_and_edits(bench: Bench) -> None:
    bench.write("a.md", document("amber"))
    bench.run()
    second, third = id_of(bench, "amber 2"), id_of(bench, "amber 3")
    for old, new in (("a.md", "b.md"), ("b.md", "c.md")):
        rename(bench, old, new)
        bench.run()
    bench.write("c.md", document("amber").replace("amber 3", "birch 3"))
    bench.run()
    assert (read(bench, second).entry.path, read(bench, second).freshness) == ("c.md", Freshness.MOVED)
    assert read(bench, third).freshness is Freshness.CHANGED
    assert "birch 3" in read(bench, third).text


def test_a_file_renamed_and_edited_at_once_is_known_by_its_texts(bench: Bench) -> None:
    bench.write("a.md", document("amber"))
    bench.run()
    kept, edited = id_of(bench, "amber 1"), id_of(bench, "amber 3")
    rename(bench, "a.md", "b.md")
    bench.write("b.md", document("amber").replace("amber 3", "birch 3"))
    bench.run()
    assert read(bench, kept).freshness is Freshness.MOVED
    assert "amber 1" in read(bench, kept).text
    assert (read(bench, edited).entry.path, read(bench, edited).freshness) == ("b.md", Freshness.CHANGED)


def test_a_passage_that_went_into_another_file_is_found_there(bench: Bench) -> None:
    text = document("amber")
    bench.write("a.md", text)
    bench.run()
    passage, other = id_of(bench, "amber 3"), id_of(bench, "amber 0")
    at = text.index("## Part 3")
    bench.write("part.md", "# Top\n\n" + document("birch").removeprefix("# Top\n\n") + text[at:])
    (bench.root / "a.md").unlink()
    bench.run()
    assert (read(bench, passage).entry.path, read(bench, passage).freshness) == ("part.md", Freshness.MOVED)
    assert read(bench, other).freshness is Freshness.DELETED


def test_an_id_of_a_deleted_file_says_which_was_deleted(bench: Bench) -> None:
    bench.write("notes/a.md", document("amber"))
    bench.write("b.md", document("birch"))
    bench.run()
    passage = id_of(bench, "amber 2")
    (bench.root / "notes/a.md").unlink()
    bench.run()
    answer = read(bench, passage)
    assert (answer.freshness, answer.text, answer.entry.path) == (Freshness.DELETED, "", "notes/a.md")
    assert "notes/a.md was deleted" in answer.notes[0]
    bench.write("notes/a.md", document("amber"))
    bench.run()
    assert read(bench, passage).freshness is Freshness.FRESH


def test_a_file_moved_by_a_run_over_its_old_folder_alone_is_found_by_its_bytes(bench: Bench) -> None:
    bench.write("old/a.md", document("amber"))
    bench.run()
    passage = id_of(bench, "amber 2")
    rename(bench, "old/a.md", "new/a.md")
    bench.run("old")
    assert read(bench, passage).freshness is Freshness.DELETED
    bench.run("new")
    assert read(bench, passage).entry.path == "new/a.md"


def test_without_the_state_file_nothing_is_known_and_nothing_fails(bench: Bench) -> None:
    bench.write("a.md", document("amber"))
    bench.run()
    passage = id_of(bench, "amber 2")
    rename(bench, "a.md", "b.md")
    bench.run()
    bench.restart(keep_state=False)
    assert meant(bench, passage) is None

    def unusable() -> StatCache:
        raise StateError("The state file cannot be used.", "Look at its folder.")

    assert by_id(passage, Catalog(bench.store, SystemClock()), bench.store, unusable) is None


def after_another_file_came(bench: Bench, text: str, words: str, other: str) -> ReadAnswer:
    """What an id of f.md is answered with once f.md is gone and g.md is there."""
    bench.write("f.md", text)
    bench.run()
    passage = id_of(bench, words)
    bench.write("g.md", other)
    (bench.root / "f.md").unlink()
    bench.run()
    return read(bench, passage)


def test_a_file_that_was_taken_into_a_larger_one_is_found_there(bench: Bench) -> None:
    text = "# Aye\n\nThe okapi has stripes on its legs.\n"
    answer = after_another_file_came(bench, text, "okapi", f"intro line\n\n{text}")
    assert answer.entry.path == "g.md"
    assert "okapi has stripes" in answer.text
    assert answer.notes[0] == "What was f.md is g.md now."


def test_a_few_words_that_stand_anywhere_are_no_trace(bench: Bench) -> None:
    other = "# Other\n\nSee also the other page about something else.\n"
    answer = after_another_file_came(bench, "See also\n", "See also", other)
    assert answer.freshness is Freshness.DELETED
    assert "Search for its words" in answer.notes[0]
