"""The record of a run gives its instants as datetimes."""

from __future__ import annotations

import asyncio

import onthedot as otd
from onthedot.model.run import RunRecord
from onthedot.testing import Harness, run_virtual


def test_a_run_has_its_instants_as_datetimes():
    sched = otd.Scheduler("memory:")

    @sched.job(retry=otd.Retry(2, delay="1m", jitter=False))
    async def shaky(ctx: otd.Context) -> None:
        if ctx.attempt == 1:
            raise ConnectionError("away")
        await asyncio.sleep(5)

    async def main() -> tuple[RunRecord, RunRecord]:
        harness = Harness("2026-06-01T12:00Z")
        await harness.start(sched)
        await sched.submit(shaky)
        await harness.advance("30s")
        [waiting] = await harness.runs(shaky)
        await harness.advance("1m")
        [ended] = await harness.runs(shaky)
        return waiting, ended

    waiting, ended = run_virtual(main())
    assert [str(instant) for instant in (waiting.slot, waiting.due)] == [
        "2026-06-01 12:00:00+00:00",
        "2026-06-01 12:01:00+00:00",
    ]
    assert (waiting.started, waiting.ended) == (None, None)
    assert [f"{instant:%H:%M:%S}" for instant in (ended.slot, ended.due, ended.started, ended.ended) if instant] == [
        "12:00:00",
        "12:01:00",
        "12:01:00",
        "12:01:05",
    ]
