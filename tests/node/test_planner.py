"""The planner's doubts about a clock that jumps."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime

import onthedot as otd
from onthedot.clock import SECOND
from onthedot.model.events import ClockStepped, SlotsSkipped
from onthedot.node.planner import LARGEST_STEP, StepGuard
from onthedot.simulate.virtual_loop import run_virtual
from onthedot.testing.harness import Harness


class Clocks:
    def __init__(self) -> None:
        self.wall = 1_000 * SECOND
        self.boot = 0

    def now(self) -> int:
        return self.wall

    def steady(self) -> int:
        return self.boot

    def passes(self, length: int) -> int:
        self.wall += length
        self.boot += length
        return self.wall


def test_a_large_step_is_believed_when_it_was_seen_three_times():
    clocks = Clocks()
    guard = StepGuard(clocks)
    assert guard.jump(clocks.now()) == 0
    clocks.wall += LARGEST_STEP + 1
    assert [guard.jump(clocks.passes(SECOND)) for _ in range(4)] == [LARGEST_STEP + 1, LARGEST_STEP + 1, 0, 0]


def test_small_steps_steps_back_and_sleep_are_no_reason_to_wait():
    clocks = Clocks()
    guard = StepGuard(clocks)
    for step in (0, LARGEST_STEP, -3600 * SECOND, 0):
        clocks.wall += step
        assert guard.jump(clocks.passes(SECOND)) == 0
    assert guard.jump(clocks.passes(10 * 3600 * SECOND)) == 0, "a lid that was closed is no step"


def test_a_step_that_is_taken_back_passes_over_nothing():
    """The clock is set an hour ahead by mistake and back within a second: no slot is skipped."""
    sched = otd.Scheduler("memory:")

    @sched.job(schedule=otd.every("10s"))
    async def tick() -> None: ...

    async def scenario():
        harness = Harness(datetime(2026, 6, 1, 12, tzinfo=UTC))
        await harness.start(sched)
        await asyncio.sleep(24)
        harness.clock.step(3600 * SECOND)
        await asyncio.sleep(2)
        harness.clock.step(-3600 * SECOND)
        await asyncio.sleep(60)
        await harness.stop()
        return harness.events

    told = run_virtual(scenario())
    assert not [event for event in told if isinstance(event, SlotsSkipped)]
    assert {event.ahead for event in told if isinstance(event, ClockStepped)} == {3600 * SECOND}
