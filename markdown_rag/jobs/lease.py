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
HEIR_SECONDS = 60.0
MOST_ADOPTIONS = 3


class Verdict(StrEnum):
    """HOLDS: leave it. SUSPECT: extend once by GRACE_SECONDS, then look again. ABANDONED: nobody works on it."""

    HOLDS = "holds"
    SUSPECT = "suspect"
    ABANDONED = "abandoned"


class Estate(StrEnum):
    """What becomes of an abandoned job. MINE: the judge takes it over. LEFT: its heir will. ENDS: nobody will."""

    MINE = "mine"
    LEFT = "left"
    ENDS = "ends"


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


def inherit(
    *, judge_is_heir: bool, has_heirs: bool, cancelled: bool, adoptions: int, lease_until: float, now: float
) -> Estate:
    """What becomes of a job that was judged abandoned.

    A job that took MOST_ADOPTIONS owners down with it ends, and so does one whose heir has not come HEIR_SECONDS after
    its lease: until then it holds its place, and a judge of another target leaves it.
    """
    if cancelled or adoptions >= MOST_ADOPTIONS:
        return Estate.ENDS
    if judge_is_heir:
        return Estate.MINE
    waited = now - lease_until
    return Estate.LEFT if has_heirs and -2 * LEASE_SECONDS <= waited < HEIR_SECONDS else Estate.ENDS


def is_due(lease_until: float, now: float) -> bool:
    """Whether an owner should renew its lease: it has used up BEAT_SECONDS of it, or the clock was set back."""
    left = lease_until - now
    return not LEASE_SECONDS - BEAT_SECONDS <= left <= 2 * LEASE_SECONDS
