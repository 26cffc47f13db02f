"""Gates, in SQLite: who holds them, and to whom an open one passes. Closed ones are met in `passing.py`."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from onthedot.clock import Micros
from onthedot.stores.base import Hint
from onthedot.stores.places import Need, Serving
from onthedot.stores.sqlite.lane import Transaction
from onthedot.stores.sqlite.nodes import living_nodes
from onthedot.stores.sqlite.triggers import with_slots

# Most batches have nothing to do with gates: one look at an empty table, and done.
ARE_THERE_HOLDERS = "SELECT EXISTS (SELECT 1 FROM gate_holders)"

LIST_HELD_GATES = """
SELECT g.run_id, g.key
FROM json_each(:runs) wanted CROSS JOIN gate_holders g INDEXED BY gate_holders_run ON g.run_id = wanted.value
WHERE :ended OR g.until_end = 0
"""

TAKE_GATE = "INSERT INTO gate_holders (key, run_id, until_end) VALUES (?, ?, ?)"

LEAVE_GATE = "DELETE FROM gate_holders WHERE key = ? AND run_id = ?"

COUNT_HOLDERS = "SELECT count(*) FROM gate_holders WHERE key = ?"

# Who has waited longest of those for whom there is room.
FIND_HEIR = """
SELECT id, due_at, blocked_until_end, caught_up_at FROM runs INDEXED BY runs_blocked
WHERE blocked_on = ? AND blocked_capacity > ? ORDER BY due_at, id LIMIT 1
"""

# The first slot of the job that is due before this one, has not asked for its overlap gate, and can still start,
# whoever has reserved it.
FIND_OLDER = with_slots("""
SELECT other.id, other.due_at FROM runs mine JOIN runs other
  ON other.job_id = mine.job_id AND other.due_at < mine.due_at AND other.target = mine.target
 AND other.state <> 'running' AND other.blocked_on IS NULL AND other.{is_slot}
 AND (other.expires_at IS NULL OR other.expires_at > :now OR other.state = 'reserved' AND other.ready_at > :now)
 AND NOT EXISTS (SELECT 1 FROM gate_holders g INDEXED BY gate_holders_run WHERE g.run_id = other.id AND g.until_end = 1)
WHERE mine.id = :id ORDER BY other.due_at, other.id LIMIT 1
""")

MARK_CAUGHT_UP = "UPDATE runs SET caught_up_at = :now WHERE id = :id"

# Holders that were passed a place in a limit and have not started, what they need, and who has reserved them.
LIST_IDLE = """
SELECT r.id, r.due_at, j.task, j.route, r.target,
       CASE WHEN r.state = 'reserved' AND r.ready_at > :now THEN r.incarnation END
FROM gate_holders g CROSS JOIN runs r ON r.id = g.run_id CROSS JOIN jobs j ON j.id = r.job_id
WHERE g.key = :key AND g.until_end = 0 AND r.state <> 'running'
"""

LIST_WAITING = """
SELECT r.id, j.task, j.route, r.target FROM runs r INDEXED BY runs_blocked CROSS JOIN jobs j ON j.id = r.job_id
WHERE r.blocked_on = ?
"""

# Limits at which somebody waits, and that a run holds which has not started.
LIST_NOT_IN_USE = """
SELECT DISTINCT g.key FROM gate_holders g CROSS JOIN runs r ON r.id = g.run_id
WHERE g.until_end = 0 AND r.state <> 'running'
  AND EXISTS (SELECT 1 FROM runs w INDEXED BY runs_blocked WHERE w.blocked_on = g.key)
"""

FORGET_GONE = "DELETE FROM gate_holders WHERE NOT EXISTS (SELECT 1 FROM runs r WHERE r.id = run_id)"

LIST_WAITED_FOR = "SELECT DISTINCT blocked_on FROM runs INDEXED BY runs_blocked WHERE blocked_on IS NOT NULL"

UNBLOCK = "UPDATE runs SET blocked_on = NULL, reason = '', ready_at = due_at WHERE id = ?"

UNBLOCK_JOB = """
UPDATE runs SET blocked_on = NULL, reason = '', ready_at = due_at WHERE job_id = ? AND blocked_on IS NOT NULL
"""

UNBLOCK_QUEUE = """
UPDATE runs INDEXED BY runs_blocked SET blocked_on = NULL, reason = '', ready_at = due_at
WHERE queue = ? AND blocked_on IS NOT NULL
"""

_UNUSED_PLACES = """
SELECT g.run_id, g.key FROM gate_holders g CROSS JOIN runs r ON r.id = g.run_id
WHERE r.{owner} = ? AND r.state <> 'running' AND g.until_end = 0 ORDER BY g.run_id
"""

LIST_UNUSED_PLACES = _UNUSED_PLACES.format(owner="job_id")

LIST_UNUSED_PLACES_IN_QUEUE = _UNUSED_PLACES.format(owner="queue")


def open_gates(tx: Transaction, run_ids: Sequence[int], *, ended: bool) -> None:
    """Runs have left `running`: their gates open, and each passes to who has waited longest.

    A run that will be tried again keeps its overlap gate; one that has `ended` keeps nothing.
    """
    if not run_ids or not tx.db.execute(ARE_THERE_HOLDERS).fetchone()[0]:
        return
    held = tx.db.execute(LIST_HELD_GATES, {"runs": json.dumps(list(run_ids)), "ended": ended}).fetchall()
    for run_id, key in held:
        leave_gate(tx, key, run_id)


def leave_gate(tx: Transaction, key: str, run_id: int) -> None:
    """Give up one gate; it passes to who has waited longest."""
    tx.db.execute(LEAVE_GATE, (key, run_id))
    pass_on(tx, key)


def pass_on(tx: Transaction, key: str) -> int:
    """An open gate passes to those who have waited longest, as far as there is room by their own capacity: they hold
    it from now on, and are ready. How many. Slots are caught up in order: an older one comes first."""
    [holders] = tx.db.execute(COUNT_HOLDERS, (key,)).fetchone()
    passed = 0
    while (heir := tx.db.execute(FIND_HEIR, (key, holders + passed)).fetchone()) is not None:
        run_id, due_at, until_end, caught_up_at = heir
        older = find_older(tx, run_id, caught_up_at) if until_end and caught_up_at is not None else None
        if older is not None:
            put_first(tx, older, key, caught_up_at)
            break
        tx.db.execute(TAKE_GATE, (key, run_id, until_end))
        tx.db.execute(UNBLOCK, (run_id,))
        tx.hints.append(Hint("runs", due_at))
        passed += 1
    return passed


def find_older(tx: Transaction, run_id: int, now: Micros) -> tuple[int, Micros] | None:
    """The row of `FIND_OLDER`, if there is one."""
    found: tuple[int, Micros] | None = tx.db.execute(FIND_OLDER, {"id": run_id, "now": now}).fetchone()
    return found


def put_first(tx: Transaction, older: tuple[int, Micros], key: str, now: Micros) -> None:
    """A slot holds its overlap gate before it has asked for it."""
    run_id, due_at = older
    tx.db.execute(MARK_CAUGHT_UP, {"id": run_id, "now": now})
    tx.db.execute(TAKE_GATE, (key, run_id, 1))
    tx.hints.append(Hint("runs", due_at))


def list_idle(tx: Transaction, key: str, now: Micros) -> list[Any]:
    """The rows of `LIST_IDLE`."""
    return tx.db.execute(LIST_IDLE, {"key": key, "now": now}).fetchall()


def take_back(tx: Transaction, key: str, idle: Sequence[Any], now: Micros, *, wanted: bool) -> bool:
    """A limit's places that passed to runs which no living worker can start go to others, if any can use them: `wanted`
    says that somebody asks for one. Those runs, and all like them that wait there, are ready, hold no place, and ask
    again when a worker for them is back. Whether anything was changed."""
    serving = Serving(living_nodes(tx.db, now))
    stuck = [run_id for run_id, _, *need, holder in idle if not serving.can_start(Need(*need), holder)]
    if not stuck:
        return False
    waiting = tx.db.execute(LIST_WAITING, (key,)).fetchall()
    unable = [run_id for run_id, *need in waiting if not serving.can_start(Need(*need))]
    if not wanted and len(unable) == len(waiting):
        return False
    tx.db.executemany(UNBLOCK, [(run_id,) for run_id in unable])
    tx.db.executemany(LEAVE_GATE, [(key, run_id) for run_id in stuck])
    pass_on(tx, key)
    return True


def stand_aside(tx: Transaction, job_id: int) -> None:
    """Runs of the job that wait at gates are ready again, and places that others could use are given up: what they
    may hold, and where they have to wait, is decided anew when they are armed."""
    tx.db.execute(UNBLOCK_JOB, (job_id,))
    for run_id, key in tx.db.execute(LIST_UNUSED_PLACES, (job_id,)).fetchall():
        leave_gate(tx, key, run_id)


def stand_aside_in(tx: Transaction, queue: str) -> None:
    """The same for all runs of a queue."""
    tx.db.execute(UNBLOCK_QUEUE, (queue,))
    for run_id, key in tx.db.execute(LIST_UNUSED_PLACES_IN_QUEUE, (queue,)).fetchall():
        leave_gate(tx, key, run_id)


def recount(tx: Transaction, now: Micros) -> int:
    """The safety net: forget holders that are gone, pass gates that were left closed; how many runs are free now.
    Places that nobody can use go to others."""
    tx.db.execute(FORGET_GONE)
    freed = sum(pass_on(tx, key) for (key,) in tx.db.execute(LIST_WAITED_FOR).fetchall())
    for (key,) in tx.db.execute(LIST_NOT_IN_USE).fetchall():
        take_back(tx, key, list_idle(tx, key, now), now, wanted=False)
    return freed
