"""Finds jobs, runs, attempts and skips for people: along an index that has them in order, some rows at a time.

    runs        of a few jobs: along the index of each job, merged; of others: along the index of all runs
    live        along `runs_due`; if the jobs have few live runs, these are read and sorted
    finished    along `history_ended` or `history_job_ended`; without succeeded runs: along `history_unsuccessful`
    attempts    along `attempts_node`: of one node, or of each node, merged
    skips       by id

If not all of an index matches, a first statement finds where to stop after `SCANNED` rows, and a second one reads what
matches up to there. `stores/queries.py` makes pages of that.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from heapq import merge
from itertools import islice
from typing import Any, NamedTuple, TypeVar

from onthedot.model.job import JobRecord
from onthedot.model.run import TERMINAL, AttemptRecord, RunState, SkipRecord
from onthedot.stores import queries
from onthedot.stores.queries import FIRST, LAST, SCANNED, Scan
from onthedot.stores.sql.fragments import LISTED, each_line, job_of
from onthedot.stores.sql.history import ATTEMPT, FINISHED, LIVE, LIVE_NODE, shown
from onthedot.stores.sql.jobs import SHOWN, STATE_SHOWN, ShownRow, shown_job
from onthedot.stores.sql.port import Statement, Tx, sql
from onthedot.stores.values import most

T = TypeVar("T")
P = TypeVar("P", bound=tuple[int, ...])
Lines = Sequence[tuple[Any, ...]]  # the values of each of several lines; see `Tx.scan`

LINES = 20
"""If a filter matches at most this many jobs, each is searched along its own index."""

_LAST_NAME = "\U0010ffff"  # sorts after every other name
_LAST_REVISION = 2**31 - 1


class Line(NamedTuple):
    """The statements along one index: what matches between two places, and where to stop after so many rows."""

    list: Statement[Any]
    stop: Statement[Any]


# ── filters ──────────────────────────────────────────────────────────────────────────────────────────────────
# Values: $1 namespaces, $2 owner, $3 label, $4 job's name, $5 job's id, $6 states, $7 queue, $8 node.

_SEEN = "($1[[::text[] ]] IS NULL OR j.namespace {in1}) AND ($2[[::text]] IS NULL OR j.owner = $2)"

# A route is a queue, a tab, and labels with commas between them. If the run waits for the leader, `!leader` and a tab
# come first.
_LABELLED = r"""($3[[::text]] IS NULL OR
[[$3 = ANY(string_to_array(split_part(replace(j.route, E'!leader\t', ''), E'\t', 2), ','))]]
<<(instr($3, ',') = 0 AND
   instr(replace(replace(j.route, '!leader' || char(9), ''), char(9), ',') || ',', ',' || $3 || ',') > 0)>>)"""

_OF_JOB = f"""{_SEEN} AND {_LABELLED} AND ($4[[::text]] IS NULL OR j.name = $4)
AND ($5[[::bigint]] IS NULL OR j.id = $5)"""

# Jobs are found by the first of these fields that the filter has.
FIND_JOBS_BY = {
    name: sql(f"SELECT j.id, {_OF_JOB} FROM jobs j WHERE {by} LIMIT $6")  # noqa: S608 - constants of this file
    for name, by in {
        "job_id": "j.id = $5",
        "job": "j.name = $4",
        "owner": "j.owner = $2",
        "namespaces": "j.namespace {in1}",
    }.items()
}

_LIVE_WANTED = f"""{_OF_JOB} AND r.state {{in6}} AND ($7[[::text]] IS NULL OR r.queue = $7)
AND ($8[[::text]] IS NULL OR {LIVE_NODE} = $8)"""

_ENDED_WANTED = f"""{_OF_JOB} AND h.state {{in6}} AND ($7[[::text]] IS NULL OR h.queue = $7)
AND ($8[[::text]] IS NULL OR coalesce(a.node, '') = $8)"""

# ── runs ─────────────────────────────────────────────────────────────────────────────────────────────────────


def _along(text: str, at: str, tail: str, *, first: int, job: str, newest_first: bool) -> tuple[str, list[str]]:
    """Fill in SPAN and JOB in a text. Returns the statement for PostgreSQL, and three parts for SQLite, whose indexes
    cannot find a range over an instant and a rowid. SPAN becomes the condition "after one place, and up to another,
    included"; the places are the values from `$first` on. With `job`, the placeholder of the jobs' ids, such as `$14`,
    PostgreSQL's statement goes along the index of each of these jobs."""
    number = f"{at[0]}.id"
    a, i, b, j = (f"${first + n}" for n in range(4))
    less, more, end = (">", "<", 0) if newest_first else ("<", ">", LAST)
    span = f"({at}, {number}) {more} ({a}::bigint, {i}::bigint) AND ({at}, {number}) {less}= ({b}::bigint, {j}::bigint)"
    if newest_first:  # the instants alone once more: PostgreSQL then skips the partitions of other months
        span += f" AND {at} <= {a} AND {at} >= {b}"
    postgres = text.replace("SPAN", span).replace("JOB", "line.job_id") + tail
    if job:
        postgres = f"""SELECT found.*, line.number
        FROM unnest({job}::bigint[]) WITH ORDINALITY line (job_id, number) CROSS JOIN LATERAL ({postgres}) found"""  # noqa: S608
    parts = (
        f"{at} = {a} AND {number} {more} {i} AND {a} {less}= {b}"
        f" AND {number} {less}= CASE WHEN {a} = {b} THEN {j} ELSE {end} END",
        f"{at} {more} {a} AND {at} {less} {b}",
        f"{at} = {b} AND {number} {less}= {j} AND {a} {less} {b}",
    )
    return postgres, [text.replace("SPAN", part).replace("JOB", job) for part in parts]


def _line(runs: str, places: str, at: str, column: int, *, newest_first: bool = False, of_jobs: bool = False) -> Line:
    """The statements for runs in the order of the instants `at` and the ids. `column` is its number in `runs`."""
    down = " DESC" if newest_first else ""
    tail = f" ORDER BY {column}{down}, 1{down} LIMIT $13"
    postgres, parts = _along(runs, at, tail, first=9, job="$14" if of_jobs else "", newest_first=newest_first)
    listing = sql(postgres, shown, sqlite=" UNION ALL ".join(parts) + tail)
    tail = f" ORDER BY 1{down}, 2{down} LIMIT 1 OFFSET $5 - 1"
    postgres, parts = _along(places, at, tail, first=1, job="$6" if of_jobs else "", newest_first=newest_first)
    in_parts = " UNION ALL ".join(f"SELECT * FROM ({part}{tail})" for part in parts)  # noqa: S608
    return Line(listing, sql(postgres, sqlite=in_parts + " LIMIT 1"))  # of the first part with that many rows


LIVE_LINE = _line(
    LIVE.format(
        source=f"runs r <<INDEXED BY runs_due CROSS>> JOIN jobs j ON {job_of('r')}",
        wanted=f"{LISTED} SPAN AND {_LIVE_WANTED}",
    ),
    f"SELECT r.due_at, r.id FROM runs r <<INDEXED BY runs_due>> WHERE {LISTED} SPAN",  # noqa: S608
    "r.due_at",
    6,
)


def _ended_line(index: str, line: str, *, of_jobs: bool = False) -> Line:
    source = f"history h <<INDEXED BY {index} CROSS>> JOIN jobs j ON j.id = h.job_id"
    listing = FINISHED.format(source=source, wanted=f"{line} AND SPAN AND {_ENDED_WANTED}")
    places = f"SELECT h.ended_at, h.id FROM history h <<INDEXED BY {index}>> WHERE {line} AND SPAN"  # noqa: S608
    return _line(listing, places, "h.ended_at", 15, newest_first=True, of_jobs=of_jobs)


ENDED_LINE = _ended_line("history_ended", "true")
UNSUCCESSFUL_LINE = _ended_line("history_unsuccessful", "h.state <> 'succeeded'")
ENDED_OF_JOB_LINE = _ended_line("history_job_ended", "h.job_id = JOB", of_jobs=True)

# In the order of the index `runs_key`, so that PostgreSQL counts them from this index alone.
COUNT_LIVE_OF_JOBS = sql(
    """
    SELECT count(*) FROM (
        SELECT 1 FROM unnest($1::bigint[]) line (job_id) CROSS JOIN LATERAL (
            SELECT 1 FROM runs r WHERE r.job_id = line.job_id ORDER BY r.slot_at, r.trigger, r.target LIMIT $2) live
        LIMIT $2) some_live
    """,
    sqlite="SELECT count(*) FROM (SELECT 1 FROM runs INDEXED BY runs_key WHERE job_id {in1} LIMIT $2)",
)

LIST_LIVE_OF_JOBS = sql(
    LIVE.format(
        source=f"runs r <<INDEXED BY runs_key CROSS>> JOIN jobs j ON {job_of('r')}",
        wanted=f"""r.job_id {{in14}} AND (r.due_at, r.id) > ($9[[::bigint]], $10[[::bigint]])
        AND (r.due_at, r.id) <= ($11[[::bigint]], $12[[::bigint]]) AND {_LIVE_WANTED}
        ORDER BY r.due_at, r.id LIMIT $13""",
    ),
    shown,
)


async def scan_live(tx: Tx, wanted: queries.RunFilter, after: queries.RunCursor, limit: int) -> queries.RunScan:
    start = max((after.at, after.id), (FIRST if wanted.since is None else wanted.since, 0))
    end = (LAST if wanted.until is None else wanted.until, 0)
    values = _run_values(wanted, wanted.live_states)
    jobs = await _jobs_of(tx, wanted)
    if jobs is not None and await tx.value(COUNT_LIVE_OF_JOBS, jobs, SCANNED + 1) <= SCANNED:
        return Scan(await tx.rows(LIST_LIVE_OF_JOBS, *values, *start, *end, limit, jobs))
    stop = None if _is_everything(wanted) else await tx.row(LIVE_LINE.stop, *start, *end, SCANNED)
    rows = await tx.rows(LIVE_LINE.list, *values, *start, *(stop or end), limit)
    return Scan(rows, None if stop is None else queries.RunCursor(False, *stop))


async def scan_ended(tx: Tx, wanted: queries.RunFilter, after: queries.RunCursor, limit: int) -> queries.RunScan:
    start = min((after.at, after.id), (LAST if wanted.until is None else wanted.until, 0))
    end = (FIRST if wanted.since is None else wanted.since, 0)
    jobs = await _jobs_of(tx, wanted)
    if jobs is not None:
        line, lines = ENDED_OF_JOB_LINE, [(job_id,) for job_id in jobs]
        is_mixed = wanted.ended_states != TERMINAL or wanted.queue is not None or wanted.node is not None
    else:
        line, lines = ENDED_LINE if RunState.SUCCEEDED in wanted.ended_states else UNSUCCESSFUL_LINE, None
        is_mixed = not _is_everything(wanted)
    stop = await _stop(tx, line.stop, lines, *start, *end) if is_mixed else None
    values = (*_run_values(wanted, wanted.ended_states), *start, *(stop or end), limit)
    runs = await _scan(tx, line.list, lines, *values)
    newest = islice(merge(*runs, key=queries.cursor_of, reverse=True), limit)
    return Scan(list(newest), None if stop is None else queries.RunCursor(True, *stop))


def _job_values(wanted: queries.RunFilter) -> tuple[object, ...]:
    return _listed(wanted.namespaces), wanted.owner, wanted.label, wanted.job, wanted.job_id


def _run_values(wanted: queries.RunFilter, states: Iterable[RunState]) -> tuple[object, ...]:
    return *_job_values(wanted), _listed(states), wanted.queue, wanted.node


def _listed(names: Iterable[str] | None) -> list[str] | None:
    return None if names is None else sorted(str(name) for name in names)


def _is_everything(wanted: queries.RunFilter) -> bool:
    """Whether the filter has no condition except `since` and `until`: on a line over all jobs every run matches."""
    return wanted == queries.RunFilter(since=wanted.since, until=wanted.until)


async def _jobs_of(tx: Tx, wanted: queries.RunFilter) -> list[int] | None:
    """The jobs that a filter can match, if they are few. None if they are many, or if any job can match."""
    by = next((name for name in FIND_JOBS_BY if getattr(wanted, name) is not None), None)
    if by is None:
        return None
    rows = await tx.rows(FIND_JOBS_BY[by], *_job_values(wanted), LINES + 1)
    return None if len(rows) > LINES else [job_id for job_id, is_wanted in rows if is_wanted]


async def _scan(tx: Tx, statement: Statement[T], lines: Lines | None, *values: object) -> list[Iterable[T]]:
    """The rows of each line. `lines` is None if the statement has only one line."""
    return [await tx.rows(statement, *values)] if lines is None else await tx.scan(statement, lines, *values)


async def _stop(tx: Tx, statement: Statement[P], lines: Lines | None, *values: object) -> P | None:
    """Where to stop, so that no more than about `SCANNED` rows are read. All lines stop at the first stop of any line:
    after it, that line has rows that were not read. They come on the next page, in order with those of the others."""
    rows = max(1, SCANNED // max(1, 1 if lines is None else len(lines)))
    return max((row for scan in await _scan(tx, statement, lines, *values, rows) for row in scan), default=None)


# ── attempts ─────────────────────────────────────────────────────────────────────────────────────────────────

# One step for each node that has attempts.
LIST_NODES = sql("""
    WITH RECURSIVE tried (node) AS (
        SELECT (SELECT a.node FROM attempts a ORDER BY a.node LIMIT 1)
        UNION ALL
        SELECT (SELECT a.node FROM attempts a WHERE a.node > tried.node ORDER BY a.node LIMIT 1)
        FROM tried WHERE tried.node IS NOT NULL)
    SELECT node FROM tried WHERE node IS NOT NULL
""")

_ATTEMPT_PLACE = "(a.ended_at, a.run_id, a.attempt)"
_NEWEST_ATTEMPT_FIRST = "ORDER BY a.ended_at DESC, a.run_id DESC, a.attempt DESC"
# The job of the run decides who may see an attempt.
_ATTEMPTS = f"""
SELECT {ATTEMPT} FROM attempts a {{source}}
AND {_ATTEMPT_PLACE} < ($3[[::bigint]], $4[[::bigint]], $5[[::integer]])
AND {_ATTEMPT_PLACE} >= ($6[[::bigint]], $7[[::bigint]], $8[[::integer]]) [[AND a.ended_at <= $3 AND a.ended_at >= $6]]
AND (($1[[::text[] ]] IS NULL AND $2[[::text]] IS NULL) OR EXISTS (
    SELECT 1 FROM jobs j
    WHERE j.id = coalesce((SELECT h.job_id FROM history h WHERE h.id = a.run_id LIMIT 1),
                          (SELECT r.job_id FROM runs r WHERE r.id = a.run_id))
    AND {_SEEN.replace("{in1}", "{{in1}}")}))
{_NEWEST_ATTEMPT_FIRST} LIMIT $9
"""  # noqa: S608 - constants of this file

LIST_ATTEMPTS = each_line(
    _ATTEMPTS.format(source="<<INDEXED BY attempts_node>> WHERE a.node = $10"), "node text", AttemptRecord, first=10
)

LIST_ATTEMPTS_OF_RUN = sql(
    _ATTEMPTS.format(source="WHERE a.run_id = $10 AND ($11[[::text]] IS NULL OR a.node = $11)"), AttemptRecord
)

STOP_ATTEMPTS = each_line(
    f"""
    SELECT a.ended_at, a.run_id, a.attempt FROM attempts a <<INDEXED BY attempts_node>> WHERE a.node = $6
    AND {_ATTEMPT_PLACE} < ($1[[::bigint]], $2[[::bigint]], $3[[::integer]])
    [[AND a.ended_at <= $1]] AND a.ended_at >= $4[[::bigint]]
    {_NEWEST_ATTEMPT_FIRST} LIMIT 1 OFFSET $5 - 1
    """,  # noqa: S608 - constants of this file
    "node text",
    queries.AttemptCursor,
    first=6,
)


async def scan_attempts(
    tx: Tx, wanted: queries.AttemptFilter, after: queries.AttemptCursor, limit: int
) -> queries.AttemptScan:
    start = after if wanted.until is None else min(after, queries.AttemptCursor(wanted.until, 0, 0))
    end = queries.AttemptCursor(FIRST if wanted.since is None else wanted.since, 0, 0)
    seen = (_listed(wanted.namespaces), wanted.owner)
    if wanted.run_id is not None:
        return Scan(await tx.rows(LIST_ATTEMPTS_OF_RUN, *seen, *start, *end, limit, wanted.run_id, wanted.node))
    lines = [(wanted.node,)] if wanted.node is not None else [(node,) for node in await tx.values(LIST_NODES)]
    stop = None if seen == (None, None) else await _stop(tx, STOP_ATTEMPTS, lines, *start, end.ended_at)
    scans = await tx.scan(LIST_ATTEMPTS, lines, *seen, *start, *(stop or end), limit)
    return Scan(list(islice(merge(*scans, key=queries.attempt_cursor, reverse=True), limit)), stop)


# ── skips ────────────────────────────────────────────────────────────────────────────────────────────────────

LIST_SKIPS = sql(
    f"""
    SELECT s.id, j.name, s.schedule_id, s.first, s.last, s.count, s.reason, s.recorded_at
    FROM skips s <<CROSS>> JOIN jobs j ON j.id = s.job_id
    WHERE {_SEEN} AND ($3[[::text]] IS NULL OR j.name = $3)
    AND ($4[[::bigint]] IS NULL OR s.last >= $4) AND ($5[[::bigint]] IS NULL OR s.first < $5)
    AND s.id < $6[[::bigint]] AND s.id >= $7[[::bigint]]
    ORDER BY s.id DESC LIMIT $8
    """  # noqa: S608 - constants of this file
)

STOP_SKIPS = sql("SELECT id FROM skips WHERE id < $1 ORDER BY id DESC LIMIT 1 OFFSET $2 - 1")


async def scan_skips(tx: Tx, wanted: queries.SkipFilter, after: queries.SkipCursor, limit: int) -> queries.SkipScan:
    stop = None if wanted == queries.SkipFilter() else await tx.value(STOP_SKIPS, after.id, SCANNED)
    values = (_listed(wanted.namespaces), wanted.owner, wanted.job, wanted.since, wanted.until, after.id)
    rows = await tx.rows(LIST_SKIPS, *values, FIRST if stop is None else stop, limit)
    found = [(number, SkipRecord(*skip)) for number, *skip in rows]
    return Scan(found, None if stop is None else queries.SkipCursor(stop))


# ── jobs ─────────────────────────────────────────────────────────────────────────────────────────────────────

_JOB_WANTED = f"""{_SEEN} AND {_LABELLED} AND ($4[[::text]] IS NULL OR j.queue = $4)
AND ($5[[::text]] IS NULL OR [[strpos]]<<instr>>(j.name, $5) > 0)
AND ($6[[::text[] ]] IS NULL OR {STATE_SHOWN} {{in6}})"""


def _job_line(index: str, line: str) -> Line:
    return Line(
        sql(
            f"""SELECT {SHOWN}, j.namespace, j.name FROM jobs j <<INDEXED BY {index}>>
            WHERE {line} AND j.state <> 'deleted' AND (j.namespace, j.name) > ($7[[::text]], $8[[::text]])
            AND (j.namespace, j.name) <= ($9[[::text]], $10[[::text]]) AND {_JOB_WANTED}
            ORDER BY j.namespace, j.name LIMIT $11"""  # noqa: S608 - constants of this file
        ),
        sql(
            f"""SELECT j.namespace, j.name FROM jobs j <<INDEXED BY {index}>>
            WHERE {line.replace("$2", "$4")} AND j.state <> 'deleted'
            AND (j.namespace, j.name) > ($1[[::text]], $2[[::text]])
            ORDER BY j.namespace, j.name LIMIT 1 OFFSET $3 - 1""",  # noqa: S608 - constants of this file
            queries.JobCursor,
        ),
    )


JOB_LINE = _job_line("jobs_living", "true")
JOB_OF_OWNER_LINE = _job_line("jobs_owner", "j.owner = $2")

SHOW_JOBS = sql(f"SELECT {SHOWN} FROM jobs j WHERE j.id {{in1}} ORDER BY j.id", ShownRow)  # noqa: S608

LIST_REVISIONS = sql("""
    SELECT v.revision, j.state, v.created_at FROM job_revisions v JOIN jobs j ON j.id = v.job_id
    WHERE v.job_id = $1 AND v.revision < $2 ORDER BY v.revision DESC LIMIT $3
""")


async def scan_jobs(tx: Tx, wanted: queries.JobFilter, after: queries.JobCursor, limit: int) -> queries.JobScan:
    line, whose = (JOB_LINE, ()) if wanted.owner is None else (JOB_OF_OWNER_LINE, (wanted.owner,))
    stop = None if wanted == queries.JobFilter() else await tx.row(line.stop, *after, SCANNED, *whose)
    of_job = (_listed(wanted.namespaces), wanted.owner, wanted.label, wanted.queue, wanted.name_contains)
    span = (*after, *(stop or (_LAST_NAME, "")))
    found = await tx.rows(line.list, *of_job, _listed(wanted.states), *span, limit)
    rows = [(ShownRow(*row), queries.JobCursor(namespace, name)) for *row, namespace, name in found]
    jobs = await _shown_jobs(tx, [row for row, _ in rows])
    _, last = rows[-1] if len(rows) == limit else (None, stop)
    return Scan(jobs, None if len(jobs) == limit else last)


async def get_jobs_by_id(tx: Tx, job_ids: Sequence[int]) -> list[JobRecord]:
    return await _shown_jobs(tx, await tx.rows(SHOW_JOBS, sorted(set(job_ids))))


async def _shown_jobs(tx: Tx, rows: Sequence[ShownRow]) -> list[JobRecord]:
    """Jobs as people see them, without those that this version cannot read; `get_job` tells why."""
    records = await tx.records.load(tx, [(row.id, row.revision, row.state) for row in rows])
    keys = [(row.id, row.revision) for row in rows]
    return [shown_job(row, records[key]) for row, key in zip(rows, keys, strict=True) if key in records]


async def list_revisions(
    tx: Tx, job_id: int, *, before: int | None = None, limit: int | None = None
) -> list[queries.Revision]:
    rows = await tx.rows(LIST_REVISIONS, job_id, _LAST_REVISION if before is None else before, most(limit))
    records = await tx.records.load(tx, [(job_id, revision, state) for revision, state, _ in rows])
    return [
        queries.Revision(revision, records[job_id, revision].job, written_at)
        for revision, _, written_at in rows
        if (job_id, revision) in records
    ]
