"""What is left out: one line a truth, and git itself as the judge of ``.gitignore``."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from markdown_rag.indexing.ignore import ScanPolicy, ignored_by, name_rules, parse_gitignore
from markdown_rag.markdown.names import is_document

FOLDER, FILE = True, False

# rule (lines of a root .gitignore), path, kind, ignored?
PATTERNS = [
    ("*.draft.md", "a.draft.md", FILE, True),
    ("*.draft.md", "deep/er/a.draft.md", FILE, True),
    ("*.draft.md\n!keep.draft.md", "keep.draft.md", FILE, False),
    ("*.draft.md\n!keep.draft.md", "deep/keep.draft.md", FILE, False),
    ("!keep.md\n*.md", "keep.md", FILE, True),
    ("out/", "out", FOLDER, True),
    ("out/", "out", FILE, False),
    ("out/", "deep/out", FOLDER, True),
    ("/out", "out", FILE, True),
    ("/out", "deep/out", FILE, False),
    ("out/*.md", "out/a.md", FILE, True),
    ("out/*.md", "deep/out/a.md", FILE, False),
    ("out/*.md", "out/deep/a.md", FILE, False),
    ("a/**/b.md", "a/b.md", FILE, True),
    ("a/**/b.md", "a/x/y/b.md", FILE, True),
    ("**/logs", "x/logs", FOLDER, True),
    ("foo/**", "foo", FOLDER, False),
    ("foo/**", "foo/x/y.md", FILE, True),
    ("a/**/", "a", FOLDER, False),
    ("a/**/", "a/b", FOLDER, True),
    ("*", "a.md", FILE, True),
    ("*\n!*/", "docs", FOLDER, False),
    ("*\n!*/", "docs/a.md", FILE, True),
    ("*\n!*/\n!*.md", "docs/a.md", FILE, False),
    ("/*\n!/docs/", "docs", FOLDER, False),
    ("/*\n!/docs/", "docs/a.md", FILE, False),
    ("/*\n!/docs/", "other", FOLDER, True),
    ("# a.md", "a.md", FILE, False),
    ("\\#a.md", "#a.md", FILE, True),
    ("\\!a.md", "!a.md", FILE, True),
    ("a.md ", "a.md", FILE, True),
    ("a.md\r", "a.md", FILE, True),
    ("a?c.md", "abc.md", FILE, True),
    ("a?c.md", "a/c.md", FILE, False),
    ("[ab].md", "b.md", FILE, True),
    ("[!ab].md", "b.md", FILE, False),
    ("", "a.md", FILE, False),
    ("/", "a.md", FILE, False),
    ("\ufeffa.md", "a.md", FILE, True),
    ("caf\u00e9.md", "cafe\u0301.md", FILE, True),
    ("!", "a.md", FILE, False),
]


@pytest.mark.parametrize(("lines", "path", "kind", "ignored"), PATTERNS)
def test_patterns_mean_what_git_says(lines: str, path: str, kind: bool, ignored: bool) -> None:
    assert bool(parse_gitignore("", lines.encode()).verdict(path, kind)) is ignored


def test_the_deepest_file_that_speaks_decides() -> None:
    root = parse_gitignore("", b"*.md\n")
    deep = parse_gitignore("docs", b"!keep.md\n")
    assert ignored_by([root, deep], "docs/keep.md", FILE) == ""
    assert ignored_by([root, deep], "docs/other.md", FILE) == ".gitignore"
    assert ignored_by([root, deep, parse_gitignore("docs/x", b"a.md")], "docs/x/a.md", FILE) == "docs/x/.gitignore"


def test_a_pattern_with_a_slash_is_relative_to_its_own_file() -> None:
    deep = parse_gitignore("docs", b"/a.md\n")
    assert ignored_by([deep], "docs/a.md", FILE)
    assert not ignored_by([deep], "docs/x/a.md", FILE)


# name, path, policy words, the rule that answers
NAMES = [
    ("node_modules", "x/node_modules", (), "folder node_modules"),
    ("build", "build", (), "folder build"),
    ("build", "build", ("!build",), ""),
    (".git", ".git", (), "folder .git"),
    (".obsidian", ".obsidian", (), "dot folders"),
    (".obsidian", ".obsidian", ("!.obsidian",), ""),
    (".git", ".git", ("!.git",), ""),
    ("archive", "x/archive", ("archive",), "folder archive"),
    ("archive", "x/archive", (" archive ",), "folder archive"),
    ("archive", "x/archive", ("x/archive",), "folder x/archive"),
    ("archive", "y/archive", ("x/archive",), ""),
    ("archive", "archive", ("archive/",), "folder archive"),
    ("Build", "Build", (), ""),
    ("builder", "builder", (), ""),
    ("cafe\u0301", "cafe\u0301", ("caf\u00e9",), "folder caf\u00e9"),
    ("docs", "docs", ("", " "), ""),
    ("docs", "docs", ("docs", "!docs"), ""),
]


@pytest.mark.parametrize(("name", "path", "words", "rule"), NAMES)
def test_folders_are_left_out_by_name(name: str, path: str, words: tuple[str, ...], rule: str) -> None:
    assert name_rules(ScanPolicy(exclude_dirs=words)).folder(name, path) == rule


@pytest.mark.parametrize(
    ("path", "words", "rule"),
    [
        ("AGENTS.md", (), "file AGENTS.md"),
        ("x/CLAUDE.md", (), "file CLAUDE.md"),
        ("x/CLAUDE.md", ("!CLAUDE.md",), ""),
        ("x/todo.md", ("todo.md",), "file todo.md"),
        ("x/todo.md", ("y/todo.md",), ""),
        ("agents.md", (), ""),
    ],
)
def test_files_are_left_out_by_name(path: str, words: tuple[str, ...], rule: str) -> None:
    assert name_rules(ScanPolicy(exclude_files=words)).file(path.rpartition("/")[2], path) == rule


@pytest.mark.parametrize(
    ("name", "counts"),
    [
        ("a.md", True),
        ("a.MD", True),
        ("a.Markdown", True),
        ("a.mdx", True),
        (".md", True),
        ("a.mdown", False),
        ("a.md.txt", False),
        ("amd", False),
        ("a.xmarkdown", False),
    ],
)
def test_extensions_count_in_any_case(name: str, counts: bool) -> None:
    assert is_document(name) is counts


PART = st.sampled_from(["a", "b", "ab", "a.md", "b.md", "x.draft.md"])
PATHS = st.lists(PART, min_size=1, max_size=5).map("/".join)
SEGMENT = st.sampled_from(
    ["a", "b", "*a*b*", "*.*.*", "?*a*", "*", "**", "*.md", "a*", "?", "[ab]", "[!a]", "ab", "x.draft.md", "b.md"]
)
LINE = st.builds(
    lambda negated, start, parts, end: negated + start + "/".join(parts) + end,
    st.sampled_from(["", "", "!"]),
    st.sampled_from(["", "", "/"]),
    st.lists(SEGMENT, min_size=1, max_size=5),
    st.sampled_from(["", "", "/"]),
)


@pytest.fixture(scope="module")
def repository(tmp_path_factory: pytest.TempPathFactory) -> Path:
    if shutil.which("git") is None:
        pytest.skip("git is not installed")
    root = tmp_path_factory.mktemp("repository")
    subprocess.run(["git", "init", "-q", str(root)], check=True)
    return root


@given(lines=st.lists(LINE, min_size=1, max_size=5), path=PATHS, kind=st.booleans())
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_git_agrees(repository: Path, lines: list[str], path: str, kind: bool) -> None:
    text = "\n".join(lines) + "\n"
    (repository / ".gitignore").write_text(text)
    file = parse_gitignore("", text.encode())
    parts = path.split("/")
    steps = [("/".join(parts[: i + 1]), i < len(parts) - 1 or kind) for i in range(len(parts))]
    ours = any(file.verdict(step, is_folder) for step, is_folder in steps)
    # Git looks at the disk to tell files from folders, so the entry must be there.
    target = repository / path
    (target if kind else target.parent).mkdir(parents=True, exist_ok=True)
    if not kind:
        target.touch()
    command = ["git", "-C", str(repository), "check-ignore", "-q", "--no-index", path]
    answer = subprocess.run(command, check=False, capture_output=True)
    shutil.rmtree(repository / parts[0]) if (repository / parts[0]).is_dir() else (repository / parts[0]).unlink()
    assert ours is (answer.returncode == 0), (lines, path, kind)


@pytest.mark.parametrize(
    ("line", "path", "ignored"),
    [
        ("*a" * 40 + "b", "a" * 250, False),
        ("*a" * 40 + "b", "a" * 200 + "b", True),
        ("a*" * 60 + "/x", "a" * 250 + "/y", False),
        ("a/" + "**/a/" * 40 + "b", "a/" * 500 + "c", False),
        ("a/" + "**/a/" * 40 + "b", "a/" * 500 + "b", True),
        ("**/" + "a/**/" * 40 + "*[bc]*d*e", "a/" * 500 + "c" * 200, False),
    ],
)
def test_a_line_of_many_wildcards_is_judged_at_once_whatever_a_name_is(line: str, path: str, ignored: bool) -> None:
    assert bool(ignored_by([parse_gitignore("", f"{line}\n".encode())], path, False)) is ignored
