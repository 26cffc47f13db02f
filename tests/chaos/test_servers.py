"""If the server restarts or stops answering, nothing acknowledged is lost and all nodes reconnect."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.chaos import scenarios, verdicts
from tests.chaos.cluster import cluster, unnamed
from tests.servers.postgres import PostgresServer
from tests.servers.valkey import ValkeyServer

pytestmark = [pytest.mark.slow, pytest.mark.timeout(240)]


async def test_acknowledged_runs_survive_restarts_of_the_server(postgres_server: PostgresServer, tmp_path: Path):
    orders = unnamed(lease=6.0, ticks=20, ahead=6, errands=0.02)
    with cluster(postgres_server.create_database(), tmp_path, orders) as nodes:
        scenarios.restart_the_server(nodes, postgres_server, calm=2, times=3)
        evidence = await nodes.evidence(nodes.settle())
        verdicts.check_all(evidence)
        assert len(evidence.notes.acknowledged) > 100


async def test_nodes_survive_a_server_that_is_silent_for_longer_than_a_lease(
    postgres_server: PostgresServer, tmp_path: Path
):
    orders = unnamed(lease=3.0, ticks=20, ahead=6)
    with cluster(postgres_server.create_database() + "?timeout=1", tmp_path, orders) as nodes:
        scenarios.pause_the_server(nodes, postgres_server, calm=2, seconds=5)
        evidence = await nodes.evidence(nodes.settle())
        verdicts.check_all(evidence)


async def test_acknowledged_runs_survive_kills_of_redis(tmp_path: Path):
    """With `appendfsync always` the append-only file has every write; with `everysec` a slow disk may lose some."""
    orders = unnamed(lease=6.0, ticks=20, ahead=6, errands=0.02)
    with ValkeyServer(appendfsync="always") as server, cluster(server.url(), tmp_path, orders) as nodes:
        scenarios.restart_the_server(nodes, server, calm=2, times=3)
        evidence = await nodes.evidence(nodes.settle())
        verdicts.check_all(evidence)
        assert len(evidence.notes.acknowledged) > 100


@pytest.mark.soak
async def test_nodes_survive_a_redis_that_is_silent_for_longer_than_a_lease(
    valkey_server: ValkeyServer, tmp_path: Path
):
    orders = unnamed(lease=3.0, ticks=20, ahead=6)
    with cluster(valkey_server.url() + "?timeout=1", tmp_path, orders) as nodes:
        scenarios.pause_the_server(nodes, valkey_server, calm=2, seconds=5)
        evidence = await nodes.evidence(nodes.settle())
        verdicts.check_all(evidence)
