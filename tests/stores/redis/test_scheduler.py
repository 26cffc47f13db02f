"""The whole scheduler on Redis: from a URL to executed handlers."""

from __future__ import annotations

import asyncio

import pytest

import onthedot as otd
from onthedot.clock import SECOND, SystemClock
from onthedot.model.errors import DefinitionError
from onthedot.model.run import RunState
from onthedot.stores.redis import RedisStore


def counting(store: str | RedisStore, ran: list[int], **options: object) -> otd.Scheduler:
    sched = otd.Scheduler(store, **options)  # type: ignore[arg-type]

    @sched.job
    async def count(number: int = 0) -> int:
        ran.append(number)
        return number * 2

    return sched


async def test_a_submitted_run_executes_once_and_returns_its_result(valkey_url: str):
    ran: list[int] = []
    async with counting(valkey_url, ran) as sched:
        runs = await asyncio.gather(*(sched.submit("count", {"number": n}) for n in range(40)))
        assert [await run.result(timeout="20s") for run in runs] == [n * 2 for n in range(40)]
    assert sorted(ran) == list(range(40))


async def test_two_schedulers_share_the_work(valkey_url: str):
    ran: list[int] = []
    async with counting(valkey_url, ran), counting(valkey_url, ran) as other:
        runs = [await other.submit("count", {"number": n}) for n in range(20)]
        assert [await run.result(timeout="20s") for run in runs] == [n * 2 for n in range(20)]
    assert sorted(ran) == list(range(20))


async def test_a_schedule_follows_the_servers_clock(valkey_url: str):
    ran: list[int] = []
    sched = otd.Scheduler(valkey_url)
    enough = asyncio.Event()

    @sched.job(schedule=otd.every("1s"))
    async def tick(ctx: otd.Context) -> None:
        ran.append(SystemClock().now() - round(ctx.scheduled_at.timestamp() * SECOND))
        if len(ran) == 3:
            enough.set()

    async with sched:
        await asyncio.wait_for(enough.wait(), 30)
    assert all(0 <= late < 3 * SECOND for late in ran), ran


async def test_a_store_that_was_opened_on_another_loop_serves_this_one(valkey_url: str):
    store = await RedisStore.open(valkey_url)
    ran: list[int] = []
    async with counting(store, ran) as sched:
        run = await sched.submit("count", {"number": 4})
        assert await run.result(timeout="20s") == 8
    assert (await store.queries.count_runs()) == {RunState.SUCCEEDED: 1}
    await store.close()


def test_exactly_once_is_refused_at_the_definition():
    sched = otd.Scheduler("redis://host/0")
    with pytest.raises(DefinitionError, match="exactly_once"):

        @sched.job(guarantee="exactly_once")
        async def pay(ctx: otd.Context) -> None: ...
