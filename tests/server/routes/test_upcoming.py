"""What starts next over all jobs, over HTTP: of those that the caller sees."""

from __future__ import annotations

from typing import Any

import pytest

import onthedot as otd
from onthedot.access.permissions import Role
from onthedot.model.task import Call
from onthedot.server.routes.jobs import UpcomingOut
from tests.server.kit import Served

UPCOMING = "/api/v1/upcoming"


@pytest.fixture
async def jobs(server: Served) -> None:
    """Jobs of two owners in two namespaces; one is paused, one starts every second."""
    for name, owner, namespace, every in (
        ("tick", "ann", "default", "1s"),
        ("daily", "bob", "default", "1d"),
        ("weekly", "ann", "team", "7d"),
        ("held", "bob", "default", "1d"),
    ):
        schedules = (otd.every(every),)
        task = Call(handler=name)
        verbs = server.there.verbs(namespace)
        await verbs.put(otd.Job(name=name, task=task, owner=owner, namespace=namespace, schedules=schedules))
    await server.there.verbs().pause("held")
    await server.there.verbs().submit("daily", delay="30s")


async def told(server: Served, who: dict[str, str], **query: Any) -> UpcomingOut:
    answer = await server.client.get(UPCOMING, params=query, headers=who)
    assert answer.status_code == 200, answer.text
    return UpcomingOut.model_validate(answer.json())


async def test_it_is_in_order_and_a_dense_job_is_told_once(server: Served, viewer: dict[str, str], jobs: None):
    found = await told(server, viewer, limit=4)
    assert [one.job for one in found.items[:2]] == ["tick", "daily"]
    assert (found.items[0].every_s, found.items[0].run_id) == (1.0, None)
    assert (found.items[1].run_id is not None, found.items[1].schedule) == (True, None)
    assert [one.due_at for one in found.items] == sorted(one.due_at for one in found.items)
    assert (found.paused, found.read_until, len(found.items)) == (1, None, 4)


async def test_namespaces_and_owners(server: Served, viewer: dict[str, str], jobs: None):
    assert {one.job for one in (await told(server, viewer, namespace="team")).items} == {"weekly"}
    bob = server.keys.add(Role.ADMIN, owner="bob", only_own=True)
    of_bob = await told(server, bob)
    assert ({one.job for one in of_bob.items}, of_bob.paused) == ({"daily"}, 1)
    elsewhere = server.keys.add(Role.ADMIN, namespaces=("other",))
    nothing = await told(server, elsewhere)
    assert (nothing.items, nothing.paused) == ([], 0)
    team = server.keys.add(Role.VIEWER, namespaces=("team",))
    assert {one.job for one in (await told(server, team)).items} == {"weekly"}
    assert (await told(server, team, namespace="default")).items == []


@pytest.mark.parametrize("query", [{"limit": 0}, {"limit": 1001}, {"until": "soon"}, {"until": "tomorrow"}])
async def test_what_is_wrong_is_refused(server: Served, viewer: dict[str, str], query: dict[str, Any]):
    answer = await server.client.get(UPCOMING, params=query, headers=viewer)
    assert answer.status_code in (400, 422), answer.text
