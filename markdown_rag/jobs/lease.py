"""Whether a job is still in somebody's hands: a pure judgement over lease, process and time.

A job's owner renews its lease every BEAT_SECONDS. A job is abandoned when the owner's process is known to be gone, or
when the lease ran out. An owner that is seen to be there gets one extension first: after a suspend, or when the wall
clock jumped, all leases look old at once, and who wakes up second must not lose the job for that.
"""

from __future__ import annotations

from enum import StrEnum

from markdown_rag.jobs.owner import Presence

LEASE_SECONDS = 15.0
BEAT_SECONDS = 5.0
GRACE_SECONDS = 5.0


class Verdict(StrEnum):
    """HOLDS: leave it. SUSPECT: extend once by GRACE_SECONDS, then look again. ABANDONED: nobody works on it."""

    HOLDS = "holds"
    SUSPECT = "suspect"
    ABANDONED = "abandoned"


def judge(lease_until: float, suspected: bool, presence: Presence, now: float) -> Verdict:
    """The verdict on a job that is not ours. suspected: it had its extension. Times: seconds since the epoch.

    A lease that ends later than any could was stamped by a clock that has been set back since; it counts as run out.
    """
    if presence is Presence.GONE:
        return Verdict.ABANDONED
    if now <= lease_until <= now + 2 * LEASE_SECONDS:
        return Verdict.HOLDS
    if presence is Presence.PRESENT and not suspected:
        return Verdict.SUSPECT
    return Verdict.ABANDONED


def is_due(lease_until: float, now: float) -> bool:
    """Whether an owner should renew its lease: it has used up BEAT_SECONDS of it, or the clock was set back."""
    left = lease_until - now
    return not LEASE_SECONDS - BEAT_SECONDS <= left <= 2 * LEASE_SECONDS
