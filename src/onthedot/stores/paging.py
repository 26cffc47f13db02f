"""From what a driver has scanned to pages: the same for every store.

A driver scans: from a place on, in order, up to so many that match. Its answer says how far it has come if it gave up
before the end. Here that becomes pages, and pages become the lists that people ask for without paging.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from typing import Any, Generic, NamedTuple, Protocol, TypeVar

from onthedot.clock import Micros
from onthedot.job import JobRecord
from onthedot.run import AttemptRecord, RunRecord, RunState, SkipRecord
from onthedot.stores.finding import (
    FIRST_ATTEMPT,
    FIRST_ENDED,
    FIRST_JOB,
    FIRST_LIVE,
    FIRST_SKIP,
    AttemptCursor,
    AttemptFilter,
    AttemptPage,
    JobCursor,
    JobFilter,
    JobPage,
    RunCursor,
    RunFilter,
    RunPage,
    SkipCursor,
    SkipFilter,
    SkipPage,
)
from onthedot.stores.values import most

PAGE = 10_000
"""How many of a list are read at once, however many are wanted."""

T = TypeVar("T")
P = TypeVar("P", bound=tuple[Any, ...])


class Scan(NamedTuple, Generic[T, P]):
    """What matched, in order, at most as many as were asked for; and the place up to which it was looked for, if there
    is more behind it that nobody has looked at (None: that was all, or there are as many as were asked for)."""

    items: list[T]
    reached: P | None = None


RunScan = Scan[RunRecord, RunCursor]
JobScan = Scan[JobRecord, JobCursor]
AttemptScan = Scan[AttemptRecord, AttemptCursor]
SkipScan = Scan[tuple[int, SkipRecord], SkipCursor]


def cursor_of(run: RunRecord) -> RunCursor:
    """The place of a run in the list."""
    return RunCursor(False, run.due_at, run.id) if run.ended_at is None else RunCursor(True, run.ended_at, run.id)


def job_cursor(record: JobRecord) -> JobCursor:
    """The place of a job in the list."""
    return JobCursor(record.job.namespace, record.job.name)


def attempt_cursor(attempt: AttemptRecord) -> AttemptCursor:
    """The place of an attempt in the list."""
    return AttemptCursor(attempt.ended_at, attempt.run_id, attempt.attempt)


def merged(
    scans: Iterable[tuple[list[Any], tuple[int, ...] | None]], limit: int, *, place: Callable[[Any], tuple[int, ...]]
) -> tuple[list[Any], tuple[int, ...] | None]:
    """Rows of several lines, newest first, as those of one; each line comes with the place where it was given up.

    What lies behind the first of these places is left out: of another line there may be something between.

    >>> merged([([9, 5, 2], None), ([7], (4,))], 10, place=lambda row: (row,))
    ([9, 7, 5], (4,))
    """
    rows, stops = [], []
    for some, stop in scans:
        rows += some
        stops += [] if stop is None else [stop]
    reached = max(stops, default=None)
    kept = [row for row in rows if reached is None or place(row) >= reached]
    return sorted(kept, key=place, reverse=True)[:limit], reached


class FindsRuns(Protocol):
    """Whoever has pages of runs."""

    async def find_runs(self, wanted: RunFilter, *, after: RunCursor | None = None, limit: int = 100) -> RunPage:
        """See `FindingSlice`."""
        ...


async def all_runs(store: FindsRuns, wanted: RunFilter, limit: int | None = None) -> list[RunRecord]:
    """Page after page, at most so many; None: all. What moves between two pages is shown once, as it was seen last."""
    found: dict[int, RunRecord] = {}
    place: RunCursor | None = FIRST_LIVE
    while place is not None and len(found) < most(limit):
        some, place = await store.find_runs(wanted, after=place, limit=min(PAGE, most(limit) - len(found)))
        for run in some:
            found.pop(run.id, None)
            found[run.id] = run
    return list(found.values())


class FindsJobs(Protocol):
    """Whoever has pages of jobs."""

    async def find_jobs(self, wanted: JobFilter, *, after: JobCursor | None = None, limit: int = 100) -> JobPage:
        """See `FindingSlice`."""
        ...


async def all_jobs(store: FindsJobs, wanted: JobFilter, limit: int | None = None) -> list[JobRecord]:
    """Page after page, at most so many; None: all."""
    found: list[JobRecord] = []
    place: JobCursor | None = FIRST_JOB
    while place is not None and len(found) < most(limit):
        some, place = await store.find_jobs(wanted, after=place, limit=min(PAGE, most(limit) - len(found)))
        found += some
    return found


class Pages(ABC):
    """See `FindingSlice`. What is scanned is up to the driver."""

    @abstractmethod
    async def scan_jobs(self, wanted: JobFilter, after: JobCursor, limit: int) -> JobScan: ...

    @abstractmethod
    async def scan_live(self, wanted: RunFilter, after: RunCursor, limit: int) -> RunScan:
        """Live runs with one of `wanted.live_states`."""

    @abstractmethod
    async def scan_ended(self, wanted: RunFilter, after: RunCursor, limit: int) -> RunScan:
        """Finished runs with one of `wanted.ended_states`."""

    @abstractmethod
    async def scan_attempts(self, wanted: AttemptFilter, after: AttemptCursor, limit: int) -> AttemptScan: ...

    @abstractmethod
    async def scan_skips(self, wanted: SkipFilter, after: SkipCursor, limit: int) -> SkipScan:
        """Each with its number, the highest first."""

    async def find_jobs(self, wanted: JobFilter, *, after: JobCursor | None = None, limit: int = 100) -> JobPage:
        jobs, reached = await self.scan_jobs(wanted, after or FIRST_JOB, limit + 1)
        return JobPage(jobs[:limit], job_cursor(jobs[limit - 1]) if len(jobs) > limit else reached)

    async def find_runs(self, wanted: RunFilter, *, after: RunCursor | None = None, limit: int = 100) -> RunPage:
        found: list[RunRecord] = []
        if after is None or not after.ended:
            if wanted.live_states:
                found, reached = await self.scan_live(wanted, after or FIRST_LIVE, limit + 1)
                if len(found) > limit or reached is not None:
                    return RunPage(found[:limit], cursor_of(found[limit - 1]) if len(found) > limit else reached)
            after = FIRST_ENDED
        if not wanted.ended_states or len(found) == limit:
            return RunPage(found, after if wanted.ended_states else None)
        room = limit - len(found)
        ended, reached = await self.scan_ended(wanted, after, room + 1)
        following = cursor_of(ended[room - 1]) if len(ended) > room else reached
        seen = {run.id for run in found}  # one that has ended between the two looks is shown once
        return RunPage(found + [run for run in ended[:room] if run.id not in seen], following)

    async def find_attempts(
        self, wanted: AttemptFilter, *, after: AttemptCursor | None = None, limit: int = 100
    ) -> AttemptPage:
        attempts, reached = await self.scan_attempts(wanted, after or FIRST_ATTEMPT, limit + 1)
        return AttemptPage(attempts[:limit], attempt_cursor(attempts[limit - 1]) if len(attempts) > limit else reached)

    async def find_skips(self, wanted: SkipFilter, *, after: SkipCursor | None = None, limit: int = 100) -> SkipPage:
        skips, reached = await self.scan_skips(wanted, after or FIRST_SKIP, limit + 1)
        following = SkipCursor(skips[limit - 1][0]) if len(skips) > limit else reached
        return SkipPage([skip for _, skip in skips[:limit]], following)

    # ── all at once ──────────────────────────────────────────────────────────────────────────────────────────

    async def list_jobs(self, *, limit: int | None = None) -> list[JobRecord]:
        return await all_jobs(self, JobFilter(), limit)

    async def list_runs(
        self,
        *,
        job: str | None = None,
        namespace: str = "default",
        states: Iterable[RunState] | None = None,
        limit: int | None = None,
    ) -> list[RunRecord]:
        wanted = RunFilter(namespaces=(namespace,), job=job, states=None if states is None else frozenset(states))
        return await all_runs(self, wanted, limit)

    async def list_skips(
        self,
        *,
        job: str | None = None,
        namespace: str = "default",
        since: Micros | None = None,
        until: Micros | None = None,
        limit: int | None = None,
    ) -> list[SkipRecord]:
        wanted = SkipFilter(namespaces=(namespace,), job=job, since=since, until=until)
        found: list[SkipRecord] = []
        place: SkipCursor | None = FIRST_SKIP
        while place is not None and len(found) < most(limit):
            some, place = await self.find_skips(wanted, after=place, limit=min(PAGE, most(limit) - len(found)))
            found += some
        return found
