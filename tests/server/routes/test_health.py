"""The route of metrics: it reports the cluster and this node, to callers that may see all of it."""

from __future__ import annotations

import pytest

from onthedot.access.permissions import Permission, Role
from onthedot.clock import SECOND
from onthedot.model.events import DrainBegun
from onthedot.observe.counters import Counters
from onthedot.stores.values import Node
from tests.observe.sample_events import started
from tests.server.kit import served


async def test_metrics_report_the_cluster_and_this_node():
    counters = Counters()
    counters(started())
    async with served(counters=counters) as there:
        await there.there.store.register(Node("web-1", "web-1-1", seats=4), ttl=15 * SECOND)
        viewer = there.keys.add(Role.VIEWER)
        answer = await there.client.get("/metrics", headers=viewer)
        assert answer.headers["content-type"].startswith("text/plain; version=0.0.4")
        assert 'onthedot_nodes{state="living"} 1.0' in answer.text
        assert 'onthedot_node_seats{node="web-1"} 4.0' in answer.text
        assert 'onthedot_attempts_started_total{job_name="import",job_namespace="default"} 1.0' in answer.text
        accept = {"Accept": "application/openmetrics-text;version=1.0.0"}
        assert (await there.client.get("/metrics", headers={**viewer, **accept})).text.endswith("# EOF\n")


async def test_a_server_without_a_node_reports_the_cluster():
    async with served() as there:
        text = (await there.client.get("/metrics", headers=there.keys.add(Role.VIEWER))).text
    assert "onthedot_shards 1.0" in text
    assert "onthedot_attempts" not in text


async def test_a_key_can_be_limited_to_metrics():
    async with served() as there:
        probe = there.keys.add(Role.VIEWER, scopes=(Permission.METRICS_READ,))
        assert (await there.client.get("/metrics", headers=probe)).status_code == 200
        assert (await there.client.get("/api/v1/jobs", headers=probe)).status_code == 403


@pytest.mark.parametrize("narrow", [{"namespaces": ("team",)}, {"owner": "ann", "only_own": True}])
async def test_a_caller_with_limited_visibility_gets_no_metrics(narrow):
    async with served() as there:
        answer = await there.client.get("/metrics", headers=there.keys.add(Role.VIEWER, **narrow))
    assert answer.status_code == 403
    assert answer.json()["detail"].startswith("metrics: expected a key for all namespaces and owners")


async def test_metrics_are_compressed_if_the_client_accepts_it():
    async with served() as there:
        viewer = there.keys.add(Role.VIEWER)
        plain = await there.client.get("/metrics", headers={**viewer, "Accept-Encoding": "gzip;q=0, identity"})
        small = await there.client.get("/metrics", headers={**viewer, "Accept-Encoding": "gzip"})
    assert ("content-encoding" in plain.headers, plain.headers["vary"]) == (False, "Accept-Encoding")
    assert (small.headers["content-encoding"], small.headers["vary"]) == ("gzip", "Accept-Encoding")
    assert int(small.headers["content-length"]) < int(plain.headers["content-length"]) / 2
    assert small.text == plain.text


async def test_a_server_that_stops_is_not_ready():
    """So that a load balancer sends its requests elsewhere, while this one waits for attempts."""
    counters = Counters()
    async with served(counters=counters) as there:
        assert (await there.client.get("/api/v1/ready")).status_code == 200
        counters(DrainBegun(1, (7,)))
        answer = await there.client.get("/api/v1/ready")
        assert (answer.status_code, answer.json()["type"].rpartition("/")[2]) == (503, "draining")
        assert (await there.client.get("/api/v1/health")).status_code == 200
        assert (await there.client.get("/api/v1/jobs", headers=there.keys.add(Role.VIEWER))).status_code == 200


async def test_a_server_without_a_node_of_its_own_is_ready():
    async with served() as there:
        assert (await there.client.get("/api/v1/ready")).status_code == 200
