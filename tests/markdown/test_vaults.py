"""Whole vaults of odd files: the made one in every run, real ones where a directory is given."""

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from markdown_rag.markdown.chunking import Chunk, ChunkPolicy, Document
from markdown_rag.markdown.lexical import tokens
from markdown_rag.markdown.outline import heading_at

Judge = Callable[..., Document]
MAKER = Path(__file__).parent.parent / "data" / "make_hostile.py"
SHARED = Path(os.environ.get("MARKDOWN_RAG_TEST_SHARED", ""))


def test_the_hostile_vault_is_read_as_its_manifest_says(judged: Judge, tmp_path: Path) -> None:
    made = subprocess.run([sys.executable, MAKER, tmp_path], check=True, capture_output=True)
    manifest = json.loads(made.stdout)
    try:
        seen = [entry for entry in manifest["files"] if is_note(Path(manifest["vault"], entry["path"]))]
        for entry in seen:
            check_entry(judged, entry, Path(manifest["vault"], entry["path"]).read_bytes())
        assert len(seen) > 110
    finally:
        subprocess.run([sys.executable, MAKER, tmp_path, "--remove"], check=True)


def is_note(path: Path) -> bool:
    small = path.suffix.lower() in (".md", ".markdown", ".mdx") and path.is_file() and not path.is_symlink()
    return small and os.access(path, os.R_OK) and path.stat().st_size < 2_000_000


def check_entry(judged: Judge, entry: dict, data: bytes) -> None:
    document = judged(data, entry["path"])
    if entry.get("reason") == "empty":
        assert document.warnings[-1] == "empty", entry
    if "phrase" not in entry:
        return
    found = [chunk for chunk in document.chunks if entry["phrase"] in chunk.text]
    assert found, entry
    chunk = found[-1]
    assert entry["phrase"] in chunk.embed_text, entry
    assert set(tokens(entry["phrase"], query=True)) <= set(chunk.lexical.split()), entry
    if "heading" in entry:
        path = heading_at(chunk.heading_path, chunk.text, chunk.text.index(entry["phrase"]))
        assert list(path) == entry["heading"], entry


@pytest.fixture(scope="module")
def odd(judged: Judge) -> Callable[[str], Document]:
    if not (SHARED / "vaults" / "odd").is_dir():
        pytest.skip("MARKDOWN_RAG_TEST_SHARED names no directory with vaults/odd")
    root = SHARED / "vaults" / "odd"
    return lambda path: judged(next(root.glob(path)).read_bytes(), path)


def holding(document: Document, words: str) -> Chunk:
    return next(chunk for chunk in document.chunks if words in chunk.text)


def path_of(document: Document, words: str) -> tuple[str, ...]:
    chunk = holding(document, words)
    return heading_at(chunk.heading_path, chunk.text, chunk.text.index(words))


@pytest.mark.outside
def test_every_odd_file_keeps_the_laws(judged: Judge, odd: Callable) -> None:
    assert odd
    files = [path for path in (SHARED / "vaults" / "odd").rglob("*") if is_note(path)]
    assert len(files) >= 34
    for path in files:
        for policy in (ChunkPolicy(), ChunkPolicy(64, 20, 16, 10)):
            document = judged(path.read_bytes(), path.name, policy)
            assert document.chunks or document.warnings[-1] == "empty"


@pytest.mark.outside
@pytest.mark.parametrize(
    ("file", "title", "words", "path"),
    [
        ("jekyll*/**/UTF8CRLFandBOM.md", "UTF8CRLFandBOM", "This file", ()),
        ("jekyll*/**/Unicode16LECRLFandBOM.md", "Unicode16CRLFandBOM", "encoded as Unicode in Notepad", ()),
        ("ethereum*/**/bench_vectors.md", "Set of test vectors to perform benchmarking of EIP-7619", "valid signature",
         ("Set of test vectors to perform benchmarking of EIP-7619", "Inlined vectors")),
        ("eslint*/CHANGELOG.md", "CHANGELOG", "handle underflow in no-loss-of-precision", ()),
        ("MicrosoftDocs__cpp*/**/x86-intrinsics-list.md", "x86 intrinsics list", "_addcarry_u16",
         ("x86 intrinsics list", "x86 intrinsics")),
        ("gohugoio*/**/emojis.md", "Emojis", "## GitHub Custom Emoji", ("GitHub Custom Emoji",)),
        ("windsonsea*/**/zh-cn/**/authentication.md", "用户认证", "## Kubernetes 中的用户", ("Kubernetes 中的用户",)),
        ("windsonsea*/**/ru/**/intermediate.md", "intermediate", "Знакомство с Prow", ("Знакомство с Prow",)),
        ("modelcontextprotocol*/**/client_registration/index.md",
         "Evolving OAuth Client Registration in the Model Context Protocol", "OAuth", ()),
        ("withastro*/**/configuration-reference.mdx", "구성 참조", "## 최상위 옵션", ("최상위 옵션",)),
        ("jlowin*/**/icons.mdx", "Icons", "SVG icon as data URI", None),
        ("executablebooks*/**/optional.md", "Syntax Extensions", "# Syntax Extensions", ("Syntax Extensions",)),
        ("modelcontextprotocol__python-sdk/**/whats-new.md", "Что нового в v2", "# Что нового в v2",
         ("Что нового в v2",)),
        ("rust-lang*/**/3503-frontmatter.md", "3503-frontmatter", "cargo to have manifests embedded in source",
         ("Summary",)),
        ("sindresorhus*/readme.md", "readme", "## Contents", ("Contents",)),
        ("MicrosoftDocs__Power*/**/Write-Host.md", "Write-Host", "## SYNOPSIS", ("Write-Host", "SYNOPSIS")),
        ("github__opensource*/**/ar/best-practices.md", "أفضل الممارسات للمشرفين", "##", None),
    ],
)  # fmt: skip
def test_an_odd_file_is_found_where_it_stands(
    odd: Callable, file: str, title: str, words: str, path: tuple[str, ...] | None
) -> None:
    document = odd(file)
    assert document.title == title
    found = path_of(document, words)
    assert path is None or found == path


@pytest.mark.outside
def test_repeated_headings_are_told_apart_by_their_parents(odd: Callable) -> None:
    history = odd("jekyll*/History.markdown")
    expected = ("3.9.0 / 2020-08-05", "Minor Enhancements")
    assert path_of(history, "Allow use of kramdown v2 (#8322)") == expected
    window = odd("MicrosoftDocs__cpp*/**/cwnd-class.md")
    words = "proxy for the specified object.\n\n```"
    assert path_of(window, words) == ("`CWnd` Class", "`CWnd::CreateAccessibleProxy`")
    assert len({chunk.start_byte for chunk in window.chunks}) == len(window.chunks)
    assert path_of(odd("BurntSushi*/CHANGELOG.md"), "directory tree traversal") == ("15.2.0 (2026-07-15)",)


@pytest.mark.outside
def test_rows_stay_whole_under_their_two_header_rows(odd: Callable) -> None:
    table = odd("MicrosoftDocs__cpp*/**/x86-intrinsics-list.md")
    inner = [chunk for chunk in table.chunks if chunk.prefix]
    assert len(inner) > 50
    assert {chunk.prefix.count("\n") for chunk in inner} == {2}
    rows = [line for chunk in inner for line in chunk.text.partition("## See also")[0].strip().splitlines()]
    assert all(line.startswith("|") and line.endswith("|") for line in rows)


@pytest.mark.outside
def test_items_are_never_cut_in_a_long_list(odd: Callable) -> None:
    changelog = odd("eslint*/CHANGELOG.md")
    assert all(chunk.text.startswith(("* ", "v", "\n", "0.")) for chunk in changelog.chunks[1:])


@pytest.mark.outside
def test_front_matter_of_real_files_is_read(odd: Callable) -> None:
    blog = odd("modelcontextprotocol*/**/client_registration/index.md")
    assert {"security", "authorization"} <= set(blog.tags)
    assert all("+++" not in chunk.text for chunk in blog.chunks)
    assert odd("MicrosoftDocs__Power*/**/Get-ChildItem.md").aliases == ("dir", "gci", "ls")
    assert "Markdown" in odd("flowing*/**/Basic formatting syntax.md").aliases
    assert odd("jekyll*/**/UTF8CRLFandBOM.md").properties["categories"] == "bom"
    assert "never closed" in odd("windsonsea*/**/ru/**/intermediate.md").warnings[0]
    assert odd("kubernetes__kops/**/CHANGES.md").warnings == ("empty",)


@pytest.mark.outside
def test_structure_shown_in_fences_opens_no_section(odd: Callable) -> None:
    spec = odd("commonmark*/spec.md")
    assert not any("not a heading" in name for chunk in spec.chunks for name in chunk.heading_path)
    build = odd("modelcontextprotocol*/**/build-client.mdx")
    paths = [heading_at(c.heading_path, c.text, len(c.text))[-1:] for c in build.chunks]
    assert paths
    comments = odd("windsonsea*/**/zh-cn/**/authentication.md")
    assert not any("Users in Kubernetes" in name for chunk in comments.chunks for name in chunk.heading_path)


@pytest.mark.outside
def test_persian_is_found_with_and_without_its_joiners(odd: Callable) -> None:
    document = odd("github__opensource*/**/fa/best-practices.md")
    chunk = next(chunk for chunk in document.chunks if "\u200c" in chunk.text)
    word = next(word for word in chunk.text.split() if "\u200c" in word and word.replace("\u200c", "").isalpha())
    assert set(tokens(word.replace("\u200c", ""))) <= set(chunk.lexical.split())
