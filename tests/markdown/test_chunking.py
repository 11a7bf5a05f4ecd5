"""What a file's chunks are: where they begin and end, what they repeat, what is left out."""

from collections.abc import Callable

import pytest

from markdown_rag.markdown.chunking import ChunkPolicy, Document, Excluded, chunk_document
from markdown_rag.markdown.decoding import Undecodable
from markdown_rag.markdown.tokens import count

Judge = Callable[..., Document]
SMALL = ChunkPolicy(max_tokens=64, min_tokens=16, min_final=8)
PROSE = "The valve is opened slowly, and the pressure is noted in the book before the next start. "


def texts(document: Document) -> list[str]:
    return [chunk.text for chunk in document.chunks]


def test_the_title_is_front_matters_then_the_first_h1_then_the_stem(judged: Judge) -> None:
    assert judged(b"---\ntitle: Front\n---\n# First\n\nx\n").title_source == "frontmatter"
    assert judged(b"## Low\n\n# First\n\nx\n").title == "First"
    document = judged(b"just words\n", "folder/My note.v2.md")
    assert (document.title, document.title_source) == ("My note.v2", "stem")


def test_the_head_is_title_and_headings_without_the_file_name(judged: Judge) -> None:
    both = judged(b"---\ntitle: Front\n---\n# First\n\n## Second\n\nwords\n").chunks[0].embed_text
    assert both.startswith("Front > First > Second\n")
    assert judged(b"# First\n\n## Second\n\nwords\n").chunks[0].embed_text.startswith("First > Second\n# First")
    assert judged(b"words only\n", "name.md").chunks[0].embed_text == "words only"


def test_a_name_that_is_not_utf8_is_no_obstacle(judged: Judge) -> None:
    document = judged(b"plain words\n", "folder/latin-\udce9.md")
    document.title.encode()
    assert "latin" in document.chunks[0].lexical


def test_small_siblings_are_merged_under_their_common_path(judged: Judge) -> None:
    document = judged(b"# Log\n\n## A\n\none\n\n## B\n\ntwo\n")
    assert [chunk.heading_path for chunk in document.chunks] == [("Log",)]
    assert texts(document) == ["# Log\n\n## A\n\none\n\n## B\n\ntwo\n"]


def test_large_siblings_stay_apart(judged: Judge) -> None:
    document = judged(f"# Log\n\n## A\n\n{PROSE * 8}\n\n## B\n\n{PROSE * 8}\n".encode())
    assert [chunk.heading_path for chunk in document.chunks] == [("Log", "A"), ("Log", "B")]


def test_a_bare_heading_goes_with_the_deeper_one_below_it(judged: Judge) -> None:
    document = judged(f"# A\n\n## B\n\n### C\n\n{PROSE * 16}".encode())
    assert {chunk.heading_path for chunk in document.chunks} == {("A", "B", "C")}


def test_a_short_note_is_never_dropped(judged: Judge) -> None:
    assert texts(judged(b"wifi: hunter2\n")) == ["wifi: hunter2\n"]
    assert len(judged("🎉".encode()).chunks) == 1


def test_a_short_tail_that_fits_nowhere_is_kept(judged: Judge) -> None:
    full = PROSE * 20
    while count(f"A\n# A\n\n{full}\n\n") < 396:
        full += "slowly "
    document = judged(f"# A\n\n{full}\n\n## B\n\nshort tail\n".encode())
    assert document.chunks[-1].text == "## B\n\nshort tail\n"


@pytest.mark.parametrize("data", [b"", b" \n\t\n", b"---\n---\n", b"***\n\n---\n", "\ufeff".encode()])
def test_a_file_without_words_has_no_chunk_and_says_so(judged: Judge, data: bytes) -> None:
    document = judged(data)
    assert document.chunks == ()
    assert document.warnings == ("empty",)


def test_front_matter_alone_is_found_by_its_title_and_description(judged: Judge) -> None:
    document = judged(b"---\ntitle: Ledger\ndescription: All accounts\ntags: [money]\n---\n")
    assert len(document.chunks) == 1
    chunk = document.chunks[0]
    assert chunk.embed_text == "Ledger\nAll accounts"
    assert chunk.text == "title: Ledger\ndescription: All accounts\ntags: [money]\n"
    assert {"ledger", "account", "money"} <= set(chunk.lexical.split())


def test_tags_are_front_matters_then_inline(judged: Judge) -> None:
    document = judged(b"---\ntags: [b, a]\n---\n\nwords #a #c/d words\n")
    assert document.tags == ("b", "a", "c/d")


def test_the_lexical_text_weighs_title_headings_path_and_names(judged: Judge) -> None:
    document = judged(
        b"---\ntitle: Quince\naliases: [Rowan]\ntags: [sorrel]\n---\n# Medlar\n\nhazel\n", "folder/some-thing.md"
    )
    words = document.chunks[0].lexical.split()
    counted = {
        word: words.count(word) for word in ("hazel", "quinc", "medlar", "folder", "some", "thing", "rowan", "sorrel")
    }
    assert counted == {
        "hazel": 1, "quinc": 3, "medlar": 3, "folder": 2, "some": 2, "thing": 2, "rowan": 1, "sorrel": 1,
    }  # fmt: skip


def test_every_part_of_a_cut_fence_is_fenced(judged: Judge) -> None:
    code = "".join(f"call({number}, 'some text here')\n" for number in range(60))
    document = judged(f"# Code\n\n```py title=x\n{code}```\n\nAfter.\n".encode(), "a.md", SMALL)
    inner = document.chunks[1:-1]
    assert len(inner) > 3
    assert all(chunk.prefix == "```py title=x\n" for chunk in inner)
    assert all(chunk.embed_text.count("```") == 2 for chunk in document.chunks)
    assert all(line.startswith("call(") for chunk in inner for line in chunk.text.splitlines())


def test_a_fence_in_a_list_keeps_its_indentation(judged: Judge) -> None:
    code = "".join(f"  call({number}, 'some text here')\n" for number in range(60))
    document = judged(f"- item\n\n  ~~~~\n{code}  ~~~~\n".encode(), "a.md", SMALL)
    assert document.chunks[2].prefix == "  ~~~~\n"
    assert document.chunks[2].embed_text.endswith("\n  ~~~~")


def test_a_cut_table_repeats_its_header_and_keeps_rows_whole(judged: Judge) -> None:
    rows = "".join(f"| {number} | some item text | {number * 3} |\n" for number in range(80))
    header = "| id | item | amount |\n|---|---|---|\n"
    document = judged(f"# Orders\n\n{header}{rows}\n## After\n\nwords\n".encode(), "a.md", SMALL)
    inner = document.chunks[1:-1]
    assert len(inner) > 5
    assert all(chunk.prefix == header for chunk in inner)
    assert all(
        line.startswith("| ") and line.endswith(" |") for chunk in inner for line in chunk.text.strip().splitlines()
    )
    assert document.chunks[0].text.startswith(f"# Orders\n\n{header}| 0 |")


def test_a_list_is_cut_between_items(judged: Judge) -> None:
    items = "".join(f"- item {number} that goes on\n  over a second line\n" for number in range(40))
    document = judged(items.encode(), "a.md", SMALL)
    assert len(document.chunks) > 3
    assert all(chunk.text.startswith("- item") and chunk.text.endswith("line\n") for chunk in document.chunks)


def test_a_block_that_fits_is_never_cut(judged: Judge) -> None:
    callout = "> [!note] Title\n> " + "inside the callout. " * 8 + "\n"
    document = judged(f"# A\n\n{PROSE * 2}\n\n{callout}\n{PROSE * 2}\n".encode(), "a.md", SMALL)
    assert any(callout in chunk.text for chunk in document.chunks)


def test_prose_is_cut_at_sentences_into_about_equal_parts(judged: Judge) -> None:
    document = judged((PROSE * 30).encode(), "a.md", SMALL)
    sizes = [count(text) for text in texts(document)]
    assert max(sizes) - min(sizes) <= 20
    assert all(text.endswith(". ") for text in texts(document)[:-1])


def test_what_has_to_be_cut_is_cut_smaller_than_it_must_be_and_what_fits_stays_whole(judged: Judge) -> None:
    sentence = "A ship of fools sails past the pier tonight. "
    policy = ChunkPolicy(max_tokens=400)
    fitting = judged((sentence * (380 // count(sentence))).encode(), "a.md", policy)
    assert len(fitting.chunks) == 1
    for border in ("", "\n\n"):
        cut = judged(((sentence + border) * 300).encode(), "a.md", policy)
        sizes = [count(text) for text in texts(cut)]
        assert 270 <= sum(sizes) / len(sizes) <= 310


@pytest.mark.parametrize(
    "text", ["请先关闭阀门再更换滤芯" * 100, "서버를다시시작하려면관리자에게문의" * 80, "ปิดวาล์วก่อนเปลี่ยนไส้กรอง" * 60]
)
def test_scripts_without_blanks_are_text_and_cut_to_the_limit(judged: Judge, text: str) -> None:
    document = judged(text.encode(), "a.md", SMALL)
    assert "".join(texts(document)) == text
    assert document.excluded == ()


def test_no_cut_parts_a_letter_from_its_marks(judged: Judge) -> None:
    document = judged(("किताबें" * 200).encode(), "a.md", SMALL)
    assert all(not text.startswith(("ि", "ा", "े", "ं")) for text in texts(document))


def test_overlap_repeats_only_where_a_block_was_cut(judged: Judge) -> None:
    policy = ChunkPolicy(max_tokens=64, min_tokens=16, overlap=20, min_final=8)
    cut = judged((PROSE * 20).encode(), "a.md", policy)
    assert all(later.start_byte < earlier.end_byte for earlier, later in zip(cut.chunks, cut.chunks[1:], strict=False))
    whole = judged(f"# A\n\n{PROSE * 2}\n\n# B\n\n{PROSE * 2}\n".encode(), "a.md", policy)
    assert all(
        later.start_byte == earlier.end_byte for earlier, later in zip(whole.chunks, whole.chunks[1:], strict=False)
    )


def test_a_data_uri_is_left_out_and_named_and_its_surroundings_stay(judged: Judge) -> None:
    data = ("# P\n\nCaption: ![plan](data:image/png;base64," + "QUJD" * 1000 + ")\n\nAfter.\n").encode()
    document = judged(data)
    start = data.index(b"data:")
    assert document.excluded == (Excluded(start, data.index(b")\n\nAfter"), "data URI"),)
    assert texts(document) == ["# P\n\nCaption: ![plan](", ")\n\nAfter.\n"]


def test_a_long_run_is_left_out_and_both_sides_of_its_fence_are_fenced(judged: Judge) -> None:
    document = judged(("Words before.\n\n```json\nstart " + "abcdefghij" * 300 + " end\n```\n").encode())
    assert [gap.reason for gap in document.excluded] == ["run without blanks"]
    assert document.chunks[0].embed_text.endswith("start\n```")
    assert document.chunks[1].prefix == "```json\n"


def test_a_short_blob_is_stored_but_neither_embedded_nor_searched(judged: Judge) -> None:
    document = judged(("See ![x](data:image/png;base64," + "QUJD" * 100 + ") here.\n").encode())
    chunk = document.chunks[0]
    assert "QUJD" in chunk.text
    assert chunk.embed_text == "See ![x]() here."
    assert "qujd" not in chunk.lexical


def test_broken_front_matter_is_text_without_headings(judged: Judge) -> None:
    document = judged(b"---\ntitle: [broken\n# a comment\n---\n# Body\n\nwords\n")
    assert document.title == "Body"
    assert "broken" in document.chunks[0].text
    assert "kept as text" in document.warnings[0]


def test_binary_files_are_named() -> None:
    assert isinstance(chunk_document(b"\x89PNG\r\n\x1a\n" + bytes(200), "a.md", ChunkPolicy()), Undecodable)


def test_an_edit_in_one_section_changes_one_embedded_text(judged: Judge) -> None:
    sections = [f"## Part {number}\n\n{PROSE * 8}\n\n" for number in range(6)]
    before = judged(("# T\n\n" + "".join(sections)).encode())
    sections[3] = sections[3].replace("slowly", "quickly")
    after = judged(("# T\n\n" + "".join(sections)).encode())
    changed = {chunk.text_hash for chunk in after.chunks} - {chunk.text_hash for chunk in before.chunks}
    assert len(changed) == 1


def test_line_ends_change_neither_text_nor_embedding(judged: Judge) -> None:
    note = f"---\ntitle: T\n---\n# A\n\n{PROSE}\n\n- x\n- y\n"
    one, other = judged(note.encode()), judged(note.replace("\n", "\r\n").encode())
    assert [chunk.text_hash for chunk in one.chunks] == [chunk.text_hash for chunk in other.chunks]
    assert [chunk.start_line for chunk in one.chunks] == [chunk.start_line for chunk in other.chunks]


def test_a_policys_fingerprint_tells_policies_apart() -> None:
    policies = [
        ChunkPolicy(),
        ChunkPolicy(401),
        ChunkPolicy(400, 101),
        ChunkPolicy(400, 100, 1),
        ChunkPolicy(400, 100, 0, 51),
    ]
    prints = {policy.fingerprint for policy in policies}
    assert len(prints) == 5
    assert all(len(fingerprint) == 16 and int(fingerprint, 16) for fingerprint in prints)


@pytest.mark.parametrize(
    "text",
    [
        ">" * 5000 + " deep\n\nOut again.\n",
        "".join("  " * depth + f"- level {depth}\n" for depth in range(400)),
        "- " * 3000 + "x\n",
        "# h\n\n" * 5000,
        "[" * 20_000 + "](" * 2000,
        "*a_ " * 10_000,
        "```\n" * 5001,
        " " * 300_000 + "x",
        "\n" * 100_000 + "x",
        "|a" * 300 + "\n" + "|-" * 300 + "\n" + "|x\n" * 300,
        "word " * 60_000,
        "字" * 100_000,
        "a" * 500_000,
        "e" + "\u0301" * 50_000,
        "data:image/png;base64," * 5000,
        ("data:image/png;base64," + "QUJD" * 480 + " ") * 60,
        "#tag" * 5000,
        "<a " * 20_000,
        "x\u200d" * 20_000,
    ],
    ids=lambda text: repr(text[:12]),
)
def test_hostile_text_ends_and_keeps_the_laws(judged: Judge, text: str) -> None:
    judged(text.encode())
