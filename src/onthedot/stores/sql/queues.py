"""Pauses queues, shares them fairly, and places runs whose worker the leader chooses."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from onthedot.clock import NEVER, Micros
from onthedot.model.route import (
    LEADER_ROUTES,
    PLACED_ROUTES,
    RANK_AT_ONCE,
    next_turn,
    placed_incarnation,
    placed_on,
    ranked,
    unranked,
)
from onthedot.rules.placement import is_left_lying
from onthedot.stores.hints import Hint
from onthedot.stores.sql.fragments import UNRESERVED, each_run, job_of
from onthedot.stores.sql.gates import OF_QUEUE, leave_lines, lock_gates_of, lock_gates_of_all
from onthedot.stores.sql.history import count_held
from onthedot.stores.sql.nodes import living_nodes
from onthedot.stores.sql.port import Now, Statement, Tx, plain, sql
from onthedot.stores.sql.terms import check_term
from onthedot.stores.values import Placement, Queue, Term, Unplaced

QUEUES = "queues"
"""A transaction that pauses or shares a queue holds this key alone. Those that take or arm runs hold it together."""


def _queue(name: str, paused_at: Micros | None, reason: str, weights: str | None) -> Queue:
    return Queue(name, paused_at, reason, None if weights is None else json.loads(weights))


_COLUMNS = "name, paused_at, reason, weights"


def _set(columns: str, values: str, change: str) -> Statement[Queue]:
    """Return a statement that sets columns of a queue, and inserts the queue if it is new."""
    put = f"INSERT INTO queues ({columns}) VALUES ({values}) ON CONFLICT (name) DO UPDATE SET {change}"  # noqa: S608
    return sql(f"{put} RETURNING {_COLUMNS}", _queue)


PAUSE = _set(
    "name, paused_at, reason",
    "$1, $2, $3",
    "paused_at = coalesce(queues.paused_at, excluded.paused_at), reason = excluded.reason",
)
RESUME = _set("name", "$1", "paused_at = NULL, reason = ''")
SHARE = _set("name, weights", "$1, $2", "weights = excluded.weights")

LOCK_RANKED = sql("SELECT id, route FROM runs WHERE queue = $1 AND rank IS NOT NULL ORDER BY id [[FOR UPDATE]]")
FORGET_TURNS = sql("DELETE FROM turns WHERE queue = $1")
LIST_QUEUES = sql(f"SELECT {_COLUMNS} FROM queues", _queue)  # noqa: S608 - a constant

# The columns are the last ones of a `Queue`.
COUNT_QUEUES = sql("""
SELECT queue, count(*) FILTER (WHERE state <> 'running'), count(*) FILTER (WHERE state <> 'running' AND due_at <= $1),
       count(*) FILTER (WHERE state = 'running'), min(due_at) FILTER (WHERE state <> 'running' AND due_at <= $1)
FROM runs GROUP BY queue
""")


_WAITING = f"""
SELECT r.job_id, j.revision, j.state, r.id AS id, r.due_at, r.route, r.ready_at AS ready_at
FROM runs r <<INDEXED BY runs_ready>> CROSS JOIN jobs j
WHERE {job_of("r")} AND r.route >= {{}} AND r.route < {{}} AND r.state <> 'running' AND r.rank IS NULL
  AND r.ready_at <= $5
  AND NOT EXISTS (SELECT 1 FROM queues q WHERE q.name = r.queue AND q.paused_at IS NOT NULL)
"""  # noqa: S608 - a constant

LIST_WAITING = sql(f"{_WAITING.format('$1', '$2')} UNION ALL {_WAITING.format('$3', '$4')} ORDER BY ready_at, id")

COUNT_PLACED = sql("""
SELECT route, count(*) FROM runs <<INDEXED BY runs_ready>>
WHERE route >= $1 AND route < $2 AND state = 'scheduled' AND state <> 'running' AND rank IS NULL GROUP BY route
""")


class Unstarted(NamedTuple):
    """A run that is to be placed, if it still waits."""

    id: int
    route: str
    ready_at: Micros
    due_at: Micros


LOCK_UNSTARTED = sql(
    "SELECT id, route, ready_at, due_at FROM runs WHERE id {in1} AND state <> 'running' ORDER BY id [[FOR UPDATE]]",
    Unstarted,
)

# The chosen worker has one second to take the run.
PLACE = sql(f"UPDATE runs SET {UNRESERVED}, route = $1, ready_at = $2 WHERE id = $3")  # noqa: S608 - a constant


async def pause_queue(tx: Tx, name: str, *, reason: str, now: Now = None) -> Queue:
    at = await tx.clock(now)
    await tx.lock_keys([QUEUES])
    await lock_gates_of_all(tx, OF_QUEUE, name)
    await leave_lines(tx, OF_QUEUE, name)
    [queue] = await tx.rows(PAUSE, name, at, plain(reason))
    return queue


async def resume_queue(tx: Tx, name: str, *, now: Now = None) -> Queue:
    tx.hints.append(Hint("runs", await tx.clock(now)))
    [queue] = await tx.rows(RESUME, name)
    return queue


async def share_queue(tx: Tx, name: str, weights: Mapping[str, int] | None, *, now: Now = None) -> Queue:
    """Set how a queue is shared. Runs that have ranks get new ones, by the new weights."""
    await tx.lock_keys([QUEUES])  # so nobody takes runs by the old weights
    await lock_gates_of_all(tx, OF_QUEUE, name)  # else a gate could not pass to a run locked here
    [queue] = await tx.rows(SHARE, name, None if weights is None else json.dumps(dict(weights)))
    rows = [(run_id, None, unranked(route)) for run_id, route in await tx.rows(LOCK_RANKED, name)]
    if rows:
        await tx.each(SET_RANKS, rows)
    await tx.do(FORGET_TURNS, name)
    tx.hints.append(Hint("runs", await tx.clock(now)))
    return queue


async def list_queues(tx: Tx, *, now: Now = None) -> list[Queue]:
    at = await tx.clock(now)
    queues = {queue.name: queue for queue in await tx.rows(LIST_QUEUES)}
    for name, waiting, due, running, oldest_due in await tx.rows(COUNT_QUEUES, at):
        queue = queues.get(name, Queue(name))
        queues[name] = replace(queue, waiting=waiting, due=due, running=running, oldest_due=oldest_due)
    return [queues[name] for name in sorted(queues)]


# ── turns in queues that are shared fairly ───────────────────────────────────────────────────────────────────
# A transaction that gives or takes turns locks the row of the queue, so turns never overlap.

LOCK_FAIR = sql("""
SELECT name, weights, virtual_time FROM queues WHERE name {in1} AND weights IS NOT NULL ORDER BY name [[FOR UPDATE]]
""")

LIST_TURNS = sql("SELECT share, priority, ends FROM turns WHERE queue = $1 AND share {in2}")

SET_TURNS = sql(
    """
    INSERT INTO turns (queue, share, priority, ends) VALUES ($1, $2, $3, $4)
    ON CONFLICT (queue, share, priority) DO UPDATE SET ends = excluded.ends
    """,
    arrays="text text smallint bigint",
)

# A run that another worker takes at this moment needs no rank.
LIST_UNRANKED = sql("""
SELECT id, share FROM runs <<INDEXED BY runs_ready>>
WHERE route = $1 AND priority = $2 AND state <> 'running' AND rank IS NULL AND ready_at <= $3
ORDER BY ready_at, id LIMIT $4 [[FOR UPDATE SKIP LOCKED]]
""")

SET_RANKS = each_run("UPDATE runs SET rank = $2, route = $3 WHERE id = $1", "bigint bigint text")

MOVE_TIME = sql("UPDATE queues SET virtual_time = {greatest}(virtual_time, $1) WHERE name = $2")


class Fair(NamedTuple):
    """A queue that is shared fairly."""

    weights: Mapping[str, int]
    virtual_time: int


async def fair_queues(tx: Tx, names: Sequence[str]) -> dict[str, Fair]:
    """Return those of these queues that are shared fairly. No other transaction gives turns there before this one
    ends."""
    rows = await tx.rows(LOCK_FAIR, names)
    return {name: Fair(json.loads(weights), time) for name, weights, time in rows}


async def take_turns(tx: Tx, name: str, queue: Fair, wanted: Sequence[tuple[str, int]]) -> list[int]:
    """Return ranks for due runs, in this order, by their shares and levels."""
    rows = await tx.rows(LIST_TURNS, name, list({share for share, _ in wanted}))
    ends = {(share, level): end for share, level, end in rows}
    ranks = []
    for share, level in wanted:
        turn = next_turn(queue.virtual_time, ends.get((share, level), 0), queue.weights.get(share, 1), level)
        ends[share, level] = turn.end
        ranks.append(turn.start)
    await tx.each(SET_TURNS, [(name, share, level, ends[share, level]) for share, level in dict.fromkeys(wanted)])
    return ranks


async def rank_due(tx: Tx, name: str, queue: Fair, route: str, level: int, now: Micros) -> None:
    """Give ranks to the due runs of one line, and move them to the route where ranks count."""
    due = await tx.rows(LIST_UNRANKED, route, level, now, RANK_AT_ONCE)
    if due:
        ranks = await take_turns(tx, name, queue, [(share, level) for _, share in due])
        rows = zip(ranks, due, strict=True)
        await tx.each(SET_RANKS, [(run_id, rank, ranked(route)) for rank, (run_id, _) in rows])


async def pass_time(tx: Tx, taken: Iterable[tuple[str, int]]) -> None:
    """Move the queues' virtual time up to the ranks of the runs that were taken."""
    latest: dict[str, int] = {}
    for name, rank in taken:
        latest[name] = max(rank, latest.get(name, 0))
    if latest:
        await tx.each(MOVE_TIME, [(rank, name) for name, rank in sorted(latest.items())])


# ── placement ────────────────────────────────────────────────────────────────────────────────────────────────────


async def list_unassigned(tx: Tx, *, until: Micros, limit: int, now: Now = None) -> list[Unplaced]:
    at = await tx.clock(now)
    rows = await tx.rows(LIST_WAITING, *LEADER_ROUTES, *PLACED_ROUTES, until)
    living = {node.incarnation for node in await living_nodes(tx, at)}
    found = [
        ((job_id, revision, state), run_id, due_at, placed_incarnation(route) or "")
        for job_id, revision, state, run_id, due_at, route, ready_at in rows
        if _needs_a_place(route, ready_at, living, at)
    ][:limit]
    records = await tx.records.load(tx, [job for job, *_ in found])
    return [
        Unplaced(run_id, records[job_id, revision], due_at, place)
        for (job_id, revision, _), run_id, due_at, place in found
        if (job_id, revision) in records
    ]


async def count_loads(tx: Tx) -> dict[str, int]:
    loads: Counter[str | None] = Counter({name: sum(held) for name, held in (await count_held(tx)).items()})
    for route, count in await tx.rows(COUNT_PLACED, *PLACED_ROUTES):
        loads[placed_incarnation(route)] += count
    return {incarnation: count for incarnation, count in loads.items() if incarnation is not None}


async def assign(tx: Tx, term: Term, placements: Sequence[Placement], *, now: Now = None) -> list[bool]:
    at = await tx.clock(now)
    await check_term(tx, term, at)
    run_ids = [placement.run_id for placement in placements]
    await lock_gates_of(tx, run_ids)  # else a gate could not pass to a run locked here
    rows = {row.id: row for row in await tx.rows(LOCK_UNSTARTED, run_ids)}
    living = {node.incarnation for node in await living_nodes(tx, at)}
    placed: dict[int, Unstarted] = {}
    answers = []
    for run_id, incarnation in placements:
        row = placed.get(run_id) or rows.get(run_id)
        answers.append(row is not None and _may_place(row, living, at))
        if row is not None and answers[-1]:
            placed[run_id] = row._replace(route=placed_on(incarnation), ready_at=max(row.due_at, at))
            tx.hints.append(Hint("runs", row.due_at))
    if placed:
        await tx.each(PLACE, [(row.route, row.ready_at, row.id) for row in placed.values()])
    return answers


def _needs_a_place(route: str, ready_at: Micros, living: Collection[str], now: Micros) -> bool:
    place = placed_incarnation(route)
    return place is None or is_left_lying(ready_at, now, alive=place in living)


def _may_place(row: Unstarted, living: Collection[str], now: Micros) -> bool:
    if row.ready_at == NEVER or not row.route.startswith((LEADER_ROUTES[0], PLACED_ROUTES[0])):
        return False
    return _needs_a_place(row.route, row.ready_at, living, now)
