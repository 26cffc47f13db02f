"""kill -9: nobody else is late for long, and nothing is lost or done twice."""

from __future__ import annotations

from pathlib import Path

import pytest

from onthedot.clock import SECOND
from tests.chaos import scenarios, verdicts
from tests.chaos.cluster import cluster, unnamed
from tests.chaos.evidence import Evidence

pytestmark = [pytest.mark.slow, pytest.mark.timeout(180)]

LEASE = 3.0
ORDERS = unnamed(lease=LEASE, ticks=20)
BOUND = 1.0  # seconds that a start may be late in the storm; a busy machine's own, in the calm before, is added


def bound(evidence: Evidence, until: int) -> float:
    """What a start may be late by, given how late the worst one was in the calm before."""
    return BOUND + verdicts.lateness(verdicts.ticks(evidence, evidence.began + SECOND, until - SECOND))[-1]


async def test_a_planner_that_is_killed_makes_nobody_late(store_url: str, tmp_path: Path):
    with cluster(store_url, tmp_path, ORDERS) as nodes:
        at = scenarios.kill_the_planner(nodes, calm=4, after=2 * LEASE)
        evidence = await nodes.evidence(nodes.settle())
        verdicts.check_all(evidence)
        assert verdicts.every_slot_started_exactly_once(evidence) > 100
        after = verdicts.lateness(verdicts.ticks(evidence, at, evidence.until))
        assert after[-1] <= bound(evidence, at)


async def test_what_a_killed_node_had_is_done_by_others_in_time(store_url: str, tmp_path: Path):
    with cluster(store_url, tmp_path, ORDERS) as nodes:
        killed, at = scenarios.kill_a_node(nodes, calm=4, after=LEASE + 3)
        evidence = await nodes.evidence(nodes.settle())
        verdicts.check_all(evidence)
        allowed = bound(evidence, at)
        reserved = verdicts.lateness(verdicts.ticks(evidence, at, at + 2 * SECOND))
        assert reserved[-1] <= 0.75 + allowed  # half a second until a reservation lapses, and a look for what is free
        later = verdicts.lateness(verdicts.ticks(evidence, at + 3 * SECOND, evidence.until))
        assert later[-1] <= allowed
        again = verdicts.taken_up_again(evidence, killed.name, at)
        assert again, "it was not executing anything when it was killed"
        assert max(again) <= LEASE + 6
