"""The verbs about jobs, over HTTP."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime, timedelta
from typing import Any
from urllib.parse import quote

from onthedot.client import values
from onthedot.client.asking import Asking, said_distance, said_instant, said_local
from onthedot.client.values import read
from onthedot.define.check import check_job
from onthedot.define.job_reader import read_job
from onthedot.define.job_writer import Written, written
from onthedot.define.wrong_text import WrongText
from onthedot.model.errors import DefinitionError, UnknownJob
from onthedot.model.job import Job, JobRecord
from onthedot.operations.apply import Applied, checked
from onthedot.operations.backfill import Backfill
from onthedot.operations.move_slot import To
from onthedot.rules.windows import Missed
from onthedot.stores.values import MovedSlot, Paused, PutJob, Resumed


class JobsAsked(Asking):
    """See `Verbs`."""

    async def put(self, job: Job, *, revision: int | None = None) -> PutJob:
        said = _written(job)
        query = {"namespace": job.namespace, "revision": revision}
        told = await self.server.ask("PUT", self._of_job(job.name), query=query, body=said, repeat=True)
        return read(values.put_job, told)

    async def apply(
        self, jobs: Iterable[Job], *, source: str, prune: bool = False, dry_run: bool = False, take_over: bool = False
    ) -> Applied:
        written = [_written(job) for job in checked(jobs, source)]
        body: dict[str, Any] = {"jobs": written, "prune": prune, "dry_run": dry_run}
        body |= {"take_over": True} if take_over else {}  # an older server does not know it
        path = f"/api/v1/sources/{quote(source, safe='/')}"
        return read(_applied, await self.server.ask("PUT", path, body=body, repeat=dry_run))

    async def remove(self, job: str) -> int:
        return int((await self.server.ask("DELETE", self._of_job(job), query=self._here))["cancelled"])

    async def pause(self, job: str, *, reason: str = "", until: datetime | None = None) -> Paused:
        body = {"reason": reason, "until": said_instant(until, "until")}
        return read(values.paused, await self._do(job, "pause", body))

    async def resume(self, job: str, *, missed: Missed = "none", dry_run: bool = False) -> Resumed:
        if missed not in ("none", "last", "all"):
            raise DefinitionError(f"missed: expected 'none', 'last' or 'all', got {missed!r}")
        body = {"missed": missed, "dry_run": dry_run}
        return read(values.resumed, await self._do(job, "resume", body, repeat=dry_run))

    async def get_job(self, job: str) -> JobRecord | None:
        try:
            return await self._found(job)
        except UnknownJob:
            return None

    async def _found(self, job: str) -> JobRecord:
        return read(values.job_record, await self.server.ask("GET", self._of_job(job), query=self._here))

    async def list_jobs(self, *, limit: int | None = None) -> list[JobRecord]:
        return [job async for job in self._pages(values.job_record, "/api/v1/jobs", {}, limit)]

    async def skip_next(self, job: str, *, slot: datetime | None = None, schedule: str | None = None) -> MovedSlot:
        body = {"slot": said_instant(slot, "slot"), "schedule": schedule}
        return read(values.excepted, await self._do(job, "skip-next", body, repeat=slot is not None))

    async def move_next(
        self, job: str, *, to: To, slot: datetime | None = None, schedule: str | None = None
    ) -> MovedSlot:
        where = said_distance(to) if isinstance(to, timedelta) else said_local(to, "to")
        body = {"to": where, "slot": said_instant(slot, "slot"), "schedule": schedule}
        return read(values.excepted, await self._do(job, "move-next", body))

    async def backfill(
        self,
        job: str,
        start: datetime | str,
        end: datetime | str,
        *,
        schedule: str | None = None,
        dry_run: bool = False,
        limit: int = 10_000,
    ) -> Backfill:
        body = {
            "start": said_local(start, "start"),
            "end": said_local(end, "end"),
            "schedule": schedule,
            "dry_run": dry_run,
            "limit": limit,
        }
        return read(_backfill, await self._do(job, "backfill", body, repeat=dry_run))

    @property
    def _here(self) -> dict[str, str]:
        return {"namespace": self.namespace}

    async def _do(self, job: str, deed: str, body: dict[str, Any], *, repeat: bool = False) -> Any:
        return await self.server.ask("POST", self._of_job(job, deed), query=self._here, body=body, repeat=repeat)


def _written(job: Job) -> Written:
    """A job as it is sent. What would not be the same when it is read again is not sent at all."""
    check_job(job)
    said = written(job)
    try:
        same = read_job(said) == job
    except WrongText as error:
        raise DefinitionError(error.problems, subject=f"job {job.name!r} cannot be sent to a server") from None
    if not same:
        raise DefinitionError(
            "expected what a file can say, got more; store it with a Scheduler", subject=f"job {job.name!r}"
        )
    return said


def _applied(told: values.Told) -> Applied:
    return Applied(
        source=told["source"],
        differences=tuple(map(values.difference, told["differences"])),
        elsewhere=told["elsewhere"],
        warnings=told.get("warnings", {}),
        refused=tuple(told.get("refused", ())),
        paused=tuple(told["paused"]),
        left=tuple(told["left"]),
        dry_run=told["dry_run"],
    )


def _backfill(told: values.Told) -> Backfill:
    return Backfill(
        told["job"],
        told["slots"],
        values.moment(told["first"]),
        values.moment(told["last"]),
        told["existing"],
        told["succeeded"],
        tuple(told["run_ids"]),
        told["dry_run"],
    )
