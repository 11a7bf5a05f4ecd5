"""Disks that fail under a process, told by the interpreter's own audit hook: code to run before what is tested."""

from __future__ import annotations

from pathlib import Path


def dead(name: str, since: Path) -> str:
    """A disk that no longer answers about files of that name once a file ``since`` exists.

    The first who asks in vain says so with a file beside it, ``asked``.
    """
    return f"""
import os, sys, threading
def hang(event, arguments):
    if event in ("open", "os.remove") and str(arguments[0]).endswith({name!r}) and os.path.exists({str(since)!r}):
        open({str(asked(since))!r}, "a").close()
        while True:
            threading.Event().wait()
sys.addaudithook(hang)
"""


def asked(since: Path) -> Path:
    """What a dead disk leaves when somebody has asked it."""
    return since.with_name(f"{since.name}-asked")
