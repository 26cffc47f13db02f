"""A node that is frozen for longer than its lease changes nothing afterwards, and its locks block no one for long.

On PostgreSQL only. A node that freezes while it holds SQLite's write lock blocks all others; `tests/processes` tests
that, with freezes at named points.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from onthedot.clock import SECOND
from tests.chaos import scenarios, verdicts
from tests.chaos.cluster import cluster, unnamed
from tests.chaos.node import GATED
from tests.chaos.proxy import Proxy
from tests.servers.postgres import PostgresServer, name_of

pytestmark = [pytest.mark.slow, pytest.mark.timeout(180)]

# A node that may hold all runs of a second takes them all, and another one may wait half a minute for its first. So
# each node holds only two ahead. Six long jobs make sure that a frozen node has executions.
ORDERS = unnamed(lease=3.0, ticks=16, deep=6, ahead=2)


@pytest.mark.parametrize("leads", [True, False], ids=["leader", "worker"])
async def test_a_node_that_froze_past_its_lease_changes_nothing(
    leads: bool, postgres_server: PostgresServer, tmp_path: Path
):
    with cluster(postgres_server.create_database(), tmp_path, ORDERS) as nodes:
        sleeper, _ = scenarios.freeze_a_node(nodes, leads=leads, calm=3, after=2)
        evidence = await nodes.evidence(nodes.settle())
        verdicts.check_all(evidence)
        assert not [said for node in nodes.nodes if node is not sleeper for said in node.of("NodeFenced")]


async def test_a_node_that_freezes_with_locked_gates_delays_no_one_for_long(
    postgres_server: PostgresServer, tmp_path: Path
):
    """It freezes between Flush and Sync, where only the time-out for transactions helps.

    It has locked the gate of all jobs that share a limit.
    """
    url = postgres_server.create_database()
    orders = unnamed(lease=3.0, ticks=10, gated=10, deep=0, careful=0, errands=0, ahead=6)
    with Proxy(postgres_server.port) as proxy, cluster(url, tmp_path, orders) as nodes:
        through = postgres_server.url(name_of(url), port=proxy.port)
        sleeper, fault = scenarios.freeze_inside_a_statement(nodes, proxy, through, word="'earlier'", calm=2, lasts=6)
        evidence = await nodes.evidence(nodes.settle())
        verdicts.check_all(evidence)
        starts = verdicts.ticks(evidence, fault.begin + SECOND, fault.end)
        assert len([start for start in starts if start.job.startswith(GATED)]) >= 40
        assert verdicts.lateness(starts)[-1] < 4
        assert not [said for node in nodes.nodes if node is not sleeper for said in node.of("NodeFenced")]
