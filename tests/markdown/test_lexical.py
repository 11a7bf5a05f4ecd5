"""What a document's words and a query's words become."""

import unicodedata

import pytest

from markdown_rag.markdown.lexical import analyze, looks_like_identifier, tokens

MARK = "".join(chr(0x30000 - 0x0900 + ord(sign)) for sign in "िा")  # Devanagari vowel signs, shifted to letters


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        # English: folded, stemmed
        ("Running the Searches", "run the search"),
        ("the user's notes", "the user note"),
        ("Nora’s don't", "nora don t"),
        ("a I x", "a i x"),
        # identifiers: whole and in parts
        ("dry_run", "dry_run dri run"),
        ("HTTP-404", "http_404 http 404"),
        ("v1.2.3", "v1_2_3 v1 1 2 3"),
        ("foo.bar-baz::qux", "foo_bar_baz_qux foo bar baz qux"),
        ("max_chunk_tokens", "max_chunk_tokens max chunk token"),
        ("ERR_0x80070005", "err_0x80070005 err 0x80070005 0 80070005"),
        ("camelCase HTTPServer", "camelcas camel case httpserver http server"),
        ("parseJSON2", "parsejson2 pars json 2"),
        ("CI/CD", "ci_cd ci cd"),
        ("--dry-run", "dry_run dri run"),
        ("__init__", "init"),
        ("https://example.com/a", "https_example_com_a https exampl com a"),
        ("2024-03-01", "2024_03_01 2024 03 01"),
        # languages named by a sign
        ("C++", "c_plusplus c"),
        ("station's#", "station_sharp station"),
        ("C# and F#", "c_sharp c and f_sharp f"),
        ("C/C++", "c_plusplus c_c c c"),
        ("# heading #", "head"),
        # German, Czech, Greek: folded, not taken apart at letters beyond ASCII
        ("Straße ÜBER naïve", "strass über naïve"),
        ("Příliš žluťoučký2", "příliš žluťoučký2 žluťoučký 2"),
        ("ΣΊΣΥΦΟΣ", "σίσυφοσ"),
        # compatibility forms
        ("ﬁle Ｆｕｌｌ ½", "file full 1 2"),
        # Chinese, Japanese, Korean: pairs
        ("请先关闭", "请先 先关 关闭"),
        ("字", "字"),
        ("バルブを閉める", "バル ルブ ブを を閉 閉め める"),
        ("서버를 다시", "서버 버를 다시"),
        ("API를 v2로", "api 를 v2 2 로"),
        ("阀门，滤芯。", "阀门 滤芯"),
        # Thai: pairs of letters with their marks
        ("วาล์ว", "วา าล\U0003054c ล\U0003054cว"),
        # Hindi: marks stay with their word
        ("किताब", f"क{MARK[0]}त{MARK[1]}ब"),
        # Arabic and Persian: optional marks, letter forms, digits, joiners
        ("أَلِف", "الف"),
        ("می\u200cشود ۱۲", "ميشود 12"),
        ("میشود", "ميشود"),
        # Hebrew points
        ("שָׁלוֹם", "שלום"),
        # invisible characters
        ("soft\u00adhyphen zero\u200bwidth", "softhyphen zerowidth"),
        ("*** --- |", ""),
        ("", ""),
    ],
)
def test_a_text_becomes_these_tokens(text: str, expected: str) -> None:
    assert analyze(text) == expected


@pytest.mark.parametrize("text", ["백업은 매일 새벽에", "café résumé", "が行 バックアップ", "Việt Nam"])
def test_composed_and_decomposed_text_is_the_same(text: str) -> None:
    assert analyze(unicodedata.normalize("NFD", text)) == analyze(text)


def test_a_query_loses_stop_words_unless_nothing_is_left() -> None:
    assert tokens("How do I open the valve?", query=True) == ["open", "valv"]
    assert tokens("to be or not to be", query=True) == ["to", "be", "or", "not", "to", "be"]
    assert analyze("the valve", query=True) == "valv"
    assert tokens("") == tokens("?!", query=True) == []


@pytest.mark.parametrize(
    ("typed", "written"),
    [
        ("chunk tokens", "max_chunk_tokens"),
        ("valve", "Valves"),
        ("filter", "filterNames"),
        ("วาล์ว", "ปิดวาล์วก่อนเปลี่ยนไส้กรอง"),
        ("可用", "服务器可用性"),
        ("میشود", "این می‌شود"),
        ("C++", "written in C++"),
    ],
)
def test_a_part_is_found_in_the_whole(typed: str, written: str) -> None:
    assert set(tokens(typed, query=True)) <= set(tokens(written))


def test_long_words_and_long_compounds_are_bounded() -> None:
    text = "x" * 1000 + " " + "/".join(["part"] * 500) + " " + "字" * 1000
    assert max(map(len, tokens(text))) <= 80
    assert len(tokens(text)) < 2000


@pytest.mark.parametrize(
    "word",
    "--flag -x dry_run C:\\dir a/b me@x $HOME k=v a::b key:value camelCase foo.bar .env v2 2fa C++ C#".split(),  # noqa: SIM905 - a row of words
)
def test_names_look_like_identifiers(word: str) -> None:
    assert looks_like_identifier(word)


@pytest.mark.parametrize("word", ["valve", "Valve", "don't", "end.", "why?", "2024", "well-known", "서버"])
def test_plain_words_do_not(word: str) -> None:
    assert not looks_like_identifier(word)


def test_a_capitalised_word_alone_is_a_name() -> None:
    assert looks_like_identifier("Dataview", alone=True)
    assert not looks_like_identifier("dataview", alone=True)
