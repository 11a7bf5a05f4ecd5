"""A readers-writer lock in which a waiting search goes before the next insert.

The embedded engine takes many readers or one writer at a time. Readers go first, so that no search queues behind an
index run; a writer that has waited longer than ``patience`` goes next all the same, so that endless searching cannot
stop an index run.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Iterator


class ReadersFirstLock:
    """Many readers or one writer. Not reentrant.

    patience: seconds after which a waiting writer goes before newly arriving readers, once.
    """

    def __init__(self, patience: float = 0.25) -> None:
        self._patience = patience
        self._changed = threading.Condition()
        self._readers = 0
        self._waiting_readers = 0
        self._writing = False
        self._waiting_writers = 0
        self._urgent = 0  # of those
        self._writers_since = 0.0  # when the waiting writers last had a turn, or began to wait

    @contextlib.contextmanager
    def read(self, within: float | None = None) -> Iterator[bool]:
        """Hold the lock together with other readers. within: seconds to wait; yields whether it is held then."""
        with self._changed:
            self._waiting_readers += 1
            try:
                held = self._changed.wait_for(lambda: not self._writing and not self._writers_turn(), within)
            finally:
                self._waiting_readers -= 1
            self._readers += held
        try:
            yield held
        finally:
            with self._changed:
                self._readers -= held
                self._changed.notify_all()

    @contextlib.contextmanager
    def write(self, *, urgent: bool = False) -> Iterator[None]:
        """Hold the lock alone. urgent: before newly arriving readers at once; who says so has waited before."""
        with self._changed:
            if not self._waiting_writers:
                self._writers_since = time.monotonic()
            self._waiting_writers += 1
            self._urgent += urgent
            try:
                while self._writing or self._readers or (self._waiting_readers and not self._writers_turn()):
                    self._changed.wait(self._patience)
            finally:
                self._waiting_writers -= 1
                self._urgent -= urgent
            self._writing = True
        try:
            yield
        finally:
            with self._changed:
                self._writing = False
                self._writers_since = time.monotonic()
                self._changed.notify_all()

    def _writers_turn(self) -> bool:
        late = self._waiting_writers > 0 and time.monotonic() - self._writers_since > self._patience
        return late or self._urgent > 0
