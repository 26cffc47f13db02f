"""Rate limits give every run its exact start, with real engines in virtual time."""

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
    """Run a script with a harness, and return all runs and events."""

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
    """Return the starts of the runs of these jobs, in microseconds after the first one."""
    found = [e.started_at for e in events if isinstance(e, AttemptStarted) and e.lease.record.job.name in jobs]
    return [start - found[0] for start in found]


@pytest.mark.parametrize("seats", [1, 64])
def test_runs_submitted_at_once_start_evenly_spaced(open_store, seats):
    """With forty runs and ten per second, the last one starts 3.9 seconds after the first."""
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


def test_jobs_with_the_same_rate_name_share_it_and_keys_do_not(open_store):
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


def test_slots_that_come_at_their_rate_are_on_time(open_store):
    """Arming ahead counts the instant at which the run starts, so that a schedule within the rate is not delayed."""
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
    """Slots come every ten seconds, and the rate allows one in twenty-five. All wait and start one after the other."""
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


def test_with_replace_the_newest_slot_starts_when_the_rate_allows_it(open_store):
    """Slots come every ten seconds, and the rate allows one in twenty-five."""
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


def test_retries_count_against_the_rate(open_store):
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


def test_a_run_that_waits_for_its_rate_does_not_count_against_the_limit(open_store):
    """As many runs as the limit allows execute at once, although others wait for the rate."""
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
    assert starts[-1] < 8 * SECOND  # three at a time, half a second each: five seconds if no time is lost


def test_the_rate_still_holds_after_a_crash(open_store):
    """Runs that the dead node had granted start on the next node, at the rate."""
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
