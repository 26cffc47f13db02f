"""After a node is killed, other nodes are late only briefly, and nothing is lost or done twice."""

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
BOUND = 1.0  # seconds that a start may be late after the kill, beyond the machine's own lateness before it


def bound(evidence: Evidence, until: int) -> float:
    """Return how many seconds a start may be late: BOUND plus the largest lateness before the kill."""
    return BOUND + verdicts.lateness(verdicts.ticks(evidence, evidence.began + SECOND, until - SECOND))[-1]


async def test_the_kill_of_a_planner_makes_no_run_late(store_url: str, tmp_path: Path):
    with cluster(store_url, tmp_path, ORDERS) as nodes:
        at = scenarios.kill_the_planner(nodes, calm=4, after=2 * LEASE)
        evidence = await nodes.evidence(nodes.settle())
        verdicts.check_all(evidence)
        assert verdicts.every_slot_started_exactly_once(evidence) > 100
        after = verdicts.lateness(verdicts.ticks(evidence, at, evidence.until))
        assert after[-1] <= bound(evidence, at)


async def test_others_execute_the_runs_of_a_killed_node_in_time(store_url: str, tmp_path: Path):
    with cluster(store_url, tmp_path, ORDERS) as nodes:
        killed, at = scenarios.kill_a_node(nodes, calm=4, after=LEASE + 3)
        evidence = await nodes.evidence(nodes.settle())
        verdicts.check_all(evidence)
        allowed = bound(evidence, at)
        reserved = verdicts.lateness(verdicts.ticks(evidence, at, at + 2 * SECOND))
        assert reserved[-1] <= 0.75 + allowed  # half a second until a reservation lapses, and a poll
        later = verdicts.lateness(verdicts.ticks(evidence, at + 3 * SECOND, evidence.until))
        assert later[-1] <= allowed
        again = verdicts.taken_up_again(evidence, killed.name, at)
        assert again, "expected open executions at the kill"
        assert max(again) <= LEASE + 6
