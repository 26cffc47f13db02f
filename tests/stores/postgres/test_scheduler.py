"""The whole scheduler on PostgreSQL: from a URL to executed handlers."""

from __future__ import annotations

import asyncio

import onthedot as otd
from onthedot.clock import SECOND, SystemClock
from onthedot.model.run import RunState


class WrongClock:
    """A machine whose clock is five minutes behind."""

    def __init__(self) -> None:
        self._real = SystemClock()

    def now(self) -> int:
        return self._real.now() - 300 * SECOND

    def steady(self) -> int:
        return self._real.steady()


def counting(url: str, ran: list[int], **options: object) -> otd.Scheduler:
    sched = otd.Scheduler(url, **options)  # type: ignore[arg-type]

    @sched.job
    async def count(number: int = 0) -> int:
        ran.append(number)
        return number * 2

    return sched


async def test_a_submitted_run_executes_once_and_returns_its_result(empty_url: str):
    ran: list[int] = []
    async with counting(empty_url, ran) as sched:
        runs = await asyncio.gather(*(sched.submit("count", {"number": n}) for n in range(40)))
        assert [await run.result(timeout="20s") for run in runs] == [n * 2 for n in range(40)]
    assert sorted(ran) == list(range(40))


async def test_a_run_of_another_process_starts_at_once(empty_url: str):
    """NOTIFY carries the hint between processes, so nothing waits for a poll."""
    ran: list[int] = []
    async with counting(empty_url, ran) as worker, counting(empty_url, [], settings=otd.Settings(seats=1)) as other:
        del worker
        run = await other.submit("count", {"number": 21})
        assert await run.result(timeout="20s") == 42


async def test_a_schedule_follows_the_servers_clock(empty_url: str):
    ran: list[int] = []
    sched = otd.Scheduler(empty_url, clock=WrongClock())
    enough = asyncio.Event()

    @sched.job(schedule=otd.every("1s"))
    async def tick(ctx: otd.Context) -> None:
        ran.append(SystemClock().now() - instant_of(ctx))
        if len(ran) == 3:
            enough.set()

    async with sched:
        await asyncio.wait_for(enough.wait(), 30)
    assert all(0 <= late < 3 * SECOND for late in ran), ran


def instant_of(ctx: otd.Context) -> int:
    return round(ctx.scheduled_at.timestamp() * SECOND)


async def test_a_store_that_was_opened_on_another_loop_serves_this_one(empty_url: str):
    from onthedot.stores.postgres import PostgresStore

    store = await PostgresStore.open(empty_url)
    ran: list[int] = []
    sched = counting(store, ran)  # type: ignore[arg-type]
    async with sched:
        run = await sched.submit("count", {"number": 4})
        assert await run.result(timeout="20s") == 8
    assert (await store.queries.count_runs()) == {RunState.SUCCEEDED: 1}
    await store.close()
