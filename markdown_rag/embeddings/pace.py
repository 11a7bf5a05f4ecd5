"""How many requests may be under way: one pace for every run and every query of one provider.

Additive increase, multiplicative decrease: "too many requests" lowers the limit once for all that were under way then,
answers raise it, by a place each up to near where it was too much, from there by a place a round (as TCP does after a
loss). A Retry-After stops everybody until it has passed, for PAUSE_MOST_S at most: all runs and queries of a process
share it, so a wrong one must not outlast the fault, and the next request asks again. Queries never wait for documents:
they have one place more, and documents stay back while a query waits.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass
from queue import SimpleQueue
from typing import Any

from markdown_rag.clock import Clock
from markdown_rag.embeddings.base import Role

ASK_LATER = float("inf")
_PAUSE_FIRST_S = 0.05  # twice as long each time, half as long with each answer
_OWN_PAUSE_MOST_S = 30.0
PAUSE_MOST_S = 300.0  # however long a provider asks for
_DECREASE = 0.7


@dataclass(frozen=True, slots=True)
class Ticket:
    """Leave to send one request. started: monotonic seconds."""

    role: Role
    started: float


class Pace:
    """The places of one provider. Thread-safe; nothing in here blocks.

    concurrent: requests at once when all is well. delay_s: how long a document's place rests after its request.
    """

    def __init__(self, concurrent: int, delay_s: float, clock: Clock) -> None:
        self._most = max(1, concurrent)
        self._limit = float(self._most)
        self._knee = 0.0  # where it was too much, lowered
        self._delay_s = delay_s
        self._clock = clock
        self._lock = threading.Lock()
        self._under_way = {Role.DOCUMENT: 0, Role.QUERY: 0}
        self._resting: list[float] = []
        self._queries_waiting = 0
        self._paused_until = 0.0
        self._slowed_at = -1.0
        self._throttles = 0
        self._listeners: set[SimpleQueue[Any]] = set()

    @property
    def limit(self) -> float:
        """Requests that may be under way now."""
        with self._lock:
            return self._limit

    def start(self, role: Role) -> Ticket | float:
        """A ticket, or the seconds until asking again makes sense (ASK_LATER: when some request has ended)."""
        with self._lock:
            now = self._clock.monotonic()
            wait = self._wait(role, now)
            if wait > 0:
                return wait
            self._under_way[role] += 1
            return Ticket(role, now)

    def _wait(self, role: Role, now: float) -> float:
        if now < self._paused_until:
            return self._paused_until - now
        busy = self._under_way[Role.DOCUMENT] + self._under_way[Role.QUERY]
        if role is Role.QUERY:
            return 0.0 if busy < int(self._limit) + 1 else ASK_LATER
        if self._queries_waiting:
            return ASK_LATER
        self._resting = [until for until in self._resting if until > now]
        if busy + len(self._resting) < int(self._limit):
            return 0.0
        return min(self._resting) - now if self._resting else ASK_LATER

    def end(self, ticket: Ticket) -> None:
        """The request has ended, however."""
        with self._lock:
            self._under_way[ticket.role] -= 1
            if self._delay_s and ticket.role is Role.DOCUMENT:
                self._resting.append(self._clock.monotonic() + self._delay_s)
            self._wake()

    def speed_up(self) -> None:
        """A request was answered: a place more below the knee, else one place more after a round of answers."""
        with self._lock:
            self._throttles = max(0, self._throttles - 1)
            step = 1.0 if self._limit + 1.0 <= self._knee else 1.0 / self._limit
            self._limit = min(float(self._most), self._limit + step)
            self._wake()

    def slow_down(self, ticket: Ticket, retry_after: float | None) -> None:
        """The provider asked for fewer requests: send fewer, and pause for what it named or for a growing while."""
        with self._lock:
            now = self._clock.monotonic()
            if ticket.started > self._slowed_at:
                self._knee = self._limit * _DECREASE
                self._limit = max(1.0, self._limit / 2)
                self._slowed_at = now
                self._throttles += 1
            own = min(_OWN_PAUSE_MOST_S, _PAUSE_FIRST_S * 2 ** min(max(0, self._throttles - 1), 16))
            asked = own if retry_after is None or not retry_after >= 0.0 else min(retry_after, PAUSE_MOST_S)
            self._paused_until = max(self._paused_until, now + asked)

    def query_waits(self, change: int) -> None:
        """A query begins (+1) or ends (-1) to wait: documents stay back meanwhile."""
        with self._lock:
            self._queries_waiting += change
            self._wake()

    def listen(self, inbox: SimpleQueue[Any]) -> None:
        """Put None into the inbox whenever a place may have become free."""
        with self._lock:
            self._listeners.add(inbox)

    def unlisten(self, inbox: SimpleQueue[Any]) -> None:
        """Stop doing so."""
        with self._lock:
            self._listeners.discard(inbox)

    def _wake(self) -> None:
        for inbox in self._listeners:
            inbox.put(None)
