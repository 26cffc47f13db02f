"""Nodes whose clocks are five minutes wrong start runs by the store's clock: on time and never early."""

from __future__ import annotations

from pathlib import Path

import pytest

from onthedot.clock import SECOND
from tests.chaos import scenarios, verdicts
from tests.chaos.cluster import cluster, unnamed
from tests.servers.postgres import PostgresServer

pytestmark = [pytest.mark.slow, pytest.mark.timeout(180)]


async def test_wrong_clocks_make_no_run_early_or_late(postgres_server: PostgresServer, tmp_path: Path):
    with cluster(postgres_server.create_database(), tmp_path, unnamed(lease=3.0, ticks=20, ahead=6)) as nodes:
        scenarios.set_clocks_wrong(nodes, minutes=5, seconds=6)
        evidence = await nodes.evidence(nodes.settle())
        verdicts.check_all(evidence)
        starts = verdicts.ticks(evidence, evidence.began + SECOND, evidence.until)
        late = {
            node: verdicts.lateness(start for start in starts if start.node == node)
            for node in ("ahead", "behind", "right")
        }
        for node, found in late.items():
            assert found[len(found) // 2] < 0.25, f"{node}: {found[len(found) // 2]:.3f} s late in the median"
