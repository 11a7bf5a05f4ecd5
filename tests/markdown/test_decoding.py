"""Files in any encoding become text, or are named with the reason."""

import pytest

from markdown_rag.markdown.decoding import Decoded, Undecodable, decode


def text_of(data: bytes) -> str:
    decoded = decode(data)
    assert isinstance(decoded, Decoded)
    return decoded.text


@pytest.mark.parametrize(
    ("encoding", "text"),
    [
        ("cp1252", "# Überblick\n\n“Grünwurt” – 5 € und Straße.\n"),
        ("latin-1", "# Été à la plage\n\nDéjà vu, garçon.\n"),
        ("euc-kr", "# 회의록\n\n다음 회의는 화요일 오후에 열립니다.\n"),
        ("shift_jis", "# 手順書\n\nバルブを閉めてからフィルターを交換してください。\n"),
        ("gbk", "# 安装指南\n\n请先关闭阀门，再更换滤芯。\n"),
        ("cp1251", "# Привет мир\n\nЭто русский текст в старой кодировке.\n"),
    ],
)
def test_legacy_encodings_keep_every_letter(encoding: str, text: str) -> None:
    decoded = decode(text.encode(encoding))
    assert isinstance(decoded, Decoded)
    assert decoded.text == text
    assert "Not UTF-8" in decoded.warnings[0]


@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16", "utf-32"])
def test_a_byte_order_mark_is_no_text(encoding: str) -> None:
    assert text_of("# Straße 🗂\n".encode(encoding)) == "# Straße 🗂\n"


@pytest.mark.parametrize("encoding", ["utf-16-le", "utf-16-be"])
@pytest.mark.parametrize("text", ["# Überblick\n\nplain words\n", "# 회의록\n\n화요일 오후 3시\n"])
def test_utf16_without_a_mark_is_recognised(encoding: str, text: str) -> None:
    assert text_of(text.encode(encoding)) == text


def test_a_few_bad_bytes_do_not_change_the_encoding() -> None:
    decoded = decode(b"# Broken\n\nGood words \xff\xfe\x80 and then.\n\nCut off \xe2\x82\n")
    assert isinstance(decoded, Decoded)
    assert decoded.encoding == "utf-8"
    assert decoded.text == "# Broken\n\nGood words \ufffd\ufffd\ufffd and then.\n\nCut off \ufffd\n"
    assert "4 places" in decoded.warnings[0]


def test_a_lone_surrogate_never_reaches_the_text() -> None:
    assert text_of(b"Half a pair \xed\xa0\x80 here.") == "Half a pair \ufffd\ufffd\ufffd here."
    assert text_of("\ufeffHalf \ud800 here".encode("utf-16-le", "surrogatepass")) == "Half \ufffd here"


def test_nul_and_stray_marks_are_replaced_one_by_one() -> None:
    decoded = decode("Before\0after and \ufeffmark, then enough words around them.".encode())
    assert isinstance(decoded, Decoded)
    assert decoded.text == "Before\ufffdafter and \u2060mark, then enough words around them."
    assert len(decoded.warnings) == 2


def test_lines_and_bytes_are_the_files_with_all_three_line_ends() -> None:
    data = "# Öne\r\n\rText\n\r\nTwo\r\rThe € end".encode()
    decoded = decode(data)
    assert isinstance(decoded, Decoded)
    assert decoded.text == "# Öne\n\nText\n\nTwo\n\nThe € end"
    for word, line in (("Öne", 1), ("Text", 3), ("Two", 5), ("The", 7), ("end", 7)):
        index = decoded.text.index(word)
        assert decoded.lines.line(index) == line
        assert data[decoded.lines.byte_offset(index) :].startswith(word.encode())


def test_offsets_are_exact_far_into_a_long_line() -> None:
    text = "字 e😀" * 5000
    decoded = decode(text.encode())
    assert isinstance(decoded, Decoded)
    for index in (0, 1, 1023, 1024, 1025, 4096, 19_999, 20_000):
        assert decoded.lines.byte_offset(index) == len(text[:index].encode())


@pytest.mark.parametrize(
    "data",
    [b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR" + bytes(range(256)) * 8, bytes(range(256)) * 40, b"\x7fELF" + bytes(500)],
    ids=["png", "every byte", "elf"],
)  # fmt: skip
def test_binary_data_is_named(data: bytes) -> None:
    assert decode(data) == Undecodable("binary data, not text")


def test_a_mark_that_lies_is_named() -> None:
    assert isinstance(decode(b"\xff\xfe\0\0" + b"\xff" * 8), Undecodable)


def test_an_empty_file_is_empty_text() -> None:
    assert text_of(b"") == ""
