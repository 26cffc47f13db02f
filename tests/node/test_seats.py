"""Seats limit the running attempts, learn which jobs are quick, and hold less work when starts are late."""

import asyncio

import onthedot as otd
from onthedot.clock import MILLISECOND, SECOND
from onthedot.node.seats import Ahead, Pace
from onthedot.testing import Harness, run_virtual
from tests.node.one_node import START, program, states, submit


def test_no_job_is_quick_before_its_first_run():
    pace = Pace(500)
    assert (pace.quick, pace.beyond_seats(0)) == (frozenset(), 0)


def test_quick_jobs_are_taken_beyond_the_seats_within_the_budget():
    pace = Pace(500)
    pace.note(1, 20)
    assert (set(pace.quick), pace.beyond_seats(0)) == ({1}, 500)
    pace.note(2, 1_000)
    assert (set(pace.quick), pace.beyond_seats(0)) == ({1, 2}, 50)
    assert pace.beyond_seats(40) == 10
    assert pace.beyond_seats(60) == 0


def test_a_job_that_becomes_slow_is_no_longer_quick():
    pace = Pace(500)
    pace.note(1, 20)
    for _ in range(3):
        pace.note(1, 1_000_000)
    assert pace.quick == frozenset()


def test_only_a_limited_number_of_jobs_is_remembered():
    pace = Pace(500)
    for job_id in range(5_000):
        pace.note(job_id, 10)
    assert len(pace.quick) <= 1_001


# ── work held for later ──────────────────────────────────────────────────────────────────────────────────────


def test_a_late_node_holds_fewer_runs():
    """Each late batch halves the number, down to one. Each punctual batch adds one."""
    ahead = Ahead(64)
    for _ in range(3):
        ahead.note(80 * MILLISECOND)
    assert ahead.most == 8
    for _ in range(10):
        ahead.note(90 * MILLISECOND)
    assert ahead.most == 1
    for _ in range(100):
        ahead.note(MILLISECOND)
    assert ahead.most == 64


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


def test_a_node_never_runs_more_attempts_than_it_has_seats():
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


def test_no_run_starts_early_or_twice_when_the_clock_is_set():
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
