"""The routes of queues: list, pause, resume and share."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from typing import Any

import pytest

import onthedot as otd
from onthedot.access.permissions import Role
from onthedot.model.task import Noop
from tests.server.kit import Served, served

MAIL = otd.Job(name="mail", task=Noop(), queue="mail", owner="ann")


@pytest.fixture
async def there() -> AsyncGenerator[Served]:
    async with served() as server:
        await server.there.verbs().put(MAIL)
        yield server


async def test_a_queue_is_paused_shared_and_resumed(there: Served):
    operator = there.keys.add(Role.OPERATOR)
    ask = there.client
    await there.there.verbs().submit("mail")
    paused = (await ask.post("/api/v1/queues/mail/pause", json={"reason": "down"}, headers=operator)).json()
    assert (paused["paused"], paused["reason"]) == (True, "down")
    shared = (await ask.post("/api/v1/queues/mail/share", json={"weights": {"big": 3}}, headers=operator)).json()
    assert shared["weights"] == {"big": 3}
    [queue] = (await ask.get("/api/v1/queues", headers=operator)).json()["items"]
    assert (queue["queue"], queue["waiting"], queue["due"], queue["paused"]) == ("mail", 1, 1, True)
    resumed = (await ask.post("/api/v1/queues/mail/resume", headers=operator)).json()
    assert resumed["paused"] is False
    unshared = (await ask.post("/api/v1/queues/mail/share", json={"weights": None}, headers=operator)).json()
    assert unshared["weights"] is None


async def test_an_unknown_queue_is_refused_with_a_suggestion(there: Served):
    operator = there.keys.add(Role.OPERATOR)
    for change, body in (("pause", {}), ("resume", None), ("share", {"weights": {}})):
        answer = await there.client.post(f"/api/v1/queues/mial/{change}", json=body, headers=operator)
        assert answer.status_code == 404
        assert "did you mean 'mail'" in answer.json()["detail"]
    assert (await there.client.get("/api/v1/queues", headers=operator)).json()["items"] == []


@pytest.mark.parametrize("weights", [{"a": 0}, {"a": 1001}, {"a": "3"}, {"a": 1.5}, [], {"a\x00": 1}, "all"])
async def test_invalid_weights_are_refused(there: Served, weights: Any):
    operator = there.keys.add(Role.OPERATOR)
    answer = await there.client.post("/api/v1/queues/mail/share", json={"weights": weights}, headers=operator)
    assert answer.status_code == 422


async def test_a_viewer_can_only_list_queues(there: Served):
    for role in (Role.VIEWER, Role.WORKER):
        headers = there.keys.add(role)
        assert (await there.client.get("/api/v1/queues", headers=headers)).status_code == 200
        for change in ("pause", "resume", "share"):
            body: dict[str, Any] = {"weights": {}} if change == "share" else {}
            assert (
                await there.client.post(f"/api/v1/queues/mail/{change}", json=body, headers=headers)
            ).status_code == 403
