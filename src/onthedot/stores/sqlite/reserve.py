"""Taking work for a worker: the way of a run from `scheduled` to `reserved` or `running`.

Everything happens under the write lock, so what is chosen cannot be taken in between.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from heapq import merge
from itertools import islice
from typing import Any

from onthedot import faults
from onthedot.clock import NEVER, Micros
from onthedot.errors import StoreUnusable
from onthedot.route import BONUS, END, is_shared, lines_of, ranked, read_route
from onthedot.run import Lease, RunState
from onthedot.stores.base import Ask, Reserved
from onthedot.stores.sqlite.finish import end_waiting
from onthedot.stores.sqlite.lane import Transaction
from onthedot.stores.sqlite.tables import Tables, check_lease, find_checkpoint, take_numbers
from onthedot.stores.sqlite.turns import fair_queues, pass_time, rank_due
from onthedot.stores.taking import (
    ATTEMPT,
    GATED,
    JOB,
    QUEUE,
    RANK,
    REVISION,
    RUN,
    STATE,
    Candidate,
    Lines,
    choose_due,
    is_served,
    lease_of,
)

# Candidates of one line, read only as far as they are taken. Scheduled, or reserved and lapsed: both are ready. The
# order is the index's own; CROSS JOIN keeps it the outer loop.
_CANDIDATES = """
SELECT r.ready_at - :bonus, r.id, r.job_id, j.revision, j.state, r.trigger, r.slot_at, r.due_at, r.args, r.attempt,
       r.failures, r.recoveries, r.created_at, r.target, r.queue, r.priority, r.rank, j.gated
FROM runs r INDEXED BY {index} CROSS JOIN jobs j ON j.id = r.job_id
WHERE r.route = :route AND r.state <> 'running' AND {wanted}
  AND (r.expires_at IS NULL OR r.expires_at > :now)
  AND j.task IN (SELECT value FROM json_each(:tasks))
ORDER BY {order}, r.id
"""
_IN_LINE = "r.priority = :priority AND r.rank IS NULL AND "
LIST_DUE_RUNS = _CANDIDATES.format(index="runs_ready", wanted=_IN_LINE + "r.ready_at <= :now", order="r.ready_at")
LIST_AHEAD = _CANDIDATES.format(
    index="runs_ready",
    wanted=_IN_LINE + "r.ready_at > :now AND r.ready_at <= :until AND r.state = 'scheduled'",
    order="r.ready_at",
)
LIST_RANKED = _CANDIDATES.format(
    index="runs_ranked", wanted="r.rank IS NOT NULL AND r.ready_at <= :now", order="r.rank"
).replace(":bonus", "CASE r.priority {} END".format(" ".join(f"WHEN {n} THEN {b}" for n, b in enumerate(BONUS))))

# The next line behind this one that has a run in it: a step through the index, however many runs there are. Two steps,
# because SQLite walks through all that equals the first column when it compares (route, priority) as a row.
NEXT_LINE = """
SELECT * FROM (
    SELECT route, priority FROM runs INDEXED BY runs_ready
    WHERE route = :route AND priority > :priority AND state <> 'running' AND rank IS NULL ORDER BY priority LIMIT 1)
UNION ALL
SELECT * FROM (
    SELECT route, priority FROM runs INDEXED BY runs_ready
    WHERE route > :route AND route < :end AND state <> 'running' AND rank IS NULL ORDER BY route, priority LIMIT 1)
LIMIT 1
"""

# … and the next route in which runs have ranks.
NEXT_RANKED = """
SELECT route FROM runs INDEXED BY runs_ranked
WHERE route > :route AND route < :end AND rank IS NOT NULL ORDER BY route LIMIT 1
"""

LIST_PAUSED = "SELECT name FROM queues WHERE paused_at IS NOT NULL"

# What will be ready later, in order; read until the first row that settles the matter. Not those that wait at a gate or
# are held by a pause: they are ready never, stand together at the end of the index, and there may be thousands.
LIST_LATER = """
SELECT ready_at, state = 'reserved', incarnation FROM runs INDEXED BY runs_ready
WHERE route = :route AND priority = :priority AND state <> 'running' AND rank IS NULL AND ready_at > :now
  AND ready_at < :never
ORDER BY ready_at
"""

FIND_NODE = "SELECT id, void_below, draining FROM nodes WHERE incarnation = ?"

ARM_NOW = """
UPDATE runs
SET state = 'running', lease_id = ?, fence = ?, incarnation = ?, revision = ?, reserved_at = ?, armed_at = ?,
    attempt = ?, expires_at = NULL
WHERE id = ? AND state <> 'running'
"""

HOLD = """
UPDATE runs
SET state = 'reserved', lease_id = ?, incarnation = ?, revision = ?, reserved_at = ?, ready_at = max(due_at, ?) + ?
WHERE id = ? AND state <> 'running'
"""


class Reserve(Tables):
    """See `RunsSlice.reserve`."""

    async def reserve(self, ask: Ask, *, now: Micros | None = None) -> Reserved:
        return await self.write(lambda tx: self._reserve(tx, ask, self.read_clock(now)))

    def _reserve(self, tx: Transaction, ask: Ask, now: Micros) -> Reserved:
        check_lease(tx.db, ask.incarnation, now)
        reserved = Reserved(now)
        node_id, void_below, draining = tx.db.execute(FIND_NODE, (ask.incarnation,)).fetchone()
        if ask.number < void_below or draining:
            return reserved
        lines = _find_lines(tx.db, ask, node_id, now)
        due, more = choose_due(_due(tx.db, lines, ask, now), ask)
        ahead = list(islice(_ahead(tx.db, lines, ask, now), ask.ahead)) if ask.ahead else []
        lease_ids = iter(ask.lease_ids)
        reserved.armed = self._leases(tx, [row for row in due if not row[GATED]], lease_ids, ask, now)
        reserved.held = self._leases(tx, [*(row for row in due if row[GATED]), *ahead], lease_ids, ask, now)
        _write_armed(tx.db, reserved.armed, now)
        _write_held(tx.db, reserved.held, ask, now)
        pass_time(tx.db, [(row[QUEUE], row[RANK]) for row in due if row[RANK] is not None])
        faults.point("reserve.in_transaction")
        reserved.look_again_at = now if more else _next_free(tx.db, lines, ask, now, full=len(ahead) >= ask.ahead)
        return reserved

    def _leases(
        self, tx: Transaction, rows: Iterable[Candidate], lease_ids: Iterator[str], ask: Ask, now: Micros
    ) -> list[Lease]:
        leases = []
        for row in rows:
            run_id = row[RUN]
            try:
                record = self.records.find(tx.db, row[JOB], row[REVISION], row[STATE])
            except StoreUnusable:
                # Nobody can run it: it goes to the dead-letter box, so that the others can proceed.
                end_waiting(tx, run_id, RunState.DEAD, "unreadable", now)
                continue
            checkpoint = find_checkpoint(tx.db, run_id) if row[ATTEMPT] else None
            leases.append(lease_of(row, next(lease_ids), record, ask, now, checkpoint))
        return leases


def _find_lines(db: sqlite3.Connection, ask: Ask, node_id: str, now: Micros) -> Lines:
    paused = frozenset(name for (name,) in db.execute(LIST_PAUSED))
    plain = []
    for start, end in lines_of(ask.queues, node_id, ask.incarnation):
        line = db.execute(NEXT_LINE, {"route": start, "priority": -1, "end": end}).fetchone()
        while line is not None:
            plain += [line] if is_served(line[0], ask, paused) else []
            line = db.execute(NEXT_LINE, {"route": line[0], "priority": line[1], "end": end}).fetchone()
    fair = {name: queue for name, queue in fair_queues(db).items() if name in ask.queues}
    for route, level in plain if fair else ():
        name = read_route(route).queue
        if name in fair and is_shared(route):
            rank_due(db, name, fair[name], route, level, now)
    routes = [route for name in fair for route in _ranked_routes(db, name)]
    return Lines(plain, [route for route in routes if is_served(route, ask, paused)], paused)


def _ranked_routes(db: sqlite3.Connection, queue: str) -> Iterator[str]:
    """The routes of a queue in which runs have ranks: the plain one, if only to look, and those with labels."""
    place = {"route": ranked(queue), "end": ranked(queue) + END}
    yield place["route"]
    while (found := db.execute(NEXT_RANKED, place).fetchone()) is not None:
        place["route"] = found[0]
        yield found[0]


def _due(db: sqlite3.Connection, lines: Lines, ask: Ask, now: Micros) -> Iterator[Candidate]:
    """What is due and this worker may take, in the order of age and priority."""
    values = {"now": now, "tasks": json.dumps(sorted(ask.tasks))}
    scans = [
        db.execute(LIST_DUE_RUNS, values | {"route": route, "priority": level, "bonus": BONUS[level]})
        for route, level in lines.plain
    ]
    scans += [db.execute(LIST_RANKED, values | {"route": route}) for route in lines.ranked]
    return _unless_paused(_merged(scans), lines)


def _ahead(db: sqlite3.Connection, lines: Lines, ask: Ask, now: Micros) -> Iterator[Candidate]:
    """What will be due within the horizon, earliest first."""
    values = {"now": now, "until": now + ask.horizon, "tasks": json.dumps(sorted(ask.tasks)), "bonus": 0}
    scans = [db.execute(LIST_AHEAD, values | {"route": route, "priority": level}) for route, level in lines.plain]
    return _unless_paused(_merged(scans), lines)


def _merged(scans: Sequence[Iterator[Any]]) -> Iterator[Candidate]:
    return scans[0] if len(scans) == 1 else merge(*scans)


def _unless_paused(rows: Iterator[Candidate], lines: Lines) -> Iterator[Candidate]:
    """Runs that are meant for one node are in no route of their queue, which may be paused all the same."""
    return (row for row in rows if row[QUEUE] not in lines.paused) if lines.paused else rows


def _write_armed(db: sqlite3.Connection, leases: Sequence[Lease], now: Micros) -> None:
    if not leases:
        return
    for lease, fence in zip(leases, take_numbers(db, "fence", len(leases)), strict=True):
        lease.fence = fence
        lease.armed_at = now
    rows = [
        (lease.lease_id, lease.fence, lease.incarnation, lease.record.revision, now, now, lease.attempt, lease.run_id)
        for lease in leases
    ]
    db.executemany(ARM_NOW, rows)


def _write_held(db: sqlite3.Connection, leases: Sequence[Lease], ask: Ask, now: Micros) -> None:
    rows = [
        (lease.lease_id, lease.incarnation, lease.record.revision, now, now, ask.lapse, lease.run_id)
        for lease in leases
    ]
    db.executemany(HOLD, rows)


def _next_free(db: sqlite3.Connection, lines: Lines, ask: Ask, now: Micros, *, full: bool) -> Micros | None:
    """When to ask again: as the next run enters the horizon, or as somebody else's reservation lapses.

    A worker that has no room ahead can take the next run at its due instant only.
    """
    horizon = 0 if full else ask.horizon
    found: list[Micros] = []
    for route, level in lines.plain:
        scan = db.execute(LIST_LATER, {"route": route, "priority": level, "now": now, "never": NEVER})
        for ready_at, is_reserved, incarnation in scan:
            if is_reserved and incarnation != ask.incarnation:
                found.append(ready_at)
            elif not is_reserved and ready_at > now + horizon:
                found.append(ready_at - horizon)
                break  # whatever comes later enters later
    return min(found, default=None)
