"""Queues and placement, in PostgreSQL."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from onthedot.clock import NEVER, Micros
from onthedot.route import LEADER_ROUTES, PLACED_ROUTES, placed_incarnation, placed_on, unranked
from onthedot.stores.base import Hint, Placement, Queue, Term, Unplaced
from onthedot.stores.postgres.gates import stand_aside_in
from onthedot.stores.postgres.nodes import check_term
from onthedot.stores.postgres.tables import Tables
from onthedot.stores.postgres.transaction import Transaction, plain
from onthedot.stores.queues import is_left_lying

QUEUES = "queues"
"""The key that whoever pauses a queue holds, and whoever takes or arms runs shares."""

PAUSE = """
INSERT INTO queues (name, paused_at, reason) VALUES ($1, $2, $3)
ON CONFLICT (name) DO UPDATE SET paused_at = coalesce(queues.paused_at, excluded.paused_at), reason = excluded.reason
"""

RESUME = "INSERT INTO queues (name) VALUES ($1) ON CONFLICT (name) DO UPDATE SET paused_at = NULL, reason = ''"

SHARE = """
INSERT INTO queues (name, weights) VALUES ($1, $2) ON CONFLICT (name) DO UPDATE SET weights = excluded.weights
"""

LIST_RANKED = "SELECT id, route FROM runs WHERE queue = $1 AND rank IS NOT NULL ORDER BY id FOR UPDATE"

# Lined up anew, by the new weights.
FORGET_RANKS = """
UPDATE runs SET rank = NULL, route = given.route
FROM unnest($1::bigint[], $2::text[]) given (id, route) WHERE runs.id = given.id
"""

FORGET_TURNS = "DELETE FROM turns WHERE queue = $1"

FIND_QUEUE = "SELECT name, paused_at, reason, weights FROM queues WHERE name = $1"

LIST_QUEUES = "SELECT name, paused_at, reason, weights FROM queues"

COUNT_QUEUES = """
SELECT queue, count(*) FILTER (WHERE state <> 'running'), count(*) FILTER (WHERE state <> 'running' AND due_at <= $1),
       count(*) FILTER (WHERE state = 'running'), min(due_at) FILTER (WHERE state <> 'running' AND due_at <= $1)
FROM runs GROUP BY queue
"""

_WAITING = """
SELECT r.id, r.job_id, j.revision, j.state, r.due_at, r.route, r.ready_at
FROM runs r JOIN jobs j ON j.id = r.job_id
WHERE (r.route >= $1 AND r.route < $2 OR r.route >= $3 AND r.route < $4)
  AND r.state <> 'running' AND r.rank IS NULL AND r.ready_at <= $5
  AND NOT EXISTS (SELECT 1 FROM queues q WHERE q.name = r.queue AND q.paused_at IS NOT NULL)
ORDER BY r.ready_at, r.id
"""

COUNT_HELD = "SELECT incarnation, count(*) FROM runs WHERE incarnation IS NOT NULL GROUP BY incarnation"

COUNT_PLACED = """
SELECT route, count(*) FROM runs
WHERE route >= $1 AND route < $2 AND state = 'scheduled' AND state <> 'running' AND rank IS NULL GROUP BY route
"""

LIST_LIVING = "SELECT incarnation FROM nodes WHERE incarnation = ANY($1) AND NOT ended AND lease_until > $2"

LOCK_WAITING = """
SELECT id, route, ready_at, due_at FROM runs WHERE id = ANY($1) AND state <> 'running' ORDER BY id FOR UPDATE
"""

# Who was chosen has a second from now.
PLACE = """
UPDATE runs
SET route = $1, state = 'scheduled', ready_at = greatest(due_at, $2), lease_id = NULL, incarnation = NULL,
    revision = NULL, reserved_at = NULL
WHERE id = $3
"""


class Queues(Tables):
    """See `QueuesSlice` and `PlacementSlice`."""

    async def pause_queue(self, name: str, *, reason: str, now: Micros | None = None) -> Queue:
        async def work(tx: Transaction) -> Queue:
            at = await tx.clock(now)
            await stand_aside_in(tx, name)
            await tx.lock_keys([QUEUES])
            await tx.do(PAUSE, name, at, plain(reason))
            return await _find(tx, name)

        return await self.write(work, limit=self.limits.long)

    async def resume_queue(self, name: str, *, now: Micros | None = None) -> Queue:
        async def work(tx: Transaction) -> Queue:
            await tx.do(RESUME, name)
            tx.hints.append(Hint("runs", await tx.clock(now)))
            return await _find(tx, name)

        return await self.write(work, limit=self.limits.long)

    async def share_queue(self, name: str, weights: Mapping[str, int] | None, *, now: Micros | None = None) -> Queue:
        async def work(tx: Transaction) -> Queue:
            await tx.lock_keys([QUEUES])  # nobody takes runs meanwhile, by the old weights
            await tx.do(SHARE, name, None if weights is None else json.dumps(dict(weights)))
            rows = await tx.rows(LIST_RANKED, name)
            await tx.do(FORGET_RANKS, [run_id for run_id, _ in rows], [unranked(route) for _, route in rows])
            await tx.do(FORGET_TURNS, name)
            tx.hints.append(Hint("runs", await tx.clock(now)))
            return await _find(tx, name)

        return await self.write(work, limit=self.limits.long)

    async def list_queues(self, *, now: Micros | None = None) -> list[Queue]:
        async def work(tx: Transaction) -> list[Queue]:
            at = await tx.clock(now)
            said = {row[0]: tuple(row) for row in await tx.rows(LIST_QUEUES)}
            counts = {row[0]: tuple(row)[1:] for row in await tx.rows(COUNT_QUEUES, at)}
            return [
                _queue(said.get(name, (name, None, "", None)), counts.get(name, (0, 0, 0, None)))
                for name in sorted({*said, *counts})
            ]

        return await self.show(work)

    # ── placement ────────────────────────────────────────────────────────────────────────────────────────────

    async def unplaced(self, *, until: Micros, limit: int, now: Micros | None = None) -> list[Unplaced]:
        async def work(tx: Transaction) -> list[Unplaced]:
            at = await tx.clock(now)
            rows = await tx.rows(_WAITING, *LEADER_ROUTES, *PLACED_ROUTES, until)
            living = await _living(tx, (row[5] for row in rows), at)
            found = [row for row in rows if _needs_a_place(row[5], row[6], living, at)][:limit]
            await self.records.load(tx, [(row[1], row[2], row[3]) for row in found])
            return [
                Unplaced(run_id, self.records.find(job_id, revision), due_at, placed_incarnation(route) or "")
                for run_id, job_id, revision, _, due_at, route, _ in found
            ]

        return await self.read(work)

    async def loads(self) -> dict[str, int]:
        async def work(tx: Transaction) -> dict[str, int]:
            loads: Counter[str | None] = Counter(dict(await tx.rows(COUNT_HELD)))
            for route, count in await tx.rows(COUNT_PLACED, *PLACED_ROUTES):
                loads[placed_incarnation(route)] += count
            return {who: count for who, count in loads.items() if who is not None}

        return await self.read(work)

    async def place(self, term: Term, placements: Sequence[Placement], *, now: Micros | None = None) -> list[bool]:
        async def work(tx: Transaction) -> list[bool]:
            at = await tx.clock(now)
            await check_term(tx, term, at)
            rows = await tx.rows(LOCK_WAITING, [placement.run_id for placement in placements])
            chosen = [placed_on(placement.incarnation) for placement in placements]
            living = await _living(tx, [*chosen, *(row[1] for row in rows)], at)
            waiting = {row[0]: row for row in rows}
            return [await _place(tx, placement, waiting, living, at) for placement in placements]

        return await self.write(work)


async def _find(tx: Transaction, name: str) -> Queue:
    return _queue(await tx.row(FIND_QUEUE, name), (0, 0, 0, None))


def _queue(said: Any, counts: tuple[int, int, int, Micros | None]) -> Queue:
    name, paused_at, reason, weights = said
    return Queue(name, paused_at, reason, None if weights is None else json.loads(weights), *counts)


async def _living(tx: Transaction, routes: Iterable[str], now: Micros) -> frozenset[str]:
    """Of the incarnations that runs in these routes are placed on, those whose lease is alive."""
    places = {place for place in map(placed_incarnation, routes) if place is not None}
    if not places:
        return frozenset()
    return frozenset(incarnation for (incarnation,) in await tx.rows(LIST_LIVING, list(places), now))


def _needs_a_place(route: str, ready_at: Micros, living: frozenset[str], now: Micros) -> bool:
    place = placed_incarnation(route)
    return place is None or is_left_lying(ready_at, now, alive=place in living)


async def _place(
    tx: Transaction, placement: Placement, waiting: dict[int, Any], living: frozenset[str], now: Micros
) -> bool:
    row = waiting.get(placement.run_id)
    if row is None or not row[1].startswith((LEADER_ROUTES[0], PLACED_ROUTES[0])):
        return False
    _, route, ready_at, due_at = row
    if ready_at == NEVER or not _needs_a_place(route, ready_at, living, now):
        return False
    chosen = placed_on(placement.incarnation)
    await tx.do(PLACE, chosen, now, placement.run_id)
    waiting[placement.run_id] = (placement.run_id, chosen, max(due_at, now), due_at)
    tx.hints.append(Hint("runs", due_at))
    return True
