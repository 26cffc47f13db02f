"""Slots that did not run, over HTTP: told to those whose they are."""

from __future__ import annotations

from typing import Any

import pytest

import onthedot as otd
from onthedot.access.permissions import Role
from onthedot.model.task import Call
from onthedot.observe.formats import iso
from onthedot.server.routes.skips import LeftOutList
from onthedot.stores.queries import RunCursor, SkipCursor, SkipFilter, SkipPage, encode_cursor
from tests.server.kit import Served

SKIPS = "/api/v1/skips"


async def skipped(server: Served, name: str, owner: str = "ann", namespace: str = "default") -> None:
    """A job of whose slots one is left out, and has no run."""
    verbs = server.there.verbs(namespace)
    task, schedules = Call(handler=name), (otd.gap("1h", id="hourly"),)
    await verbs.put(otd.Job(name=name, task=task, owner=owner, namespace=namespace, schedules=schedules))
    await verbs.pause(name)
    await verbs.skip_next(name)


async def told(server: Served, who: dict[str, str], **query: Any) -> list[str]:
    answer = await server.client.get(SKIPS, params=query, headers=who)
    assert answer.status_code == 200, answer.text
    return [f"{one.namespace}/{one.job}" for one in LeftOutList.model_validate(answer.json()).items]


async def test_why_a_slot_did_not_run(server: Served, viewer: dict[str, str]):
    await skipped(server, "poll")
    [one] = (await server.client.get(SKIPS, headers=viewer)).json()["items"]
    assert (one["job"], one["namespace"], one["schedule"]) == ("poll", "default", "hourly")
    assert (one["count"], one["reason"], one["first"] == one["last"]) == (1, "cancelled", True)
    [record] = await server.there.verbs().list_skips()
    assert (one["first"], one["recorded_at"]) == (iso(record.first), iso(record.recorded_at))


async def test_they_are_those_of_a_job_and_of_a_namespace(server: Served, viewer: dict[str, str]):
    await skipped(server, "poll")
    await skipped(server, "sweep")
    await skipped(server, "far", namespace="team")
    assert await told(server, viewer) == ["default/sweep", "default/poll"]
    assert await told(server, viewer, limit=1) == ["default/sweep"]
    assert await told(server, viewer, job="poll") == ["default/poll"]
    assert await told(server, viewer, job="nobody") == []
    assert await told(server, viewer, namespace="team") == ["team/far"]


async def test_the_older_ones_are_on_the_next_page(server: Served, viewer: dict[str, str]):
    for name in ("poll", "sweep", "tick"):
        await skipped(server, name)
    found: list[str] = []
    query: dict[str, str] | None = {"limit": "2"}
    while query is not None:
        page = (await server.client.get(SKIPS, params=query, headers=viewer)).json()
        found += [one["job"] for one in page["items"]]
        query = None if page["next"] is None else {"limit": "2", "after": page["next"]}
    assert found == ["tick", "sweep", "poll"]
    for wrong in ("x", "999999998", encode_cursor(RunCursor(True, 1, 1))):
        assert (await server.client.get(SKIPS, params={"after": wrong}, headers=viewer)).status_code == 422


async def test_what_is_skipped_meanwhile_moves_no_page(server: Served, viewer: dict[str, str]):
    for name in ("poll", "sweep", "tick"):
        await skipped(server, name)
    page = (await server.client.get(SKIPS, params={"limit": "2"}, headers=viewer)).json()
    await skipped(server, "late")
    assert [one["job"] for one in page["items"]] == ["tick", "sweep"]
    assert await told(server, viewer, limit=2, after=page["next"]) == ["default/poll"]


async def test_a_page_is_one_question_to_the_store(server: Served, monkeypatch: pytest.MonkeyPatch):
    """Also for a caller that sees its own jobs only: no job is read, and no more ranges than a page has."""
    for number in range(20):
        await skipped(server, f"theirs{number}", owner="ann")
    await skipped(server, "poll", owner="bob")
    bob = server.keys.add(Role.ADMIN, owner="bob", only_own=True)
    asked: list[int] = []
    find_skips = server.there.store.queries.find_skips

    async def counted(wanted: SkipFilter, *, after: SkipCursor | None = None, limit: int = 100) -> SkipPage:
        asked.append(limit)
        return await find_skips(wanted, after=after, limit=limit)

    monkeypatch.setattr(server.there.store.queries, "find_skips", counted)
    monkeypatch.setattr(server.there.store.queries, "get_job", None)
    assert await told(server, bob, limit=5) == ["default/poll"]
    assert asked == [5]


async def test_those_of_others_are_not_there(server: Served):
    await skipped(server, "poll")
    await skipped(server, "theirs", owner="bob")
    bob = server.keys.add(Role.ADMIN, owner="bob", only_own=True)
    assert await told(server, bob) == await told(server, bob, job="theirs") == ["default/theirs"]
    assert await told(server, bob, job="poll") == []
    elsewhere = server.keys.add(Role.ADMIN, namespaces=("other",))
    assert (await server.client.get(SKIPS, headers=elsewhere)).status_code == 404


async def test_a_name_that_was_anothers_brings_nothing_of_theirs(server: Served, viewer: dict[str, str]):
    await skipped(server, "poll")
    await server.there.verbs().remove("poll")
    bob = server.keys.add(Role.ADMIN, owner="bob", only_own=True)
    assert await told(server, bob) == []
    await server.there.verbs().put(otd.Job(name="poll", task=Call(handler="poll"), owner="bob"))
    assert await told(server, bob) == []
    assert await told(server, viewer) == ["default/poll"]


@pytest.mark.parametrize("query", ["limit=0", "limit=1001", "job=%00", "namespace=a%20b"])
async def test_questions_that_cannot_be_understood(server: Served, viewer: dict[str, str], query: str):
    assert (await server.client.get(f"{SKIPS}?{query}", headers=viewer)).status_code == 422
