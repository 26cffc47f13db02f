"""Defines the sample jobs of `onthedot up`: three handlers and a sleep, small enough to read.

They use only `import onthedot`: copy them, and change them. A store that has jobs of its own gets none of them.
"""

from __future__ import annotations

import asyncio
import shutil
from datetime import timedelta

import onthedot as otd
from onthedot.model.task import Call
from onthedot.stores.connect import open_store, sqlite_path

NONE_ADDED = "none added: this store has jobs of its own; for those that need your program: 'onthedot up app.py'"
"""What `onthedot up` prints if the store has jobs of its own."""


async def add_missing_samples(sched: otd.Scheduler, url: str) -> bool:
    """Define the sample jobs, unless the store has other jobs. Then define only the samples that it already has, and
    return False."""
    samples = otd.Scheduler("memory:")
    add_samples(samples)
    stored = await _stored_samples(url, samples.jobs)
    if stored is None:
        add_samples(sched)
        return True
    for name in stored:
        job = samples.jobs[name]
        if isinstance(job.task, Call):
            sched.registry.add(name, samples.registry.get(name).function)
        sched.add(job)
    return False


async def _stored_samples(url: str, samples: dict[str, otd.Job]) -> list[str] | None:
    """The samples that the store has; None if it has no other jobs."""
    path = sqlite_path(url)
    if url.startswith("memory:") or (path is not None and not path.exists()):
        return None
    store = await open_store(url)
    try:
        jobs = len(await store.queries.list_jobs(limit=len(samples) + 1))
        records = [await store.queries.get_job(name, namespace="default") for name in samples]
    finally:
        await store.close()
    stored = [record.job.name for record in records if record and record.job == samples[record.job.name]]
    return stored if jobs > len(stored) else None


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
