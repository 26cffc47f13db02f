"""Turns in queues that are shared fairly, in SQLite: who is given which rank, and how virtual time passes."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from onthedot.clock import Micros
from onthedot.route import RANK_AT_ONCE, next_turn, ranked

# Most stores have none: one look at an empty table.
LIST_FAIR = "SELECT name, weights, virtual_time FROM queues WHERE weights IS NOT NULL"

FIND_TURN = "SELECT ends FROM turns WHERE queue = ? AND share = ? AND priority = ?"

SET_TURN = """
INSERT INTO turns (queue, share, priority, ends) VALUES (?, ?, ?, ?)
ON CONFLICT (queue, share, priority) DO UPDATE SET ends = excluded.ends
"""

LIST_UNRANKED = """
SELECT id, share FROM runs INDEXED BY runs_ready
WHERE route = :route AND priority = :priority AND state <> 'running' AND rank IS NULL AND ready_at <= :now
ORDER BY ready_at, id LIMIT :limit
"""

GIVE_RANK = "UPDATE runs SET rank = ?, route = ? WHERE id = ?"

MOVE_TIME = "UPDATE queues SET virtual_time = max(virtual_time, ?) WHERE name = ?"


class Fair(NamedTuple):
    """A queue that is shared fairly."""

    weights: Mapping[str, int]
    virtual_time: int


def fair_queues(db: sqlite3.Connection) -> dict[str, Fair]:
    """The queues that are shared fairly, by name."""
    return {name: Fair(json.loads(weights), time) for name, weights, time in db.execute(LIST_FAIR)}


def take_turns(db: sqlite3.Connection, name: str, queue: Fair, wanted: Sequence[tuple[str, int]]) -> list[int]:
    """The ranks of runs that are due, in this order, by their shares and levels."""
    ends: dict[tuple[str, int], int] = {}
    ranks = []
    for share, level in wanted:
        if (share, level) not in ends:
            found = db.execute(FIND_TURN, (name, share, level)).fetchone()
            ends[share, level] = found[0] if found else 0
        turn = next_turn(queue.virtual_time, ends[share, level], queue.weights.get(share, 1), level)
        ends[share, level] = turn.end
        ranks.append(turn.start)
    db.executemany(SET_TURN, [(name, share, level, end) for (share, level), end in ends.items()])
    return ranks


def rank_due(db: sqlite3.Connection, name: str, queue: Fair, route: str, level: int, now: Micros) -> None:
    """Runs of one line that have come due get their ranks, and move to where ranks count."""
    values = {"route": route, "priority": level, "now": now, "limit": RANK_AT_ONCE}
    due = db.execute(LIST_UNRANKED, values).fetchall()
    ranks = take_turns(db, name, queue, [(share, level) for _, share in due])
    db.executemany(GIVE_RANK, [(rank, ranked(route), run_id) for rank, (run_id, _) in zip(ranks, due, strict=True)])


def pass_time(db: sqlite3.Connection, taken: Iterable[tuple[str, int]]) -> None:
    """Runs with these queues and ranks were taken: virtual time has come as far."""
    latest: dict[str, int] = {}
    for name, rank in taken:
        latest[name] = max(rank, latest.get(name, 0))
    db.executemany(MOVE_TIME, [(rank, name) for name, rank in latest.items()])
