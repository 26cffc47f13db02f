"""Reserving ahead, arming in time, seats: in virtual time, with the real engine."""

import asyncio
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

import onthedot as otd
from onthedot.clock import MILLISECOND, SECOND
from onthedot.model.events import AttemptStarted
from onthedot.model.run import NewRun
from onthedot.stores.memory import MemoryStore
from onthedot.testing import Harness, run_virtual

START = datetime(2026, 6, 1, 12, 0, tzinfo=UTC)


def program(settings: otd.Settings, seconds: float = 0.0) -> tuple[otd.Scheduler, list[int]]:
    """A job without a schedule, whose runs take so long; and the ids of its runs as they start."""
    sched, started = otd.Scheduler("memory:", settings=settings), []

    @sched.job(name="work")
    async def work(ctx: otd.Context) -> None:
        started.append(ctx.run_id)
        await asyncio.sleep(seconds)

    return sched, started


async def submit(harness: Harness, *delays: float) -> list[int]:
    record = await harness.store.queries.get_job("work")
    assert record is not None
    now = harness.clock.now()
    runs = [NewRun(record.id, f"submit:{n}", now + round(delay * SECOND)) for n, delay in enumerate(delays)]
    return await harness.store.submit(runs)


async def states(harness: Harness) -> list[str]:
    return [run.state for run in await harness.runs("work")]


def test_only_the_next_k_runs_are_held_in_memory():
    sched, _ = program(otd.Settings(ahead=3))

    async def scenario():
        harness = Harness(START)
        await harness.start(sched)
        await submit(harness, *[1.0] * 10)
        await harness.advance("500ms")
        assert (await states(harness)).count("reserved") == 3
        await harness.advance("600ms")
        assert set(await states(harness)) == {"succeeded"}
        await harness.stop()

    run_virtual(scenario())


def test_nothing_is_reserved_beyond_the_horizon():
    sched, _ = program(otd.Settings())

    async def scenario():
        harness = Harness(START)
        await harness.start(sched)
        await submit(harness, 10.0)
        await harness.advance("7.9s")
        assert await states(harness) == ["scheduled"]
        await harness.advance("200ms")
        assert await states(harness) == ["reserved"]
        await harness.stop()
        assert await states(harness) == ["scheduled"]  # given back by the drain

    run_virtual(scenario())


def test_a_run_is_armed_before_its_instant_and_starts_at_it():
    sched, _ = program(otd.Settings())

    async def scenario():
        harness = Harness(START)
        await harness.start(sched)
        await submit(harness, 5.0)
        await harness.advance("6s")
        [run] = await harness.runs("work")
        assert run.armed_at is not None
        assert run.due_at - 500 * MILLISECOND <= run.armed_at < run.due_at
        assert run.started_at == run.due_at
        await harness.stop()

    run_virtual(scenario())


def test_an_edit_of_the_last_moment_makes_no_run_late():
    """Seed 100266: a run that is reserved under the old definition is given back, and taken anew with the new one."""
    sched, _ = program(otd.Settings())

    async def scenario():
        harness = Harness(START)
        await harness.start(sched)
        await submit(harness, 5.0)
        await harness.advance("4s")
        assert await states(harness) == ["reserved"]
        record = await harness.store.queries.get_job("work")
        assert record is not None
        await harness.store.put_job(replace(record.job, timeout=timedelta(seconds=9)), expected=record.revision)
        await harness.advance("2s")
        [run] = await harness.runs("work")
        assert run.started_at is not None
        assert 0 <= run.started_at - run.due_at < 100 * MILLISECOND
        assert run.revision == 2
        await harness.stop()

    run_virtual(scenario())


@pytest.mark.parametrize("seconds", [0.3, 1.5, 3.0])
def test_runs_with_a_limit_start_however_slow_the_store_is(seconds):
    """A reservation lapses half a second after its instant. A worker must not take its own anew while it arms them."""

    class SlowToArm(MemoryStore):
        async def arm(self, *args, **options):
            await asyncio.sleep(seconds)
            return await super().arm(*args, **options)

    sched = otd.Scheduler("memory:")

    @sched.job(name="work", concurrency=5)
    async def work() -> None: ...

    async def scenario():
        harness = Harness(START, store=SlowToArm)
        await harness.start(sched)
        await submit(harness, *[0.0] * 20)
        await harness.advance(12 * seconds)
        assert set(await states(harness)) == {"succeeded"}
        await harness.stop()

    run_virtual(scenario())


def test_runs_start_in_the_order_of_their_instants():
    sched, started = program(otd.Settings(seats=1, ahead=1), seconds=0.01)

    async def scenario():
        harness = Harness(START)
        await harness.start(sched)
        ids = await submit(harness, 3.0, 1.0, 2.0, 0.5)
        await harness.advance("10s")
        assert started == [ids[3], ids[1], ids[2], ids[0]]
        await harness.stop()

    run_virtual(scenario())


def test_never_more_attempts_than_seats():
    sched = otd.Scheduler("memory:", settings=otd.Settings(seats=4, ahead=4))
    running = most = 0

    @sched.job(name="work")
    async def work() -> None:
        nonlocal running, most
        running += 1
        most = max(most, running)
        await asyncio.sleep(0.3)
        running -= 1

    async def scenario():
        harness = Harness(START)
        await harness.start(sched)
        await submit(harness, *[0.0] * 11, *[1.0] * 10)
        await harness.advance("5s")
        assert set(await states(harness)) == {"succeeded"}
        await harness.stop()

    run_virtual(scenario())
    assert most == 4


def test_a_reservation_without_a_seat_is_given_back_for_whoever_has_one():
    sched, started = program(otd.Settings(seats=1, ahead=1), seconds=2.0)

    async def scenario():
        harness = Harness(START)
        await harness.start(sched)
        first, second = await submit(harness, 0.0, 1.0)
        await harness.advance("1.1s")
        assert started == [first]
        assert await states(harness) == ["running", "scheduled"]
        await harness.advance("1s")
        assert started == [first, second]
        await harness.advance("5s")
        await harness.stop()

    run_virtual(scenario())


def test_a_submit_starts_at_once_without_waiting_for_a_poll():
    sched, _ = program(otd.Settings(poll_every=60 * SECOND))

    async def scenario():
        harness = Harness(START)
        await harness.start(sched)
        await harness.advance("10s")
        await submit(harness, 0.0)
        await harness.advance("1ms")
        [event] = [event for event in harness.events if isinstance(event, AttemptStarted)]
        assert event.started_at - event.lease.due_at < MILLISECOND
        await harness.stop()

    run_virtual(scenario())


def test_a_clock_that_is_set_forward_or_back_starts_nothing_early_and_nothing_twice():
    sched = otd.Scheduler("memory:")
    early = []

    @sched.job(schedule=otd.every("10s"))
    async def tick(ctx: otd.Context) -> None:
        early.append(harness_clock[0].now() < int(ctx.scheduled_at.timestamp()) * SECOND)

    harness_clock: list = []

    async def scenario():
        harness = Harness(START)
        harness_clock.append(harness.clock)
        await harness.start(sched)
        await harness.advance("63s")
        harness.clock.step(-30 * SECOND)
        await harness.advance("63s")
        harness.clock.step(45 * SECOND)
        await harness.advance("63s")
        runs = await harness.runs("tick")
        await harness.stop()
        return runs

    runs = run_virtual(scenario())
    slots = [run.slot_at for run in runs if run.state == "succeeded"]
    assert slots == sorted(set(slots))
    assert not any(early)
    assert len(slots) >= 15


@pytest.mark.slow
def test_a_busy_application_loop_does_not_stop_scheduling(tmp_path):
    """The engine has its own thread: while the application blocks its loop, functions still start on time."""
    import time

    async def scenario():
        sched = otd.Scheduler(f"sqlite:///{tmp_path / 'busy.db'}")
        starts = []

        @sched.job(schedule=otd.every("50ms"), overlap="allow")
        def tick(ctx: otd.Context) -> None:
            starts.append((time.time(), ctx.scheduled_at.timestamp()))

        async with sched:
            blocked_from = time.time()
            while len(starts) < 20 and time.time() < blocked_from + 20:
                time.sleep(0.1)  # noqa: ASYNC251 - what is tested: the input loop blocks, the scheduling loop does not
            blocked_until = time.time()
        return [late - due for late, due in starts if blocked_from < due < blocked_until - 0.1]

    lateness = asyncio.run(scenario())
    assert len(lateness) >= 12
    assert sorted(lateness)[len(lateness) // 2] < 0.25


@pytest.mark.parametrize(("rate", "is_quick"), [(None, True), (otd.Rate(1_000, "1s", burst=1_000), False)])
def test_only_runs_without_gates_are_asked_for_beyond_the_seats(monkeypatch, rate, is_quick):
    """The store reads, and locks, as many runs as may be taken: runs with gates never are, beyond the seats."""
    sched, asks = otd.Scheduler("memory:"), []
    sched.job(name="work", rate=rate)(lambda: None)

    async def scenario():
        harness = Harness(START)
        await harness.start(sched)
        reserve = harness.store.reserve

        async def watched(ask, **named):
            asks.append(ask)
            return await reserve(ask, **named)

        monkeypatch.setattr(harness.store, "reserve", watched)
        await submit(harness, 0.0)
        await harness.advance("1s")
        await submit(harness, 0.0)
        await harness.advance("1s")
        await harness.stop()

    run_virtual(scenario())
    assert any(ask.extra for ask in asks) == is_quick
