"""A test run notices what it leaves behind."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.leftovers import left_over
from tests.waiting import bounded, eventually

DETACHED = """
import os, sys, time
if os.fork():
    os._exit(0)
os.setsid()
print(os.getpid(), flush=True)
os.close(1)
time.sleep(600)
"""


@pytest.mark.parametrize("by", ["argument", "folder", "environment"])
def test_a_process_that_left_its_session_and_its_parent_is_found(tmp_path: Path, by: str) -> None:
    arguments = [str(tmp_path / "state")] if by == "argument" else []
    environ = {"MARKDOWN_RAG_TEST_RUN": "this one"} if by == "environment" else {}
    started = subprocess.Popen(
        [sys.executable, "-c", DETACHED, *arguments],
        cwd=tmp_path if by == "folder" else "/",
        env=environ,
        stdout=subprocess.PIPE,
        text=True,
    )
    with bounded(started):
        said, _ = started.communicate()
    pid = int(said)
    try:
        assert [process.pid for process in left_over(tmp_path, "this one")] == [pid]
        assert left_over(tmp_path / "another", "another") == []
    finally:
        os.kill(pid, signal.SIGKILL)
    eventually(lambda: left_over(tmp_path, "this one"), lambda left: not left)


def test_a_run_that_leaves_a_process_fails_whoever_of_its_workers_started_it(tmp_path: Path) -> None:
    """A run of its own with one worker."""
    root = Path(__file__).resolve().parents[1]
    (tmp_path / "conftest.py").write_text(
        "import tests.conftest\nfrom tests.conftest import *\ntests.conftest.LEAVING_SECONDS = 0.5\n", encoding="utf-8"
    )
    (tmp_path / "test_leaving.py").write_text(
        "import subprocess, sys\n"
        f"CODE = {DETACHED!r}\n"
        "def test_it(tmp_path):\n"
        "    subprocess.run([sys.executable, '-c', CODE, str(tmp_path)], env={}, check=True,\n"
        "                   stdout=subprocess.DEVNULL)\n",
        encoding="utf-8",
    )
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-n", "1", "--rootdir", tmp_path, "--basetemp", tmp_path / "base", tmp_path],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(root)},
        capture_output=True,
        text=True,
        check=False,
    )
    for process in left_over(tmp_path / "base", ""):
        process.kill()
    assert "1 passed" in done.stdout
    assert done.returncode == pytest.ExitCode.TESTS_FAILED, done.stdout
    assert "left running after the tests" in done.stdout
