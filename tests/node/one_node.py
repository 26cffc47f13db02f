"""One node with one job, in virtual time, with the real engine."""

import asyncio
from datetime import UTC, datetime

import onthedot as otd
from onthedot.clock import SECOND
from onthedot.model.run import NewRun
from onthedot.testing import Harness

START = datetime(2026, 6, 1, 12, 0, tzinfo=UTC)


def program(settings: otd.Settings, seconds: float = 0.0) -> tuple[otd.Scheduler, list[int]]:
    """Return a program with the job `work`, whose runs take `seconds`, and the list of run ids as they start."""
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
