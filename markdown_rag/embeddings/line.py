"""What all runs and queries to one provider share: its pace, what was learned of it, the threads that wait for it."""

from __future__ import annotations

import threading
from collections.abc import Callable
from queue import Empty, SimpleQueue

from markdown_rag.clock import Clock
from markdown_rag.embeddings.base import Embedder
from markdown_rag.embeddings.pace import Pace
from markdown_rag.embeddings.retry import NO_THREAD, BatchPolicy
from markdown_rag.errors import EmbeddingUnavailable

Work = Callable[[], None]
IDLE_SECONDS = 0.05  # that a thread waits for another request: those of a run follow each other at once


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
        self._changed = threading.Condition()
        self._idle: list[SimpleQueue[Work]] = []  # inboxes of threads that wait for work
        self._busy = 0  # threads

    def spawn(self, work: Work) -> None:
        """Run one request in a thread that has no other work; a daemon, so that a hung provider keeps no process alive.

        EmbeddingUnavailable where the system gives no thread: work will not be called.
        """
        with self._changed:
            inbox = self._idle.pop() if self._idle else self._begin()
            self._busy += 1
            inbox.put(work)

    def _begin(self) -> SimpleQueue[Work]:
        """The inbox of a new thread."""
        inbox: SimpleQueue[Work] = SimpleQueue()
        try:
            threading.Thread(target=self._attend, args=(inbox,), name="embedding-request", daemon=True).start()
        except (RuntimeError, MemoryError) as error:
            raise EmbeddingUnavailable("No request can be sent to the embedding provider.", NO_THREAD) from error
        return inbox

    def _attend(self, inbox: SimpleQueue[Work]) -> None:
        """One thread: the next request finds it there, since starting one takes longer than handing over."""
        while (work := self._next(inbox)) is not None:
            ended_well = False
            try:
                work()
                ended_well = True
            finally:
                with self._changed:
                    self._busy -= 1
                    if ended_well:  # else this thread ends
                        self._idle.append(inbox)
                    self._changed.notify_all()

    def _next(self, inbox: SimpleQueue[Work]) -> Work | None:
        """What is to be done next; None where nothing was for a while."""
        while True:
            try:
                return inbox.get(timeout=IDLE_SECONDS)
            except Empty:
                with self._changed:
                    if inbox in self._idle:
                        self._idle.remove(inbox)
                        return None

    def join(self, seconds: float) -> bool:
        """Wait for the requests under way; whether all of them have ended."""
        with self._changed:
            return self._changed.wait_for(lambda: not self._busy, seconds)


def _lower(wanted: int, limit: int) -> int:
    return max(1, min(wanted, limit) if limit else wanted)
