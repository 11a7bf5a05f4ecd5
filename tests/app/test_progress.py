"""What the shell's lines about a running job and a running service say."""

from __future__ import annotations

import pytest

from markdown_rag.indexing.report import Phase, Progress
from markdown_rag.terminal import Begun, progress_line, show_service


@pytest.mark.parametrize(
    ("progress", "percent"),
    [
        (Progress(Phase.SCAN), 0.0),
        (Progress(Phase.CHUNK, total_files=100, processed_files=40, unchanged_files=40), 40.0),
        # 20 files with 50 chunks are under way, 25 of which have a vector: as good as 10 files
        (Progress(Phase.EMBED, 100, 40, 50, 25, chunked_files=20, unchanged_files=40), 50.0),
        (Progress(Phase.INSERT, 100, 60, 50, 50, chunked_files=20, unchanged_files=40), 60.0),
        (Progress(Phase.RECONCILE, 100, 100, 50, 50, chunked_files=60, unchanged_files=40), 99.0),
        (Progress(Phase.DONE, 100, 100), 100.0),
    ],
)
def test_progress_moves_with_every_chunk_and_not_only_with_finished_batches(progress: Progress, percent: float) -> None:
    assert progress.percent == percent


def test_the_time_left_is_what_the_rest_takes_at_the_pace_so_far() -> None:
    status = {
        "progress_percent": 60.0,
        "processed_files": 60,
        "total_files": 100,
        "processed_chunks": 90,
        "phase": "embed",
    }
    line = progress_line(status, Begun(at=10.0, percent=40.0, chunks=0), now=20.0)
    assert line == "[##############          ] 60/100 files, 90 chunks, embed, 9 chunks/s, 20 s left"


def test_what_was_done_before_somebody_looked_is_no_pace() -> None:
    status = {
        "progress_percent": 40.0,
        "processed_files": 40,
        "total_files": 100,
        "processed_chunks": 0,
        "phase": "chunk",
    }
    assert "left" not in progress_line(status, Begun(at=10.0, percent=40.0, chunks=0), now=12.0)


def test_one_chunk_of_one_file_is_no_plural() -> None:
    status = {"progress_percent": 50.0, "processed_files": 0, "total_files": 1, "processed_chunks": 1, "phase": "embed"}
    line = progress_line(status, Begun(at=10.0, percent=0.0, chunks=0), now=11.0)
    assert line == "[############            ] 0/1 file, 1 chunk, embed, 1 chunk/s, 1 s left"


def test_when_a_service_began_is_a_time_that_people_read(capsys: pytest.CaptureFixture[str]) -> None:
    show_service({"answers": True, "pid": 7, "started_at": 1_796_025_600.25, "busy": False})
    said = capsys.readouterr().out.splitlines()
    assert said == ["answers: True", "pid: 7", "started_at: 2026-11-30T08:00:00.250+00:00", "busy: False"]
