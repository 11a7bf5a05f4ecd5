"""What an answer promises: the right files, all of them, cited, bounded, explained."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from markdown_rag.embeddings.local import MODEL as LOCAL_MODEL
from markdown_rag.errors import EmbeddingUnavailable, InputError, StoreError, StoreUnavailable
from markdown_rag.search import ranking
from markdown_rag.search.answer import EmptyReason, Mode, SearchRequest
from markdown_rag.search.freshness import Freshness
from markdown_rag.search.policy import MAX_K, SearchPolicy
from markdown_rag.search.query import prepare
from markdown_rag.search.relevance import dense_scale
from markdown_rag.store.base import EVERYTHING, Match, Model, Vector, Where
from markdown_rag.store.memory import MemoryStore

MODEL = Model("local", "words", 64)
WORDS = ["alpha", "beta", "gamma", "delta", "epsilon", "zeta"]


def test_a_hit_says_where_the_passage_stands(library, tmp_path: Path) -> None:
    text = "Intro line.\nThe rollback is done by reverting.\nMore."
    (tmp_path / "guide.md").write_text(text)
    library.roots["w"] = tmp_path
    library.add("guide.md", text, title="Guide", data=text.encode())
    hit = library.ask("rollback").hits[0]
    assert (hit.path, hit.absolute, hit.title) == ("guide.md", str(tmp_path / "guide.md"), "Guide")
    assert (hit.start_line, hit.end_line) == (1, 3)
    assert "rollback" in hit.excerpt
    assert hit.freshness is Freshness.FRESH
    assert 0 < hit.score <= 1


def test_an_edited_file_is_marked_changed_and_a_removed_one_deleted(library, tmp_path: Path) -> None:
    library.roots["w"] = tmp_path
    (tmp_path / "a.md").write_text("alpha edited")
    library.add("a.md", "alpha one")
    library.add("b.md", "alpha two")
    assert {hit.path: hit.freshness for hit in library.ask("alpha").hits} == {
        "a.md": Freshness.CHANGED,
        "b.md": Freshness.DELETED,
    }


def test_where_the_index_is_behind_the_disk_the_answer_says_what_to_do(library, tmp_path: Path) -> None:
    library.roots["w"] = tmp_path
    (tmp_path / "a.md").write_text("alpha edited")
    (tmp_path / "c.md").write_text("beta\n\nand more")
    library.add("a.md", "alpha one")
    library.add("b.md", "alpha two")
    library.add("c.md", "beta")
    (note,) = library.ask("alpha").notes
    assert "1 changed and 1 deleted" in note
    assert "index_documents" in note
    assert "wait_for_fresh=true" in note
    answer = library.ask("beta", k=1)
    assert answer.hits[0].freshness is Freshness.FRESH
    assert answer.notes == ()


def test_an_excerpt_that_moved_inside_its_passage_is_found_at_its_new_lines(library, tmp_path: Path) -> None:
    library.roots["w"] = tmp_path
    text = "# Guide\n\nalpha stands here alone and says what it has to say to all who ask.\n"
    library.add("a.md", text, data=text.encode())
    (tmp_path / "a.md").write_text(text.replace("# Guide\n", "# Guide\n\nPut in above.\n"))
    (hit,) = library.ask("alpha").hits
    assert hit.freshness is Freshness.MOVED
    assert (hit.indexed_line, hit.excerpt_start_line, hit.excerpt_end_line) == (3, 5, 5)


MERGED = "# On call\n\n## Rota\n\nOne week each.\n\n## Escalation\n\nThe lead is called after 25 minutes.\n"


@pytest.mark.parametrize(
    ("text", "query", "heading"),
    [
        (MERGED, "lead called after 25 minutes", "On call › Escalation"),
        (MERGED, "rota week", "On call › Rota"),
        (MERGED.removeprefix("# On call\n\n"), "lead called after 25 minutes", "On call › Escalation"),
        (f"---\nkind: [note\n---\n{MERGED}", "lead called after 25 minutes", "On call › Escalation"),
        ("# a comment\nalpha = 1\n", "alpha", "On call"),
        (f"{MERGED}\nSee MAX_WAIT.\n", "default of MAX_WAIT for one week of the rota", "On call › Escalation"),
    ],
)
def test_a_hit_is_cited_under_the_heading_its_answer_stands_under(library, text: str, query: str, heading: str) -> None:
    (row,) = library.records("a.md", [text])
    fence = "```sh\n" if text.startswith("# a") else ""
    library.store.insert([replace(row, heading_path="On call", prefix=fence)])
    (hit,) = library.ask(query).hits
    assert hit.heading_path == heading


def test_a_file_too_large_to_compare_is_said(libraries, tmp_path: Path) -> None:
    shelf = libraries(policy=SearchPolicy(hash_bytes=4))
    shelf.roots["w"] = tmp_path
    (tmp_path / "a.md").write_text("alpha beta")
    shelf.add("a.md", "alpha beta")
    answer = shelf.ask("alpha")
    assert answer.hits[0].freshness is Freshness.UNCHECKED
    assert "a.md" in answer.notes[0]


@pytest.mark.parametrize("k", [0, -1])
def test_k_below_one_is_refused(library, k: int) -> None:
    with pytest.raises(InputError, match="1 to 50"):
        library.ask("alpha", k)


def test_k_above_fifty_is_cut_and_said(library) -> None:
    for n in range(60):
        library.add(f"{n}.md", "alpha")
    answer = library.ask("alpha", 1_000_000)
    assert len(answer.hits) == MAX_K
    assert answer.more
    assert "50" in answer.notes[0]


def test_one_dominant_file_neither_takes_all_hits_nor_hides_the_rest(library) -> None:
    library.add("huge.md", *[f"alpha beta number {n}" for n in range(900)])
    for n in range(7):
        library.add(f"small{n}.md", f"alpha {'filler ' * 30}{n}")
    assert library.paths("alpha beta", 5)[0] == "huge.md"
    assert len(set(library.paths("alpha beta", 5))) == 5
    assert len(library.paths("alpha beta", 20)) == 8


@pytest.mark.parametrize(("per_file", "expected"), [(1, 3), (2, 6), (0, 12)])
def test_all_hits_within_the_per_file_limit_come_when_k_allows(libraries, per_file: int, expected: int) -> None:
    shelf = libraries(policy=SearchPolicy(per_file=per_file, min_candidates=2, over_fetch=1))
    for name in "abc":
        shelf.add(f"{name}.md", *[f"alpha {name} {n}" for n in range(4)])
    hits = shelf.ask("alpha", 50).hits
    assert len(hits) == len({hit.id for hit in hits}) == expected


@settings(max_examples=40)
@given(
    sizes=st.lists(st.integers(1, 12), min_size=1, max_size=8),
    per_file=st.integers(0, 3),
    k=st.integers(1, 20),
    pending=st.integers(0, 6),
)
def test_k_hits_come_whenever_k_exist(sizes: list[int], per_file: int, k: int, pending: int, new_library) -> None:
    shelf = new_library(policy=SearchPolicy(per_file=per_file, min_candidates=3, over_fetch=1))
    try:
        for n, size in enumerate(sizes):
            shelf.add(f"{n}.md", *[f"alpha {WORDS[i % 6]}" for i in range(size)])
        for n in range(pending):  # rows of a run that stopped: they crowd the lists and are never shown
            shelf.store.insert(shelf.records(f"{n % len(sizes)}.md", ["alpha"] * 5, gen=9 + n)[:-1])
        exist = sum(min(size, per_file) if per_file else size for size in sizes)
        hits = shelf.ask("alpha", k).hits
        assert len(hits) == len({hit.id for hit in hits}) == min(k, exist)
    finally:
        shelf.searcher.close()


@settings(max_examples=40)
@given(
    files=st.lists(
        st.lists(st.lists(st.sampled_from(WORDS), min_size=1, max_size=5), min_size=1, max_size=3), max_size=8
    ),
    asked=st.lists(st.sampled_from(WORDS), min_size=1, max_size=3),
)
def test_the_answer_is_that_of_ranking_every_stored_chunk(
    files: list[list[list[str]]], asked: list[str], new_library
) -> None:
    shelf = new_library()
    try:
        for n, chunks in enumerate(files):
            shelf.add(f"{n}.md", *[" ".join(words) for words in chunks])
        policy = SearchPolicy()
        query = prepare(" ".join(asked), policy)
        every = ranking.gather(
            query,
            shelf.store.dense(shelf.vectors.query(query.text), 10_000),
            shelf.store.lexical(" ".join(query.tokens), 10_000),
        )
        scored = ranking.score_chunks(query, every, policy, dense_scale(shelf.store.model).spread)
        naive = [item.match.id for item in ranking.rank(scored, policy, lambda row: row.path)]
        assert [hit.id for hit in shelf.ask(" ".join(asked), 50).hits] == naive
    finally:
        shelf.searcher.close()


def test_a_folder_as_scope_is_exact(library) -> None:
    for path in ("a_b/x.md", "aXb/y.md", "a_bc/z.md", "deep/a_b/w.md"):
        library.add(path, "alpha")
    assert library.paths("alpha", scope="a_b") == ["a_b/x.md"]


def test_a_file_as_scope_answers_from_that_file(library) -> None:
    library.add("a/x.md", "alpha")
    library.add("a/y.md", "alpha")
    assert library.paths("alpha", scope="a/y.md") == ["a/y.md"]


def test_only_the_asked_workspaces_are_searched(library) -> None:
    library.add("mine.md", "alpha", workspace="v")
    library.add("other.md", "alpha", workspace="w")
    assert library.paths("alpha", workspaces=("v",)) == ["mine.md"]
    assert sorted(library.paths("alpha")) == ["mine.md", "other.md"]


def test_the_same_relative_path_in_two_workspaces_is_two_files(library) -> None:
    for workspace in ("u", "v", "w"):
        library.add("README.md", *["alpha beta"] * 300, workspace=workspace)
    answer = library.ask("alpha", 5)
    assert [hit.workspace for hit in answer.hits] == ["u", "v", "w"]


def test_a_file_of_nested_workspaces_is_shown_once(library, tmp_path: Path) -> None:
    library.roots.update({"outer": tmp_path, "inner": tmp_path / "sub"})
    library.add("sub/a.md", "alpha", workspace="outer", gen=5)
    library.add("a.md", "alpha", workspace="inner", gen=6)
    hits = library.ask("alpha").hits
    assert [(hit.workspace, hit.absolute) for hit in hits] == [("inner", str(tmp_path / "sub/a.md"))]


def test_a_provider_that_is_down_leaves_keyword_answers_that_say_so(library) -> None:
    library.add("a.md", "alpha")
    library.vectors.down = True
    answer = library.ask("alpha")
    assert [hit.path for hit in answer.hits] == ["a.md"]
    assert "Keyword matches only" in answer.degraded
    assert "does not answer" in answer.degraded


def test_without_a_model_keywords_answer(library) -> None:
    library.add("a.md", "alpha")
    keywords = library.make(SearchPolicy(), embeddings=False)
    answer = keywords.search(SearchRequest("alpha"))
    keywords.close()
    assert [hit.path for hit in answer.hits] == ["a.md"]
    assert answer.degraded.startswith("Keyword matches only")


def test_a_server_without_full_text_answers_by_similarity_and_says_so(libraries) -> None:
    shelf = libraries(lexical=False)
    shelf.add("a.md", "alpha")
    answer = shelf.ask("alpha")
    assert [hit.path for hit in answer.hits] == ["a.md"]
    assert "Similarity only" in answer.degraded


def test_a_search_for_keywords_alone_says_why_there_can_be_none(libraries) -> None:
    shelf = libraries(lexical=False)
    shelf.add("a.md", "alpha")
    with pytest.raises(StoreError, match=r"no full-text search .*\. Search in another mode"):
        shelf.searcher.search(SearchRequest("alpha", mode=Mode.LEXICAL))


def test_a_search_for_keywords_alone_over_a_store_that_fails_is_an_error(libraries) -> None:
    class Failing(MemoryStore):
        def lexical(self, *_: object) -> list[Match]:
            raise StoreUnavailable("The store is away.")

    shelf = libraries(store=Failing(MODEL))
    shelf.add("a.md", "alpha")
    with pytest.raises(StoreUnavailable, match="away"):
        shelf.searcher.search(SearchRequest("alpha", mode=Mode.LEXICAL))


def test_with_both_ways_gone_the_reason_is_an_error(libraries) -> None:
    shelf = libraries(lexical=False)
    shelf.add("a.md", "alpha")
    shelf.vectors.down = True
    with pytest.raises(EmbeddingUnavailable):
        shelf.ask("alpha")


def test_one_leg_alone_answers_in_its_own_order(library) -> None:
    library.add("a.md", "alpha beta gamma delta", title="Other")
    library.add("b.md", "alpha " * 9 + "filler " * 40, title="Alpha")
    for mode, rows in (
        (Mode.LEXICAL, library.store.lexical("alpha", 9)),
        (Mode.DENSE, library.store.dense(library.vectors.query("alpha"), 9)),
    ):
        answer = library.searcher.search(SearchRequest("alpha", mode=mode))
        assert [hit.id for hit in answer.hits] == [row.id for row in rows]
        assert answer.degraded == ""


def test_signs_alone_have_no_keyword_answer(library) -> None:
    library.add("a.md", "alpha")
    assert library.searcher.search(SearchRequest("???", mode=Mode.LEXICAL)).hits == ()


def test_a_query_of_signs_alone_is_answered_by_similarity(library) -> None:
    library.add("a.md", "alpha")
    answer = library.ask("???")
    assert len(answer.hits) == 1
    assert answer.degraded == ""


class BrokenKeywords(MemoryStore):
    """A store whose keyword search fails."""

    def lexical(self, tokens: str, limit: int, where: Where = EVERYTHING) -> list[Match]:  # noqa: ARG002
        raise StoreUnavailable("The engine did not answer.", "Try again.")


class BrokenStore(BrokenKeywords):
    """A store that answers no search."""

    def dense(self, vector: Vector, limit: int, where: Where = EVERYTHING) -> list[Match]:  # noqa: ARG002
        raise StoreUnavailable("The engine is gone.", "Start it.")


def test_a_failed_keyword_search_is_said_not_silently_empty(libraries) -> None:
    shelf = libraries(store=BrokenKeywords(MODEL))
    shelf.add("a.md", "alpha")
    answer = shelf.ask("alpha")
    assert len(answer.hits) == 1
    assert "did not answer" in answer.degraded


def test_a_store_that_is_down_is_an_error(libraries) -> None:
    shelf = libraries(store=BrokenStore(MODEL))
    with pytest.raises(StoreUnavailable):
        shelf.ask("alpha")


def test_an_empty_index_says_so(library) -> None:
    empty = library.ask("alpha").empty
    assert empty is not None
    assert empty.reason is EmptyReason.NOTHING_INDEXED


@pytest.mark.parametrize(
    ("scope", "nearest"),
    [("docs/gudes", "docs/guides"), ("docs/guides/none.md", "docs/guides"), ("Docs", "docs"), ("zzz", "")],
)
def test_an_unknown_scope_names_the_nearest(library, scope: str, nearest: str) -> None:
    library.add("docs/guides/a.md", "alpha")
    empty = library.ask("alpha", scope=scope).empty
    assert empty is not None
    assert empty.reason == EmptyReason.UNKNOWN_SCOPE
    assert (f"The nearest indexed one is {nearest!r}." in empty.message) is bool(nearest)


def test_no_match_says_among_how_much(libraries) -> None:
    shelf = libraries()
    shelf.add("a.md", "alpha", "beta")
    keywords = shelf.make(SearchPolicy(), embeddings=False)
    empty = keywords.search(SearchRequest("unheard")).empty
    keywords.close()
    assert empty is not None
    assert empty.reason is EmptyReason.NO_MATCH
    assert "2 chunks of 1 file" in empty.message


def test_a_scope_indexed_a_moment_ago_is_never_called_unknown(library) -> None:
    library.add("a.md", "alpha")
    library.ask("alpha")
    library.add("new/b.md", "alpha")
    assert library.paths("alpha", scope="new") == ["new/b.md"]


@given(typed=st.text(max_size=30))
@settings(max_examples=60)
def test_any_query_is_answered_within_the_bounds_or_refused(typed: str, new_library) -> None:
    shelf = new_library()
    try:
        shelf.add("a.md", "alpha beta", "γάμμα 日本語 설정")
        shelf.add("b.md", "delta")
        answer = shelf.ask(typed)
    except InputError:
        return
    finally:
        shelf.searcher.close()
    assert all(0 <= hit.score <= 1 for hit in answer.hits)
    assert all(hit.excerpt for hit in answer.hits)
    assert 0 <= answer.best_score <= 1


def test_five_hits_of_long_chunks_stay_small(library) -> None:
    for n in range(9):
        library.add(f"{n}.md", "\n".join(f"alpha sentence {i} of file {n}." for i in range(200)))
    hits = library.ask("alpha", 5).hits
    assert sum(len(hit.excerpt.encode()) for hit in hits) <= 5 * 700


def test_a_question_about_something_else_is_answered_with_nothing_and_how_sure_the_best_was(libraries) -> None:
    shelf = libraries(store=MemoryStore(Model("local", LOCAL_MODEL, MODEL.dimension)))
    for n in range(30):
        shelf.add(f"{n}.md", f"alpha beta gamma delta number{n}")
    answer = shelf.ask("espresso machine descaling")
    assert answer.hits == ()
    assert answer.empty
    assert answer.empty.reason is EmptyReason.NOTHING_RELEVANT
    assert f"{answer.best_score:.2f}" in answer.empty.message
    assert not answer.more
    assert len(shelf.ask("alpha beta", 5).hits) == 5


def test_a_small_vault_answers_every_question(libraries) -> None:
    shelf = libraries(store=MemoryStore(Model("local", LOCAL_MODEL, MODEL.dimension)))
    for n in range(5):
        shelf.add(f"{n}.md", f"alpha beta gamma delta number{n}")
    assert len(shelf.ask("espresso machine descaling", 5).hits) == 5


def test_where_somebody_chose_where_to_look_the_best_of_little_is_an_answer(libraries) -> None:
    shelf = libraries(store=MemoryStore(Model("local", LOCAL_MODEL, MODEL.dimension)))
    for n in range(3):
        shelf.add(f"docs/{n}.md", f"alpha beta gamma delta number{n}")
    everywhere = shelf.ask("qqq")
    assert everywhere.empty
    assert everywhere.empty.reason is EmptyReason.NOTHING_RELEVANT
    assert len(shelf.ask("qqq", scope="docs").hits) == 3
