"""What a process leaves behind that lets go of its parts, whatever one of them does."""

from __future__ import annotations

import pytest

from markdown_rag.errors import FastRagError, StateError
from markdown_rag.settings import load_settings
from markdown_rag.wiring import Parts


class Part:
    """Something to close. error: what its close raises."""

    def __init__(self, error: Exception | None = None) -> None:
        self.error = error
        self.closed = 0

    def close(self) -> None:
        self.closed += 1
        if self.error:
            raise self.error


@pytest.mark.parametrize("error", [FastRagError("away"), RuntimeError("can't start new thread"), OSError("gone")])
def test_a_part_that_fails_to_close_keeps_no_other_open(isolated: object, error: Exception) -> None:
    parts = Parts(load_settings({"MARKDOWN_RAG_CACHE_DIR": f"{isolated}/state"}))
    first, broken, last = (
        parts.once(name, lambda e=e: Part(e)) for name, e in zip("abc", (None, error, None), strict=True)
    )
    assert parts.queue.active() == []
    parts.close()
    assert (first.closed, broken.closed, last.closed) == (1, 1, 1)
    with pytest.raises(StateError):
        parts.queue.active()
