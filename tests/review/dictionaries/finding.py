"""Finding things, in dictionaries: everything is looked at, and what matches is put in order."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from heapq import nlargest, nsmallest
from itertools import islice

from onthedot.job import Job, JobRecord
from onthedot.stores.queries import (
    FIRST,
    LAST,
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
    cursor_of,
    job_cursor,
)
from tests.review.dictionaries.history import History
from tests.review.dictionaries.jobs import Jobs
from tests.review.dictionaries.tables import Run


class Finding(History, Jobs, FindingSlice):
    """See `FindingSlice`."""

    async def scan_jobs(self, wanted: JobFilter, after: JobCursor, limit: int) -> JobScan:
        of = (
            self.shown_job(self.jobs[job_id])
            for place, job_id in self.names.items()
            if place > after and _is_job(wanted, self.jobs[job_id].job)
        )
        jobs = (record for record in of if wanted.states is None or record.state in wanted.states)
        return Scan(nsmallest(limit, jobs, key=job_cursor))

    async def scan_live(self, wanted: RunFilter, after: RunCursor, limit: int) -> RunScan:
        since, until = _span(wanted)
        runs = [
            run
            for run in self._live_of(wanted)
            if run.state in wanted.live_states and since <= run.due_at < until and (run.due_at, run.id) > after[1:]
            and self._is_wanted(wanted, run.key.job_id, run.queue)
            and wanted.node in (None, self.last_tried(run)[0])
        ]  # fmt: skip
        return Scan([self.shown_live(run) for run in nsmallest(limit, runs, key=lambda run: (run.due_at, run.id))])

    def _live_of(self, wanted: RunFilter) -> Iterable[Run]:
        """The live runs that may be wanted: of a job, if one is named."""
        if wanted.job_id is not None:
            return self.of_job[wanted.job_id].values() if wanted.job_id in self.jobs else ()
        if wanted.job is None:
            return self.runs.values()
        named = [job_id for job_id, record in self.jobs.items() if record.job.name == wanted.job]
        return [run for job_id in named for run in self.of_job[job_id].values()]

    async def scan_ended(self, wanted: RunFilter, after: RunCursor, limit: int) -> RunScan:
        since, until = _span(wanted)
        runs = [
            run
            for run in self.finished.values()
            if run.state in wanted.ended_states and since <= (run.ended_at or 0) < until and cursor_of(run) < after
            and self._is_wanted(wanted, self.finished_keys[run.id].job_id, run.queue)
            and wanted.node in (None, run.node)
        ]  # fmt: skip
        return Scan([self.shown_ended(run) for run in nlargest(limit, runs, key=cursor_of)])

    def _is_wanted(self, wanted: RunFilter, job_id: int, queue: str) -> bool:
        """Whether a run of this job, in this queue, is one of those that are asked for."""
        job = self.jobs[job_id].job
        return (
            wanted.job_id in (None, job_id)
            and wanted.job in (None, job.name)
            and wanted.queue in (None, queue)
            and _is_seen(wanted, job)
            and (wanted.label is None or wanted.label in job.labels)
        )

    async def scan_attempts(self, wanted: AttemptFilter, after: AttemptCursor, limit: int) -> AttemptScan:
        since, until = _span(wanted)
        attempts = [
            attempt
            for run_id, tried in self.attempts.items()
            if wanted.run_id in (None, run_id) and _is_seen(wanted, self._job_of(run_id))
            for attempt in tried
            if wanted.node in (None, attempt.node) and since <= attempt.ended_at < until
            and attempt_cursor(attempt) < after
        ]  # fmt: skip
        return Scan(nlargest(limit, attempts, key=attempt_cursor))

    async def scan_skips(self, wanted: SkipFilter, after: SkipCursor, limit: int) -> SkipScan:
        found = (
            (skip.id, skip.shown)
            for skip in reversed(self.skips)
            if skip.id < after.id and _is_seen(wanted, self.jobs[skip.job_id].job)
            and wanted.job in (None, skip.shown.job)
            and (wanted.since is None or skip.shown.last >= wanted.since)
            and (wanted.until is None or skip.shown.first < wanted.until)
        )  # fmt: skip
        return Scan(list(islice(found, limit)))

    def _job_of(self, run_id: int) -> Job:
        key = self.runs[run_id].key if run_id in self.runs else self.finished_keys[run_id]
        return self.jobs[key.job_id].job

    async def list_revisions(
        self, job_id: int, *, before: int | None = None, limit: int | None = None
    ) -> list[Revision]:
        newest_first = reversed(self.revisions.get(job_id, []))
        return [one for one in newest_first if before is None or one.revision < before][:limit]

    async def get_jobs_by_id(self, job_ids: Sequence[int]) -> list[JobRecord]:
        return [self.shown_job(self.jobs[job_id]) for job_id in sorted(set(job_ids)) if job_id in self.jobs]


def _is_seen(wanted: JobFilter | RunFilter | AttemptFilter | SkipFilter, job: Job) -> bool:
    """Whether the job, and all that belongs to it, is there for who asks."""
    return (wanted.namespaces is None or job.namespace in wanted.namespaces) and wanted.owner in (None, job.owner)


def _is_job(wanted: JobFilter, job: Job) -> bool:
    return (
        _is_seen(wanted, job)
        and wanted.queue in (None, job.queue)
        and (wanted.label is None or wanted.label in job.labels)
        and (wanted.name_contains is None or wanted.name_contains in job.name)
    )


def _span(wanted: RunFilter | AttemptFilter) -> tuple[int, int]:
    return FIRST if wanted.since is None else wanted.since, LAST if wanted.until is None else wanted.until
