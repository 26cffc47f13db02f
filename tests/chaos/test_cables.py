"""If the network of one node of three fails, only that node is late, and nothing is lost or done twice."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.chaos import scenarios, verdicts
from tests.chaos.cluster import cluster, unnamed
from tests.chaos.proxy import Proxy
from tests.servers.postgres import PostgresServer, name_of

pytestmark = [pytest.mark.slow, pytest.mark.timeout(240)]

LEASE = 3.0
ORDERS = unnamed(lease=LEASE, ticks=20, ahead=6)  # so that each of three nodes gets some runs
LONG, SHORT = LEASE + 3, 2.0  # seconds: longer and shorter than the lease
OUTAGES: dict[str, tuple[Callable[[Proxy], None], float]] = {
    "cut": (Proxy.cut, LONG),
    "black hole": (Proxy.black_hole, LONG),
    "answers lost": (lambda proxy: proxy.one_way("server"), LONG),
    "questions lost": (lambda proxy: proxy.one_way("client"), LONG),
    "a short black hole": (Proxy.black_hole, SHORT),
    "slow": (lambda proxy: proxy.delay(0.1), LONG),
}
SHORT_FORM = {"black hole", "answers lost"}
"""The outages that `make test` runs; `make soak` runs all."""


@pytest.mark.parametrize(
    "outage", [pytest.param(name, marks=[] if name in SHORT_FORM else pytest.mark.soak) for name in OUTAGES]
)
async def test_an_outage_of_one_node_breaks_no_promise(outage: str, postgres_server: PostgresServer, tmp_path: Path):
    fault, lasts = OUTAGES[outage]
    url = postgres_server.create_database()
    with Proxy(postgres_server.port) as proxy, cluster(url, tmp_path, ORDERS) as nodes:
        through = postgres_server.url(name_of(url), port=proxy.port) + "?timeout=1"
        cabled = scenarios.break_a_cable(nodes, proxy, through, fault=fault, name=outage, calm=2, lasts=lasts)
        evidence = await nodes.evidence(nodes.settle())
        verdicts.check_all(evidence)
        assert not [said for node in nodes.nodes if node is not cabled for said in node.of("NodeFenced")]


@pytest.mark.parametrize("then", ["reset", pytest.param("silence", marks=pytest.mark.soak)])
async def test_commits_with_lost_answers_break_no_promise(then: str, postgres_server: PostgresServer, tmp_path: Path):
    url = postgres_server.create_database()

    def lose(proxy: Proxy) -> None:
        proxy.drop_reply("COMMIT", times=20, then="reset" if then == "reset" else "silence")

    with Proxy(postgres_server.port) as proxy, cluster(url, tmp_path, ORDERS) as nodes:
        through = postgres_server.url(name_of(url), port=proxy.port) + "?timeout=1"
        scenarios.break_a_cable(nodes, proxy, through, fault=lose, name="COMMIT lost", calm=2, lasts=LONG)
        evidence = await nodes.evidence(nodes.settle())
        verdicts.check_all(evidence)
        assert len(proxy.dropped) >= 5, "expected at least five lost answers"
