"""Finding things, in Redis: along the sorted sets that have them in their order, a page of records for each script.

Finished runs have an index by job, and one of all: what else is asked of them is looked for in steps, like everywhere.
Attempts are kept with their runs, and in no index.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from onthedot.errors import DefinitionError
from onthedot.job import JobRecord, JobState
from onthedot.run import SkipRecord
from onthedot.stores.queries import (
    FIRST,
    LAST,
    SCANNED,
    AttemptCursor,
    AttemptFilter,
    AttemptScan,
    FindingSlice,
    JobCursor,
    JobFilter,
    JobScan,
    Revision,
    RunCursor,
    RunFilter,
    RunScan,
    Scan,
    SkipCursor,
    SkipFilter,
    SkipScan,
    attempt_cursor,
)
from onthedot.stores.redis.history import History
from onthedot.stores.redis.jobs import Jobs
from onthedot.stores.redis.rows import read_run
from onthedot.stores.values import most

ROWS = 500
"""How many records one script looks at: some milliseconds of the server's time."""


class Finding(History, Jobs, FindingSlice):
    """See `FindingSlice`."""

    async def scan_live(self, wanted: RunFilter, after: RunCursor, limit: int) -> RunScan:
        start = max((after.at, after.id), (FIRST if wanted.since is None else wanted.since, 0))
        until = LAST if wanted.until is None else wanted.until
        asked = _asked(wanted) | {"states": sorted(wanted.live_states), "until_": until}
        rows, reached = await self._steps("list_live", asked, list(start), limit)
        return Scan([read_run(row) for row in rows], None if reached is None else RunCursor(False, *reached))

    async def scan_ended(self, wanted: RunFilter, after: RunCursor, limit: int) -> RunScan:
        start = min((after.at, after.id), (LAST if wanted.until is None else wanted.until, 0))
        since = FIRST if wanted.since is None else wanted.since
        asked = _asked(wanted) | {"states": sorted(wanted.ended_states), "since": since}
        rows, reached = await self._steps("list_ended", asked, list(start), limit)
        return Scan([read_run(row) for row in rows], None if reached is None else RunCursor(True, *reached))

    async def scan_jobs(self, wanted: JobFilter, after: JobCursor, limit: int) -> JobScan:
        states = None if wanted.states is None else sorted(wanted.states)
        asked = {
            "namespaces": wanted.namespaces, "owner": wanted.owner, "label": wanted.label, "queue": wanted.queue,
            "name_contains": wanted.name_contains, "states": states,
        }  # fmt: skip
        rows, reached = await self._steps("find_jobs", asked, "\t".join(after), limit)
        return Scan(await self.records(rows), None if reached is None else JobCursor(*reached.split("\t")))

    async def _steps(self, name: str, asked: dict[str, Any], after: Any, limit: int) -> tuple[list[Any], Any]:
        """What a script that looks at some records finds, until there is enough, or many were looked at; and how far
        that is (None: there is no more)."""
        found: list[Any] = []
        for _ in range(max(1, SCANNED // ROWS)):
            rows, after = await self.look(name, **asked, after=after, rows=ROWS, limit=limit - len(found))
            found += rows
            if after is None or len(found) == limit:
                break
        return found, after

    async def scan_attempts(self, wanted: AttemptFilter, after: AttemptCursor, limit: int) -> AttemptScan:
        if wanted.run_id is None:
            raise DefinitionError(
                "attempts: expected the run that they are of, because Redis keeps them with their runs, and has no "
                "index of them by node or time; name a run, or look for runs by their node"
            )
        run = await self.get_run(wanted.run_id)
        if run is None or wanted.owner not in (None, run.owner):
            return Scan([])
        if wanted.namespaces is not None and run.namespace not in wanted.namespaces:
            return Scan([])
        since, until = (FIRST if wanted.since is None else wanted.since), LAST if wanted.until is None else wanted.until
        found = [
            attempt
            for attempt in await self.list_attempts(run.id)
            if wanted.node in (None, attempt.node) and since <= attempt.ended_at < until
            and attempt_cursor(attempt) < after
        ]  # fmt: skip
        return Scan(sorted(found, key=attempt_cursor, reverse=True)[:limit])

    async def scan_skips(self, wanted: SkipFilter, after: SkipCursor, limit: int) -> SkipScan:
        asked = {
            "namespaces": wanted.namespaces, "owner": wanted.owner, "job": wanted.job, "since": wanted.since,
            "until_": wanted.until,
        }  # fmt: skip
        rows, reached = await self._steps("list_skips", asked, after.id, limit)
        found = [(number, SkipRecord(name, *row)) for number, name, row in rows]
        return Scan(found, None if reached is None else SkipCursor(reached))

    async def list_revisions(
        self, job_id: int, *, before: int | None = None, limit: int | None = None
    ) -> list[Revision]:
        jobs = await self.look("get_jobs_by_id", job_ids=[job_id])
        newest = max((row[1] for row in jobs), default=0)
        first = newest if before is None else min(newest, before - 1)
        wanted = range(first, max(0, first - most(limit)), -1)
        records = await self.records((job_id, one, JobState.ACTIVE, 0, 0, None, None) for one in wanted)
        return [Revision(record.revision, record.job, record.updated_at) for record in records]

    async def get_jobs_by_id(self, job_ids: Sequence[int]) -> list[JobRecord]:
        return await self.records(await self.look("get_jobs_by_id", job_ids=sorted(set(job_ids))))


def _asked(wanted: RunFilter) -> dict[str, Any]:
    return {
        "namespaces": wanted.namespaces, "owner": wanted.owner, "job": wanted.job, "job_id": wanted.job_id,
        "queue": wanted.queue, "label": wanted.label, "node": wanted.node,
    }  # fmt: skip
