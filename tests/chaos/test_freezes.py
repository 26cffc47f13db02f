"""SIGSTOP beyond the lease, and SIGCONT: who slept finds that others have done its work, and changes nothing. Whatever
it had locked keeps nobody waiting for long.

On PostgreSQL only. A node that freezes with SQLite's write lock in its hand stops everybody else; `tests/processes`
has that case, and freezes nodes on a file at named points.
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

# With room for all of a second's runs one node takes them all, and another may wait for half a minute to get some. So
# each holds two ahead, and takes the rest as they are due; and there are enough that take a while.
ORDERS = unnamed(lease=3.0, ticks=16, deep=6, ahead=2)


@pytest.mark.parametrize("leads", [True, False], ids=["leader", "worker"])
async def test_a_node_that_slept_past_its_lease_changes_nothing(
    leads: bool, postgres_server: PostgresServer, tmp_path: Path
):
    with cluster(postgres_server.create_database(), tmp_path, ORDERS) as nodes:
        sleeper, _ = scenarios.freeze_a_node(nodes, leads=leads, calm=3, after=2)
        evidence = await nodes.evidence(nodes.settle())
        verdicts.check_all(evidence)
        assert not [said for node in nodes.nodes if node is not sleeper for said in node.of("NodeFenced")]


async def test_a_node_that_sleeps_with_gates_in_its_hand_makes_nobody_late(
    postgres_server: PostgresServer, tmp_path: Path
):
    """Between Flush and Sync, where no time-out counts but the one for transactions. It holds the gate of all jobs that
    share a limit."""
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
