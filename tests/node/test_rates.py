"""Rates, with real engines in virtual time: when every run starts."""

import asyncio
from datetime import UTC, datetime
from fractions import Fraction
from itertools import pairwise

import pytest

import onthedot as otd
from onthedot.clock import MILLISECOND, SECOND, to_micros
from onthedot.model.events import AttemptStarted, RunDelayed
from onthedot.model.run import NewRun
from onthedot.stores.memory import MemoryStore
from onthedot.stores.sqlite import SqliteStore
from onthedot.testing import Harness, run_virtual
from tests.model.test_rate import broken_window

START = datetime(2026, 6, 1, 12, 0, tzinfo=UTC)
T0 = to_micros(START)
TENTH = SECOND // 10


@pytest.fixture(params=["memory", "sqlite"])
def open_store(request, tmp_path):
    if request.param == "memory":
        return MemoryStore
    return lambda clock: SqliteStore.open(tmp_path / "rates.db", clock=clock, inline=True)


def scheduler(**settings) -> otd.Scheduler:
    return otd.Scheduler("memory:", settings=otd.Settings(poll_every=30 * SECOND, **settings))


def watch(sched: otd.Scheduler, open_store, script):
    """Let a script turn the crank; what happened."""

    async def main():
        harness = Harness(START, store=open_store)
        await harness.start(sched)
        await script(harness)
        runs = await harness.store.queries.list_runs(limit=100_000)
        await harness.stop()
        await harness.store.close()
        return runs, harness.events

    return run_virtual(main())


async def submit(harness, job: str, count: int, args: str | None = None) -> None:
    record = await harness.store.queries.get_job(job)
    now = harness.clock.now()
    await harness.store.submit([NewRun(record.id, f"submit:{job}{args}{now}{n}", now, args) for n in range(count)])


def starts_of(events, *jobs: str) -> list[int]:
    """Microseconds after the first start at which the runs of these jobs started."""
    found = [e.started_at for e in events if isinstance(e, AttemptStarted) and e.lease.record.job.name in jobs]
    return [start - found[0] for start in found]


@pytest.mark.parametrize("seats", [1, 64])
def test_many_at_once_start_evenly_spaced(open_store, seats):
    """Forty runs at ten in a second: the last one starts 3.9 seconds after the first, and each on time."""
    sched = scheduler(seats=seats, ahead=seats)

    @sched.job(name="job", rate=otd.Rate(10, "1s"))
    async def job() -> None: ...

    async def script(harness):
        await submit(harness, "job", 40)
        await harness.advance("10s")

    runs, events = watch(sched, open_store, script)
    assert {run.state for run in runs} == {"succeeded"}
    starts = starts_of(events, "job")
    assert [round(start / TENTH) for start in starts] == list(range(40))
    assert all(0 <= start - n * TENTH < 10 * MILLISECOND for n, start in enumerate(starts))
    assert len([event for event in events if isinstance(event, RunDelayed)]) == 39


def test_jobs_that_share_a_name_take_turns_and_keys_do_not(open_store):
    sched = scheduler(seats=64)

    @sched.job(name="one", rate=otd.Rate(2, "1s", burst=2, name="api"))
    async def one() -> None: ...

    @sched.job(name="two", rate=otd.Rate(2, "1s", burst=2, name="api"))
    async def two() -> None: ...

    @sched.job(name="by_key", rate=otd.Rate(1, "1m", key="tenant"))
    async def by_key(tenant: str) -> None: ...

    async def script(harness):
        await submit(harness, "one", 4)
        await submit(harness, "two", 4)
        for tenant in "abc":
            await submit(harness, "by_key", 2, f'{{"tenant":"{tenant}"}}')
        await harness.advance("20s")

    _, events = watch(sched, open_store, script)
    shared = starts_of(events, "one", "two")
    assert [round(start / TENTH) for start in shared] == [0, 0, 5, 10, 15, 20, 25, 30]
    assert starts_of(events, "by_key") == [0, 0, 0]


def test_slots_as_fast_as_their_rate_are_on_time(open_store):
    """Arming ahead takes the instant at which the run starts: a rhythm that fits is not disturbed."""
    sched = scheduler()

    @sched.job(name="job", schedule=otd.every("1s"), rate=otd.Rate(1, "1s"))
    async def job() -> None: ...

    async def script(harness):
        await harness.advance("20.5s")

    runs, events = watch(sched, open_store, script)
    assert not [event for event in events if isinstance(event, RunDelayed)]
    started = [run for run in runs if run.started_at]
    assert len(started) >= 20
    assert all(run.started_at == run.slot_at for run in started)


def test_a_slot_that_waits_for_its_rate_is_neither_skipped_nor_missed(open_store):
    """Every ten seconds, one in twenty-five: all of them wait, and start one after the other."""
    sched = scheduler(expire_every=SECOND)

    @sched.job(name="job", schedule=otd.every("10s"), rate=otd.Rate(1, "25s"), overlap="allow", catch_up="none")
    async def job() -> None: ...

    async def script(harness):
        await harness.advance("300s")

    runs, events = watch(sched, open_store, script)
    starts = starts_of(events, "job")
    assert [round(start / SECOND) for start in starts] == [25 * n for n in range(len(starts))]
    assert len(starts) == 12
    assert {run.state for run in runs} <= {"succeeded", "scheduled", "reserved"}


def test_replacing_slots_that_come_faster_than_their_rate(open_store):
    """Every ten seconds, one in twenty-five: the newest slot starts whenever the rate allows it."""
    sched = scheduler()

    @sched.job(name="job", schedule=otd.every("10s"), rate=otd.Rate(1, "25s"), overlap="replace")
    async def job() -> None: ...

    async def script(harness):
        await harness.advance("300s")

    runs, events = watch(sched, open_store, script)
    starts = starts_of(events, "job")
    assert len(starts) >= 9
    assert all(25 * SECOND <= b - a <= 35 * SECOND for a, b in pairwise(starts))
    assert {run.state for run in runs} <= {"succeeded", "cancelled", "scheduled", "reserved"}


def test_retries_take_their_turn(open_store):
    sched = scheduler(seats=8)

    @sched.job(name="job", rate=otd.Rate(1, "1s"), retry=otd.Retry(2, delay="10ms", jitter=False))
    async def job(ctx: otd.Context) -> None:
        if ctx.attempt == 1:
            raise OSError("once")

    async def script(harness):
        await submit(harness, "job", 4)
        await harness.advance("20s")

    runs, events = watch(sched, open_store, script)
    assert {run.state for run in runs} == {"succeeded"}
    assert [round(start / SECOND) for start in starts_of(events, "job")] == list(range(8))


def test_a_rate_and_a_limit(open_store):
    """Who waits for its rate takes no place in the limit: as many run at once as may."""
    sched = scheduler(seats=64)
    running = most = 0

    @sched.job(name="job", rate=otd.Rate(10, "1s", burst=2), concurrency=3)
    async def job() -> None:
        nonlocal running, most
        running += 1
        most = max(most, running)
        await asyncio.sleep(0.5)
        running -= 1

    async def script(harness):
        await submit(harness, "job", 30)
        await harness.advance("40s")

    runs, events = watch(sched, open_store, script)
    assert {run.state for run in runs} == {"succeeded"}
    assert most == 3
    starts = starts_of(events, "job")
    assert broken_window(starts, Fraction(TENTH), 2 + 10) is None  # a grant may be used up to a second late
    assert starts[-1] < 8 * SECOND  # three at a time, half a second each: five seconds if nothing is lost


def test_after_a_crash_the_rate_goes_on(open_store):
    """The dead node's granted runs start on the next one, at the rate."""
    sched = scheduler(seats=64)

    @sched.job(name="job", rate=otd.Rate(10, "1s"))
    async def job() -> None: ...

    async def script(harness):
        await submit(harness, "job", 60)
        await harness.advance("2.05s")
        await harness.crash()
        await harness.advance("1m")
        await harness.start(sched)
        await harness.advance("30s")

    runs, events = watch(sched, open_store, script)
    assert {run.state for run in runs} == {"succeeded"}
    starts = starts_of(events, "job")
    assert len(starts) == 60
    late = starts[21:]
    assert late[0] > 60 * SECOND
    assert all(b - a >= TENTH - 10 * MILLISECOND for a, b in pairwise(late))
