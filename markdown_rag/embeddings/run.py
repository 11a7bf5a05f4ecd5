"""One run: texts go out in batches, and come back as vectors, refusals or the error that ends it.

The caller's thread decides everything; each request runs in a daemon thread of its own and reports into one inbox, so
one slow request holds up nothing else, and a stop never waits for a request. What a request brings after its run has
ended is still handed to ``on_vectors``: it is paid for.
"""

from __future__ import annotations

import random
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from queue import Empty, SimpleQueue

from markdown_rag.clock import StopSignal
from markdown_rag.embeddings.answers import NOT_FINITE, Answer, check
from markdown_rag.embeddings.assembly import Assembly
from markdown_rag.embeddings.base import Role, Vector
from markdown_rag.embeddings.batch import Batch, BatchOutcome, Ready, Report
from markdown_rag.embeddings.line import Line
from markdown_rag.embeddings.pace import ASK_LATER, Ticket
from markdown_rag.embeddings.retry import LATER, RESUME, Action, Case, decide
from markdown_rag.errors import (
    Cancelled,
    EmbeddingError,
    EmbeddingMismatch,
    EmbeddingThrottled,
    EmbeddingUnavailable,
)
from markdown_rag.precedence import PRECEDENCE

OnVectors = Callable[[list[int], list[Vector]], None]
OnDone = Callable[[int], None]
OnTrouble = Callable[[str], None]

_PROBE = "probe"
_TICK_S = 0.1  # how often a waiting run looks whether it is to end
_DRAIN_S = 0.3  # how long a run that ends early waits for answers that are already on their way


@dataclass(slots=True, eq=False)
class Run:
    """One call of ``embed``. Only its caller's thread touches it, but for ``_deliver``."""

    line: Line
    role: Role
    stop: StopSignal
    on_done: OnDone | None
    on_vectors: OnVectors | None
    dimension: int
    texts: Assembly
    on_trouble: OnTrouble = lambda _: None
    ready: Ready = field(init=False)
    resting: list[Batch] = field(default_factory=list)
    suspects: list[tuple[Batch, EmbeddingError]] = field(default_factory=list)
    inbox: SimpleQueue[Report | None] = field(default_factory=SimpleQueue)
    lock: threading.Lock = field(default_factory=threading.Lock)
    flying: int = 0
    failures: int = 0  # reported and not looked at yet
    successes: int = 0
    progress_at: float = 0.0
    waits: bool = False
    over: bool = False

    def __post_init__(self) -> None:
        self.ready = Ready(self.texts.batches(self.line.most))

    def go(self) -> BatchOutcome:
        """Send everything; returns or raises as ``Batcher.embed`` says."""
        line = self.line
        self.progress_at = line.clock.monotonic()
        self._done(len(self.texts.refused))
        line.pace.listen(self.inbox)
        try:
            while self.ready or self.resting or self.flying:
                self._may_go_on()
                self._wait(self._launch())
        except (Cancelled, EmbeddingError) as error:
            if self.role is Role.QUERY:
                line.distrusted = isinstance(error, EmbeddingUnavailable)
            self._drain()
            raise
        finally:
            line.pace.unlisten(self.inbox)
            self._query_waits(waits=False)
        return BatchOutcome(self.texts.vectors, self.texts.refused)

    def _may_go_on(self) -> None:
        """Raise if somebody asked to stop, or if there is neither answer nor failure for longer than any patience."""
        self.stop.check()
        if self.line.closed:
            raise Cancelled("The program is shutting down.")
        if (silent := self._silent_s()) > self._bound_s():
            raise EmbeddingUnavailable(f"The embedding provider did not answer for {silent:.0f} s.", RESUME[self.role])

    def _silent_s(self) -> float:
        return self.line.clock.monotonic() - self.progress_at

    def _bound_s(self) -> float:
        policy = self.line.policy
        return self._query_patience_s() if self.role is Role.QUERY else policy.patience_s + policy.deadline_s

    def _query_patience_s(self) -> float:
        policy = self.line.policy
        return policy.distrust_s if self.line.distrusted else policy.query_patience_s

    def _launch(self) -> float:
        """Start what may start; the seconds until something else may."""
        if self.role is Role.DOCUMENT and self.ready:
            PRECEDENCE.give_way()  # before a place at the provider is taken, which the question may need
        now = self.line.clock.monotonic()
        rested = [batch for batch in self.resting if batch.not_before <= now]
        self.resting = [batch for batch in self.resting if batch.not_before > now]
        self.ready.extendleft(rested)
        while self.ready:
            if self.failures:
                return 0.0  # what failed is looked at first: it may end the run, or be the first to go again
            leave = self.line.pace.start(self.role)
            if not isinstance(leave, Ticket):
                return self._hold(leave)
            batch = self._fitting(self.ready.popleft())
            batch.attempts, self.flying = batch.attempts + 1, self.flying + 1
            try:
                self.line.spawn(partial(self._send, batch, leave))
            except EmbeddingUnavailable as failure:
                batch.attempts -= 1  # it was not sent: nothing speaks against its texts
                self._deliver(Report(batch, failure))
                self.line.pace.end(leave)
        self._query_waits(waits=False)
        return min((batch.not_before - now for batch in self.resting), default=ASK_LATER)

    def _hold(self, seconds: float) -> float:
        """No place now; a pause that is longer than this run may wait ends it at once."""
        self._query_waits(waits=True)
        if seconds != ASK_LATER and self._silent_s() + seconds > self._bound_s():
            raise EmbeddingUnavailable(
                f"The embedding provider asks for a pause of {seconds:.0f} s.", LATER[self.role], retry_after=seconds
            )
        return seconds

    def _fitting(self, batch: Batch) -> Batch:
        """The batch, cut to the size that the provider is known to take; the rest stays ready."""
        most = self.line.most
        if len(batch.pieces) <= most:
            return batch
        self.ready.appendleft(Batch(batch.pieces[most:], batch.split))
        return Batch(batch.pieces[:most], batch.split)

    def _send(self, batch: Batch, ticket: Ticket) -> None:
        """In the request's own thread: ask, judge, report."""
        pace = self.line.pace
        texts = [self.texts.pieces[piece] for piece in batch.pieces] or [_PROBE]
        result: Answer | EmbeddingError = EmbeddingMismatch("The provider's library failed in a way it never should.")
        try:
            rows, chosen = self.line.embedder.embed(texts, self.role), bool(self.line.embedder.card.dimension)
            result = check(rows, len(texts), self.dimension, chosen=chosen)
            pace.speed_up()
        except EmbeddingUnavailable as error:
            if isinstance(error, EmbeddingThrottled) or error.retry_after is not None:
                pace.slow_down(ticket, error.retry_after)
            result = error
        except EmbeddingError as error:
            result = error
        finally:
            # In this order: a failure that ends the run is known before its place sends another request.
            self._deliver(Report(batch, result))
            pace.end(ticket)

    def _deliver(self, report: Report) -> None:
        with self.lock:
            if not self.over:
                self.failures += not isinstance(report.result, Answer)
                self.inbox.put(report)
            elif isinstance(report.result, Answer):
                self._take(report.batch, report.result)

    def _wait(self, seconds: float) -> None:
        """Until a request reports, a place may be free, time has passed or somebody stops."""
        if not self.flying and seconds != ASK_LATER:
            self.line.clock.wait(self.stop.event, min(_TICK_S, seconds))
            return
        try:
            report = self.inbox.get(timeout=min(_TICK_S, max(0.001, seconds)))
        except Empty:
            return
        if report is not None:
            self._settle(report)

    def _drain(self) -> None:
        """Take what has arrived or is about to; from then on requests deliver by themselves."""
        end = self.line.clock.monotonic() + _DRAIN_S
        while self.flying and (left := end - self.line.clock.monotonic()) > 0:
            try:
                report = self.inbox.get(timeout=left)
            except Empty:
                break
            self._keep(report)
        with self.lock:
            self.over = True
            self.on_done = None
            while not self.inbox.empty():
                self._keep(self.inbox.get())

    def _keep(self, report: Report | None) -> None:
        if report is not None:
            self.flying -= 1
            if isinstance(report.result, Answer):
                self._take(report.batch, report.result)

    def _settle(self, report: Report) -> None:
        self.flying -= 1
        if isinstance(report.result, Answer):
            self.line.proved = True
            self.line.distrusted = False
            self.progress_at = self.line.clock.monotonic()
            self.successes += 1
            self.on_trouble("")
            self.dimension = self.dimension or report.result.vectors.shape[1]
            try:
                self._launch()  # its place is free: what it brought is handed over while the next one is under way
            finally:
                self._take(report.batch, report.result)
            self._judge_suspects()
        else:
            with self.lock:
                self.failures -= 1
            self._failed(report.batch, report.result)

    def _take(self, batch: Batch, answer: Answer) -> None:
        """Hand over the vectors of a batch; rows that are no vectors refuse their texts."""
        good = [row for row, usable in enumerate(answer.usable) if usable and batch.pieces]
        complete = self.texts.add([batch.pieces[row] for row in good], [answer.vectors[row] for row in good])
        if complete and self.on_vectors:
            self.on_vectors(complete, [v for i in complete if (v := self.texts.vectors[i]) is not None])
        bad = [piece for piece, usable in zip(batch.pieces, answer.usable, strict=False) if not usable]
        self._learn(batch, embedded=True)
        self._done(len(complete) + sum(self.texts.refuse(piece, NOT_FINITE) for piece in bad))

    def _failed(self, batch: Batch, failure: EmbeddingError) -> None:
        if not batch.pieces and not self.suspects:
            return  # a probe that was overtaken by a real answer
        now = self.line.clock.monotonic()
        decision = decide(failure, self._case(batch, now), self.line.policy)
        batch.seen = self.successes
        if isinstance(failure, EmbeddingUnavailable):
            self.on_trouble(failure.message)
        if decision.action is Action.RETRY:
            batch.not_before = now + decision.wait_s
            self.resting.append(batch)
        elif decision.action is Action.PROBE:
            self.suspects.append((batch, failure))
            if len(self.suspects) == 1:
                self.ready.appendleft(Batch([]))
        elif decision.action is Action.HALVE:
            self.ready.extendleft(reversed(batch.halves()))
        elif decision.action is Action.REFUSE:
            self._learn(batch, embedded=False)
            self._done(self.texts.refuse(batch.pieces[0], failure.message))
        else:
            raise failure

    def _case(self, batch: Batch, now: float) -> Case:
        policy = self.line.policy
        patience = policy.patience_s if self.line.proved else policy.first_patience_s
        return Case(
            texts=len(batch.pieces),
            attempts=batch.attempts,
            idle_s=now - self.progress_at,
            patience_s=self._query_patience_s() if self.role is Role.QUERY else patience,
            proved=self.line.proved,
            others_work=self.successes > batch.seen,
            chance=random.random(),  # noqa: S311  jitter, no secret
        )

    def _judge_suspects(self) -> None:
        """The provider works: what it refused was refused for its texts, what it broke on gets one more chance."""
        suspects, self.suspects = self.suspects, []
        for batch, failure in suspects:
            if isinstance(failure, EmbeddingUnavailable):
                batch.attempts -= 1
                self.ready.append(batch)
            else:
                self._failed(batch, failure)

    def _learn(self, batch: Batch, *, embedded: bool) -> None:
        learned = batch.split.settle(len(batch.pieces), embedded=embedded) if batch.split else 0
        if learned:
            self.line.most = min(self.line.most, learned)

    def _query_waits(self, *, waits: bool) -> None:
        """Tell the pace, once each time, that this query waits or no longer does."""
        if self.role is Role.QUERY and waits is not self.waits:
            self.waits = waits
            self.line.pace.query_waits(1 if waits else -1)

    def _done(self, texts: int) -> None:
        if texts and self.on_done:
            self.on_done(texts)
