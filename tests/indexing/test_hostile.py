"""The hostile vault through the whole run: every file has the outcome its manifest gives."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from markdown_rag.indexing.report import Problem, Report
from markdown_rag.markdown.chunking import HEADING_JOIN
from markdown_rag.markdown.lexical import analyze
from markdown_rag.paths import printable
from markdown_rag.store.base import Match, Where
from tests.doctor import benches_end_well

from .parts import Bench
from .reference import stored

MAKER = Path(__file__).parent.parent / "data" / "make_hostile.py"
SILENT = {"not a markdown extension (may be silent)", "ignored by .gitignore", "not markdown"}


@dataclass
class Outcome:
    """The vault after a run: manifest entries by path, stored rows by path, problems by path."""

    bench: Bench
    entries: dict[str, dict[str, object]]
    report: Report
    problems: dict[str, list[Problem]]
    rows: dict[str, list[Match]]


@pytest.fixture(scope="module")
def outcome(tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest) -> Iterator[Outcome]:
    base = tmp_path_factory.mktemp("hostile")
    made = subprocess.run([sys.executable, str(MAKER), str(base)], capture_output=True, check=True)
    manifest = json.loads(made.stdout)
    bench = Bench(Path(manifest["vault"]), base / "state")
    report = bench.run()
    rows: dict[str, list[Match]] = {}
    for match in bench.store.rows(Where(workspaces=(bench.workspace.id,))):
        rows.setdefault(match.path, []).append(match)
    problems: dict[str, list[Problem]] = {}
    for problem in report.problems:
        problems.setdefault(problem.path, []).append(problem)
    entries = {printable(entry["path"]): entry for entry in manifest["files"]}
    yield Outcome(bench, entries, report, problems, rows)
    benches_end_well(request.node, [bench])
    bench.close()
    subprocess.run([sys.executable, str(MAKER), "--remove", str(base)], check=True)


def holding(outcome: Outcome, path: str, phrase: str) -> list[Match]:
    """The rows of a file that hold a phrase as it was written."""
    return [row for row in outcome.rows.get(path, []) if phrase in row.text]


def test_the_report_names_every_problem_of_this_vault(outcome: Outcome) -> None:
    assert sum(outcome.report.problem_counts.values()) == len(outcome.report.problems)


def test_every_indexed_file_is_found_by_its_phrase(outcome: Outcome) -> None:
    for path, entry in outcome.entries.items():
        if entry["expect"] == "indexed":
            phrase = str(entry["phrase"])
            rows = holding(outcome, path, phrase)
            assert rows, f"{path} ({entry['odd']}): the phrase is not stored"
            asked = set(analyze(phrase, query=True).split())
            assert any(asked <= set(row.lexical.split()) for row in rows), f"{path}: not found by its words"


def test_hits_carry_the_headings_they_stand_under(outcome: Outcome) -> None:
    for path, entry in outcome.entries.items():
        if entry["expect"] == "indexed" and "heading" in entry:
            (row,) = holding(outcome, path, str(entry["phrase"]))
            wanted = [str(part) for part in entry["heading"]]
            # A merged chunk carries what its sections have in common.
            assert HEADING_JOIN.join(wanted).startswith(row.heading_path), f"{path} ({entry['odd']})"


def test_every_skipped_file_is_not_stored_and_named_with_a_reason(outcome: Outcome) -> None:
    for path, entry in outcome.entries.items():
        if entry["expect"] == "skipped":
            assert path not in outcome.rows, f"{path} ({entry['odd']}) is stored"
            if entry["reason"] not in SILENT:
                assert path in outcome.problems, f"{path} ({entry['odd']}) is not named"
    assert outcome.report.left_out["ignored/.gitignore"] == 1


def test_doubtful_files_are_found_as_written_or_named(outcome: Outcome) -> None:
    for path, entry in outcome.entries.items():
        if entry["expect"] == "either":
            found = entry.get("phrase") and holding(outcome, path, str(entry["phrase"]))
            assert found or path in outcome.problems, f"{path} ({entry['odd']}): neither found nor named"


def test_nothing_outside_the_vault_is_stored_or_sent(outcome: Outcome) -> None:
    assert not any("cormorant" in row.text for rows in outcome.rows.values() for row in rows)
    assert not any("cormorant" in text for text in outcome.bench.embedder.sent)


def test_stored_text_is_clean_and_what_is_sent_is_valid(outcome: Outcome) -> None:
    for path, rows in outcome.rows.items():
        for row in rows:
            assert not set(row.text) & {"\x00", "\ufeff", "\r"}, path
    for text in outcome.bench.embedder.sent:
        text.encode("utf-8")
        assert text.strip()


def test_lines_and_bytes_are_those_of_the_file(outcome: Outcome) -> None:
    for path in (
        "names/it's.md",
        "sizes/table.md",
        "markdown/setext.md",
        "languages/japanese.md",
        "sizes/near-identical.md",
    ):
        data = (outcome.bench.root / path).read_bytes()
        for row in outcome.rows[path]:
            span = data[row.start_byte : row.end_byte].decode()
            assert span == row.text
            assert data[: row.start_byte].count(b"\n") + 1 == row.start_line
            assert row.start_line + row.text.count("\n") - row.text.endswith("\n") == row.end_line


@pytest.mark.parametrize(
    ("path", "title"),
    [("encodings/bom.md", "Stra\u00dfe"), ("frontmatter/toml.md", "Toml one"), ("frontmatter/dots.md", "Dots")],
)
def test_titles_come_from_front_matter(outcome: Outcome, path: str, title: str) -> None:
    assert {row.title for row in outcome.rows[path]} == {title}


def test_large_files_stay_small_in_the_index(outcome: Outcome) -> None:
    excluded = {exclusion.path for exclusion in outcome.report.exclusions}
    assert {"sizes/data-uri.md", "sizes/one-line.md"} <= excluded
    assert len(outcome.rows["sizes/data-uri.md"]) <= 3
    assert all(
        "| id | item | amount |" in row.prefix + row.text
        for row in outcome.rows["sizes/table.md"]
        if "| 2917 |" in row.text
    )


def test_a_second_run_finds_nothing_changed(outcome: Outcome) -> None:
    sent, writes = len(outcome.bench.embedder.sent), outcome.bench.store.change_count()
    again = outcome.bench.run()
    assert (again.new, again.modified, again.deleted) == (0, 0, 0)
    assert (len(outcome.bench.embedder.sent), outcome.bench.store.change_count()) == (sent, writes)
    assert {(p.path, p.kind) for p in again.problems if p.kind != "warning"} == {
        (p.path, p.kind) for p in outcome.report.problems if p.kind != "warning"
    }


def test_editing_and_deleting_a_file_of_any_name_leaves_no_old_row_and_takes_no_other(outcome: Outcome) -> None:
    bench = outcome.bench
    before = stored(bench.store, bench.workspace.id)
    names = [path for path in before if path.startswith("names/")]
    assert len(names) >= 18
    for path in names:
        (bench.root / path).write_text("# Edited\n\nNothing else.\n")
    bench.run("names")
    after = stored(bench.store, bench.workspace.id)
    assert {path: [row[2] for row in after[path]] for path in names} == {
        path: ["# Edited\n\nNothing else.\n"] for path in names
    }
    for path in names:
        os.unlink(bench.root / path)
    bench.run("names", confirm_deletions=True)
    left = stored(bench.store, bench.workspace.id)
    assert left == {path: rows for path, rows in before.items() if path not in names}
