"""The routes of nodes, terms and shards: they list them, drain nodes, and change the number of shards."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from typing import Any

import pytest

import onthedot as otd
from onthedot.access.permissions import Role
from onthedot.clock import SECOND
from onthedot.model.task import Noop
from onthedot.stores.values import Node
from tests.server.kit import Served, served

MAIL = otd.Job(name="mail", task=Noop(), queue="mail", owner="ann")


@pytest.fixture
async def there() -> AsyncGenerator[Served]:
    async with served() as server:
        await server.there.verbs().put(MAIL)
        yield server


async def register(there: Served, name: str, **more: Any) -> None:
    node = Node(name, f"{name}-1", host="here", queues=("default",), seats=4, **more)
    await there.there.store.register(node, ttl=15 * SECOND)


# ── nodes ────────────────────────────────────────────────────────────────────────────────────────────────────────


async def test_nodes_are_listed_with_state_and_leader(there: Served):
    for name in ("web-1", "web-2"):
        await register(there, name)
    await there.there.store.campaign("web-1-1", ttl=10 * SECOND)
    await there.there.store.leave("web-2-1")
    worker = there.keys.add(Role.WORKER)
    nodes = {one["node_id"]: one for one in (await there.client.get("/api/v1/nodes", headers=worker)).json()["items"]}
    assert {name: (one["state"], one["leads"], one["shards"]) for name, one in nodes.items()} == {
        "web-1": ("living", True, [0]),
        "web-2": ("left", False, []),
    }
    terms = (await there.client.get("/api/v1/terms", headers=worker)).json()
    assert terms["layout"] == {"version": 1, "shards": 1}
    assert [(term["shard"], term["node_id"], term["current"]) for term in terms["items"]] == [(0, "web-1", True)]


async def test_a_drain_can_be_started_and_ended(there: Served):
    admin = there.keys.add(Role.ADMIN)
    await register(there, "web-1")
    drained = await there.client.post("/api/v1/nodes/web-1/drain", json={}, headers=admin)
    assert drained.json() == {"node_id": "web-1", "draining": True, "incarnations": 1}
    [node] = (await there.client.get("/api/v1/nodes", headers=admin)).json()["items"]
    assert node["state"] == "draining"
    await there.client.post("/api/v1/nodes/web-1/drain", json={"draining": False}, headers=admin)
    [node] = (await there.client.get("/api/v1/nodes", headers=admin)).json()["items"]
    assert node["state"] == "living"
    missing = await there.client.post("/api/v1/nodes/web-2/drain", json={}, headers=admin)
    assert missing.status_code == 404
    assert "did you mean 'web-1'" in missing.json()["detail"]


async def test_a_change_of_shards_needs_the_current_version(there: Served):
    admin = there.keys.add(Role.ADMIN)
    ask = there.client
    assert (await ask.put("/api/v1/shards", json={"shards": 4, "version": 1}, headers=admin)).json() == {
        "version": 2,
        "shards": 4,
    }
    stale = await ask.put("/api/v1/shards", json={"shards": 8, "version": 1}, headers=admin)
    assert stale.status_code == 409
    for shards in (0, 65, "4", None):
        assert (await ask.put("/api/v1/shards", json={"shards": shards}, headers=admin)).status_code == 422
    assert (await ask.get("/api/v1/terms", headers=admin)).json()["layout"] == {"version": 2, "shards": 4}


@pytest.mark.parametrize("role", [Role.VIEWER, Role.OPERATOR, Role.EDITOR, Role.WORKER])
async def test_only_an_admin_changes_the_cluster(there: Served, role: Role):
    headers = there.keys.add(role)
    await register(there, "web-1")
    assert (await there.client.post("/api/v1/nodes/web-1/drain", json={}, headers=headers)).status_code == 403
    assert (await there.client.put("/api/v1/shards", json={"shards": 2}, headers=headers)).status_code == 403


@pytest.mark.parametrize("whose", [{"namespaces": ("default",)}, {"owner": "ann", "only_own": True}])
async def test_shared_objects_are_not_changed_by_a_restricted_administrator(there: Served, whose: dict[str, Any]):
    await register(there, "web-1")
    await there.there.store.share_queue("mail", {"tenant-x": 3})
    admin = there.keys.add(Role.ADMIN, **whose)
    ask = there.client
    for answer in (
        await ask.post("/api/v1/queues/mail/pause", json={}, headers=admin),
        await ask.post("/api/v1/nodes/web-1/drain", json={}, headers=admin),
        await ask.put("/api/v1/shards", json={"shards": 2}, headers=admin),
    ):
        assert answer.status_code == 403
        assert "all namespaces" in answer.json()["detail"]
    assert "tenant-x" not in (await ask.get("/api/v1/queues", headers=admin)).text
    assert (await ask.get("/api/v1/nodes", headers=admin)).status_code == 200
