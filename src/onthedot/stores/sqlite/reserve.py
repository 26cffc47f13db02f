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
from onthedot.run import Lease, RunState
from onthedot.stores.base import Ask, Reserved
from onthedot.stores.sqlite.finish import end_waiting
from onthedot.stores.sqlite.lane import Transaction
from onthedot.stores.sqlite.plan import NORMAL
from onthedot.stores.sqlite.tables import Tables, check_lease, take_numbers

LEVELS = (NORMAL,)
"""Priorities: one range scan for each, merged."""

Row = tuple[Any, ...]
_JOB, _GATED = 2, -1  # where the job's id, and whether it has gates, stand in a candidate's row

# Candidates of one queue and priority, read only as far as they are taken. Scheduled, or reserved and lapsed: both
# are ready. The order is the index's own; CROSS JOIN keeps it the outer loop.
_CANDIDATES = """
SELECT r.ready_at, r.id, r.job_id, j.revision, j.state, r.trigger, r.slot_at, r.due_at, r.args, r.attempt, r.failures,
       r.recoveries, r.created_at, r.target, r.queue, j.gated
FROM runs r INDEXED BY runs_ready CROSS JOIN jobs j ON j.id = r.job_id
WHERE r.queue = :queue AND r.priority = :priority AND r.state <> 'running' AND {due}
  AND (r.expires_at IS NULL OR r.expires_at > :now)
  AND j.task IN (SELECT value FROM json_each(:tasks))
ORDER BY r.ready_at, r.id
"""
LIST_DUE_RUNS = _CANDIDATES.format(due="r.ready_at <= :now")
LIST_AHEAD = _CANDIDATES.format(due="r.ready_at > :now AND r.ready_at <= :until AND r.state = 'scheduled'")

# What will be ready later, in order; read until the first row that settles the matter. Not those that wait at a gate or
# are held by a pause: they are ready never, stand together at the end of the index, and there may be thousands.
LIST_LATER = """
SELECT ready_at, state = 'reserved', incarnation FROM runs INDEXED BY runs_ready
WHERE queue = :queue AND priority = :priority AND state <> 'running' AND ready_at > :now AND ready_at < :never
ORDER BY ready_at
"""

FIND_VOID_BELOW = "SELECT void_below FROM nodes WHERE incarnation = ?"

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
        if ask.number < tx.db.execute(FIND_VOID_BELOW, (ask.incarnation,)).fetchone()[0]:
            return reserved
        due, more = _choose_due(_candidates(tx.db, LIST_DUE_RUNS, ask, now), ask)
        ahead = list(islice(_candidates(tx.db, LIST_AHEAD, ask, now), ask.ahead)) if ask.ahead else []
        lease_ids = iter(ask.lease_ids)
        reserved.armed = self._leases(tx, [row for row in due if not row[_GATED]], lease_ids, ask, now)
        reserved.held = self._leases(tx, [*(row for row in due if row[_GATED]), *ahead], lease_ids, ask, now)
        _write_armed(tx.db, reserved.armed, now)
        _write_held(tx.db, reserved.held, ask, now)
        faults.point("reserve.in_transaction")
        reserved.look_again_at = now if more else _next_free(tx.db, ask, now, full=len(ahead) >= ask.ahead)
        return reserved

    def _leases(
        self, tx: Transaction, rows: Iterable[Row], lease_ids: Iterator[str], ask: Ask, now: Micros
    ) -> list[Lease]:
        leases = []
        for row in rows:
            (_, run_id, job_id, revision, state, trigger, slot_at, due_at, args, attempt, failures, recoveries,
             created_at, target, queue, _) = row  # fmt: skip
            try:
                record = self.records.find(tx.db, job_id, revision, state)
            except StoreUnusable:
                # Nobody can run it: it goes to the dead-letter box, so that the others can proceed.
                end_waiting(tx, run_id, RunState.DEAD, "unreadable", now)
                continue
            leases.append(
                Lease(
                    next(lease_ids), run_id, record, trigger, slot_at, due_at, args, attempt + 1, failures, recoveries,
                    ask.incarnation, created_at, now, 0, 0, target, queue,
                )
            )  # fmt: skip
        return leases


def _candidates(db: sqlite3.Connection, statement: str, ask: Ask, now: Micros) -> Iterator[Row]:
    """What this worker may take, earliest first, over all of its queues."""
    values = {"now": now, "until": now + ask.horizon, "tasks": json.dumps(sorted(ask.tasks))}
    scans = [
        db.execute(statement, values | {"queue": queue, "priority": priority})
        for queue in dict.fromkeys(ask.queues)
        for priority in LEVELS
    ]
    return scans[0] if len(scans) == 1 else merge(*scans)


def _choose_due(rows: Iterator[Row], ask: Ask) -> tuple[list[Row], bool]:
    """One run for each seat, then the quick ones; and whether more is due than there was room for."""
    chosen = list(islice(rows, ask.seats))
    extra, more = ask.extra, 0
    for row in rows:
        if extra and row[_JOB] in ask.quick and not row[_GATED]:
            extra -= 1
            chosen.append(row)
            continue
        more += 1
        if not extra or more >= len(ask.lease_ids):
            break  # far enough: the quick ones may be anywhere behind a backlog
    return chosen, more > 0


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


def _next_free(db: sqlite3.Connection, ask: Ask, now: Micros, *, full: bool) -> Micros | None:
    """When to ask again: as the next run enters the horizon, or as somebody else's reservation lapses.

    A worker that has no room ahead can take the next run at its due instant only.
    """
    horizon = 0 if full else ask.horizon
    found: list[Micros] = []
    for queue in dict.fromkeys(ask.queues):
        for priority in LEVELS:
            scan = db.execute(LIST_LATER, {"queue": queue, "priority": priority, "now": now, "never": NEVER})
            for ready_at, is_reserved, incarnation in scan:
                if is_reserved and incarnation != ask.incarnation:
                    found.append(ready_at)
                elif not is_reserved and ready_at > now + horizon:
                    found.append(ready_at - horizon)
                    break  # whatever comes later enters later
    return min(found, default=None)
