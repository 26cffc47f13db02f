"""A resume is safe if another process changes the job after the resumer has read it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import pytest

import onthedot as otd
from onthedot.clock import Clock, Micros
from onthedot.model.errors import RevisionConflict
from onthedot.model.events import Event, Events
from onthedot.model.job import JobState
from onthedot.node.sweeps import Resumer
from onthedot_verify.contract.workbench import Workbench, at, every, window


class StandingClock:
    """A clock that shows the time of the workbench."""

    def __init__(self, bench: Workbench) -> None:
        self._bench = bench

    def now(self) -> Micros:
        return self._bench.now

    steady = now


class Interrupted:
    """The store of the workbench, with an action between the read of schedules and the resume."""

    def __init__(self, bench: Workbench, happens: Callable[[], Awaitable[object]]) -> None:
        self._bench = bench
        self._happens = happens
        self.queries = self

    async def schedules_of(self, job_id: int) -> Any:
        states = await self._bench.store.queries.schedules_of(job_id)
        await self._happens()
        return states

    async def due_resumes(self) -> Any:
        return await self._bench.store.queries.due_resumes(now=self._bench.now)

    async def resume_job(self, *args: Any, **options: Any) -> Any:
        return await self._bench.store.resume_job(*args, now=self._bench.now, **options)


async def resume_what_is_due(bench: Workbench, happens: Callable[[], Awaitable[object]]) -> None:
    store: Any = Interrupted(bench, happens)
    clock: Clock = StandingClock(bench)
    seen: list[Event] = []
    await Resumer(store, clock, otd.Settings(), Events([seen.append])).tick(bench.now)


async def paused(bench: Workbench):
    record = await bench.define(slots=(10, 20))
    await bench.store.pause_job(record.id, reason="a while", until=at(5), now=bench.now)
    bench.turn(6)
    return record


async def test_a_job_that_is_deleted_meanwhile_does_not_end_the_engine(bench: Workbench):
    record = await paused(bench)

    async def deleted() -> None:
        await bench.store.delete_job(record.id, now=bench.now)

    await resume_what_is_due(bench, deleted)


async def test_a_job_that_is_paused_again_stays_paused(bench: Workbench):
    """A user has extended the pause, and got the answer that the job is paused."""
    record = await paused(bench)

    async def extended() -> None:
        await bench.store.pause_job(record.id, reason="longer", until=None, now=bench.now)

    await resume_what_is_due(bench, extended)
    stored = await bench.store.queries.get_job("job")
    assert stored is not None
    assert (stored.state, stored.pause_reason) == (JobState.PAUSED, "longer")


async def test_windows_of_an_older_definition_resume_nothing(bench: Workbench):
    """The schedule kept its id and its watermark, but yields other instants now."""
    record = await paused(bench)
    await bench.put(bench.job(every(7)), window(6, 36, [7, 14], next_at=21))
    plan = window(0, 36, [10, 20, 30], next_at=40)
    assert (await bench.schedule(record)).watermark == plan.start
    async with bench.nothing_written():
        with pytest.raises(RevisionConflict):
            await bench.store.resume_job(record.id, [plan], expected=record.revision, now=bench.now)
    resumed = await bench.store.resume_job(record.id, [window(0, 36, [14], next_at=21)], expected=2, now=bench.now)
    assert resumed.slots == (at(14),)
