"""Queues and placement, in SQLite."""

from __future__ import annotations

import json
import sqlite3
from collections import Counter
from collections.abc import Mapping, Sequence

from onthedot.clock import NEVER, Micros
from onthedot.route import LEADER_ROUTES, PLACED_ROUTES, placed_incarnation, placed_on, unranked
from onthedot.stores.base import Hint, Placement, Queue, Term, Unplaced
from onthedot.stores.queues import is_left_lying
from onthedot.stores.sqlite.gates import stand_aside_in
from onthedot.stores.sqlite.lane import Transaction
from onthedot.stores.sqlite.nodes import check_term
from onthedot.stores.sqlite.tables import Tables, lease_has_ended

PAUSE = """
INSERT INTO queues (name, paused_at, reason) VALUES (:name, :now, :reason)
ON CONFLICT (name) DO UPDATE SET paused_at = coalesce(paused_at, excluded.paused_at), reason = excluded.reason
"""

RESUME = """
INSERT INTO queues (name) VALUES (:name) ON CONFLICT (name) DO UPDATE SET paused_at = NULL, reason = ''
"""

SHARE = """
INSERT INTO queues (name, weights) VALUES (:name, :weights)
ON CONFLICT (name) DO UPDATE SET weights = excluded.weights
"""

LIST_RANKED = "SELECT id, route FROM runs WHERE queue = ? AND rank IS NOT NULL"

# Lined up anew, by the new weights.
FORGET_RANK = "UPDATE runs SET rank = NULL, route = ? WHERE id = ?"

FORGET_TURNS = "DELETE FROM turns WHERE queue = ?"

FIND_QUEUE = "SELECT name, paused_at, reason, weights FROM queues WHERE name = ?"

LIST_QUEUES = "SELECT name, paused_at, reason, weights FROM queues"

COUNT_QUEUES = """
SELECT queue, sum(state <> 'running'), sum(state <> 'running' AND due_at <= :now), sum(state = 'running'),
       min(CASE WHEN state <> 'running' AND due_at <= :now THEN due_at END)
FROM runs GROUP BY queue
"""

_WAITING = """
SELECT r.id, r.job_id, j.revision, j.state, r.due_at, r.route, r.ready_at
FROM runs r INDEXED BY runs_ready CROSS JOIN jobs j ON j.id = r.job_id
WHERE r.route >= :start AND r.route < :end AND r.state <> 'running' AND r.rank IS NULL AND r.ready_at <= :until
  AND NOT EXISTS (SELECT 1 FROM queues q WHERE q.name = r.queue AND q.paused_at IS NOT NULL)
"""

COUNT_HELD = "SELECT incarnation, count(*) FROM runs WHERE incarnation IS NOT NULL GROUP BY incarnation"

COUNT_PLACED = """
SELECT route, count(*) FROM runs INDEXED BY runs_ready
WHERE route >= :start AND route < :end AND state = 'scheduled' AND state <> 'running' AND rank IS NULL GROUP BY route
"""

FIND_WAITING = "SELECT route, ready_at, due_at FROM runs WHERE id = ? AND state <> 'running'"

# Who was chosen has a second from now.
PLACE = """
UPDATE runs
SET route = ?, state = 'scheduled', ready_at = max(due_at, ?), lease_id = NULL, incarnation = NULL, revision = NULL,
    reserved_at = NULL
WHERE id = ?
"""


class Queues(Tables):
    """See `QueuesSlice` and `PlacementSlice`."""

    async def pause_queue(self, name: str, *, reason: str, now: Micros | None = None) -> Queue:
        def work(tx: Transaction) -> Queue:
            tx.db.execute(PAUSE, {"name": name, "now": self.read_clock(now), "reason": reason})
            stand_aside_in(tx, name)
            return _find(tx.db, name)

        return await self.write(work)

    async def resume_queue(self, name: str, *, now: Micros | None = None) -> Queue:
        def work(tx: Transaction) -> Queue:
            tx.db.execute(RESUME, {"name": name})
            tx.hints.append(Hint("runs", self.read_clock(now)))
            return _find(tx.db, name)

        return await self.write(work)

    async def share_queue(self, name: str, weights: Mapping[str, int] | None, *, now: Micros | None = None) -> Queue:
        def work(tx: Transaction) -> Queue:
            text = None if weights is None else json.dumps(dict(weights))
            tx.db.execute(SHARE, {"name": name, "weights": text})
            rows = tx.db.execute(LIST_RANKED, (name,)).fetchall()
            tx.db.executemany(FORGET_RANK, [(unranked(route), run_id) for run_id, route in rows])
            tx.db.execute(FORGET_TURNS, (name,))
            tx.hints.append(Hint("runs", self.read_clock(now)))
            return _find(tx.db, name)

        return await self.write(work)

    async def list_queues(self, *, now: Micros | None = None) -> list[Queue]:
        def work(tx: Transaction) -> list[Queue]:
            said = {row[0]: row for row in tx.db.execute(LIST_QUEUES)}
            counts = {row[0]: row[1:] for row in tx.db.execute(COUNT_QUEUES, {"now": self.read_clock(now)})}
            return [
                _queue(said.get(name, (name, None, "", None)), counts.get(name, (0, 0, 0, None)))
                for name in sorted({*said, *counts})
            ]

        return await self.read(work)

    # ── placement ────────────────────────────────────────────────────────────────────────────────────────────

    async def unplaced(self, *, until: Micros, limit: int, now: Micros | None = None) -> list[Unplaced]:
        def work(tx: Transaction) -> list[Unplaced]:
            at = self.read_clock(now)
            rows = [
                row
                for start, end in (LEADER_ROUTES, PLACED_ROUTES)
                for row in tx.db.execute(_WAITING, {"start": start, "end": end, "until": until})
            ]
            found = [row for row in rows if _needs_a_place(tx.db, row[5], row[6], at)]
            found.sort(key=lambda row: (row[6], row[0]))
            return [
                Unplaced(
                    run_id, self.records.find(tx.db, job_id, revision, state), due_at, placed_incarnation(route) or ""
                )
                for run_id, job_id, revision, state, due_at, route, _ in found[:limit]
            ]

        return await self.look(work)

    async def loads(self) -> dict[str, int]:
        def work(tx: Transaction) -> dict[str, int]:
            loads = Counter(dict(tx.db.execute(COUNT_HELD).fetchall()))
            for route, count in tx.db.execute(COUNT_PLACED, dict(zip(("start", "end"), PLACED_ROUTES, strict=True))):
                loads[placed_incarnation(route)] += count
            return dict(loads)

        return await self.look(work)

    async def place(self, term: Term, placements: Sequence[Placement], *, now: Micros | None = None) -> list[bool]:
        def work(tx: Transaction) -> list[bool]:
            at = self.read_clock(now)
            check_term(tx.db, term, at)
            return [_place(tx, placement, at) for placement in placements]

        return await self.write(work)


def _find(db: sqlite3.Connection, name: str) -> Queue:
    return _queue(db.execute(FIND_QUEUE, (name,)).fetchone(), (0, 0, 0, None))


def _queue(said: tuple[str, Micros | None, str, str | None], counts: tuple[int, int, int, Micros | None]) -> Queue:
    name, paused_at, reason, weights = said
    return Queue(name, paused_at, reason, None if weights is None else json.loads(weights), *counts)


def _needs_a_place(db: sqlite3.Connection, route: str, ready_at: Micros, now: Micros) -> bool:
    place = placed_incarnation(route)
    return place is None or is_left_lying(ready_at, now, alive=not lease_has_ended(db, place, now))


def _place(tx: Transaction, placement: Placement, now: Micros) -> bool:
    row = tx.db.execute(FIND_WAITING, (placement.run_id,)).fetchone()
    if row is None or not (row[0].startswith((LEADER_ROUTES[0], PLACED_ROUTES[0]))):
        return False
    route, ready_at, due_at = row
    if ready_at == NEVER or not _needs_a_place(tx.db, route, ready_at, now):
        return False
    tx.db.execute(PLACE, (placed_on(placement.incarnation), now, placement.run_id))
    tx.hints.append(Hint("runs", due_at))
    return True
