"""SIGSTOP beyond the lease, and SIGCONT: who slept finds that others have done its work, and changes nothing.

On PostgreSQL only. A node that freezes with SQLite's write lock in its hand stops everybody else; `tests/processes`
has that case, and freezes nodes on a file at named points.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.chaos import scenarios, verdicts
from tests.chaos.cluster import cluster, unnamed
from tests.servers.postgres import PostgresServer

pytestmark = [pytest.mark.slow, pytest.mark.timeout(180)]

ORDERS = unnamed(lease=3.0, ticks=20)


@pytest.mark.parametrize("leads", [True, False], ids=["leader", "worker"])
async def test_a_node_that_slept_past_its_lease_changes_nothing(
    leads: bool, postgres_server: PostgresServer, tmp_path: Path
):
    with cluster(postgres_server.create_database(), tmp_path, ORDERS) as nodes:
        sleeper, _ = scenarios.freeze_a_node(nodes, leads=leads, calm=3, after=2)
        evidence = await nodes.evidence(nodes.settle())
        verdicts.check_all(evidence)
        assert not [said for node in nodes.nodes if node is not sleeper for said in node.of("NodeFenced")]
