"""Finding things, in PostgreSQL: along an index that has them in their order, and for no more than some rows at a time.

    runs        of a few jobs: along each job's own index, and merged; else along that of all
    live        by `runs_due`; of jobs with few live runs, those are sorted
    finished    by `history_ended`, or `history_job_ended`; what did not succeed by `history_unsuccessful`
    attempts    by `attempts_node`: of one node, or of each, and merged
    skips       by id

If not all of a line matches, it is asked first where to stop: what is read lies between two places. Which plan serves
that is the server's choice; of a job with few finished runs it may sort them.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import suppress
from typing import NamedTuple

from onthedot.errors import StoreUnusable
from onthedot.job import JobRecord
from onthedot.run import TERMINAL, AttemptRecord, RunState, SkipRecord
from onthedot.stores.finding import (
    FIRST,
    LAST,
    SCANNED,
    AttemptCursor,
    AttemptFilter,
    JobCursor,
    JobFilter,
    Revision,
    RunCursor,
    RunFilter,
    SkipCursor,
    SkipFilter,
)
from onthedot.stores.paging import AttemptScan, JobScan, Pages, RunScan, Scan, SkipScan, merged
from onthedot.stores.postgres.history import FINISHED, LIVE, LIVE_NODE, History
from onthedot.stores.postgres.jobs import SHOWN, Jobs
from onthedot.stores.postgres.transaction import Transaction
from onthedot.stores.postgres.triggers import with_slots
from onthedot.stores.showing import shown

LINES = 20
"""How many jobs a filter may name for each to be looked through on its own."""

_LAST_NAME = "\U0010ffff"  # behind every other

_SEEN = "($1::text[] IS NULL OR j.namespace = ANY($1)) AND ($2::text IS NULL OR j.owner = $2)"

# A route is a queue, a tab and labels with commas between; before it may be that it waits for the leader.
_LABELLED = r"""
($3::text IS NULL OR $3 = ANY(string_to_array(split_part(replace(j.route, E'!leader\t', ''), E'\t', 2), ',')))
"""

_OF_JOB = f"{_SEEN} AND {_LABELLED} AND ($4::text IS NULL OR j.name = $4) AND ($5::bigint IS NULL OR j.id = $5)"

# By the first of these that is asked for.
FIND_JOBS_BY = {
    name: f"SELECT j.id, {_OF_JOB} FROM jobs j WHERE {by} LIMIT $6"  # noqa: S608 - constants of this file
    for name, by in {
        "job_id": "j.id = $5",
        "job": "j.name = $4",
        "owner": "j.owner = $2",
        "namespaces": "j.namespace = ANY($1)",
    }.items()
}

_LIVE_WANTED = f"""
{_OF_JOB} AND r.state = ANY($6::text[]) AND ($7::text IS NULL OR r.queue = $7)
AND ($8::text IS NULL OR {LIVE_NODE} = $8)
"""

_ENDED_WANTED = f"""
{_OF_JOB} AND h.state = ANY($6::text[]) AND ($7::text IS NULL OR h.queue = $7)
AND ($8::text IS NULL OR coalesce(a.node, '') = $8)
"""

_LIVE_SPAN = "(r.due_at, r.id) > ($9::bigint, $10::bigint) AND (r.due_at, r.id) <= ($11::bigint, $12::bigint)"

LIST_LIVE = LIVE.format(wanted=f"{_LIVE_SPAN} AND {_LIVE_WANTED} ORDER BY r.due_at, r.id LIMIT $13")

STOP_LIVE = """
SELECT due_at, id FROM runs WHERE (due_at, id) > ($1::bigint, $2::bigint) ORDER BY due_at, id LIMIT 1 OFFSET $3 - 1
"""

# In the order of the key, so that nothing else is read to count them.
COUNT_LIVE_OF_JOBS = """
SELECT count(*) FROM (
    SELECT 1 FROM unnest($1::bigint[]) line (job_id) CROSS JOIN LATERAL (
        SELECT 1 FROM runs r WHERE r.job_id = line.job_id ORDER BY r.slot_at, r.trigger, r.target LIMIT $2) live
    LIMIT $2) some_live
"""

LIST_LIVE_OF_JOBS = LIVE.format(
    wanted=f"r.job_id = ANY($14::bigint[]) AND {_LIVE_SPAN} AND {_LIVE_WANTED} ORDER BY r.due_at, r.id LIMIT $13"
)

# The instants once more by themselves: months that lie apart are not looked into.
_ENDED_SPAN = """
(h.ended_at, h.id) < ($9::bigint, $10::bigint) AND (h.ended_at, h.id) >= ($11::bigint, $12::bigint)
AND h.ended_at <= $9 AND h.ended_at >= $11
"""

_NEWEST_FIRST = "ORDER BY h.ended_at DESC, h.id DESC"


class Line(NamedTuple):
    """The statements that go along one index, or along that of each of some jobs: what is there between two places, and
    where to stop after so many rows."""

    list: str
    stop: str


def _ended_line(line: str) -> Line:
    stop = f"""
SELECT h.ended_at, h.id FROM history h
WHERE {line} AND (h.ended_at, h.id) < ($1::bigint, $2::bigint) AND h.ended_at <= $1 AND h.ended_at >= $3::bigint
{_NEWEST_FIRST} LIMIT 1 OFFSET $4 - 1
"""  # noqa: S608
    return Line(FINISHED.format(wanted=f"{line} AND {_ENDED_SPAN} AND {_ENDED_WANTED} {_NEWEST_FIRST} LIMIT $13"), stop)


ENDED_LINE = _ended_line("true")
UNSUCCESSFUL_LINE = _ended_line("h.state <> 'succeeded'")
_OF_EACH = _ended_line("h.job_id = line.job_id")
ENDED_OF_JOBS_LINE = Line(
    f"SELECT run.* FROM unnest($14::bigint[]) line (job_id) CROSS JOIN LATERAL ({_OF_EACH.list}) run",  # noqa: S608
    f"""SELECT stop.ended_at, stop.id FROM unnest($5::bigint[]) line (job_id) CROSS JOIN LATERAL ({_OF_EACH.stop}) stop
ORDER BY stop.ended_at DESC, stop.id DESC LIMIT 1""",  # noqa: S608
)

_JOB_WANTED = f"""
{_SEEN} AND {_LABELLED} AND ($4::text IS NULL OR j.queue = $4) AND ($5::text IS NULL OR strpos(j.name, $5) > 0)
"""

_STATE_SHOWN = SHOWN[SHOWN.index("CASE WHEN") : SHOWN.index("FROM jobs j {wanted}")]

_BY = ("true", "j.owner = $2")

# In the order of the index, by all or by one owner, up to the name at which to stop.
LIST_JOBS, LIST_JOBS_OF_OWNER = (
    with_slots(
        SHOWN.replace("FROM jobs j", ", j.namespace, j.name FROM jobs j"),
        wanted=f"""
WHERE {line} AND j.state <> 'deleted' AND (j.namespace, j.name) > ($7::text, $8::text)
AND (j.namespace, j.name) <= ($9::text, $10::text) AND {_JOB_WANTED}
AND ($6::text[] IS NULL OR {with_slots(_STATE_SHOWN)} = ANY($6))
ORDER BY j.namespace, j.name LIMIT $11""",
    )
    for line in _BY
)

STOP_JOBS, STOP_JOBS_OF_OWNER = (
    f"""
SELECT j.namespace, j.name FROM jobs j
WHERE {line} AND j.state <> 'deleted' AND (j.namespace, j.name) > ($1::text, $3::text)
ORDER BY j.namespace, j.name LIMIT 1 OFFSET $4 - 1
"""  # noqa: S608
    for line in ("($2::text IS NULL OR true)", "j.owner = $2")
)

SHOW_JOBS = with_slots(SHOWN, wanted="WHERE j.id = ANY($1::bigint[]) ORDER BY j.id")

LIST_REVISIONS = """
SELECT v.job_id, v.revision, j.state, v.created_at FROM job_revisions v JOIN jobs j ON j.id = v.job_id
WHERE v.job_id = $1 AND v.revision < $2 ORDER BY v.revision DESC LIMIT $3
"""

# One step for each node that has any.
LIST_NODES = """
WITH RECURSIVE tried (node) AS (
    (SELECT node FROM attempts ORDER BY node LIMIT 1)
    UNION ALL
    SELECT (SELECT a.node FROM attempts a WHERE a.node > tried.node ORDER BY a.node LIMIT 1)
    FROM tried WHERE tried.node IS NOT NULL)
SELECT node FROM tried WHERE node IS NOT NULL
"""

_ATTEMPT_PLACE = "(a.ended_at, a.run_id, a.attempt)"

_NEWEST_ATTEMPT_FIRST = "ORDER BY a.ended_at DESC, a.run_id DESC, a.attempt DESC"

# An attempt is seen by who sees its run's job.
_ATTEMPTS = f"""
SELECT a.run_id, a.attempt, a.lease_id, a.fence, a.node, a.revision, a.outcome, a.error, a.due_at, a.reserved_at,
       a.armed_at, a.started_at, a.ended_at
FROM attempts a
WHERE {{line}} AND {_ATTEMPT_PLACE} < ($3::bigint, $4::bigint, $5::integer)
AND {_ATTEMPT_PLACE} >= ($6::bigint, $7::bigint, $8::integer) AND a.ended_at <= $3 AND a.ended_at >= $6
AND (($1::text[] IS NULL AND $2::text IS NULL) OR EXISTS (
    SELECT 1 FROM jobs j
    WHERE j.id = coalesce((SELECT h.job_id FROM history h WHERE h.id = a.run_id LIMIT 1),
                          (SELECT r.job_id FROM runs r WHERE r.id = a.run_id))
    AND {_SEEN}))
{_NEWEST_ATTEMPT_FIRST} LIMIT $9
"""  # noqa: S608

LIST_ATTEMPTS = f"""
SELECT attempt.* FROM unnest($10::text[]) line (node) CROSS JOIN LATERAL ({_ATTEMPTS.format(line="a.node = line.node")})
attempt
"""  # noqa: S608

LIST_ATTEMPTS_OF_RUN = _ATTEMPTS.format(line="a.run_id = $10 AND ($11::text IS NULL OR a.node = $11)")

STOP_ATTEMPTS = f"""
SELECT a.ended_at, a.run_id, a.attempt FROM unnest($6::text[]) line (node) CROSS JOIN LATERAL (
    SELECT a.ended_at, a.run_id, a.attempt FROM attempts a
    WHERE a.node = line.node AND {_ATTEMPT_PLACE} < ($1::bigint, $2::bigint, $3::integer)
    AND a.ended_at <= $1 AND a.ended_at >= $4::bigint
    {_NEWEST_ATTEMPT_FIRST} LIMIT 1 OFFSET $5 - 1) a
{_NEWEST_ATTEMPT_FIRST} LIMIT 1
"""  # noqa: S608

LIST_SKIPS = f"""
SELECT s.id, j.name, s.schedule_id, s.first, s.last, s.count, s.reason, s.recorded_at
FROM skips s JOIN jobs j ON j.id = s.job_id
WHERE {_SEEN} AND ($3::text IS NULL OR j.name = $3)
AND ($4::bigint IS NULL OR s.last >= $4) AND ($5::bigint IS NULL OR s.first < $5)
AND s.id < $6::bigint AND s.id >= $7::bigint
ORDER BY s.id DESC LIMIT $8
"""  # noqa: S608

STOP_SKIPS = "SELECT id FROM skips WHERE id < $1 ORDER BY id DESC LIMIT 1 OFFSET $2 - 1"


class Finding(Pages, History, Jobs):
    """See `FindingSlice`."""

    async def scan_live(self, wanted: RunFilter, after: RunCursor, limit: int) -> RunScan:
        start = max((after.at, after.id), (FIRST if wanted.since is None else wanted.since, 0))
        end = (LAST if wanted.until is None else wanted.until, 0)
        values = _run_values(wanted, wanted.live_states)

        async def work(tx: Transaction) -> RunScan:
            jobs = await _jobs_of(tx, wanted)
            if jobs is not None and await tx.value(COUNT_LIVE_OF_JOBS, jobs, SCANNED + 1) <= SCANNED:
                rows = await tx.rows(LIST_LIVE_OF_JOBS, *values, *start, *end, limit, jobs)
                return Scan([shown(row) for row in rows])
            stop = None if _is_everything(wanted) else await tx.row(STOP_LIVE, *start, SCANNED)
            reached = None if stop is None or tuple(stop) >= end else RunCursor(False, *stop)
            rows = await tx.rows(LIST_LIVE, *values, *start, *(end if reached is None else reached[1:]), limit)
            return Scan([shown(row) for row in rows], reached)

        return await self.show(work)

    async def scan_ended(self, wanted: RunFilter, after: RunCursor, limit: int) -> RunScan:
        start = (after.at, after.id) if wanted.until is None else min((after.at, after.id), (wanted.until, 0))
        end = (FIRST if wanted.since is None else wanted.since, 0)
        values = _run_values(wanted, wanted.ended_states)

        async def work(tx: Transaction) -> RunScan:
            jobs = await _jobs_of(tx, wanted)
            if jobs is not None:
                line, rows, whose = ENDED_OF_JOBS_LINE, SCANNED // max(1, len(jobs)), [jobs]
                mixed = wanted.ended_states != TERMINAL or wanted.queue is not None or wanted.node is not None
            else:
                line = ENDED_LINE if RunState.SUCCEEDED in wanted.ended_states else UNSUCCESSFUL_LINE
                rows, whose, mixed = SCANNED, [], not _is_everything(wanted)
            stop = await tx.row(line.stop, *start, end[0], max(1, rows), *whose) if mixed else None
            reached = None if stop is None else RunCursor(True, *stop)
            found = await tx.rows(line.list, *values, *start, *(end if reached is None else reached[1:]), limit, *whose)
            ended, _ = merged([(found, None)], limit, place=lambda row: (row[14], row[0]))
            return Scan([shown(row) for row in ended], reached)

        return await self.show(work)

    async def scan_jobs(self, wanted: JobFilter, after: JobCursor, limit: int) -> JobScan:
        listing, stopping = (LIST_JOBS, STOP_JOBS) if wanted.owner is None else (LIST_JOBS_OF_OWNER, STOP_JOBS_OF_OWNER)
        values = (
            _listed(wanted.namespaces), wanted.owner, wanted.label, wanted.queue, wanted.name_contains,
            _listed(wanted.states), *after,
        )  # fmt: skip

        async def work(tx: Transaction) -> JobScan:
            stop = None
            if wanted != JobFilter():
                stop = await tx.row(stopping, after.namespace, wanted.owner, after.name, SCANNED)
            rows = await tx.rows(listing, *values, *(stop or (_LAST_NAME, "")), limit)
            await self.records.load(tx, [row[:3] for row in rows])
            jobs = []
            for row in rows:
                with suppress(StoreUnusable):  # one unreadable definition hides itself only; get_job tells why
                    jobs.append(self.shown_job(*row[:6]))
            last = tuple(rows[-1])[6:] if len(rows) == limit else stop
            return Scan(jobs, None if len(jobs) == limit or last is None else JobCursor(*last))

        return await self.show(work)

    async def scan_attempts(self, wanted: AttemptFilter, after: AttemptCursor, limit: int) -> AttemptScan:
        start = after if wanted.until is None else min(after, AttemptCursor(wanted.until, 0, 0))
        end = AttemptCursor(FIRST if wanted.since is None else wanted.since, 0, 0)
        seen = (_listed(wanted.namespaces), wanted.owner)

        async def work(tx: Transaction) -> AttemptScan:
            if wanted.run_id is not None:
                of_run = (*seen, *start, *end, limit, wanted.run_id, wanted.node)
                return Scan([AttemptRecord(*row) for row in await tx.rows(LIST_ATTEMPTS_OF_RUN, *of_run)])
            nodes = [wanted.node] if wanted.node is not None else [node for (node,) in await tx.rows(LIST_NODES)]
            stop = None
            if seen != (None, None):
                stop = await tx.row(STOP_ATTEMPTS, *start, end.ended_at, max(1, SCANNED // max(1, len(nodes))), nodes)
            reached = None if stop is None else AttemptCursor(*stop)
            rows = await tx.rows(LIST_ATTEMPTS, *seen, *start, *(reached or end), limit, nodes)
            found, _ = merged([(rows, None)], limit, place=lambda row: (row[12], row[0], row[1]))
            return Scan([AttemptRecord(*row) for row in found], reached)

        return await self.show(work)

    async def scan_skips(self, wanted: SkipFilter, after: SkipCursor, limit: int) -> SkipScan:
        values = (_listed(wanted.namespaces), wanted.owner, wanted.job, wanted.since, wanted.until, after.id)

        async def work(tx: Transaction) -> SkipScan:
            stop = None if wanted == SkipFilter() else await tx.row(STOP_SKIPS, after.id, SCANNED)
            rows = await tx.rows(LIST_SKIPS, *values, FIRST if stop is None else stop[0], limit)
            found = [(row[0], SkipRecord(*tuple(row)[1:])) for row in rows]
            return Scan(found, None if stop is None else SkipCursor(*stop))

        return await self.show(work)

    async def list_revisions(
        self, job_id: int, *, before: int | None = None, limit: int | None = None
    ) -> list[Revision]:
        async def work(tx: Transaction) -> list[Revision]:
            rows = await tx.rows(LIST_REVISIONS, job_id, 2**31 - 1 if before is None else before, limit)
            await self.records.load(tx, [row[:3] for row in rows])
            found = []
            for _, revision, _, written_at in rows:
                with suppress(StoreUnusable):  # as with jobs
                    found.append(Revision(revision, self.records.find(job_id, revision).job, written_at))
            return found

        return await self.show(work)

    async def get_jobs_by_id(self, job_ids: Sequence[int]) -> list[JobRecord]:
        async def work(tx: Transaction) -> list[JobRecord]:
            rows = await tx.rows(SHOW_JOBS, sorted(set(job_ids)))
            await self.records.load(tx, [row[:3] for row in rows])
            return [self.shown_job(*row) for row in rows]

        return await self.show(work)


def _listed(names: Iterable[str] | None) -> list[str] | None:
    return None if names is None else sorted(str(name) for name in names)


def _run_values(wanted: RunFilter, states: Iterable[RunState]) -> tuple[object, ...]:
    return (
        _listed(wanted.namespaces), wanted.owner, wanted.label, wanted.job, wanted.job_id, _listed(states),
        wanted.queue, wanted.node,
    )  # fmt: skip


def _is_everything(wanted: RunFilter) -> bool:
    """Whether every run of a line that is about all of them matches."""
    return wanted == RunFilter(since=wanted.since, until=wanted.until)


async def _jobs_of(tx: Transaction, wanted: RunFilter) -> list[int] | None:
    """The jobs that a filter is about, if they are few; None: whoever's runs they are."""
    by = next((name for name in FIND_JOBS_BY if getattr(wanted, name) is not None), None)
    if by is None:
        return None
    values = (_listed(wanted.namespaces), wanted.owner, wanted.label, wanted.job, wanted.job_id)
    rows = await tx.rows(FIND_JOBS_BY[by], *values, LINES + 1)
    return None if len(rows) > LINES else [job_id for job_id, is_wanted in rows if is_wanted]
