"""Turns whose waiters share what the one before them met, and threads that the system may refuse."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future, wait
from types import TracebackType

from markdown_rag.clock import current_stop
from markdown_rag.errors import StoreUnavailable

_TICK_S = 0.2  # how late a stop is seen


class Turns:
    """A lock around work on a store: who waited while the store did not answer fails with it, not in turn after it.

    Other errors of who was waited for are not shared, nor is its success: then the next one has its turn. Waiting ends
    with Cancelled where the work it is for is stopped.
    """

    def __init__(self) -> None:
        self._guard = threading.Lock()
        self._holder: Future[StoreUnavailable | None] | None = None

    def __enter__(self) -> None:
        while (before := self._before()) is not None:
            stop = current_stop()
            while not wait([before], timeout=_TICK_S).done:
                if stop is not None:
                    stop.check()
            error = before.result()
            if error is not None:
                raise error

    @property
    def taken(self) -> bool:
        """Whether it is somebody's turn."""
        return self._holder is not None

    def _before(self) -> Future[StoreUnavailable | None] | None:
        """Whose turn it is; None where it is the caller's from now on."""
        with self._guard:
            before = self._holder
            if before is None:
                self._holder = Future()
            return before

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        with self._guard:
            holder, self._holder = self._holder, None
        if holder is not None:
            holder.set_result(error if isinstance(error, StoreUnavailable) else None)


def start_thread(work: Callable[[], None], name: str) -> None:
    """Begin work in a thread that keeps no process alive. StoreUnavailable where the system gives none."""
    try:
        threading.Thread(target=work, name=name, daemon=True).start()
    except (RuntimeError, MemoryError) as error:
        raise StoreUnavailable("The system has no thread left to ask the store with.", "End other programs.") from error
