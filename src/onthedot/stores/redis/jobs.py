"""Definitions and their revisions, in Redis."""

from __future__ import annotations

from collections.abc import Sequence

from onthedot.clock import Micros
from onthedot.job import Job, JobRecord
from onthedot.schedules import is_grid, schedule_id
from onthedot.shards import bucket_of
from onthedot.stores.redis.rows import job_asked, read_schedule, window_asked
from onthedot.stores.redis.sweeps import Sweeps
from onthedot.stores.values import Parent, PutJob
from onthedot.window import ScheduleState, Window


class Jobs(Sweeps):
    """See `Store`."""

    _next_id = 1  # what the next job would get, as far as we know

    async def put_job(
        self, job: Job, windows: Sequence[Window] = (), *, expected: int | None = None, now: Micros | None = None
    ) -> PutJob:
        question = {
            "job": job_asked(job),
            "windows": [window_asked(window, job) for window in windows],
            "schedule_ids": [schedule_id(schedule) for schedule in job.schedules],
            "grids": {schedule_id(schedule): is_grid(schedule) for schedule in job.schedules},
        }
        while True:  # until the id that a new job gets is the one that its bucket was computed for
            bucket = bucket_of(self._next_id)
            said = await self.decide(
                "put_job", now=now, expected=expected, next_id=self._next_id, bucket=bucket, **question
            )
            if said[0] != "again":
                break
            self._next_id = said[1]
        change, row, planned, withdrawn, left = said
        if left is not None:
            await self.sweep(left, now)
        if change == "created":
            self._next_id += 1
        return PutJob(await self.record(row), change, planned, withdrawn)

    async def get_job(self, name: str, *, namespace: str = "default") -> JobRecord | None:
        found = await self.records(await self.look("get_jobs", names=[f"{namespace}\t{name}"]))
        return found[0] if found else None

    async def schedules_of(self, job_id: int) -> list[ScheduleState]:
        found = await self.look("schedules_of", job_id=job_id)
        states = [read_schedule(row, await self.record(row[0])) for row in found]
        return sorted(states, key=lambda state: state.schedule_id)

    async def parents_of(self, job_id: int) -> list[Parent]:
        found = await self.look("parents_of", job_id=job_id)
        return [_read_parent(name, noted) for name, noted in found]


def _read_parent(name: str, noted: str | None) -> Parent:
    if noted is None:
        return Parent(name)
    run_id, ended_at = noted.split()
    return Parent(name, int(run_id), int(ended_at))
