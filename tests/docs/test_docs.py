"""The documentation says what is there: variables, tools, commands and links exist, tables are as the code has them."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from markdown_rag import __version__
from markdown_rag.settings import describe
from tests.docs.tables import BLOCK, ROOT, TABLES, commands, pages, render, tools

README = ROOT / "README.md"
DOCS = ROOT / "docs"

# Variables of other programs that the pages may speak of.
FOREIGN = {
    "XDG_DATA_HOME",
    "UV_COMPILE_BYTECODE",
    "MARKDOWN_RAG_TEST_CUTS",
    "MARKDOWN_RAG_TEST_HISTORIES",
    "MARKDOWN_RAG_TEST_SECONDS",
    "MARKDOWN_RAG_TEST_SHARED",
}
EXPECTED = (
    "architecture.md",
    "changelog.md",
    "configuration.md",
    "embedding-providers.md",
    "indexing-architecture.md",
    "milvus-setup.md",
    "optimization.md",
    "storage-format.md",
    "testing.md",
    "tools.md",
    "troubleshooting.md",
)


def name_of(page: Path) -> str:
    return page.relative_to(ROOT).as_posix()


def text_of(page: Path) -> str:
    return page.read_text(encoding="utf-8")


every_page = pytest.mark.parametrize("page", pages(), ids=name_of)


@pytest.mark.parametrize("name", EXPECTED)
def test_the_page_people_look_for_is_there(name: str) -> None:
    assert (DOCS / name).is_file()


def test_the_readme_can_be_read_in_one_go() -> None:
    assert len(text_of(README).splitlines()) <= 200


@every_page
def test_tables_are_as_the_code_has_them(page: Path) -> None:
    assert text_of(page) == render(text_of(page)), "run: make tables"


def test_a_table_that_is_behind_the_code_is_noticed() -> None:
    stale = "<!-- table: commands -->\n\n| yesterday |\n\n<!-- end -->"
    assert "yesterday" not in render(stale)
    assert render(render(stale)) == render(stale)


def test_every_table_the_code_can_make_is_in_a_page() -> None:
    used = {found["call"].split()[0] for page in pages() for found in BLOCK.finditer(text_of(page))}
    assert used == set(TABLES)


def test_every_variable_is_documented_with_what_is_allowed() -> None:
    written = set(re.findall(r"^\| `([A-Z_]+)`", text_of(DOCS / "configuration.md"), re.MULTILINE))
    assert written == {variable.name for variable in describe()}


@every_page
def test_every_variable_a_page_names_exists(page: Path) -> None:
    prefixes = "EMBEDDING|GEMINI|OPENAI|VOYAGE|VERTEX|GOOGLE|MILVUS|MARKDOWN|DEDUP|MIN"
    named = set(re.findall(rf"\b(?:{prefixes})_[A-Z_]+\b|\bXDG_\w+|\bUV_\w+", text_of(page)))
    assert not named - {variable.name for variable in describe()} - FOREIGN


def test_every_tool_and_each_of_its_parameters_is_documented() -> None:
    sections = re.split(r"^## ", text_of(DOCS / "tools.md"), flags=re.MULTILINE)
    by_title = {section.split("\n")[0]: section for section in sections}
    for tool in tools():
        section = by_title[tool.name]
        assert f"table: parameters {tool.name} " in section
        assert f"table: answer {tool.name} " in section
        assert f"`{tool.name}`" in text_of(README)


@every_page
def test_every_tool_a_page_names_exists(page: Path) -> None:
    named = set(re.findall(r"\b[a-z]+_(?:documents?|index_status|index)\b", text_of(page)))
    assert not named - {tool.name for tool in tools()}


def test_every_command_is_documented() -> None:
    text = text_of(DOCS / "tools.md")
    assert not [name for name in commands() if name != "serve" and f"\n### {name}\n" not in text]


@every_page
def test_every_command_and_option_a_page_shows_exists(page: Path) -> None:
    for name, rest in re.findall(r"markdown-fastrag-mcp ([a-z]+)([^`\n]*)", shell(text_of(page))):
        assert name in commands(), f"no command {name}"
        options = {option for action in commands()[name]._actions for option in action.option_strings}
        assert set(re.findall(r"(?<!\S)--?[a-z][\w-]*", rest)) <= options


def shell(text: str) -> str:
    """What of a page is code: blocks and inline."""
    return "\n".join(re.findall(r"```.*?```|`[^`\n]+`|^ {4}.*$", text, re.DOTALL | re.MULTILINE))


@every_page
def test_links_between_pages_lead_somewhere(page: Path) -> None:
    for target in re.findall(r"\]\(([^)\s]+)\)", text_of(page)):
        if re.match(r"[a-z]+:", target):
            continue
        path, _, anchor = target.partition("#")
        goal = (page.parent / path).resolve() if path else page
        assert goal.exists(), target
        assert not anchor or anchor in anchors(goal), target


def anchors(page: Path) -> set[str]:
    """The names under which headings can be linked to."""
    headings = re.findall(r"^#+ (.+)$", text_of(page), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def test_every_page_can_be_reached_from_the_readme() -> None:
    found, left = set(), [README]
    while left:
        page = left.pop()
        if page in found or page.suffix != ".md":
            continue
        found.add(page)
        for target in re.findall(r"\]\(([^)\s#]+)", text_of(page)):
            goal = (page.parent / target).resolve()
            left += sorted(goal.glob("*.md")) if goal.is_dir() else [goal] * goal.is_file()
    assert set(pages()) <= found


def test_the_changelog_starts_with_this_version() -> None:
    versions = re.findall(r"^## (\S+)", text_of(DOCS / "changelog.md"), re.MULTILINE)
    project = tomllib.loads(text_of(ROOT / "pyproject.toml"))["project"]
    assert versions[0] == __version__ == project["version"]


def test_every_dependency_and_its_bound_is_explained() -> None:
    project = tomllib.loads(text_of(ROOT / "pyproject.toml"))["project"]
    table = text_of(DOCS / "decisions" / "0001-dependencies.md")
    rows = dict(re.findall(r"^\| ([\w-]+) \|.*\| `([^`]+)`[^|]*\|$", table, re.MULTILINE))
    declared = dict(re.fullmatch(r"([\w-]+)(.+)", line).groups() for line in project["dependencies"])  # type: ignore[union-attr]
    assert rows == declared


def test_decisions_are_numbered_without_gaps_and_short() -> None:
    decisions = sorted((DOCS / "decisions").glob("*.md"))
    assert [page.name[:4] for page in decisions] == [f"{number:04}" for number in range(1, len(decisions) + 1)]
    assert not [page.name for page in decisions[1:] if len(text_of(page).splitlines()) > 25]


def test_the_state_directory_holds_the_files_that_the_storage_page_names(tmp_path: Path, state_dir: Path) -> None:
    (tmp_path / "note.md").write_text("# Keys\n\nSigning keys are rotated every spring.\n", encoding="utf-8")
    code = (
        f"import sys; from markdown_rag.server.guard import main; sys.argv[1:] = ['index', {str(tmp_path)!r}]; main()"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    table = text_of(DOCS / "storage-format.md").split("## The state directory")[1]
    named = set(re.findall(r"^\| `([^`]+?)/?`", table, re.MULTILINE))
    made = {path.name for path in state_dir.iterdir() if not path.name.endswith(("-wal", "-shm"))}
    assert made == named - {"models", "service"}  # where a model was fetched, and where the service runs
