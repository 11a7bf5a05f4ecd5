"""A job that may only spend so much: what fits is stored, the rest waits, and nothing is paid for twice."""

from __future__ import annotations

from pathlib import Path

import pytest

from markdown_rag.answers import job_result
from markdown_rag.indexing.indexer import Indexer
from markdown_rag.markdown import tokens

from .conftest import NewBench
from .parts import Bench

WORDS = "salt water boats harbour gulls rope tar nets dawn tide " * 8


@pytest.fixture
def vault(new_bench: NewBench, tmp_path: Path) -> Bench:
    bench = new_bench(tmp_path / "vault", tmp_path / "state", batch_chunks=4)
    for number in range(12):
        bench.note(f"{number:02}.md", f"{WORDS}{number}")
    return bench


def limit(bench: Bench, budget: int) -> None:
    bench.indexer.close()
    bench.indexer = Indexer(bench.store, bench.embeddings, bench.cache, bench.clock, bench.batch_chunks, budget=budget)


def sent(bench: Bench) -> int:
    return sum(map(tokens.count, bench.embedder.sent))


def test_a_job_ends_well_at_its_budget_and_later_ones_finish_the_work(vault: Bench) -> None:
    limit(vault, 400)
    runs = 0
    while (report := vault.run()).postponed:
        runs += 1
        spent, vault.embedder.sent = sent(vault), []
        assert 0 < spent <= report.tokens <= 400
        assert report.failed == 0
        assert "budget is used up" in job_result(report)["message"]
        assert report.problem_counts["budget"] == report.postponed
    assert runs > 1
    assert len(vault.rows()) == 12


def test_no_text_is_sent_twice_over_all_the_jobs_of_a_budget(vault: Bench) -> None:
    limit(vault, 400)
    while vault.run().postponed:
        pass
    assert len(vault.embedder.sent) == len(set(vault.embedder.sent)) == 12


@pytest.mark.ends_with("stale")
def test_a_file_over_the_budget_keeps_its_old_text_and_names_its_cost(vault: Bench) -> None:
    vault.run()
    before = vault.rows()["03.md"]
    vault.note("03.md", "entirely new words " * 100)
    limit(vault, 10)
    report = vault.run()
    assert vault.rows()["03.md"] == before
    assert vault.kinds(report) == {"03.md": "budget"}
    assert "tokens" in report.problems[0].reason


def test_what_is_paid_for_already_is_stored_whatever_the_budget(vault: Bench) -> None:
    vault.run()
    (vault.root / "00.md").rename(vault.root / "moved.md")
    limit(vault, 1)
    report = vault.run()
    assert report.postponed == 0
    assert "moved.md" in vault.rows()
    assert "00.md" not in vault.rows()


@pytest.mark.ends_with("missing")
def test_deletions_are_carried_out_in_a_job_that_has_no_budget_left(vault: Bench) -> None:
    vault.run()
    (vault.root / "05.md").unlink()
    vault.note("new.md", "a long new note " * 50)
    limit(vault, 5)
    assert vault.run().postponed == 1
    assert "05.md" not in vault.rows()
