"""The jobs of `onthedot up`: three handlers and a sleep, small enough to read, for trying things out.

Nothing here uses more than `import onthedot`: copy it, and change what you like.
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
        """A coroutine, every few seconds. Its result is kept with the run."""
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
        """It fails twice and then succeeds, so that retries can be watched: after 1 s, then after 2 s. It tells how far
        it is."""
        if ctx.attempt <= 2:
            raise ConnectionError("the partner's server hung up")
        for rows in (40, 80, 120):
            await asyncio.sleep(0.5)
            ctx.progress(rows, of=120)
        return {"rows": 120}

    sched.add(otd.Job(name="nap", task=otd.Sleep(duration=timedelta(seconds=2)), schedules=(otd.every("15s"),)))
