"""Processes that a test run started and that still live, however they detached themselves."""

from __future__ import annotations

import os
from pathlib import Path

import psutil

MARK = "MARKDOWN_RAG_TEST_RUN"  # in the environment of what inherits ours


def left_over(base: Path, mark: str) -> list[psutil.Process]:
    """Living processes with the mark, or at work below the run's base directory, by command line or current directory.

    Engines and services get a new environment and leave their session; what they serve stands in their command line.
    """
    ours = {os.getpid(), *(parent.pid for parent in psutil.Process().parents())}
    return [process for process in psutil.process_iter() if process.pid not in ours and _is_left(process, base, mark)]


def _is_left(process: psutil.Process, base: Path, mark: str) -> bool:
    try:
        if process.status() == psutil.STATUS_ZOMBIE:
            return False
        words = [process.cwd(), *process.cmdline()]
        below = any(f"{base}{os.sep}" in f"{word}{os.sep}" for word in words)
        return below or process.environ().get(MARK) == mark
    except psutil.Error:
        return False
