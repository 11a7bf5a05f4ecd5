"""How the shell shows things: text made safe for a terminal, progress on one line or as plain lines. No decisions."""

from __future__ import annotations

import json
import os
import re
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, TextIO

from markdown_rag.amounts import amount, noun
from markdown_rag.clock import iso
from markdown_rag.oneline import DIRECTION_MARKS, one_line

PLAIN_EVERY = 2.0  # seconds between progress lines where the output is no terminal
_BAR = 24
_UNSAFE = re.compile(f"[\0-\x08\x0b-\x1f\x7f-\x9f{DIRECTION_MARKS}\ud800-\udfff]")


def safe(text: str) -> str:
    """Text that cannot colour, move, reverse or ring a terminal: control and direction marks are shown as ``�``."""
    return _UNSAFE.sub("�", text)


def say(text: str, stream: TextIO | None = None) -> None:
    """Safe text with a line end on standard output, or on the given stream."""
    stream = stream or sys.stdout
    encoding = stream.encoding or "utf-8"
    stream.write(safe(text).encode(encoding, "replace").decode(encoding) + "\n")
    stream.flush()


def say_bytes(data: bytes) -> None:
    """Exactly these bytes on standard output, which is no terminal."""
    sys.stdout.flush()
    sys.stdout.buffer.write(data)
    sys.stdout.buffer.flush()


def give_up_output() -> None:
    """What is left in the buffer has nobody to go to; written at the end, it would raise again."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def say_line(text: str, stream: TextIO | None = None) -> None:
    """One line of ours, which may repeat names that documents or a disk chose."""
    say(one_line(text), stream)


def say_json(value: Any) -> None:
    """One JSON document on standard output."""
    sys.stdout.write(json.dumps(value, ensure_ascii=True, indent=1) + "\n")
    sys.stdout.flush()


def show_outcome(status: Mapping[str, Any]) -> None:
    """How an index job ended, and what it did."""
    result = status.get("result") or {}
    if status.get("status") != "succeeded":
        say_line(f"{status.get('status')}: {status.get('error') or status.get('note') or ''}", sys.stderr)
    if not result:
        return
    counts = result.get("delta_counts", {})
    say_line(
        f"{result.get('message', '')} {counts.get('new', 0)} new, {counts.get('modified', 0)} modified, "
        f"{counts.get('deleted', 0)} deleted; {amount(result.get('insert_count', 0), 'chunk')} stored, "
        f"{amount(result.get('embedded', 0), 'text')} embedded, {result.get('cached', 0)} from the cache, "
        f"{result.get('timings_seconds', {}).get('total', 0):.1f} s."
    )
    if result.get("cost_usd"):
        sent = amount(result.get("tokens", 0), "token was", "tokens were")
        say(f"{sent} sent, about {result['cost_usd']:.4f} US dollars.")
    for problem in result.get("problems", []):
        say_line(f"  {problem['path']}: {problem['reason']}")


def show_preview(preview: Mapping[str, Any]) -> None:
    """What an index run would do."""
    if preview.get("warning"):
        say_line(preview["warning"], sys.stderr)
    for key, one, several, rest in (
        ("new", "new file", "", ""),
        ("modified", "modified file", "", ""),
        ("deleted", "deleted file", "", ""),
        ("unchanged", "unchanged file", "", ""),
        ("chunks", "chunk", "", " to write"),
        ("cached", "of their texts costs", "of their texts cost", " nothing: known already, or the same as another"),
        ("tokens_to_embed", "token", "", " to embed"),
    ):
        number = preview.get(key, 0)
        say(f"{number:>10}  {noun(number, one, several)}{rest}")
    if preview.get("cost_usd"):
        say(f"{preview['cost_usd']:>10.4f}  US dollars, about")
    for problem in preview.get("problems", []):
        say_line(f"  {problem['path']}: {problem['reason']}")


def show_service(facts: Mapping[str, Any]) -> None:
    """What a background process says of itself, each fact on a line; when it began as a person reads times."""
    for name, value in facts.items():
        say_line(f"{name}: {iso(value) if name == 'started_at' else value}")


@dataclass(frozen=True, slots=True)
class Begun:
    """What was done when somebody began to look: seconds on a clock, per cent, chunks; run: when that run began."""

    at: float
    percent: float
    chunks: int
    run: str = ""


def progress_line(status: Mapping[str, Any], begun: Begun, now: float) -> str:
    """One line about a running job: bar, files, chunks, rate, time left at the pace since begun. Pure."""
    percent, chunks = status.get("progress_percent", 0.0), status.get("processed_chunks", 0)
    files = f"{status.get('processed_files', 0):,}/{amount(status.get('total_files', 0), 'file')}"
    bar = f"[{'#' * round(percent / 100 * _BAR):<{_BAR}}]"
    line = f"{bar} {files}, {amount(chunks, 'chunk')}, {status.get('phase', '')}"
    seconds, done = now - begun.at, percent - begun.percent
    if seconds > 0 and chunks > begun.chunks and done > 0:
        rate = amount(round((chunks - begun.chunks) / seconds), "chunk")
        line += f", {rate}/s, {_duration((100 - percent) / done * seconds)} left"
    note = status.get("note") or ""
    return f"{line} ({note})" if note else line


def _duration(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes} min {rest} s" if minutes else f"{rest} s"


class ProgressDisplay:
    """Shows a job's progress on stderr: rewrites one line on a terminal, else prints a line now and then."""

    def __init__(self, stream: TextIO | None = None) -> None:
        self._stream = stream or sys.stderr
        self._live = self._stream.isatty()
        self._begun: Begun | None = None
        self._printed = 0.0
        self._width = 0

    def show(self, status: Mapping[str, Any]) -> None:
        """Show the newest figures."""
        now, run = time.monotonic(), status.get("started_at") or ""
        if self._begun and self._begun.run != run:  # another process went on with the job, and counts anew
            self._begun = None
        if self._begun is None and status.get("total_files"):
            self._begun = Begun(now, status.get("progress_percent", 0.0), status.get("processed_chunks", 0), run)
        if not self._live and now - self._printed < PLAIN_EVERY:
            return
        self._printed = now
        line = one_line(progress_line(status, self._begun or Begun(now, 0.0, 0), now))
        if self._live:
            self._stream.write("\r" + line.ljust(self._width))
            self._width = len(line)
        else:
            self._stream.write(line + "\n")
        self._stream.flush()

    def end(self) -> None:
        """Clear the line that was rewritten."""
        if self._live and self._width:
            self._stream.write("\r" + " " * self._width + "\r")
            self._stream.flush()
