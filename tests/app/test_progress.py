"""What the shell's lines about a running job and a running service say."""

from __future__ import annotations

import io
import time

import pytest

from markdown_rag.indexing.report import Phase, Progress
from markdown_rag.terminal import Begun, ProgressDisplay, progress_line, show_service


@pytest.mark.parametrize(
    ("progress", "percent"),
    [
        (Progress(Phase.SCAN), 0.0),
        (Progress(Phase.CHUNK, total_files=100, processed_files=40, total_bytes=500, processed_bytes=200), 40.0),
        # 97 of 100 files are stored, and what is left is one that is as large as all of them
        (Progress(Phase.EMBED, 100, 97, 900, 450, total_bytes=8000, processed_bytes=4000), 50.0),
        (Progress(Phase.RECONCILE, 100, 100, 50, 50, total_bytes=8000, processed_bytes=8000), 99.0),
        (Progress(Phase.DONE, 100, 100), 100.0),
    ],
)
def test_progress_is_the_share_of_the_bytes_that_are_done(progress: Progress, percent: float) -> None:
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


@pytest.mark.parametrize(("again", "pace"), [("", "100 chunks/s, 5 s left"), ("later", "10 chunks/s, 50 s left")])
def test_a_job_that_another_process_went_on_with_has_the_pace_of_that_one(
    again: str, pace: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    now, stream = [100.0], io.StringIO()
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    display = ProgressDisplay(stream)

    def shown(begun: str | None, files: int, percent: float, chunks: int) -> str:
        status = {"progress_percent": percent, "processed_files": 0, "total_files": files, "processed_chunks": chunks}
        display.show({**status, "phase": "embed", "started_at": begun})
        return stream.getvalue().splitlines()[-1]

    shown("first", 100, 0.0, 0)
    if again:
        now[0] += 1000.0  # of the process that was killed
        shown("first", 100, 40.0, 900)
        shown(None, 0, 0.0, 0)
        shown(again, 100, 0.0, 0)
    now[0] += 50.0 if again else 5.0
    assert pace in shown(again or "first", 100, 50.0, 500)


def test_one_chunk_of_one_file_is_no_plural() -> None:
    status = {"progress_percent": 50.0, "processed_files": 0, "total_files": 1, "processed_chunks": 1, "phase": "embed"}
    line = progress_line(status, Begun(at=10.0, percent=0.0, chunks=0), now=11.0)
    assert line == "[############            ] 0/1 file, 1 chunk, embed, 1 chunk/s, 1 s left"


def test_when_a_service_began_is_a_time_that_people_read(capsys: pytest.CaptureFixture[str]) -> None:
    show_service({"answers": True, "pid": 7, "started_at": 1_796_025_600.25, "busy": False})
    said = capsys.readouterr().out.splitlines()
    assert said == ["answers: True", "pid: 7", "started_at: 2026-11-30T08:00:00.250+00:00", "busy: False"]
