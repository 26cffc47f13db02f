"""From schedules to runs, in SQLite."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import cache
from typing import Any

from onthedot import faults
from onthedot.clock import Micros
from onthedot.errors import StoreUnusable
from onthedot.stores.base import (
    Due,
    FateAhead,
    Hint,
    NextSchedules,
    ScheduleCursor,
    ScheduleState,
    SkipRange,
    Term,
    Window,
)
from onthedot.stores.definitions import BUCKETS
from onthedot.stores.finding import FIRST, SCANNED
from onthedot.stores.lines import Line, give_turns, line_of, places_of_turns, share_of
from onthedot.stores.planned import (
    Insert,
    Planned,
    Stand,
    choose_windows,
    inserts_of,
    lengthened,
    skipped_ahead,
    slots_with_fates,
)
from onthedot.stores.sqlite.exceptions import Ahead, keep_exceptions
from onthedot.stores.sqlite.lane import Transaction
from onthedot.stores.sqlite.nodes import check_layout, check_term
from onthedot.stores.sqlite.tables import Tables, take_numbers
from onthedot.stores.sqlite.turns import Fair, fair_queues, take_turns

GROUP = 64
"""How many buckets the index of what is due takes together."""

# The due schedules of active jobs in one group of buckets, earliest first: the index holds them in this very order.
LIST_DUE_IN_GROUP = f"""
SELECT s.job_id, s.schedule_id, s.origin, s.watermark, s.next_at, s.last_end, j.revision, j.state
FROM schedules s INDEXED BY schedules_due CROSS JOIN jobs j ON j.id = s.job_id
WHERE s.bucket / {GROUP} = :first + {{place}} AND s.next_at <= :until AND s.bucket >= :low AND s.bucket < :high
  AND j.state = 'active'
"""  # noqa: S608 - a constant of this file


@cache
def list_due_schedules(groups: int) -> str:
    """The same over as many groups that follow one another. SQLite merges them as it goes, so the scan ends with the
    last row that is asked for, however many schedules there are."""
    parts = [LIST_DUE_IN_GROUP.format(place=place) for place in range(groups)]
    return "UNION ALL".join(parts) + "ORDER BY next_at, job_id, schedule_id"


@cache
def list_next_schedules() -> str:
    """The same of all buckets, behind a place, with what says who may see them."""
    listed = list_due_schedules(BUCKETS // GROUP).replace("j.state\n", "j.state, j.namespace, j.owner\n")
    behind = "AND (s.next_at, s.job_id, s.schedule_id) > (:at, :job_id, :schedule_id)\n"
    return listed.replace("  AND j.state = 'active'\n", f"  AND j.state = 'active' {behind}")


# Of few jobs: all that they have, sorted.
_IN_NAMESPACES = "j.namespace IN (SELECT value FROM json_each(:namespaces))"
_OF_NAMESPACES = f"jobs j INDEXED BY jobs_living WHERE j.state <> 'deleted' AND {_IN_NAMESPACES}"
_OF_OWNER = f"jobs j INDEXED BY jobs_owner WHERE j.owner = :owner AND (:namespaces IS NULL OR {_IN_NAMESPACES})"

COUNT_SEEN_JOBS, LIST_SEEN_JOBS = (
    "SELECT count(*) FROM (SELECT 1 FROM {jobs} LIMIT :most)",
    """
SELECT s.job_id, s.schedule_id, s.origin, s.watermark, s.next_at, s.last_end, j.revision, j.state, j.namespace, j.owner
FROM (SELECT j.id, j.revision, j.state, j.namespace, j.owner FROM {jobs}) j CROSS JOIN schedules s ON s.job_id = j.id
WHERE s.next_at <= :until AND j.state = 'active'
AND (s.next_at, s.job_id, s.schedule_id) > (:at, :job_id, :schedule_id)
ORDER BY s.next_at, s.job_id, s.schedule_id
""",
)


def in_buckets(buckets: range, until: Micros) -> tuple[str, dict[str, int]]:
    """What to ask for the due schedules of a shard, and with which values."""
    first, last = buckets.start // GROUP, (buckets.stop - 1) // GROUP
    values = {"first": first, "until": until, "low": buckets.start, "high": buckets.stop}
    return list_due_schedules(last - first + 1), values


# Compare: is the schedule still at this watermark, and its job active and at this revision?
FIND_PLANNABLE = """
SELECT s.watermark, s.delay IS NOT NULL
FROM schedules s JOIN jobs j ON j.id = s.job_id
WHERE s.job_id = :job_id AND s.schedule_id = :schedule_id AND j.revision = :revision AND j.state = 'active'
"""

# … and set.
MOVE_WATERMARK = "UPDATE schedules SET watermark = ?, next_at = ? WHERE job_id = ? AND schedule_id = ?"

# A key that is there already is the same run.
INSERT_RUN = """
INSERT INTO runs (id, job_id, trigger, slot_at, due_at, ready_at, expires_at, args, created_at, delayed,
                  route, priority, rank, queue, share, target, state, attempt, failures, recoveries, reason)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, 'scheduled', 0, 0, 0, '')
ON CONFLICT (job_id, slot_at, trigger, target) DO NOTHING
"""

# Runs of a paused job are held until it is resumed, and do not expire.
HOLD_NEW = "UPDATE runs SET ready_at = ?, expires_at = NULL WHERE job_id = ? AND state = 'scheduled'"

LIST_ROUTES = """
SELECT j.id, j.queue, j.route, j.priority, j.share FROM json_each(:ids) wanted JOIN jobs j ON j.id = wanted.value
"""

FIND_DEFAULT_SHARE = """
SELECT json_extract(v.definition, '$.args')
FROM jobs j JOIN job_revisions v ON v.job_id = j.id AND v.revision = j.revision WHERE j.id = ?
"""

FIND_LAST_SKIP = """
SELECT id, first, last, count, reason FROM skips
WHERE job_id = :job_id AND schedule_id = :schedule_id ORDER BY last DESC LIMIT 1
"""

DELETE_SKIP = "DELETE FROM skips WHERE id = ?"

INSERT_SKIP = """
INSERT INTO skips (job_id, schedule_id, first, last, count, reason, recorded_at)
VALUES (:job_id, :schedule_id, :first, :last, :count, :reason, :now)
"""

# Nothing up to this slot is planned anew: it was armed, or skipped ahead (see FIND_EDGE), also if the clock is set back
HOLD_EDGE = """
UPDATE schedules SET armed_to = max(coalesce(armed_to, 0), ?) WHERE job_id = ? AND schedule_id = ?
"""


class Plan(Tables):
    """See `PlanSlice`."""

    async def due_schedules(self, *, until: Micros, limit: int, shard: int = 0, layout: int | None = None) -> Due:
        return await self.look(lambda tx: self._due(tx.db, check_layout(tx.db, layout, shard), until, limit))

    async def next_schedules(
        self,
        *,
        until: Micros,
        limit: int,
        namespaces: Sequence[str] | None = None,
        owner: str | None = None,
        after: ScheduleCursor | None = None,
    ) -> NextSchedules:
        place = after or ScheduleCursor(FIRST, 0, "")
        values = {
            "namespaces": None if namespaces is None else json.dumps(sorted(namespaces)), "owner": owner,
            "until": until, "at": place.next_at, "job_id": place.job_id, "schedule_id": place.schedule_id,
            "most": SCANNED + 1, "first": 0, "low": 0, "high": BUCKETS,
        }  # fmt: skip

        def is_seen(namespace: str, of: str) -> bool:
            return (namespaces is None or namespace in namespaces) and owner in (None, of)

        def work(tx: Transaction) -> NextSchedules:
            return self._next(tx.db, list_of_next(tx.db, values), values, limit, is_seen)

        return await self.read(work)

    def _next(
        self,
        db: sqlite3.Connection,
        statement: str,
        values: dict[str, Any],
        limit: int,
        is_seen: Callable[[str, str], bool],
    ) -> NextSchedules:
        found: list[ScheduleState] = []
        ahead, place = Ahead(db), None
        for number, (*row, namespace, owner) in enumerate(db.execute(statement, values)):
            if number == SCANNED or len(found) == limit:
                return NextSchedules(found, place)
            place = ScheduleCursor(row[4], row[0], row[1])
            if is_seen(namespace, owner):
                with suppress(StoreUnusable):  # as in `_due`
                    found.append(self.schedule_state(db, row, ahead))
        return NextSchedules(found, None)

    def _due(self, db: sqlite3.Connection, buckets: range, until: Micros, limit: int) -> Due:
        due: list[ScheduleState] = []
        ahead = Ahead(db)
        for row in db.execute(*in_buckets(buckets, until)):
            if len(due) == limit:
                return Due(due, more=True)
            try:
                due.append(self.schedule_state(db, row, ahead))
            except StoreUnusable:
                continue  # one unreadable definition stops its own job only; reading that job tells why
        return Due(due, more=False)

    def schedule_state(self, db: sqlite3.Connection, row: Sequence[object], ahead: Ahead) -> ScheduleState:
        job_id, schedule_id, origin, watermark, next_at, last_end, revision, state = row
        record = self.records.find(db, job_id, revision, state)  # type: ignore[arg-type]  # as the schema says
        exceptions = ahead.of(job_id, schedule_id)  # type: ignore[arg-type]
        return ScheduleState(record, schedule_id, origin, watermark, next_at, last_end, exceptions)  # type: ignore[arg-type]

    async def plan(
        self, term: Term, windows: Sequence[tuple[ScheduleState, Window]], *, now: Micros | None = None
    ) -> list[bool]:
        return await self.write(lambda tx: self._plan(tx, term, windows, self.read_clock(now)))

    def _plan(
        self, tx: Transaction, term: Term, windows: Sequence[tuple[ScheduleState, Window]], now: Micros
    ) -> list[bool]:
        check_term(tx.db, term, now)
        found = [_compare(tx.db, seen, window) for seen, window in windows]
        return _set(tx, windows, found, now)


def list_of_next(db: sqlite3.Connection, values: dict[str, Any]) -> str:
    """How to find the next schedules: those of few jobs by their jobs, and else along the index of what is due."""
    if values["owner"] is None and values["namespaces"] is None:
        return list_next_schedules()
    jobs = _OF_NAMESPACES if values["owner"] is None else _OF_OWNER
    [count] = db.execute(COUNT_SEEN_JOBS.format(jobs=jobs), values).fetchone()
    return LIST_SEEN_JOBS.format(jobs=jobs) if count <= SCANNED else list_next_schedules()


def _compare(db: sqlite3.Connection, seen: ScheduleState, window: Window) -> Stand | None:
    """Where a schedule stands whose job is still as the planner saw it."""
    values = {"job_id": seen.record.id, "schedule_id": window.schedule_id, "revision": seen.record.revision}
    found = db.execute(FIND_PLANNABLE, values).fetchone()
    return None if found is None else Stand(found[0], bool(found[1]))


def _set(
    tx: Transaction,
    windows: Sequence[tuple[ScheduleState, Window]],
    stands: Sequence[Stand | None],
    now: Micros,
) -> list[bool]:
    """Write the windows that continue their schedule's watermark; which those were."""
    answers, taken = choose_windows(windows, stands, Ahead(tx.db))
    _insert_windows(tx, taken, now)
    faults.point("plan.in_transaction")
    _move_watermarks(tx.db, taken)
    return answers


def write_windows(tx: Transaction, windows: Sequence[Planned], now: Micros) -> int:
    """Insert the windows' runs and skips and move the watermarks; how many runs are new."""
    inserted = _insert_windows(tx, windows, now)
    _move_watermarks(tx.db, windows)
    return inserted


def _insert_windows(tx: Transaction, windows: Sequence[Planned], now: Micros) -> int:
    # In the order of their instants: what is due together lies together, which triples the rate of a drain.
    runs = inserts_of(windows)
    for job_id, window, _, exceptions in windows:
        record_skips(tx.db, job_id, window, now, exceptions)
        if exceptions:
            keep_exceptions(tx.db, job_id, window, exceptions, now)
    if not runs:
        return 0
    tx.hints.append(Hint("runs", runs[0].due_at))
    return insert_runs(tx.db, runs, now)[1]


def _move_watermarks(db: sqlite3.Connection, windows: Sequence[Planned]) -> None:
    db.executemany(
        MOVE_WATERMARK, [(window.end, window.next_at, job_id, window.schedule_id) for job_id, window, *_ in windows]
    )


def insert_runs(db: sqlite3.Connection, runs: Sequence[Insert], now: Micros) -> tuple[range, int]:
    """Insert runs with the next ids, in order; the ids, and how many runs were not there before."""
    ids = take_numbers(db, "run", len(runs))
    lines = _lines(db, runs, now)
    rows = [
        (run_id, job_id, trigger, slot_at, due_at, due_at, expires_at, args, now, delayed, *line, target)
        for run_id, (job_id, trigger, due_at, expires_at, args, delayed, target, slot_at), line in zip(
            ids, runs, lines, strict=True
        )
    ]
    return ids, db.executemany(INSERT_RUN, rows).rowcount


def _lines(db: sqlite3.Connection, runs: Sequence[Insert], now: Micros) -> list[Line]:
    """Where these runs are to wait."""
    ids = json.dumps(list({run.job_id for run in runs}))
    jobs = {row[0]: row[1:] for row in db.execute(LIST_ROUTES, {"ids": ids})}
    lines = []
    for run in runs:
        queue, route, priority, share = jobs[run.job_id]
        lines.append(line_of(run, queue, route, priority, _share(db, run, share) if share else ""))
    fair = fair_queues(db)
    return _ranked(db, runs, lines, fair, now) if fair else lines


def _share(db: sqlite3.Connection, run: Insert, name: str) -> str:
    args = run.args
    if args is None:
        [args] = db.execute(FIND_DEFAULT_SHARE, (run.job_id,)).fetchone()
    return share_of(args, name)


def _ranked(
    db: sqlite3.Connection, runs: Sequence[Insert], lines: list[Line], fair: dict[str, Fair], now: Micros
) -> list[Line]:
    """In queues that are shared fairly, runs that are due already get their turns."""
    for name, queue in fair.items():
        places = places_of_turns(runs, lines, name, now)
        ranks = take_turns(db, name, queue, [(lines[place].share, lines[place].priority) for place in places])
        give_turns(lines, places, ranks)
    return lines


def record_skips(
    db: sqlite3.Connection, job_id: int, window: Window, now: Micros, exceptions: Sequence[FateAhead] = ()
) -> None:
    """Record ranges; one that continues the schedule's last range, with nothing between, makes it longer."""
    edge = window.start
    fated = slots_with_fates(window, exceptions)
    for skip in window.skips:
        values = {
            "job_id": job_id, "schedule_id": window.schedule_id, "now": now,
            "first": skip.first, "last": skip.last, "count": skip.count, "reason": skip.reason,
        }  # fmt: skip
        last_id, *last = db.execute(FIND_LAST_SKIP, values).fetchone() or (None,)
        longer = lengthened(skip, SkipRange(*last) if last else None, edge, fated)
        if longer is not None:
            db.execute(DELETE_SKIP, (last_id,))  # written anew: the longer range is the newest entry
            values |= {"first": longer.first, "count": longer.count}
        db.execute(INSERT_SKIP, values)
        edge = skip.last
    newest = skipped_ahead(window, now)
    if newest is not None:
        db.execute(HOLD_EDGE, (newest, job_id, window.schedule_id))
