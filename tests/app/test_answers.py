"""What a job's result says in words."""

from __future__ import annotations

from markdown_rag.answers import job_result
from markdown_rag.indexing.report import Report


def test_a_run_whose_files_failed_does_not_say_that_all_is_up_to_date() -> None:
    assert job_result(Report(failed=7))["message"].startswith("7 files could not be indexed (see problems); 0 were.")
    assert job_result(Report(failed=1, new=2, modified=1))["message"].startswith("1 file could not be indexed")
    assert job_result(Report())["message"] == "Already up to date, Nothing to index!"
