"""When a job counts as abandoned, one line for each truth."""

from __future__ import annotations

import pytest

from markdown_rag.jobs.lease import BEAT_SECONDS, LEASE_SECONDS, is_due, judge
from markdown_rag.jobs.owner import Presence

NOW = 1_000_000.0
HOUR = 3600.0


@pytest.mark.parametrize(
    ("lease_ends_in", "suspected", "presence", "verdict"),
    [
        (10.0, False, "present", "holds"),
        (0.0, False, "present", "holds"),
        (10.0, False, "unknown", "holds"),
        (10.0, True, "present", "holds"),
        # a process that is gone needs no lease to run out
        (10.0, False, "gone", "abandoned"),
        (-1.0, False, "gone", "abandoned"),
        # elsewhere: only the lease tells
        (-0.1, False, "unknown", "abandoned"),
        # there, but late (a suspend, a clock that jumped): one extension, then no more
        (-HOUR, False, "present", "suspect"),
        (-0.1, True, "present", "abandoned"),
        # the clock was set back since
        (HOUR, False, "present", "suspect"),
        (HOUR, False, "unknown", "abandoned"),
        (HOUR, True, "present", "abandoned"),
    ],
)
def test_a_job_is_abandoned_by_liveness_alone(
    lease_ends_in: float, suspected: bool, presence: str, verdict: str
) -> None:
    assert judge(NOW + lease_ends_in, suspected, Presence(presence), NOW) == verdict


@pytest.mark.parametrize(
    ("used", "due"), [(0.0, False), (BEAT_SECONDS, False), (BEAT_SECONDS + 0.1, True), (HOUR, True), (-HOUR, True)]
)
def test_a_lease_is_renewed_long_before_it_ends(used: float, due: bool) -> None:
    assert is_due(NOW - used + LEASE_SECONDS, NOW) is due
