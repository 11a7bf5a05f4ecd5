"""What to do about a request that failed: one pure decision, the same for every provider.

Never again: a wrong key, and a refusal (400, 404, 413, 422), whose texts are found by halving instead. Again, after a
growing wait: no answer, 5xx, 429. For how long is a question of progress, not of attempts: a run gives up when
*nothing* has succeeded for its patience. A text on which a working provider keeps failing is left out, not waited for.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum, auto

from markdown_rag.embeddings.base import Role
from markdown_rag.errors import (
    EmbeddingError,
    EmbeddingMismatch,
    EmbeddingRefused,
    EmbeddingThrottled,
    EmbeddingUnavailable,
)

_KEPT = "what was embedded is kept and the next run goes on from there."
# What to do, by who waits: a question keeps nothing, and no run goes on from it.
RESUME = {
    Role.DOCUMENT: f"Check that it is reachable; {_KEPT}",
    Role.QUERY: "Check that it is reachable, then ask again.",
}
LATER = {
    Role.DOCUMENT: "It works and asks for fewer requests: try again after that, or lower EMBEDDING_CONCURRENT_BATCHES "
    f"and raise EMBEDDING_BATCH_DELAY_MS; {_KEPT}",
    Role.QUERY: "It works and asks for fewer requests: ask again after that; if it says so often, lower "
    "EMBEDDING_CONCURRENT_BATCHES.",
}
NO_THREAD = "The system lets this process start no further thread; end what uses so many, then ask again."


@dataclass(frozen=True, slots=True)
class BatchPolicy:
    """How texts are sent. Seconds throughout.

    items: texts a request. concurrent: requests at once. delay_s: rest of a place after its request. attempts:
    failures of one batch, while the provider works, before its texts are tried in halves. backoff_s doubles up to
    backoff_most_s. patience_s: without any success before a run gives up; first_patience_s: the same as long as the
    provider has never answered; query_patience_s: the whole time a query may take; distrust_s: the same after a query
    that waited in vain, until the provider answers again, so that only one search waits for a provider that is down.
    deadline_s: added to the patience of a run that sees neither answers nor failures (the library's own timeout comes
    first; an answer that only trickles in has none).
    """

    items: int = 250
    concurrent: int = 4
    delay_s: float = 0.0
    attempts: int = 5
    backoff_s: float = 0.5
    backoff_most_s: float = 30.0
    patience_s: float = 120.0
    first_patience_s: float = 15.0
    query_patience_s: float = 8.0
    distrust_s: float = 1.0
    deadline_s: float = 75.0


class Action(Enum):
    """What becomes of a failed batch."""

    RETRY = auto()
    HALVE = auto()
    REFUSE = auto()
    PROBE = auto()
    GIVE_UP = auto()


@dataclass(frozen=True, slots=True)
class Decision:
    """wait_s: how long the batch rests before RETRY."""

    action: Action
    wait_s: float = 0.0


@dataclass(frozen=True, slots=True)
class Case:
    """The facts of a failure.

    texts: in the batch; 0 is a probe. attempts: times it was sent, this one included. idle_s: since the run's last
    success (or its start). patience_s: what idle_s may come to. proved: the provider has answered this process before.
    others_work: something else succeeded since this batch failed before. chance: uniform in [0, 1), for jitter.
    """

    texts: int
    attempts: int
    idle_s: float
    patience_s: float
    proved: bool
    others_work: bool
    chance: float


def decide(failure: EmbeddingError, case: Case, policy: BatchPolicy) -> Decision:
    """The decision for a failure in its case."""
    if isinstance(failure, EmbeddingRefused):
        if not case.texts:
            return Decision(Action.GIVE_UP)
        # A refusal before any success may be about the model or a parameter: one probe tells, not a request a text.
        return _isolate(case) if case.proved else Decision(Action.PROBE)
    if isinstance(failure, EmbeddingMismatch):
        return Decision(Action.RETRY if case.attempts == 1 else Action.GIVE_UP)
    if isinstance(failure, EmbeddingUnavailable):
        return _unavailable(failure, case, policy)
    return Decision(Action.GIVE_UP)


def _unavailable(failure: EmbeddingUnavailable, case: Case, policy: BatchPolicy) -> Decision:
    wait = max(failure.retry_after or 0.0, backoff(case.attempts, case.chance, policy))
    if case.idle_s + wait > case.patience_s:
        return Decision(Action.GIVE_UP)
    if isinstance(failure, EmbeddingThrottled):
        return Decision(Action.RETRY)  # the pace makes everybody wait, this batch among them
    if case.texts and case.attempts >= policy.attempts:
        # Its texts, or the provider? A probe tells where nothing else has.
        return _isolate(case) if case.others_work else Decision(Action.PROBE)
    return Decision(Action.RETRY, wait)


def _isolate(case: Case) -> Decision:
    return Decision(Action.REFUSE if case.texts == 1 else Action.HALVE)


def backoff(attempts: int, chance: float, policy: BatchPolicy) -> float:
    """Seconds to wait after so many failures: doubling, capped, half of it jittered."""
    full = min(policy.backoff_most_s, policy.backoff_s * 2.0 ** min(attempts - 1, 16))
    return full * (0.5 + 0.5 * chance)
