"""Turns in queues that are shared fairly, in PostgreSQL: who is given which rank, and how virtual time passes.

Whoever gives or takes turns holds the row of the queue: turns follow one another.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from onthedot.clock import Micros
from onthedot.route import RANK_AT_ONCE, next_turn, ranked
from onthedot.stores.postgres.transaction import Transaction

LIST_FAIR = "SELECT name, weights, virtual_time FROM queues WHERE weights IS NOT NULL ORDER BY name FOR UPDATE"

LIST_TURNS = """
SELECT share, priority, ends FROM turns WHERE queue = $1 AND share = ANY($2)
"""

SET_TURNS = """
INSERT INTO turns (queue, share, priority, ends)
SELECT $1, * FROM unnest($2::text[], $3::smallint[], $4::bigint[])
ON CONFLICT (queue, share, priority) DO UPDATE SET ends = excluded.ends
"""

# What somebody else is taking at this moment needs no rank.
LIST_UNRANKED = """
SELECT id, share FROM runs
WHERE route = $1 AND priority = $2 AND state <> 'running' AND rank IS NULL AND ready_at <= $3
ORDER BY ready_at, id LIMIT $4 FOR UPDATE SKIP LOCKED
"""

GIVE_RANKS = """
UPDATE runs SET rank = given.rank, route = $3
FROM unnest($1::bigint[], $2::bigint[]) given (id, rank) WHERE runs.id = given.id
"""

MOVE_TIME = "UPDATE queues SET virtual_time = greatest(virtual_time, $1) WHERE name = $2"


class Fair(NamedTuple):
    """A queue that is shared fairly."""

    weights: Mapping[str, int]
    virtual_time: int


async def fair_queues(tx: Transaction) -> dict[str, Fair]:
    """The queues that are shared fairly, by name; nobody else gives turns there before this transaction has ended."""
    return {name: Fair(json.loads(weights), time) for name, weights, time in await tx.rows(LIST_FAIR)}


async def take_turns(tx: Transaction, name: str, queue: Fair, wanted: Sequence[tuple[str, int]]) -> list[int]:
    """The ranks of runs that are due, in this order, by their shares and levels."""
    if not wanted:
        return []
    rows = await tx.rows(LIST_TURNS, name, list({share for share, _ in wanted}))
    known = {(share, level): end for share, level, end in rows}
    ends: dict[tuple[str, int], int] = {}
    ranks = []
    for key in wanted:
        share, level = key
        turn = next_turn(queue.virtual_time, ends.get(key, known.get(key, 0)), queue.weights.get(share, 1), level)
        ends[key] = turn.end
        ranks.append(turn.start)
    await tx.do(SET_TURNS, name, [share for share, _ in ends], [level for _, level in ends], list(ends.values()))
    return ranks


async def rank_due(tx: Transaction, name: str, queue: Fair, route: str, level: int, now: Micros) -> None:
    """Runs of one line that have come due get their ranks, and move to where ranks count."""
    due = await tx.rows(LIST_UNRANKED, route, level, now, RANK_AT_ONCE)
    if not due:
        return
    ranks = await take_turns(tx, name, queue, [(share, level) for _, share in due])
    await tx.do(GIVE_RANKS, [run_id for run_id, _ in due], ranks, ranked(route))


async def pass_time(tx: Transaction, taken: Iterable[tuple[str, int]]) -> None:
    """Runs with these queues and ranks were taken: virtual time has come as far."""
    latest: dict[str, int] = {}
    for name, rank in taken:
        latest[name] = max(rank, latest.get(name, 0))
    for name, rank in sorted(latest.items()):
        await tx.do(MOVE_TIME, rank, name)
