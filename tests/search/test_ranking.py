"""Each step of the ranking by a truth table, and the laws of the whole."""

from __future__ import annotations

import math
import tracemalloc
from collections.abc import Callable
from dataclasses import replace
from itertools import combinations, islice

import pytest
from hypothesis import given
from hypothesis import strategies as st

from markdown_rag.search import evidence, ranking
from markdown_rag.search.evidence import phrase
from markdown_rag.search.names import Names, _triples_of
from markdown_rag.search.policy import SearchPolicy
from markdown_rag.search.query import Query
from markdown_rag.search.ranking import Placed, Scored
from markdown_rag.store.base import Match

Make = Callable[..., Match]
POLICY = SearchPolicy()
WITH_SECOND = replace(POLICY, second_chunk=0.1)
NAMELESS = replace(POLICY, exact_name=0.0)


def query(*tokens: str, words: int = 9, names: tuple[str, ...] = ()) -> Query:
    return Query(" ".join(tokens), tokens, words, names, words)


def scored(asked: Query, dense: list[Match], lexical: list[Match], policy: SearchPolicy = POLICY) -> Scored:
    return ranking.score_chunks(asked, ranking.gather(asked, dense, lexical), policy, 0.2)


def ranked(asked: Query, dense: list[Match], lexical: list[Match], policy: SearchPolicy = POLICY) -> list[Placed]:
    return ranking.rank(scored(asked, dense, lexical, policy), policy, lambda row: row.path)


def paths(placed: list[Placed]) -> list[str]:
    return [item.match.path for item in placed]


@pytest.mark.parametrize(("words", "asks"), [(POLICY.entity_words, False), (POLICY.entity_words + 1, True)])
def test_the_ranking_sum_is_made_of_its_parts(match: Make, words: int, asks: bool) -> None:
    options = {"start_byte": 10, "end_byte": 10 + POLICY.thin_bytes // 2, "title": "alpha one"}
    half = match(path="half", ord=0, score=0.45, lexical="alpha beta", **options)
    rest = [match(path="rest", ord=1, score=0.1, lexical="alpha", end_byte=10_000)]
    words_of = [match(path="half", ord=0, score=3.0, lexical="alpha beta", **options), replace(rest[0], score=4.0)]
    found = scored(query("alpha", "beta", "gamma", "delta", words=words), [half, *rest], words_of)
    assert 0.0 < found.trust < 1.0
    (chunk,) = (each for each in found.chunks if each.candidate.match.path == "half")
    assert chunk.lexical == pytest.approx(found.trust * 3.0 / 4.0)
    assert chunk.dense == pytest.approx(1.0)
    assert 0.0 < chunk.title < found.trust
    whole = POLICY.lexical_weight * chunk.lexical + POLICY.dense_weight + POLICY.title_weight * chunk.title
    side_by_side = phrase(query("alpha", "beta", "gamma", "delta"), half, chunk.candidate.held, found.weights)
    assert 0.0 < side_by_side < 1.0
    whole += POLICY.phrase_weight * found.trust * side_by_side + asks * POLICY.opening_weight
    assert chunk.order == pytest.approx(whole * 0.75), "half as long as a thin chunk may be"


def test_the_sum_of_an_exact_name_is_keywords_the_name_and_a_little_similarity(match: Make) -> None:
    words = [match(path="a", score=0.2, lexical="a_b", text="a.b is here"), match(path="b", score=0.5, lexical="a_b")]
    meaning = [match(path="a", score=0.4, lexical="a_b", text="a.b is here"), match(path="b", score=0.1)]
    asked = replace(query("a_b", words=9, names=("a.b",)), telling=POLICY.identifier_words)
    found = scored(asked, meaning, words)
    (chunk,) = (each for each in found.chunks if each.candidate.match.path == "a")
    assert chunk.order == pytest.approx(0.2 / 0.5 + POLICY.identifier_dense + POLICY.identifier_exact)
    assert chunk.title == 0.0, "no name of the file holds it"


def test_words_that_stand_side_by_side_in_a_text_beat_a_name_that_holds_the_commoner_one(match: Make) -> None:
    stubs = [
        match(path=f"{n}/filter", title="Filter", score=0.6, lexical="filter filter", end_byte=500) for n in range(5)
    ]
    page = match(path="gossip", title="Gossip", score=0.45, lexical="a bloom filter says", end_byte=900)
    words = [replace(page, score=4.0), *(replace(stub, score=2.0) for stub in stubs)]
    assert paths(ranked(query("bloom", "filter", words=2), [*stubs, page], words))[0] == "gossip"


def test_a_file_that_is_called_what_is_asked_for_comes_before_one_that_says_it_more_often(match: Make) -> None:
    named = match(path="CRDT.md", ord=0, title="CRDT", score=0.5, lexical="crdt", text="CRDT", end_byte=900)
    later = replace(named, id="later", ord=4, start_byte=5_000, end_byte=6_000, score=0.55)
    often = match(path="bft-json-crdt.md", title="bft json crdt", score=0.8, lexical="crdt", text="CRDT", end_byte=900)
    words = [replace(often, score=5.0), replace(later, score=2.6), replace(named, score=2.5)]
    for names in ((), ("CRDT",)):
        found = ranked(query("crdt", words=1, names=names), [often, later, named], words)
        assert [(item.match.path, item.match.ord) for item in found[:1]] == [("CRDT.md", 0)], "and its opening is cited"


def test_a_name_is_worth_the_same_to_all_chunks_of_its_file_and_a_little_more_to_the_opening(
    match: Make,
) -> None:
    chunks = [match(path="CRDT.md", ord=n, score=0.5, lexical="crdt", end_byte=900) for n in (0, 1)]
    without = {c.candidate.match.ord: c.order for c in scored(query("crdt"), chunks, [], NAMELESS).chunks}
    for chunk in scored(query("crdt"), chunks, []).chunks:
        ord_ = chunk.candidate.match.ord
        gain = POLICY.exact_name + (POLICY.opening_weight if ord_ == 0 else 0.0)
        assert chunk.order - without[ord_] == pytest.approx(gain)


def test_a_file_stands_by_its_best_chunk_and_where_that_counts_a_tenth_of_its_second(match: Make) -> None:
    dense = [match(path="one", ord=0, score=0.9), match(path="one", ord=1, score=0.5), match(path="z", score=0.1)]
    found = scored(query("x"), dense, [])
    orders = sorted((each.order for each in found.chunks if each.candidate.match.path == "one"), reverse=True)
    first = ranking.rank(found, WITH_SECOND, lambda row: row.path)[0]
    assert first.order == pytest.approx(orders[0] + 0.1 * orders[1])
    assert ranking.rank(found, POLICY, lambda row: row.path)[0].order == orders[0], "not by default"


def test_both_lists_become_one_with_a_row_once(match: Make) -> None:
    both, only = match(path="a", score=0.4, lexical="x y"), match(path="b", score=0.3)
    found = ranking.gather(query("x"), [both, only], [match(path="a", score=7.0, lexical="x y")])
    assert {(c.match.path, c.dense, c.lexical) for c in found} == {("a", 0.4, 7.0), ("b", 0.3, None)}
    assert next(c.held for c in found if c.match.path == "a") == {"x"}


def test_a_rare_word_weighs_more_than_a_common_one(match: Make) -> None:
    rows = [match(path=str(n), lexical="common rare" if n == 0 else "common") for n in range(10)]
    asked = query("common", "rare")
    weights = evidence.token_weights(asked, ranking.gather(asked, rows, []))
    assert weights["rare"] == pytest.approx(math.log(1 + 10.5 / 1.5))
    assert weights["common"] == pytest.approx(math.log(1 + 10.5 / 10.5))


@pytest.mark.parametrize(
    ("held", "trust"),
    [((), 0.0), ("a", 0.0), ("ab", 1 / 3 / 0.6), ("abc", 1.0), ("abcd", 1.0)],
)
def test_keywords_are_trusted_by_how_much_more_than_one_word_they_cover(match: Make, held: str, trust: float) -> None:
    asked = query("a", "b", "c", "d")
    found = ranking.gather(asked, [match(path="near", score=0.5)], [match(lexical=" ".join(held), score=1.0)])
    equal = dict.fromkeys("abcd", 1.0)
    assert evidence.gate(found, equal, POLICY) == pytest.approx(trust)


def test_only_the_best_keyword_chunks_open_the_gate(match: Make) -> None:
    asked = query("a", "b", "c", "d")
    rows = [match(path=str(n), lexical="a b", score=9.0 - n) for n in range(3)]
    found = ranking.gather(
        asked, [match(path="near", score=0.5)], [*rows, match(path="z", lexical="a b c d", score=1.0)]
    )
    equal = dict.fromkeys("abcd", 1.0)
    assert evidence.gate(found, equal, SearchPolicy(gate_top=3)) == pytest.approx(1 / 3 / 0.6)


def test_a_query_of_one_word_needs_no_second(match: Make) -> None:
    found = ranking.gather(query("a"), [match(path="near", score=0.5)], [match(lexical="a", score=1.0)])
    assert evidence.gate(found, {"a": 1.0}, POLICY) == 1.0


def test_one_chance_word_of_a_question_moves_nothing(match: Make) -> None:
    asked = query("vacat", "polici", "carri", "forward")
    dense = [match(path="paid-leave", score=0.6), match(path="reverse-proxy", score=0.5)]
    lexical = [match(path="reverse-proxy", score=6.0, lexical="forward proxi", title="forward")]
    assert paths(ranked(asked, dense, lexical)) == ["paid-leave", "reverse-proxy"]


def test_a_chunk_with_more_of_the_words_beats_one_that_repeats_a_single_word(match: Make) -> None:
    asked = query("refresh", "token", "rotation")
    lexical = [
        match(path="repeats", score=6.0, lexical="token"),
        match(path="holds", score=5.5, lexical="refresh token rotation"),
    ]
    assert paths(ranked(asked, [match(path="near", score=0.1)], lexical))[:2] == ["holds", "repeats"]


def test_without_a_keyword_match_the_gate_is_shut(match: Make) -> None:
    asked = query("a")
    assert evidence.gate(ranking.gather(asked, [match(lexical="b", score=0.9)], []), {"a": 1.0}, POLICY) == 0.0


def test_where_a_server_has_no_keyword_search_titles_still_count(match: Make) -> None:
    dense = [match(path="near", score=0.60), match(path="b/rollback.md", score=0.55, lexical="rollback")]
    assert paths(ranked(query("rollback"), dense, []))[0] == "b/rollback.md"


def test_where_only_keywords_answer_a_single_shared_word_is_enough(match: Make) -> None:
    asked = query("vacat", "polici", "carri", "forward")
    lexical = [match(path="z", score=6.0, lexical="forward"), match(path="a", score=2.0, lexical="carri")]
    assert paths(ranked(asked, [], lexical)) == ["z", "a"]


@pytest.mark.parametrize(
    ("names", "overlap"),
    [
        ({"title": "rollback release"}, 1.0),
        ({"title": "rollback"}, 1 / math.sqrt(2)),
        ({"title": "other", "path": "notes/rollback release.md"}, 1.0),
        ({"title": "other", "aliases": ("release rollback",)}, 1.0),
        ({"title": "other"}, 0.0),
        ({"title": ""}, 0.0),
    ],
)
def test_the_title_the_stem_or_an_alias_may_name_what_is_asked(
    match: Make, names: dict[str, object], overlap: float
) -> None:
    from markdown_rag.markdown.lexical import tokens

    asked = query(*tokens("rollback release", query=True))
    assert Names(asked, POLICY).overlap(match(**{"path": "x.md", **names})) == pytest.approx(overlap)


def test_a_query_without_tokens_matches_no_title(match: Make) -> None:
    assert Names(query(), POLICY).overlap(match(title="anything")) == 0.0


def test_the_parts_add_up_with_their_weights(match: Make) -> None:
    policy = SearchPolicy(opening_weight=0.0)
    dense = [match(path="near", score=0.9), match(path="far", score=0.1)]
    lexical = [match(path="near", score=4.0, lexical="word"), match(path="named", score=2.0, lexical="word")]
    parts = {item.match.path: item.chunk for item in ranked(query("word"), dense, lexical, policy)}
    assert (parts["near"].lexical, parts["near"].dense) == (1.0, 1.0)
    assert (parts["named"].lexical, parts["named"].dense) == (0.5, 0.0)
    assert (parts["far"].lexical, parts["far"].dense) == (0.0, 0.0)
    assert parts["near"].order == pytest.approx(0.7 + 0.3)


def test_close_similarities_are_not_stretched_to_the_full_scale(match: Make) -> None:
    dense = [match(path="a", score=0.55), match(path="b", score=0.50)]
    parts = {item.match.path: item.chunk.dense for item in ranked(query("w"), dense, [])}
    assert parts == {"a": pytest.approx(0.25), "b": 0.0}


def test_equal_similarities_without_a_floor_are_all_the_best(match: Make) -> None:
    policy = SearchPolicy(dense_spread=0.0)
    dense = [match(path="a", score=0.5), match(path="b", score=0.5)]
    assert [item.chunk.dense for item in ranked(query("w"), dense, [], policy)] == [1.0, 1.0]


def test_meaning_decides_when_no_keyword_covers_the_query(match: Make) -> None:
    asked = query("forgot", "login", "word", "again", "please")
    dense = [match(path="reset-credentials", score=0.7), match(path="noise", score=0.1)]
    lexical = [match(path="noise", score=3.0, lexical="again")]
    assert paths(ranked(asked, dense, lexical))[0] == "reset-credentials"


def test_an_exact_name_is_ordered_by_keywords_and_similarity_is_the_tail(match: Make) -> None:
    dense = [match(path="similar", score=0.9), match(path="other", score=0.2)]
    lexical = [match(path="exact", score=5.0, lexical="dry_run"), match(path="part", score=1.0, lexical="dry")]
    found = paths(ranked(query("dry_run", "dry", words=1, names=("dry-run",)), dense, lexical))
    assert found == ["exact", "part", "similar", "other"]


@pytest.mark.parametrize(
    ("name", "text", "share"),
    [
        ("--pattern", "Use `--pattern` to choose.", 1.0),
        ("--pattern", "Use a pattern to choose.", 0.0),
        ("sync.status", "the Sync.Status command", 1.0),
        ("sync.status", "the sync.status_code command", 0.0),
        ("E12", "E123", 0.0),
        ("a+b*", "holds a+b* as written", 1.0),
    ],
)
def test_an_exact_name_is_looked_for_as_written(match: Make, name: str, text: str, share: float) -> None:
    assert ranking.as_written([name], match(text=text)) == share


@pytest.mark.parametrize(
    ("text", "share"),
    [
        ("set markup.goldmark.renderer.unsafe to true", 1.0),
        ("renderer.unsafe: raw HTML", 0.5),
        ("goldmark.renderer.unsafely", 0.0),
        ("markup, goldmark and what is unsafe", 0.0),
    ],
)
def test_of_a_dotted_name_its_longest_end_that_is_written_counts(match: Make, text: str, share: float) -> None:
    assert ranking.as_written(["markup.goldmark.renderer.unsafe"], match(text=text)) == share


def test_of_two_names_a_chunk_may_hold_one(match: Make) -> None:
    assert ranking.as_written(["--a1", "--b2"], match(text="only --b2 here")) == 0.5
    assert ranking.as_written([], match(text="anything")) == 0.0


def test_the_name_as_written_comes_before_a_file_full_of_its_parts(match: Make) -> None:
    lexical = [
        match(path="parts", score=9.0, lexical="pattern", text="pattern pattern"),
        match(path="flag", score=1.0, lexical="pattern", text="clean --pattern"),
    ]
    assert paths(ranked(query("pattern", words=1, names=("--pattern",)), [], lexical)) == ["flag", "parts"]


def test_a_name_in_a_long_question_does_not_switch_similarity_off(match: Make) -> None:
    dense = [match(path="similar", score=0.9), match(path="far", score=0.1)]
    found = ranked(query("dry_run", "why", words=8, names=("dry-run",)), dense, [match(path="x", score=1.0)])
    assert found[0].match.path == "similar"


def test_an_exact_name_nobody_wrote_falls_back_to_meaning(match: Make) -> None:
    dense = [match(path="near", score=0.9), match(path="far", score=0.1)]
    assert paths(ranked(query("no_such", words=1, names=("no-such",)), dense, [])) == ["near", "far"]


def test_a_second_good_chunk_lifts_its_file(match: Make) -> None:
    dense = [
        match(path=p, ord=o, score=s) for p, o, s in [("one", 0, 0.9), ("two", 0, 0.9), ("two", 1, 0.8), ("z", 0, 0)]
    ]
    assert paths(ranked(query("w"), dense, [], WITH_SECOND))[:2] == ["two", "one"]


@pytest.mark.parametrize(("per_file", "chunks"), [(1, 1), (2, 2), (0, 3)])
def test_a_file_has_as_many_hits_as_the_limit_says(match: Make, per_file: int, chunks: int) -> None:
    dense = [match(path="a", ord=n, score=0.9 - n / 10) for n in range(3)]
    assert len(ranked(query("w"), dense, [], SearchPolicy(per_file=per_file))) == chunks


SCORES = st.floats(0, 1).map(lambda value: round(value, 1))  # few values, so that equals are common


@given(
    st.lists(
        st.tuples(st.sampled_from("abc"), st.integers(0, 3), SCORES, SCORES), max_size=12, unique_by=lambda r: r[:2]
    ),
    st.randoms(use_true_random=False),
)
def test_the_order_never_depends_on_the_order_of_the_engine(
    match: Make, rows: list[tuple[str, int, float, float]], dice: object
) -> None:
    dense = [match(path=p, ord=o, score=d, lexical="w") for p, o, d, _ in rows]
    lexical = [match(path=p, ord=o, score=10 * k, lexical="w") for p, o, _, k in rows if k]
    before = [(item.match.id, item.order) for item in ranked(query("w"), dense, lexical)]
    dice.shuffle(dense)  # type: ignore[attr-defined]
    dice.shuffle(lexical)  # type: ignore[attr-defined]
    assert [(item.match.id, item.order) for item in ranked(query("w"), dense, lexical)] == before


@given(st.lists(st.tuples(st.sampled_from("abcde"), st.integers(0, 2), SCORES), max_size=12, unique_by=lambda r: r[:2]))
def test_every_file_that_was_found_is_ranked_once(match: Make, rows: list[tuple[str, int, float]]) -> None:
    dense = [match(path=p, ord=o, score=s) for p, o, s in rows]
    found = paths(ranked(query("w"), dense, []))
    assert sorted(found) == sorted({p for p, _, _ in rows})


@given(st.lists(st.tuples(st.integers(0, 9), SCORES, st.floats(0, 50), st.sampled_from(["", "w", "w v"])), max_size=8))
def test_every_part_lies_between_zero_and_one(match: Make, rows: list[tuple[int, float, float, str]]) -> None:
    dense = [match(path=str(n), ord=i, score=d, lexical=t) for i, (n, d, _, t) in enumerate(rows)]
    lexical = [match(path=str(n), ord=i, score=k, lexical=t) for i, (n, _, k, t) in enumerate(rows)]
    for chunk in scored(query("w", "v"), dense, lexical).chunks:
        assert all(0 <= part <= 1 for part in (chunk.lexical, chunk.dense, chunk.title, chunk.coverage))


def test_what_is_remembered_of_the_letters_of_names_stops_growing_after_some_thousand_files() -> None:
    words = [f"word{n}{'x' * (n % 7)}" for n in range(40)]
    combined = (frozenset(each) for each in combinations(words, 6))
    tracemalloc.start()
    try:
        sizes = []
        for _ in range(3):
            for name in islice(combined, 2_000):
                _triples_of(name)
            sizes.append(tracemalloc.get_traced_memory()[0])
    finally:
        tracemalloc.stop()
    assert sizes[2] - sizes[1] < 1_000_000
