"""Which index runs go on at this moment, as far as this process can tell: a mark for every run, and what marks mean.

Rows that were never committed are remains of a run that died, or the work of one that goes on; nothing in the rows
tells which. So every generation is intended under the mark of its run, and what a living run intends is left to it.
"""

from __future__ import annotations

import contextlib
import secrets
from collections.abc import Callable, Iterator

from markdown_rag.indexing.reconcile import GRACE_NS
from markdown_rag.indexing.statcache import Intent


class Underway:
    """The runs of this process, and a way to ask about others. Thread-safe.

    process: names this one ("" if nobody else writes). is_gone: whether the process of a name is certainly dead.
    """

    def __init__(self, process: str = "", is_gone: Callable[[str], bool] = lambda _: True) -> None:
        self._process = process
        self._is_gone = is_gone
        self._marks: set[str] = set()

    @contextlib.contextmanager
    def run(self) -> Iterator[str]:
        """A mark for a run, which goes on while this is open."""
        mark = f"{secrets.token_hex(8)} {self._process}"
        self._marks.add(mark)
        try:
            yield mark
        finally:
            self._marks.discard(mark)

    def may_be_written(self, intent: Intent, now_ns: int) -> bool:
        """Whether a generation may still be on its way. Of a process that may live, for GRACE_NS."""
        process = intent.run.partition(" ")[2]
        if process == self._process:
            return intent.run in self._marks
        return now_ns - intent.gen < GRACE_NS and not self._is_gone(process)
