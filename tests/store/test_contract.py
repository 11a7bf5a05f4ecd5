"""What every store promises (markdown_rag/store/base.py), asked of each implementation."""

from __future__ import annotations

import threading
from dataclasses import replace

import numpy as np
import pytest

from markdown_rag.errors import StoreLimitError
from markdown_rag.store.base import FileEntry, FileLinks, Record, RowKey, Store, Where
from markdown_rag.store.memory import MemoryStore

from .conftest import DIMENSION, MODEL, Opener, record, settles, vector


def ids(found) -> set[str]:
    return {item.id for item in found}


TREE = ["top.md", "docs/a.md", "docs/deep/b.md", "docs.md", "docs0/c.md", "docs-old/d.md", "do_s/e.md", "doXs/f.md"]
FIELDS = (
    "id", "workspace", "path", "ord", "gen", "title", "heading_path", "text", "prefix", "lexical",
    "tags", "aliases", "start_line", "end_line", "start_byte", "end_byte", "file_hash", "text_hash",
)  # fmt: skip


def tree() -> list[Record]:
    """A small tree, with names that differ by one character, in two workspaces."""
    rows = [record(path, ord_, chunk_count=2) for path in TREE for ord_ in (1, 0)]
    return [*rows, record("docs/a.md", 0, workspace="w2")]


def paths_of(store: Store) -> list[str]:
    return sorted(key.path for key in store.keys())  # noqa: SIM118 - a store is no dictionary


def test_reading_before_anything_is_stored_finds_nothing_and_creates_nothing(store: Store):
    assert store.catalog() == []
    assert list(store.keys()) == []
    assert list(store.rows(Where())) == []
    assert list(store.vectors(Where())) == []
    assert store.get(["x"]) == []
    assert store.dense(vector(1), 5) == []
    assert store.lexical("text", 5) == []
    assert store.count() == 0
    assert store.workspaces() == {}
    store.delete(["x"])
    store.flush()
    assert store.health().rows == 0


def test_a_record_comes_back_as_it_was_stored(store: Store):
    given = record(
        "notes/quote\"d 'name'\\%_\t\n日本語 é.md",
        3,
        chunk_count=9,
        gen=1_796_020_064_073_513_925,
        title="Título 日本",
        heading_path="One › Two › C#",
        text="line one\nline two\ttab \\ \" ' \u2028 \U0001f600",
        prefix="| a | b |\n",
        properties={"n": None, "list": [1, "zwei"], "text": 'say "hi" \\ \n', "größe": 1.5},
        start_line=7,
        end_line=9,
        start_byte=5_000_000_000,
        end_byte=5_000_000_100,
    )
    store.ensure()
    store.insert([given])
    (found,) = store.get([given.id])
    for name in FIELDS:
        assert getattr(found, name) == getattr(given, name), name
    assert found.score == 0.0
    (whole,) = store.records(Where())
    assert (whole.chunk_count, whole.properties) == (given.chunk_count, given.properties)
    ((key, text_hash, stored),) = store.vectors(Where())
    assert key == RowKey(given.id, given.workspace, given.path, given.gen, given.ord)
    assert text_hash == given.text_hash
    assert np.array_equal(stored, given.vector)


def test_the_catalog_holds_the_committing_rows_of_all_generations(store: Store):
    store.insert([record("a.md", 1), record("a.md", 0), record("a.md", 0, gen=2), record("b.md", 1)])
    entry = FileEntry(
        "w1", "a.md", 1, 1, "A title", ("alpha", "beta/gamma"), ("other name",), record().properties, "f" * 64, "p" * 16
    )
    assert sorted(store.catalog(), key=lambda e: e.gen) == [entry, replace(entry, gen=2)]
    assert [(key.path, key.ord, key.gen) for key in sorted(store.commits(), key=lambda k: k.gen)] == [
        ("a.md", 0, 1),
        ("a.md", 0, 2),
    ]
    assert store.workspaces() == {"w1": 1}


def test_writing_the_same_ids_again_changes_nothing(store: Store):
    rows = [record("a.md", number) for number in range(5)]
    store.insert(rows)
    store.insert(rows)
    store.flush()
    store.insert(rows[:2])
    assert store.count() == 5
    assert ids(store.keys()) == ids(rows)
    settles(store, lambda: [m.id for m in store.dense(rows[1].vector, 1)], [rows[1].id])


def test_deleted_rows_are_gone_everywhere_and_deleting_again_is_no_error(store: Store):
    rows = [record("a.md", number) for number in range(4)]
    store.insert(rows)
    store.flush()
    store.delete([rows[0].id, "never-there"])
    store.delete([rows[0].id])
    assert store.count() == 3
    assert ids(store.keys()) == ids(rows[1:])
    assert store.get([rows[0].id]) == []
    settles(store, lambda: ids(store.dense(rows[0].vector, 10)), ids(rows[1:]))
    if store.capabilities().lexical:
        assert store.lexical("part0", 10) == []


def test_whole_rows_come_back_as_they_were_written(store: Store):
    rows = [record("a.md", number, links="[1]" if not number else "") for number in range(3)]
    store.insert(rows)
    for back, row in zip(store.records(Where()), rows, strict=True):
        assert np.array_equal(back.vector, row.vector)
        assert replace(back, vector=row.vector) == row


def test_dense_search_ranks_by_inner_product_with_the_stored_vector(store: Store):
    rows = [record("a.md", number, vector=vector(number) * (1 + number / 10)) for number in range(40)]
    store.insert(rows)
    query = vector(1000)
    products = {row.id: float(row.vector @ query) for row in rows}
    best = sorted(products, key=products.__getitem__, reverse=True)[:7]
    settles(store, lambda: [match.id for match in store.dense(query, 7)], best)
    for _ in range(2):
        for match in store.dense(query, 7):
            assert match.score == pytest.approx(products[match.id], rel=1e-4)
        store.flush()


def test_lexical_search_finds_the_rows_that_hold_the_tokens_with_scores_that_are_not_negative(store: Store):
    if not store.capabilities().lexical:
        assert store.lexical("zebra", 5) == []
        return
    rows = [record("a.md", number, lexical="common words here") for number in range(20)]
    rows.append(record("a.md", 50, lexical="common zebra dry_run 東京"))
    store.insert(rows)
    assert [match.id for match in store.lexical("zebra", 5)] == [rows[-1].id]
    assert [match.id for match in store.lexical("東京 dry_run", 5)] == [rows[-1].id]
    found = store.lexical("common zebra", 30)
    assert found[0].id == rows[-1].id
    assert len(found) == 21
    assert all(match.score >= 0 for match in found)
    assert store.lexical("nowhere", 5) == []
    assert store.lexical("", 5) == []


def test_keyword_scores_are_those_of_bm25_with_the_documented_parameters(store: Store):
    if not store.capabilities().lexical:
        return
    texts = ["one " * (n % 3) + "two " * (n % 5) + f"three word{n} " * (n % 4) for n in range(60)]
    rows = [record("a.md", number, lexical=text) for number, text in enumerate(texts)]
    store.insert(rows)
    exact = MemoryStore(MODEL)
    exact.insert(rows)
    for query in ("one", "two three", "one two word7", "two two word9"):
        wanted = {match.id: match.score for match in exact.lexical(query, 100)}
        found = {match.id: match.score for match in store.lexical(query, 100)}
        assert found == pytest.approx(wanted, rel=1e-4)


SCOPES = [
    (Where(), set(TREE)),
    (Where(scope="docs"), {"docs/a.md", "docs/deep/b.md"}),
    (Where(scope="docs", recursive=False), {"docs/a.md"}),
    (Where(recursive=False), {"top.md", "docs.md"}),
    (Where(scope="docs/a.md"), {"docs/a.md"}),
    (Where(scope="do_s"), {"do_s/e.md"}),
    (Where(scope="do%"), set()),
    (Where(workspaces=("w2",)), {"docs/a.md"}),
    (Where(workspaces=("w1", "w2"), scope="docs/deep"), {"docs/deep/b.md"}),
    (Where(workspaces=("w3",)), set()),
    (Where(paths=("top.md", "docs.md", "none.md")), {"top.md", "docs.md"}),
    (Where(paths=()), set()),
    (Where(scope="docs", exclude_paths=("docs/a.md",)), {"docs/deep/b.md"}),
    (Where(within=("docs/deep", "top.md")), {"docs/deep/b.md", "top.md"}),
    (Where(within=("do_s",)), {"do_s/e.md"}),
    (Where(within=("",), scope="docs"), {"docs/a.md", "docs/deep/b.md"}),
    (Where(outside=("docs", "top.md")), {"docs.md", "docs0/c.md", "docs-old/d.md", "do_s/e.md", "doXs/f.md"}),
    (Where(outside=("",)), set()),
    (Where(scope="docs", outside=("docs/deep",)), {"docs/a.md"}),
    (Where(files=(("w1", ("top.md", "none.md")), ("w2", ("docs/a.md", "docs.md")))), {"top.md", "docs/a.md"}),
    (Where(files=(("w3", ("top.md",)),)), set()),
    (Where(files=()), set()),
    (Where(files=(("w1", ()),)), set()),
]  # fmt: skip


def test_every_reader_sees_exactly_the_rows_of_its_scope(store: Store):
    store.insert(tree())
    for where, wanted in SCOPES:
        rows = list(store.keys(where))
        assert {key.path for key in rows} == wanted, where
        assert ids(store.rows(where)) == ids(rows), where
        assert {key.id for key, _, _ in store.vectors(where)} == ids(rows), where
        assert store.count(where) == len(rows), where
        assert {entry.path for entry in store.catalog(where)} == wanted, where
        settles(store, lambda where=where: ids(store.dense(vector(1), 100, where)), ids(rows))
        if store.capabilities().lexical:
            assert ids(store.lexical("text", 100, where)) == ids(rows), where


def test_a_file_is_named_with_its_workspace(store: Store):
    store.insert(tree())
    (key,) = store.keys(Where(files=(("w2", ("docs/a.md", "top.md")),)))
    assert (key.workspace, key.path) == ("w2", "docs/a.md")


def test_links_are_read_from_the_rows_that_carry_some(store: Store):
    store.insert([record(ord_=1, chunk_count=2), record(chunk_count=2, links='[["wikilink","日本","",3]]')])
    store.insert([record(gen=2)])
    assert store.links() == [FileLinks("w1", "a.md", 1, '[["wikilink","日本","",3]]')]
    assert store.links(Where(scope="b.md")) == []


def test_rows_are_found_by_their_text_in_every_workspace(store: Store):
    assert store.holding(["f" * 64]) == []
    rows = [record(f"{number}.md", workspace=f"w{number % 2}", text_hash=f"{number % 10:064d}") for number in range(40)]
    store.insert(rows)
    wanted = [f"{number:064d}" for number in range(3)] + [f"{number:064x}" for number in range(10**9, 10**9 + 1200)]
    found = {key.id: text_hash for key, text_hash in store.holding(wanted)}
    assert found == {row.id: row.text_hash for row in rows if row.text_hash in wanted}
    assert store.holding([]) == []


def test_rows_come_in_reading_order(store: Store):
    store.insert([record(path, ord_, gen=gen) for path in "ba" for gen in (2, 1) for ord_ in (10, 2, 0)])
    store.flush()
    order = [(match.path, match.gen, match.ord) for match in store.rows(Where())]
    assert order == [(path, gen, ord_) for path in "ab" for gen in (1, 2) for ord_ in (0, 2, 10)]


def test_long_lists_of_paths_and_ids_are_taken(store: Store):
    store.insert([record(f"{number}.md") for number in range(30)])
    many = tuple(f"{number}.md" for number in range(15, 6000))
    assert store.count(Where(paths=many)) == 15
    assert store.count(Where(exclude_paths=many)) == 15
    wanted = [record(f"{number}.md").id for number in range(6000)]
    assert len(store.get(wanted)) == 30
    store.delete(wanted[10:])
    assert store.count() == 10


@pytest.mark.slow
def test_more_rows_than_one_request_or_window_holds_are_stored_and_listed(open_another: Opener):
    store = open_another(insert_batch=1000)
    rows = [record(f"{number // 10}.md", number % 10, text="x") for number in range(17_000)]
    store.insert(rows)
    assert store.count() == 17_000
    assert ids(store.keys()) == ids(rows)
    assert len(store.catalog()) == 1700
    found = len(store.dense(vector(1), 1_000_000))
    # A server's index is approximate: it does not reach every row, but takes the request.
    assert found == 16_384 or (not store.capabilities().embedded and 0 < found < 16_384)
    assert store.dense(vector(1), 0) == []
    assert store.dense(vector(1), -3) == []


@pytest.mark.parametrize("poison", [np.nan, np.inf, -np.inf])
def test_a_vector_that_is_not_finite_is_refused_and_nothing_is_stored(store: Store, poison: float):
    bad = vector(1)
    bad[3] = poison
    with pytest.raises(StoreLimitError):
        store.insert([record("a.md", 1), record("a.md", 0, vector=bad)])
    assert store.count() == 0


@pytest.mark.parametrize(
    "change",
    [
        {"vector": vector(1, DIMENSION + 1)},
        {"text": "é" * 40_000},
        {"lexical": "語" * 30_000},
        {"path": "d/" * 5000 + "x.md"},
        {"path": "lone \ud800 surrogate.md"},
    ],
    ids=["dimension", "text", "lexical", "path", "surrogate"],
)
def test_what_no_engine_can_hold_is_refused_by_every_store(store: Store, change: dict):
    with pytest.raises(StoreLimitError):
        store.insert([record(**change)])


def test_limits_are_counted_in_bytes_and_reached_exactly(store: Store):
    text = "語" * 21_845
    given = record(text=text, lexical="ab " * 21_845)
    store.insert([given])
    assert store.get([given.id])[0].text == text


def test_what_only_describes_is_cut_at_a_character_instead_of_refused(store: Store):
    given = record(
        title="é" * 9000,
        heading_path="語" * 9000,
        tags=tuple(f"tag{n}" for n in range(3000)),
        properties={"long": "x" * 70_000, "nan": float("nan"), "short": "kept"},
    )
    store.insert([given])
    (found,) = store.get([given.id])
    assert found.title == "é" * 4096
    assert found.heading_path == "語" * 5461
    assert found.tags == given.tags[:1024]
    (entry,) = store.catalog()
    assert entry.properties == {"nan": "nan", "short": "kept"}


def test_two_clients_of_one_collection_see_each_others_writes_at_once(open_another: Opener):
    first, second = open_another(), open_another()
    first.ensure()
    second.ensure()
    counts = [second.change_count()]
    first.insert([record("a.md")])
    assert paths_of(second) == ["a.md"]
    counts.append(second.change_count())
    second.delete([record("a.md").id])
    assert list(first.keys()) == []
    counts.append(first.change_count())
    assert counts[0] is None or counts[0] < counts[1] < counts[2]


def test_clients_that_create_the_collection_at_the_same_moment_all_succeed(open_another: Opener):
    stores = [open_another() for _ in range(4)]
    together = threading.Barrier(len(stores))
    failures: list[Exception] = []

    def create(number: int, store: Store) -> None:
        together.wait()
        try:
            store.ensure()
            store.insert([record(f"{number}.md")])
        except Exception as error:
            failures.append(error)

    threads = [threading.Thread(target=create, args=pair) for pair in enumerate(stores)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert failures == []
    assert stores[0].count() == 4


def test_models_live_side_by_side_and_never_mix(open_another: Opener):
    other_model = replace(MODEL, model="test/model", dimension=4)
    same_size = replace(MODEL, model="test_model ")
    stores = [open_another(), open_another(other_model), open_another(same_size)]
    assert len({store.collection for store in stores}) == 3
    for number, store in enumerate(stores):
        store.insert([record(f"{number}.md", vector=vector(number, store.model.dimension))])
    assert [paths_of(store) for store in stores] == [["0.md"], ["1.md"], ["2.md"]]


def test_a_flush_never_changes_what_is_found(store: Store):
    rows = [record(f"{number}.md", 0, vector=vector(number), lexical=f"word{number % 7} all") for number in range(300)]
    store.insert(rows)
    store.delete([row.id for row in rows[::5]])
    wanted = ids(rows) - ids(rows[::5])
    before = [match.id for match in store.dense(vector(5000), 20)]
    store.flush()
    assert ids(store.keys()) == wanted
    settles(store, lambda: ids(store.dense(vector(5000), 300)), wanted)
    if store.capabilities().embedded:
        assert [match.id for match in store.dense(vector(5000), 20)] == before
    if store.capabilities().lexical:
        assert ids(store.lexical("all", 300)) == wanted


def test_closing_twice_is_harmless(open_another: Opener):
    store = open_another()
    store.ensure()
    store.close()
    store.close()
