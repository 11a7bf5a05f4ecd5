"""What all runs and queries to one provider share: its pace, what was learned of it, the threads that wait for it."""

from __future__ import annotations

import threading
from collections.abc import Callable

from markdown_rag.clock import Clock
from markdown_rag.embeddings.base import Embedder
from markdown_rag.embeddings.pace import Pace
from markdown_rag.embeddings.retry import NO_THREAD, BatchPolicy
from markdown_rag.errors import EmbeddingUnavailable


class Line:
    """The line to one provider. Thread-safe.

    proved: it has answered before. distrusted: the last query waited in vain. most: texts a request, as chosen, as
    documented or as learned. closed: nothing more is sent, and every run ends.
    """

    def __init__(self, embedder: Embedder, policy: BatchPolicy, clock: Clock) -> None:
        self.embedder = embedder
        self.policy = policy
        self.clock = clock
        self.pace = Pace(_lower(policy.concurrent, embedder.limits.concurrent), policy.delay_s, clock)
        self.most = _lower(policy.items, embedder.limits.items)
        self.proved = False
        self.distrusted = False
        self.closed = False
        self._threads: set[threading.Thread] = set()
        self._lock = threading.Lock()

    def spawn(self, work: Callable[[], None]) -> None:
        """Run one request in a thread of its own; a daemon, so that a hung provider never keeps a process alive.

        EmbeddingUnavailable where the system gives no thread: work will not be called.
        """

        def tracked() -> None:
            try:
                work()
            finally:
                with self._lock:
                    self._threads.discard(threading.current_thread())

        thread = threading.Thread(target=tracked, name="embedding-request", daemon=True)
        with self._lock:  # tracked waits for it, so what is in the set has started and has not ended
            try:
                thread.start()
            except (RuntimeError, MemoryError) as error:
                raise EmbeddingUnavailable("No request can be sent to the embedding provider.", NO_THREAD) from error
            self._threads.add(thread)

    def join(self, seconds: float) -> bool:
        """Wait for the requests under way; whether all of them have ended."""
        end = self.clock.monotonic() + seconds
        with self._lock:
            threads = list(self._threads)
        for thread in threads:
            thread.join(max(0.0, end - self.clock.monotonic()))
        return not any(thread.is_alive() for thread in threads)


def _lower(wanted: int, limit: int) -> int:
    return max(1, min(wanted, limit) if limit else wanted)
