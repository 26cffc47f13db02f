"""Jobs over HTTP: lists of them, one, and when it comes next."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from datetime import timedelta
from typing import Any

import pytest

import onthedot as otd
from onthedot.access.permissions import Role
from onthedot.model.task import Noop
from onthedot.stores.queries import JobCursor, RunCursor, encode_cursor
from tests.server.kit import Served, served

JOBS = [
    otd.Job(name="a", task=Noop(), owner="ann", labels=frozenset({"gpu"})),
    otd.Job(name="b", task=Noop(), owner="bob", queue="mail"),
    otd.Job(name="c", task=Noop(), owner="ann", schedules=(otd.cron("0 9 * * *"),)),
    otd.Job(name="a", task=Noop(), owner="ann", namespace="other"),
    otd.Job(name="aa", task=Noop(), owner="bob", namespace="other"),
]


@pytest.fixture
async def there() -> AsyncGenerator[Served]:
    async with served() as server:
        for job in JOBS:
            await server.there.verbs(job.namespace).put(job)
        yield server


async def listed(there: Served, headers: dict[str, str], **params: Any) -> list[str]:
    answer = await there.client.get("/api/v1/jobs", params=params, headers=headers)
    assert answer.status_code == 200, answer.text
    return [f"{job['namespace']}/{job['name']}" for job in answer.json()["items"]]


@pytest.mark.parametrize(
    ("params", "found"),
    [
        ({}, ["default/a", "default/b", "default/c", "other/a", "other/aa"]),
        ({"namespace": "other"}, ["other/a", "other/aa"]),
        ({"owner": "bob"}, ["default/b", "other/aa"]),
        ({"state": "paused"}, []),
        ({"state": "active", "owner": "ann", "namespace": "default"}, ["default/a", "default/c"]),
        ({"label": "gpu"}, ["default/a"]),
        ({"queue": "mail"}, ["default/b"]),
        ({"name": "a"}, ["default/a", "other/a", "other/aa"]),
        ({"namespace": "none"}, []),
    ],
)
async def test_jobs_are_found_by_what_they_are_like(there: Served, params: dict[str, str], found: list[str]):
    assert await listed(there, there.keys.add(Role.VIEWER), **params) == found


@pytest.mark.parametrize(
    ("whose", "params", "found"),
    [
        ({"namespaces": ("other",)}, {}, ["other/a", "other/aa"]),
        ({"namespaces": ("other",)}, {"namespace": "default"}, []),
        ({"owner": "bob", "only_own": True}, {}, ["default/b", "other/aa"]),
        ({"owner": "bob", "only_own": True}, {"owner": "ann"}, []),
        ({"owner": "bob", "only_own": True, "namespaces": ("other",)}, {}, ["other/aa"]),
    ],
)
async def test_a_list_has_what_is_there_for_whoever_asks(
    there: Served, whose: dict[str, Any], params: dict[str, str], found: list[str]
):
    assert await listed(there, there.keys.add(Role.ADMIN, **whose), **params) == found


async def test_pages_follow_one_another(there: Served):
    viewer = there.keys.add(Role.VIEWER)
    seen, after = [], None
    for _ in range(10):
        params = {"limit": 2} | ({"after": after} if after else {})
        page = (await there.client.get("/api/v1/jobs", params=params, headers=viewer)).json()
        assert len(page["items"]) <= 2
        seen += [f"{job['namespace']}/{job['name']}" for job in page["items"]]
        after = page["next"]
        if after is None:
            break
    assert seen == ["default/a", "default/b", "default/c", "other/a", "other/aa"]


@pytest.mark.parametrize(
    ("params", "field"),
    [
        ({"limit": 0}, "query.limit"),
        ({"limit": 1001}, "query.limit"),
        ({"limit": "many"}, "query.limit"),
        ({"state": "asleep"}, "query.state"),
        ({"owner": "a\x00b"}, "query.owner"),
        ({"after": "nonsense"}, "after"),
        ({"after": "é"}, "after"),
        ({"after": encode_cursor(JobCursor("a\0", "b"))}, "after"),
        ({"after": encode_cursor(RunCursor(True, 1, 1))}, "after"),
    ],
)
async def test_what_is_no_question(there: Served, params: dict[str, Any], field: str):
    answer = await there.client.get("/api/v1/jobs", params=params, headers=there.keys.add(Role.VIEWER))
    assert answer.status_code == 422
    assert [wrong["field"] for wrong in answer.json()["errors"]] == [field]


async def test_who_is_shown_a_near_name_sees_the_job(there: Served):
    ann, bob = there.keys.add(Role.VIEWER), there.keys.add(Role.VIEWER, owner="bob", only_own=True)
    ask = there.client
    assert "did you mean 'aa'" in (await ask.get("/api/v1/jobs/aaa?namespace=other", headers=ann)).json()["detail"]
    foreign = (await ask.get("/api/v1/jobs/a?namespace=other", headers=bob)).json()["detail"]
    assert "'a'" not in foreign.replace("no job 'a' is stored", "")
    assert "default" not in (await ask.get("/api/v1/jobs/zzzz", headers=bob)).json()["detail"]


@pytest.mark.parametrize("name", ["%00", "a%20b", "x" * 101, "-a", "%F0%9F%98%80"])
async def test_what_is_no_name_is_told(there: Served, name: str):
    answer = await there.client.get(f"/api/v1/jobs/{name}", headers=there.keys.add(Role.VIEWER))
    assert answer.status_code == 422
    assert answer.json()["errors"][0]["field"] == "path.job"


async def test_a_job_has_a_tag_that_changes_with_its_definition(there: Served):
    viewer = there.keys.add(Role.VIEWER)
    first = (await there.client.get("/api/v1/jobs/a", headers=viewer)).headers["etag"]
    assert first == (await there.client.get("/api/v1/jobs/a", headers=viewer)).headers["etag"]
    await there.there.verbs().put(otd.Job(name="a", task=Noop(), owner="ann", timeout=timedelta(seconds=1)))
    assert (await there.client.get("/api/v1/jobs/a", headers=viewer)).headers["etag"] != first


async def test_every_definition_that_it_had(there: Served):
    viewer = there.keys.add(Role.VIEWER)
    for seconds in (1, 2, 3):
        await there.there.verbs().put(otd.Job(name="a", task=Noop(), owner="ann", timeout=timedelta(seconds=seconds)))
    ask = there.client
    page = (await ask.get("/api/v1/jobs/a/revisions?limit=3", headers=viewer)).json()
    assert [(one["revision"], one["definition"]["timeout"]) for one in page["items"]] == [
        (4, "3s"),
        (3, "2s"),
        (2, "1s"),
    ]
    rest = (await ask.get(f"/api/v1/jobs/a/revisions?limit=3&after={page['next']}", headers=viewer)).json()
    assert [one["revision"] for one in rest["items"]] == [1]
    assert rest["next"] is None
    stranger = there.keys.add(Role.ADMIN, owner="bob", only_own=True)
    assert (await ask.get("/api/v1/jobs/a/revisions", headers=stranger)).status_code == 404
    for wrong in ("after=x", "after=0", "limit=0", "after=" + "9" * 40):
        assert (await ask.get(f"/api/v1/jobs/a/revisions?{wrong}", headers=viewer)).status_code == 422


# ── next ─────────────────────────────────────────────────────────────────────────────────────────────────────────


async def test_the_next_instants_leave_out_what_was_skipped(there: Served):
    operator = there.keys.add(Role.OPERATOR)
    ask = there.client
    before = (await ask.get("/api/v1/jobs/c/next?count=3", headers=operator)).json()["items"]
    skipped = (await ask.post("/api/v1/jobs/c/skip-next", json={}, headers=operator)).json()
    assert skipped["slot_at"] == before[0]["slot_at"]
    after = (await ask.get("/api/v1/jobs/c/next?count=2", headers=operator)).json()["items"]
    assert after == before[1:]
    assert all(one["slot_at"].endswith("T09:00:00.000000Z") for one in before)


async def test_many_schedules_come_in_one_order(there: Served):
    rules = (otd.every("90s"), otd.every("60s"), otd.gap("10m"), otd.at("2099-01-01T00:00Z"))
    await there.there.verbs().put(otd.Job(name="many", task=Noop(), schedules=rules))
    answer = await there.client.get("/api/v1/jobs/many/next?count=1000", headers=there.keys.add(Role.VIEWER))
    slots = [one["slot_at"] for one in answer.json()["items"]]
    assert len(slots) == 1000
    assert slots == sorted(slots)


async def test_a_job_without_a_schedule_has_none(there: Served):
    answer = await there.client.get("/api/v1/jobs/a/next", headers=there.keys.add(Role.VIEWER))
    assert answer.json() == {"job": "a", "namespace": "default", "state": "active", "items": []}


@pytest.mark.parametrize("count", ["0", "1001", "x", "-1"])
async def test_nobody_counts_without_bound(there: Served, count: str):
    answer = await there.client.get(f"/api/v1/jobs/c/next?count={count}", headers=there.keys.add(Role.VIEWER))
    assert answer.status_code == 422
