"""Finding things, in SQLite: along an index that has them in their order, and for no more than some rows at a time.

    runs        of a few jobs: along each job's own index, and merged; else along that of all
    live        by `runs_due`; of jobs with few live runs, those are sorted
    finished    by `history_ended`, or `history_job_ended`; what did not succeed by `history_unsuccessful`
    attempts    by `attempts_node`: of one node, or of each, and merged
    skips       by id

An index ends with the row's id, but a range over both is not served by it: so each scan has two parts, what is left
of the instant at which it begins, and what lies behind that.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Sequence
from contextlib import suppress
from typing import Any, NamedTuple

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
from onthedot.stores.showing import shown
from onthedot.stores.sqlite.history import FINISHED, LIVE, LIVE_NODE, History
from onthedot.stores.sqlite.jobs import SHOWN, Jobs
from onthedot.stores.sqlite.lane import Transaction
from onthedot.stores.sqlite.triggers import with_slots
from onthedot.stores.values import most

LINES = 20
"""How many jobs a filter may name for each to be looked through on its own."""

_LAST_NAME = "\U0010ffff"  # behind every other

_SEEN = """
(:namespaces IS NULL OR j.namespace IN (SELECT value FROM json_each(:namespaces)))
AND (:owner IS NULL OR j.owner = :owner)
"""

# A route is a queue, a tab and labels with commas between; before it may be that it waits for the leader.
_LABELLED = """
(:label IS NULL OR (instr(:label, ',') = 0 AND
    instr(replace(replace(j.route, '!leader' || char(9), ''), char(9), ',') || ',', ',' || :label || ',') > 0))
"""

_OF_JOB = f"""
{_SEEN} AND (:job IS NULL OR j.name = :job) AND (:job_id IS NULL OR j.id = :job_id) AND {_LABELLED}
"""

# By the first of these that is asked for.
FIND_JOBS_BY = {
    name: f"SELECT j.id, {_OF_JOB} FROM jobs j WHERE {by} LIMIT :lines"  # noqa: S608 - constants of this file
    for name, by in {
        "job_id": "j.id = :job_id",
        "job": "j.name = :job",
        "owner": "j.owner = :owner",
        "namespaces": "j.namespace IN (SELECT value FROM json_each(:namespaces))",
    }.items()
}

_LIVE_WANTED = f"""
r.state IN (SELECT value FROM json_each(:live)) AND (:queue IS NULL OR r.queue = :queue)
AND (:node IS NULL OR {LIVE_NODE} = :node) AND {_OF_JOB}
"""  # noqa: S608

_ENDED_WANTED = f"""
h.state IN (SELECT value FROM json_each(:ended)) AND (:queue IS NULL OR h.queue = :queue)
AND (:node IS NULL OR coalesce(a.node, '') = :node) AND {_OF_JOB}
"""  # noqa: S608


class Line(NamedTuple):
    """The statements that go along one index: what is left of an instant, and what lies behind it; and of each where to
    stop after so many rows."""

    rest: str
    behind: str
    stop_in_rest: str
    stop_behind: str


_DUE = "runs r INDEXED BY runs_due CROSS JOIN jobs j ON j.id = r.job_id"

LIVE_LINE = Line(
    LIVE.format(
        source=_DUE,
        wanted=f"r.due_at = :at AND r.id > :id AND r.id <= :stop AND {_LIVE_WANTED} ORDER BY r.id LIMIT :limit",
    ),
    LIVE.format(
        source=_DUE,
        wanted=f"r.due_at > :at AND r.due_at < :stop AND {_LIVE_WANTED} ORDER BY r.due_at, r.id LIMIT :limit",
    ),
    "SELECT id FROM runs INDEXED BY runs_due WHERE due_at = :at AND id > :id ORDER BY id LIMIT 1 OFFSET :rows - 1",
    "SELECT due_at FROM runs INDEXED BY runs_due WHERE due_at > :at ORDER BY due_at LIMIT 1 OFFSET :rows - 1",
)

COUNT_LIVE_OF_JOBS = """
SELECT count(*) FROM (SELECT 1 FROM json_each(:jobs) wanted
                      CROSS JOIN runs r INDEXED BY runs_key ON r.job_id = wanted.value LIMIT :most)
"""

LIST_LIVE_OF_JOBS = LIVE.format(
    source="json_each(:jobs) wanted CROSS JOIN runs r INDEXED BY runs_key ON r.job_id = wanted.value"
    " CROSS JOIN jobs j ON j.id = r.job_id",
    wanted=f"""(r.due_at, r.id) > (:at, :id) AND r.due_at < :until AND {_LIVE_WANTED}
ORDER BY r.due_at, r.id LIMIT :limit""",
)


def ended_line(index: str, line: str) -> Line:
    """Along an index over ends, newest first; `line` is what all of it has in common."""
    source = f"history h INDEXED BY {index} CROSS JOIN jobs j ON j.id = h.job_id"
    steps = f"FROM history h INDEXED BY {index} WHERE {line}"
    return Line(
        FINISHED.format(
            source=source,
            wanted=f"{line} AND h.ended_at = :at AND h.id < :id AND h.id >= :stop AND {_ENDED_WANTED}"
            " ORDER BY h.id DESC LIMIT :limit",
        ),
        FINISHED.format(
            source=source,
            wanted=f"{line} AND h.ended_at < :at AND h.ended_at > :stop AND {_ENDED_WANTED}"
            " ORDER BY h.ended_at DESC, h.id DESC LIMIT :limit",
        ),
        f"SELECT h.id {steps} AND h.ended_at = :at AND h.id < :id ORDER BY h.id DESC LIMIT 1 OFFSET :rows - 1",
        f"SELECT h.ended_at {steps} AND h.ended_at < :at AND h.ended_at >= :since"
        " ORDER BY h.ended_at DESC LIMIT 1 OFFSET :rows - 1",
    )


ENDED_LINE = ended_line("history_ended", "true")
ENDED_OF_JOB_LINE = ended_line("history_job_ended", "h.job_id = :line_job")
UNSUCCESSFUL_LINE = ended_line("history_unsuccessful", "h.state <> 'succeeded'")

_JOB_WANTED = f"""
{_SEEN} AND {_LABELLED} AND (:queue IS NULL OR j.queue = :queue)
AND (:name_contains IS NULL OR instr(j.name, :name_contains) > 0)
"""

_EXHAUSTED = SHOWN[SHOWN.index("CASE WHEN") : SHOWN.index("FROM jobs j {wanted}")]

# In the order of the index, by all or by one owner, up to the name at which to stop.
LIST_JOBS, LIST_JOBS_OF_OWNER = (
    with_slots(
        SHOWN.replace("FROM jobs j", ", j.namespace, j.name FROM jobs j"),
        wanted=f"""INDEXED BY {index}
WHERE {line} AND j.state <> 'deleted' AND (j.namespace, j.name) > (:namespace, :name)
AND (j.namespace, j.name) <= (:stop_namespace, :stop_name) AND {_JOB_WANTED}
AND (:states IS NULL OR {with_slots(_EXHAUSTED)} IN (SELECT value FROM json_each(:states)))
ORDER BY j.namespace, j.name LIMIT :limit""",  # noqa: S608
    )
    for index, line in (("jobs_living", "true"), ("jobs_owner", "j.owner = :owner"))
)

STOP_JOBS, STOP_JOBS_OF_OWNER = (
    f"""
SELECT j.namespace, j.name FROM jobs j INDEXED BY {index}
WHERE {line} AND j.state <> 'deleted' AND (j.namespace, j.name) > (:namespace, :name)
ORDER BY j.namespace, j.name LIMIT 1 OFFSET :rows - 1
"""  # noqa: S608
    for index, line in (("jobs_living", "true"), ("jobs_owner", "j.owner = :owner"))
)

SHOW_JOBS = with_slots(SHOWN, wanted="WHERE j.id IN (SELECT value FROM json_each(?)) ORDER BY j.id")

LIST_REVISIONS = """
SELECT v.revision, v.created_at, j.state FROM job_revisions v JOIN jobs j ON j.id = v.job_id
WHERE v.job_id = :job_id AND v.revision < :before ORDER BY v.revision DESC LIMIT :limit
"""

# One step for each node that has any.
LIST_NODES = """
WITH RECURSIVE tried (node) AS (
    SELECT min(node) FROM attempts
    UNION ALL
    SELECT (SELECT min(node) FROM attempts WHERE node > tried.node) FROM tried WHERE tried.node IS NOT NULL)
SELECT node FROM tried WHERE node IS NOT NULL
"""

_ATTEMPT_PLACE = "(a.ended_at, a.run_id, a.attempt)"

# An attempt is seen by who sees its run's job.
LIST_ATTEMPTS, LIST_ATTEMPTS_OF_RUN = (
    f"""
SELECT a.run_id, a.attempt, a.lease_id, a.fence, a.node, a.revision, a.outcome, a.error, a.due_at, a.reserved_at,
       a.armed_at, a.started_at, a.ended_at
FROM attempts a {index}
WHERE {line} AND {_ATTEMPT_PLACE} < (:at, :run_id, :attempt)
AND {_ATTEMPT_PLACE} >= (:stop_at, :stop_run, :stop_attempt)
AND (:anything OR EXISTS (
    SELECT 1 FROM jobs j
    WHERE j.id = coalesce((SELECT h.job_id FROM history h WHERE h.id = a.run_id),
                          (SELECT r.job_id FROM runs r WHERE r.id = a.run_id))
    AND {_SEEN}))
ORDER BY a.ended_at DESC, a.run_id DESC, a.attempt DESC LIMIT :limit
"""  # noqa: S608
    for index, line in (
        ("INDEXED BY attempts_node", "a.node = :node"),
        ("", "a.run_id = :of_run AND (:node IS NULL OR a.node = :node)"),
    )
)

STOP_ATTEMPTS = f"""
SELECT a.ended_at, a.run_id, a.attempt FROM attempts a INDEXED BY attempts_node
WHERE a.node = :node AND {_ATTEMPT_PLACE} < (:at, :run_id, :attempt) AND a.ended_at >= :since
ORDER BY a.ended_at DESC, a.run_id DESC, a.attempt DESC LIMIT 1 OFFSET :rows - 1
"""  # noqa: S608

LIST_SKIPS = f"""
SELECT s.id, j.name, s.schedule_id, s.first, s.last, s.count, s.reason, s.recorded_at
FROM skips s CROSS JOIN jobs j ON j.id = s.job_id
WHERE s.id < :id AND s.id >= :stop AND {_SEEN} AND (:job IS NULL OR j.name = :job)
AND (:since IS NULL OR s.last >= :since) AND (:until IS NULL OR s.first < :until)
ORDER BY s.id DESC LIMIT :limit
"""  # noqa: S608

STOP_SKIPS = "SELECT id FROM skips WHERE id < :id ORDER BY id DESC LIMIT 1 OFFSET :rows - 1"


class Finding(Pages, History, Jobs):
    """See `FindingSlice`."""

    async def scan_live(self, wanted: RunFilter, after: RunCursor, limit: int) -> RunScan:
        values = _run_values(wanted) | {"limit": limit}
        start = max((after.at, after.id), (values["since"], 0))

        def work(tx: Transaction) -> RunScan:
            jobs = _jobs_of(tx.db, values)
            if jobs is not None:
                of_jobs = {"jobs": json.dumps(jobs), "at": start[0], "id": start[1], "most": SCANNED + 1}
                [count] = tx.db.execute(COUNT_LIVE_OF_JOBS, of_jobs).fetchone()
                if count <= SCANNED:
                    return Scan([shown(row) for row in tx.db.execute(LIST_LIVE_OF_JOBS, values | of_jobs)])
            rows = None if _is_everything(wanted) else SCANNED
            found, reached = _along(tx.db, LIVE_LINE, values, start, rows, ascending=True)
            return Scan([shown(row) for row in found], None if reached is None else RunCursor(False, *reached))

        return await self.read(work)

    async def scan_ended(self, wanted: RunFilter, after: RunCursor, limit: int) -> RunScan:
        values = _run_values(wanted) | {"limit": limit}
        start = min((after.at, after.id), (values["until"], 0))
        mixed = wanted.ended_states != TERMINAL or wanted.queue is not None or wanted.node is not None

        def work(tx: Transaction) -> RunScan:
            jobs = _jobs_of(tx.db, values)
            if jobs is not None:
                rows = SCANNED // max(1, len(jobs)) if mixed else None
                scans = [
                    _along(tx.db, ENDED_OF_JOB_LINE, values | {"line_job": one}, start, rows, ascending=False)
                    for one in jobs
                ]
            else:
                line = ENDED_LINE if RunState.SUCCEEDED in wanted.ended_states else UNSUCCESSFUL_LINE
                rows = None if _is_everything(wanted) else SCANNED
                scans = [_along(tx.db, line, values, start, rows, ascending=False)]
            found, reached = merged(scans, limit, place=lambda row: (row[14], row[0]))
            return Scan([shown(row) for row in found], None if reached is None else RunCursor(True, *reached))

        return await self.read(work)

    async def scan_jobs(self, wanted: JobFilter, after: JobCursor, limit: int) -> JobScan:
        values = _job_values(wanted) | {"limit": limit, "namespace": after.namespace, "name": after.name}
        values |= {"rows": SCANNED, "stop_namespace": _LAST_NAME, "stop_name": ""}
        listing, stopping = (LIST_JOBS, STOP_JOBS) if wanted.owner is None else (LIST_JOBS_OF_OWNER, STOP_JOBS_OF_OWNER)

        def work(tx: Transaction) -> JobScan:
            stop = None if wanted == JobFilter() else tx.db.execute(stopping, values).fetchone()
            if stop is not None:
                values.update(stop_namespace=stop[0], stop_name=stop[1])
            rows = tx.db.execute(listing, values).fetchall()
            jobs = []
            for row in rows:
                with suppress(StoreUnusable):  # one unreadable definition hides itself only; get_job tells why
                    jobs.append(self.shown_job(tx.db, *row[:6]))
            last = JobCursor(*rows[-1][6:]) if len(rows) == limit else stop and JobCursor(*stop)
            return Scan(jobs, None if len(jobs) == limit else last)

        return await self.read(work)

    async def scan_attempts(self, wanted: AttemptFilter, after: AttemptCursor, limit: int) -> AttemptScan:
        values = _attempt_values(wanted, after) | {"limit": limit}

        def work(tx: Transaction) -> AttemptScan:
            if wanted.run_id is not None:
                return Scan([AttemptRecord(*row) for row in tx.db.execute(LIST_ATTEMPTS_OF_RUN, values)])
            nodes = [row[0] for row in tx.db.execute(LIST_NODES)] if wanted.node is None else [wanted.node]
            rows = None if values["anything"] else max(1, SCANNED // max(1, len(nodes)))
            scans = [_attempts_of(tx.db, values | {"node": node}, rows) for node in nodes]
            found, reached = merged(scans, limit, place=lambda row: (row[12], row[0], row[1]))
            last = None if reached is None else AttemptCursor(*reached)
            return Scan([AttemptRecord(*row) for row in found], last)

        return await self.read(work)

    async def scan_skips(self, wanted: SkipFilter, after: SkipCursor, limit: int) -> SkipScan:
        values = {
            "namespaces": _listed(wanted.namespaces), "owner": wanted.owner, "job": wanted.job, "since": wanted.since,
            "until": wanted.until, "id": after.id, "rows": SCANNED, "limit": limit,
        }  # fmt: skip

        def work(tx: Transaction) -> SkipScan:
            stop = None if wanted == SkipFilter() else tx.db.execute(STOP_SKIPS, values).fetchone()
            rows = tx.db.execute(LIST_SKIPS, values | {"stop": FIRST if stop is None else stop[0]})
            return Scan([(row[0], SkipRecord(*row[1:])) for row in rows], None if stop is None else SkipCursor(*stop))

        return await self.read(work)

    async def list_revisions(
        self, job_id: int, *, before: int | None = None, limit: int | None = None
    ) -> list[Revision]:
        values = {"job_id": job_id, "before": LAST if before is None else before, "limit": most(limit)}

        def work(tx: Transaction) -> list[Revision]:
            found = []
            for revision, written_at, state in tx.db.execute(LIST_REVISIONS, values).fetchall():
                with suppress(StoreUnusable):  # as with jobs
                    found.append(Revision(revision, self.records.find(tx.db, job_id, revision, state).job, written_at))
            return found

        return await self.read(work)

    async def get_jobs_by_id(self, job_ids: Sequence[int]) -> list[JobRecord]:
        ids = json.dumps(sorted(set(job_ids)))

        def work(tx: Transaction) -> list[JobRecord]:
            return [self.shown_job(tx.db, *row) for row in tx.db.execute(SHOW_JOBS, (ids,)).fetchall()]

        return await self.read(work)


def _listed(names: Any) -> str | None:
    return None if names is None else json.dumps(sorted(names))


def _run_values(wanted: RunFilter) -> dict[str, Any]:
    return {
        "namespaces": _listed(wanted.namespaces), "owner": wanted.owner, "job": wanted.job, "job_id": wanted.job_id,
        "label": wanted.label, "queue": wanted.queue, "node": wanted.node,
        "live": _listed(wanted.live_states), "ended": _listed(wanted.ended_states),
        "since": FIRST if wanted.since is None else wanted.since,
        "until": LAST if wanted.until is None else wanted.until,
    }  # fmt: skip


def _job_values(wanted: JobFilter) -> dict[str, Any]:
    return {
        "namespaces": _listed(wanted.namespaces), "owner": wanted.owner, "label": wanted.label, "queue": wanted.queue,
        "states": _listed(wanted.states), "name_contains": wanted.name_contains,
    }  # fmt: skip


def _attempt_values(wanted: AttemptFilter, after: AttemptCursor) -> dict[str, Any]:
    start = after if wanted.until is None else min(after, AttemptCursor(wanted.until, 0, 0))
    since = FIRST if wanted.since is None else wanted.since
    return {
        "namespaces": _listed(wanted.namespaces), "owner": wanted.owner, "node": wanted.node, "of_run": wanted.run_id,
        "since": since, "anything": wanted.namespaces is None and wanted.owner is None,
        "at": start.ended_at, "run_id": start.run_id, "attempt": start.attempt,
        "stop_at": since, "stop_run": 0, "stop_attempt": 0,
    }  # fmt: skip


def _is_everything(wanted: RunFilter) -> bool:
    """Whether every run of a line that is about all of them matches."""
    return wanted == RunFilter(since=wanted.since, until=wanted.until)


def _jobs_of(db: sqlite3.Connection, values: dict[str, Any]) -> list[int] | None:
    """The jobs that a filter is about, if they are few; None: whoever's runs they are."""
    by = next((name for name in FIND_JOBS_BY if values[name] is not None), None)
    if by is None:
        return None
    rows = db.execute(FIND_JOBS_BY[by], values | {"lines": LINES + 1}).fetchall()
    return None if len(rows) > LINES else [job_id for job_id, is_wanted in rows if is_wanted]


def _along(
    db: sqlite3.Connection,
    line: Line,
    values: dict[str, Any],
    start: tuple[int, int],
    rows: int | None,
    *,
    ascending: bool,
) -> tuple[list[Any], tuple[int, int] | None]:
    """What matches along a line, behind this place, and where that was given up: after so many rows (None: not)."""
    end_of_instant, edge = (LAST, values["until"]) if ascending else (0, values["since"] - 1)
    begin_of_instant = 0 if ascending else LAST
    values = values | {"at": start[0], "id": start[1], "rows": rows}
    stop = None if rows is None else db.execute(line.stop_in_rest, values).fetchone()
    found: list[Any] = []
    if start[0] < edge if ascending else start[0] > edge:
        found = db.execute(line.rest, values | {"stop": stop[0] if stop else end_of_instant}).fetchall()
    if stop is not None:
        return found, (start[0], stop[0])
    if len(found) == values["limit"]:
        return found, None
    stop = None if rows is None else db.execute(line.stop_behind, values).fetchone()
    if stop is not None and (stop[0] >= edge if ascending else stop[0] <= edge):
        stop = None
    left = {"stop": stop[0] if stop else edge, "limit": values["limit"] - len(found)}
    found += db.execute(line.behind, values | left).fetchall()
    return found, (stop[0], begin_of_instant) if stop else None


def _attempts_of(db: sqlite3.Connection, values: dict[str, Any], rows: int | None) -> tuple[list[Any], Any]:
    """The attempts of a node, and where they were given up."""
    stop = None if rows is None else db.execute(STOP_ATTEMPTS, values | {"rows": rows}).fetchone()
    if stop is not None:
        values = values | {"stop_at": stop[0], "stop_run": stop[1], "stop_attempt": stop[2]}
    return db.execute(LIST_ATTEMPTS, values).fetchall(), stop
