"""Quotas of owners: they limit runs, submits and jobs, also for bursts, and a refusal states what to do."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

import onthedot as otd
from onthedot.access.permissions import Principal, Role
from onthedot.clock import SECOND, Micros
from onthedot.model.run import RunState
from onthedot.model.task import Call
from onthedot.server.problems import Problem
from onthedot.server.quotas import KEPT, Owner, Quotas
from onthedot.server.submissions import NDJSON
from onthedot.settings import Settings
from onthedot.stores.memory import MemoryStore
from onthedot.stores.sql.store import SqlQueries
from tests.server.kit import Served, served
from tests.server.worker import Worker

ANN = Owner("default", "ann")


class ManualClock:
    """A clock that only the test moves."""

    def __init__(self) -> None:
        self.at: Micros = 1_000 * SECOND

    def now(self) -> Micros:
        return self.at

    def steady(self) -> Micros:
        return self.at


def with_manual_clock(server: Served) -> ManualClock:
    """Give the quotas of this server a manual clock, and return it."""
    clock = ManualClock()
    server.app.state.quotas = Quotas(server.there.store, clock, server.there.settings)
    return clock


async def ready(server: Served) -> Served:
    """Store one job for each of two owners."""
    for name, owner in (("mail", "ann"), ("post", "bob")):
        await server.there.verbs().put(otd.Job(name=name, task=Call(handler=name), owner=owner))
    return server


async def submit(server: Served, who: dict[str, str], job: str = "mail", **body: Any) -> Any:
    return await server.client.post("/api/v1/runs", json={"job": job, **body}, headers=who)


async def many(server: Served, who: dict[str, str], *asked: Any) -> tuple[int, list[Any]]:
    content = b"".join(json.dumps(one).encode() + b"\n" for one in asked)
    headers = {**who, "Content-Type": NDJSON}
    answer = await server.client.post("/api/v1/runs", content=content, headers=headers)
    return answer.status_code, [json.loads(line) for line in answer.text.splitlines()]


async def create(server: Served, who: dict[str, str], name: str) -> Any:
    return await server.client.post("/api/v1/jobs", json={"name": name, "call": "work"}, headers=who)


async def live_runs(server: Served) -> int:
    return len(await server.there.store.queries.list_runs(limit=10_000))


# ── unfinished runs ──────────────────────────────────────────────────────────────────────────────────────────


async def test_a_run_above_the_quota_is_refused_with_advice():
    async with served(settings=Settings(quota_runs=2)) as server:
        await ready(server)
        operator = server.keys.add(Role.OPERATOR)
        assert [(await submit(server, operator)).status_code for _ in range(2)] == [201, 201]
        refused = await submit(server, operator)
        told = refused.json()
        assert (refused.status_code, told["type"].rpartition("/")[2], told["error"]) == (429, "quota", "QuotaExceeded")
        assert told["detail"] == (
            "quota_runs: expected at most 2 runs of owner 'ann' that have not ended, got 2 and 1 more; "
            "ask again in 5 s, when some have ended"
        )
        assert refused.headers["retry-after"] == "5"
        assert told["errors"] == [{"field": "quota_runs", "problem": told["detail"].partition(": ")[2]}]
        assert (await submit(server, operator, "post")).status_code == 201  # a job of another owner
        trigger = await server.client.post("/api/v1/jobs/mail/trigger", headers=operator)
        assert trigger.status_code == 429
        assert await live_runs(server) == 3


async def test_a_run_that_ends_makes_room_for_another():
    async with served(settings=Settings(quota_runs=2)) as server:
        await ready(server)
        operator, clock = server.keys.add(Role.OPERATOR), with_manual_clock(server)
        first, _ = [(await submit(server, operator)).json()["run_id"] for _ in range(2)]
        await server.there.verbs().cancel(first)
        clock.at += 1
        assert (await submit(server, operator)).status_code == 201
        assert (await submit(server, operator)).status_code == 429


async def test_a_repeated_submit_does_not_count():
    async with served(settings=Settings(quota_runs=2, quota_submits=2)) as server:
        await ready(server)
        operator = server.keys.add(Role.OPERATOR)
        answers = [await submit(server, operator, key="one") for _ in range(4)]
        assert [answer.status_code for answer in answers] == [201, 200, 200, 200]
        assert [(await submit(server, operator)).status_code for _ in range(2)] == [201, 429]


async def test_a_submit_refused_for_another_reason_does_not_count():
    async with served(settings=Settings(quota_runs=1, quota_submits=1)) as server:
        await ready(server)
        operator, clock = server.keys.add(Role.OPERATOR), with_manual_clock(server)
        first = await submit(server, operator, args={"n": 1}, key="k")
        assert first.status_code == 201
        await server.there.verbs().cancel(first.json()["run_id"])
        clock.at += 61 * SECOND
        assert (await submit(server, operator, args={"n": 2}, key="k")).status_code == 409
        assert (await submit(server, operator)).status_code == 201


@pytest.mark.parametrize("bulk", [False, True])
async def test_a_burst_cannot_exceed_the_quota(bulk: bool):
    async with served(settings=Settings(quota_runs=50, api_burst=1000)) as server:
        await ready(server)
        operator = server.keys.add(Role.OPERATOR)
        if bulk:
            await asyncio.gather(*(many(server, operator, *([{"job": "mail"}] * 20)) for _ in range(10)))
        else:
            await asyncio.gather(*(submit(server, operator) for _ in range(200)))
        assert await live_runs(server) == 50


async def test_a_bulk_submit_stores_runs_up_to_the_quota():
    async with served(settings=Settings(quota_runs=3)) as server:
        await ready(server)
        operator = server.keys.add(Role.OPERATOR)
        status, told = await many(server, operator, *([{"job": "mail"}] * 5))
        assert status == 429
        assert [one.get("created") for one in told] == [True, True, True, None]
        assert (told[-1]["line"], told[-1]["problem"]["error"]) == (4, "QuotaExceeded")
        assert await live_runs(server) == 3


async def test_backfills_count():
    async with served(settings=Settings(quota_runs=1)) as server:
        await ready(server)
        schedule = otd.every("1h")
        hourly = otd.Job(name="hourly", task=Call(handler="mail"), schedules=(schedule,), owner="ann")
        await server.there.verbs().put(hourly)
        operator = server.keys.add(Role.OPERATOR)
        asked: dict[str, Any] = {"start": "2026-01-01T00:00Z", "end": "2026-01-01T06:00Z"}
        refused = await server.client.post("/api/v1/jobs/hourly/backfill", json=asked, headers=operator)
        assert (refused.status_code, refused.json()["error"]) == (429, "QuotaExceeded")
        dry = await server.client.post(
            "/api/v1/jobs/hourly/backfill", json={**asked, "dry_run": True}, headers=operator
        )
        assert dry.status_code == 200


async def test_replays_count(tmp_path: Path):
    """Letters that cannot all be replayed are refused together."""
    async with served(settings=Settings(quota_runs=2)) as server:
        await ready(server)
        worker = Worker(server.there, tmp_path)
        dead = []
        for _ in range(3):
            dead.append((await server.there.verbs().submit("mail")).id)
            await worker.end(await worker.take_one(), RunState.DEAD, error="boom")
        operator, path = server.keys.add(Role.OPERATOR), "/api/v1/dead-letters/replay"
        asked: dict[str, Any]
        for asked in ({"run_ids": dead}, {"job": "mail"}):
            refused = await server.client.post(path, json=asked, headers=operator)
            assert (refused.status_code, refused.json()["error"]) == (429, "QuotaExceeded")
        assert len(await server.there.verbs().dead_runs()) == 3
        dry = await server.client.post(path, json={"job": "mail", "dry_run": True}, headers=operator)
        assert dry.status_code == 200
        for some in (dead[:1], dead[1:2], dead[:1]):  # the third repeats the first
            asked = {"run_ids": some}
            assert (await server.client.post(path, json=asked, headers=operator)).status_code == 200
        assert (await submit(server, operator)).status_code == 429


# ── submits per minute ───────────────────────────────────────────────────────────────────────────────────────


async def test_submits_per_minute_are_counted_for_the_caller():
    async with served(settings=Settings(quota_submits=3)) as server:
        await ready(server)
        one, other = server.keys.add(Role.OPERATOR), server.keys.add(Role.OPERATOR)
        assert [(await submit(server, one, job)).status_code for job in ("mail", "post", "mail")] == [201] * 3
        refused = await submit(server, one)
        assert refused.status_code == 429
        assert 50 <= int(refused.headers["retry-after"]) <= 61
        assert refused.json()["detail"].startswith(
            "quota_submits: expected at most 3 runs in a minute, got 3 and 1 more"
        )
        assert (await submit(server, other)).status_code == 201  # another key
        ci = [server.keys.add(Role.OPERATOR, owner="ci") for _ in range(2)]
        assert [(await submit(server, ci[n % 2])).status_code for n in range(4)] == [201, 201, 201, 429]


async def test_a_repeated_bulk_submit_gets_further_each_minute():
    """Lines that are stored already do not count, so that a repeated request reaches the rest."""
    async with served(settings=Settings(quota_submits=3)) as server:
        await ready(server)
        operator, clock = server.keys.add(Role.OPERATOR), with_manual_clock(server)
        asked = [{"job": "mail", "key": f"k{n}"} for n in range(7)]
        reached = []
        for _ in range(4):
            status, told = await many(server, operator, *asked)
            reached.append((status, sum(one.get("created", False) for one in told)))
            clock.at += 61 * SECOND
        assert reached == [(429, 3), (429, 3), (200, 1), (200, 0)]


async def test_no_minute_exceeds_the_quota():
    clock = ManualClock()
    quotas = Quotas(MemoryStore(clock), clock, Settings(quota_submits=100))
    who = server_key()
    accepted: list[int] = []
    for step in range(1200):
        clock.at = step * SECOND // 5
        for _ in range(7):
            try:
                await quotas.book(who, ANN)
            except Problem as refused:
                again = clock.now() + int(refused.headers["Retry-After"]) * SECOND
                assert again <= accepted[-100] + 62 * SECOND
            else:
                quotas.land(who, ANN, 1, made=1)
                accepted.append(clock.now())
    assert len(accepted) >= 300
    assert all(later - earlier >= 60 * SECOND for earlier, later in zip(accepted, accepted[100:], strict=False))


# ── jobs ─────────────────────────────────────────────────────────────────────────────────────────────────────


async def test_a_job_above_the_quota_is_refused():
    async with served(settings=Settings(quota_jobs=2)) as server:
        await ready(server)
        editor = server.keys.add(Role.EDITOR, owner="ann")
        assert (await create(server, editor, "second")).status_code == 201
        refused = await create(server, editor, "third")
        assert (refused.status_code, refused.headers["retry-after"]) == (429, "60")
        assert refused.json()["detail"] == (
            "quota_jobs: expected at most 2 jobs of owner 'ann', got 2 and 1 more; delete some that are not needed"
        )
        edited = await server.client.patch("/api/v1/jobs/second", json={"timeout": "1m"}, headers=editor)
        assert edited.status_code == 200  # the number of jobs stays the same
        other = server.keys.add(Role.EDITOR, owner="carl")
        assert (await create(server, other, "third")).status_code == 201
        await server.client.delete("/api/v1/jobs/second", headers=editor)
        assert (await create(server, editor, "fourth")).status_code == 201


async def test_concurrent_jobs_cannot_exceed_the_quota():
    async with served(settings=Settings(quota_jobs=5)) as server:
        editor = server.keys.add(Role.EDITOR, owner="ann")
        answers = await asyncio.gather(*(create(server, editor, f"job-{n}") for n in range(20)))
        assert sorted(answer.status_code for answer in answers) == [201] * 5 + [429] * 15


async def test_a_source_with_too_many_jobs_is_refused_as_a_whole():
    async with served(settings=Settings(quota_jobs=2)) as server:
        editor = server.keys.add(Role.EDITOR, owner="ann")

        async def apply(*names: str, **more: Any) -> Any:
            body = {"jobs": [{"name": name, "call": "work"} for name in names], **more}
            return await server.client.put("/api/v1/sources/jobs.yaml", json=body, headers=editor)

        assert (await apply("a", "b", "c")).status_code == 429
        assert await server.there.store.queries.list_jobs() == []
        assert (await apply("a", "b")).status_code == 200
        assert (await apply("a", "b")).status_code == 200
        assert (await apply("b", "c")).status_code == 429  # without prune, a stays stored
        assert (await apply("b", "c", dry_run=True)).status_code == 200
        assert (await apply("b")).status_code == 200


# ── who is limited ───────────────────────────────────────────────────────────────────────────────────────────


async def test_administrators_are_not_limited():
    async with served(settings=Settings(quota_jobs=1, quota_runs=1, quota_submits=1)) as server:
        await ready(server)
        admin = server.keys.add(Role.ADMIN)
        assert [(await submit(server, admin)).status_code for _ in range(3)] == [201] * 3
        assert [(await create(server, admin, name)).status_code for name in ("a", "b")] == [201] * 2
        operator = server.keys.add(Role.OPERATOR)
        refused = await submit(server, operator)  # runs that an administrator submits count
        assert "got 3 and 1 more" in refused.json()["detail"]


async def test_without_quotas_nothing_is_counted():
    async with served(settings=Settings()) as server:
        await ready(server)
        assert server.app.state.quotas is None
        operator = server.keys.add(Role.OPERATOR)
        assert (await submit(server, operator)).status_code == 201


async def test_an_administrator_of_one_namespace_uses_quotas_of_that_namespace_only():
    async with served(settings=Settings(quota_jobs=2, quota_runs=2)) as server:
        await ready(server)
        shop = server.keys.add(Role.ADMIN, namespaces=("shop",))
        asked = [{"name": f"x{n}", "namespace": "shop", "owner": "ann", "call": "work"} for n in range(3)]
        made = [(await server.client.post("/api/v1/jobs", json=one, headers=shop)).status_code for one in asked]
        assert made == [201, 201, 429]  # an administrator of some namespaces is limited there
        trigger = [await server.client.post("/api/v1/jobs/x0/trigger?namespace=shop", headers=shop) for _ in range(3)]
        assert [answer.status_code for answer in trigger] == [201, 201, 429]
        assert "runs of owner 'ann' in namespace 'shop'" in trigger[-1].json()["detail"]
        ann = server.keys.add(Role.EDITOR, owner="ann", namespaces=("default",))
        assert (await create(server, ann, "second")).status_code == 201
        assert [(await submit(server, ann)).status_code for _ in range(3)] == [201, 201, 429]
        status, _ = await many(server, ann, {"job": "mail"})
        assert status == 429


async def test_several_namespaces_do_not_add_room_for_a_caller_of_all_namespaces():
    async with served(settings=Settings(quota_jobs=2, quota_runs=2)) as server:
        ann = server.keys.add(Role.EDITOR, owner="ann")
        shop = server.keys.add(Role.EDITOR, owner="ann", namespaces=("shop",))
        for namespace, status in (("shop", 201), ("night", 201), ("day", 429)):
            body = {"name": "one", "namespace": namespace, "call": "work"}
            assert (await server.client.post("/api/v1/jobs", json=body, headers=ann)).status_code == status
        for who, namespace, status in (
            (shop, "shop", 201),
            (ann, "night", 201),
            (ann, "shop", 429),
            (shop, "shop", 201),
        ):
            path = f"/api/v1/jobs/one/trigger?namespace={namespace}"
            assert (await server.client.post(path, headers=who)).status_code == status


async def test_others_cannot_give_an_owner_jobs_above_the_quota():
    async with served(settings=Settings(quota_jobs=1)) as server:
        shop = server.keys.add(Role.ADMIN, namespaces=("shop",))
        for name, owner in (("a", "ann"), ("b", "bob")):
            body = {"name": name, "namespace": "shop", "owner": owner, "call": "work"}
            assert (await server.client.post("/api/v1/jobs", json=body, headers=shop)).status_code == 201
        path = "/api/v1/jobs/b?namespace=shop"
        assert (await server.client.patch(path, json={"owner": "ann"}, headers=shop)).status_code == 429
        files = {"jobs": [{"name": name, "namespace": "shop", "owner": "carl", "call": "work"} for name in "cd"]}
        assert (await server.client.put("/api/v1/sources/jobs.yaml", json=files, headers=shop)).status_code == 429


async def test_a_job_of_post_jobs_that_runs_once_counts_as_a_submit():
    async with served(settings=Settings(quota_submits=2)) as server:
        editor = server.keys.add(Role.EDITOR, owner="ann", may_code=True)
        made = [await server.client.post("/jobs", json={"argv": ["true"]}, headers=editor) for _ in range(3)]
        assert [answer.status_code for answer in made] == [201, 201, 429]
        assert len(await server.there.store.queries.list_jobs()) == 2
        periodic = {"argv": ["true"], "frequency": "0 9 * * *"}
        assert (await server.client.post("/jobs", json=periodic, headers=editor)).status_code == 201


async def test_slots_started_by_a_resume_count_as_submits():
    async with served(settings=Settings(quota_submits=3)) as server:
        often = otd.Job(name="often", task=Call(handler="mail"), schedules=(otd.every("1s"),), owner="ann")
        record = (await server.there.verbs().put(often)).record
        now = server.there.clock.now()
        await server.there.store.pause_job(record.id, reason="", now=now - 60 * SECOND)
        operator, path = server.keys.add(Role.OPERATOR), "/api/v1/jobs/often/resume"
        dry = await server.client.post(path, json={"missed": "all", "dry_run": True}, headers=operator)
        assert len(dry.json()["slots"]) > 3
        refused = await server.client.post(path, json={"missed": "all"}, headers=operator)
        assert (refused.status_code, refused.json()["error"]) == (429, "QuotaExceeded")
        assert (await server.client.post(path, json={"missed": "last"}, headers=operator)).json()["was_paused"]


# ── counting ─────────────────────────────────────────────────────────────────────────────────────────────────


def server_key(**more: Any) -> Principal:
    return Principal(kind="key", id="k", name="k", role=Role.OPERATOR, **more)


class Counted(SqlQueries):
    """Counts its queries."""

    asked = 0

    async def count_owned(self, owner: str, *, namespace: str | None = None) -> Any:
        self.asked += 1
        return await super().count_owned(owner, namespace=namespace)


async def test_the_store_is_rarely_queried_while_there_is_room():
    clock = ManualClock()
    store = MemoryStore(clock)
    store.queries = counted = Counted(store.database)
    quotas = Quotas(store, clock, Settings(quota_runs=1000))
    for _ in range(500):
        await quotas.book(server_key(), ANN)
        quotas.land(server_key(), ANN, 1, made=1)
    assert counted.asked == 1
    clock.at += KEPT + 1
    await quotas.book(server_key(), ANN)
    assert counted.asked == 2
