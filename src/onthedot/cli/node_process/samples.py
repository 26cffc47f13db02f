"""Defines the sample jobs of `onthedot up`: three handlers and a sleep, small enough to read.

They use only `import onthedot`: copy them, and change them.
"""

from __future__ import annotations

import asyncio
import shutil
from datetime import timedelta

import onthedot as otd


def add_samples(sched: otd.Scheduler) -> None:
    """Define the sample jobs."""

    @sched.job(schedule=otd.every("5s"))
    async def heartbeat(ctx: otd.Context) -> dict[str, str]:
        """A coroutine, every few seconds. Its result is stored with the run."""
        return {"scheduled_at": ctx.scheduled_at.isoformat()}

    @sched.job(schedule=otd.cron("* * * * *", tz="UTC"), catch_up="last", timeout="10s")
    def minute_report() -> dict[str, float]:
        """A plain function, by cron: it runs in a thread, so it may block."""
        disk = shutil.disk_usage(".")
        return {"disk_free_gb": round(disk.free / 1e9, 1)}

    @sched.job(
        schedule=otd.every("20s"),
        retry=otd.Retry(5, delay="1s", jitter=False, on=(ConnectionError,)),
    )
    async def flaky_import(ctx: otd.Context) -> dict[str, int]:
        """It fails twice, is retried after 1 s and 2 s, and then succeeds. It reports its progress."""
        if ctx.attempt <= 2:
            raise ConnectionError("the partner's server hung up")
        for rows in (40, 80, 120):
            await asyncio.sleep(0.5)
            ctx.progress(rows, of=120)
        return {"rows": 120}

    sched.add(otd.Job(name="nap", task=otd.Sleep(duration=timedelta(seconds=2)), schedules=(otd.every("15s"),)))
