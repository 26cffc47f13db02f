"""Gates, in PostgreSQL: who holds them, and to whom an open one passes. Closed ones are met in `passing.py`.

Whoever takes, gives up or passes on a gate holds its key until the end of the transaction; keys before runs.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from onthedot.stores.base import Hint
from onthedot.stores.postgres.transaction import Transaction, striped

# The gates that these runs hold or wait at.
LIST_GATES_OF = """
SELECT key FROM gate_holders WHERE run_id = ANY($1)
UNION SELECT blocked_on FROM runs WHERE id = ANY($1) AND blocked_on IS NOT NULL
"""

LIST_GATES_OF_JOB = """
SELECT g.key FROM gate_holders g JOIN runs r ON r.id = g.run_id WHERE r.job_id = $1
UNION SELECT blocked_on FROM runs WHERE job_id = $1 AND blocked_on IS NOT NULL
"""

LIST_GATES_OF_QUEUE = """
SELECT g.key FROM gate_holders g JOIN runs r ON r.id = g.run_id WHERE r.queue = $1
UNION SELECT blocked_on FROM runs WHERE queue = $1 AND blocked_on IS NOT NULL
"""

LIST_HELD_GATES = "SELECT run_id, key FROM gate_holders WHERE run_id = ANY($1) AND ($2 OR NOT until_end)"

TAKE_GATE = "INSERT INTO gate_holders (key, run_id, until_end) VALUES ($1, $2, $3)"

LEAVE_GATE = "DELETE FROM gate_holders WHERE key = $1 AND run_id = $2"

COUNT_HOLDERS = "SELECT count(*) FROM gate_holders WHERE key = $1"

# Who has waited longest of those for whom there is room.
FIND_HEIR = """
SELECT id, due_at, blocked_until_end FROM runs
WHERE blocked_on = $1 AND blocked_capacity > $2 ORDER BY due_at, id LIMIT 1 FOR UPDATE
"""

FORGET_GONE = "DELETE FROM gate_holders g WHERE NOT EXISTS (SELECT 1 FROM runs r WHERE r.id = g.run_id)"

# Gates at which somebody waits although there seems to be room.
LIST_LEFT_CLOSED = """
SELECT r.blocked_on FROM runs r WHERE r.blocked_on IS NOT NULL GROUP BY r.blocked_on
HAVING max(r.blocked_capacity) > (SELECT count(*) FROM gate_holders g WHERE g.key = r.blocked_on)
"""

UNBLOCK = "UPDATE runs SET blocked_on = NULL, reason = '', ready_at = due_at WHERE id = $1"

UNBLOCK_JOB = """
UPDATE runs SET blocked_on = NULL, reason = '', ready_at = due_at WHERE job_id = $1 AND blocked_on IS NOT NULL
"""

UNBLOCK_QUEUE = """
UPDATE runs SET blocked_on = NULL, reason = '', ready_at = due_at WHERE queue = $1 AND blocked_on IS NOT NULL
"""

_UNUSED_PLACES = """
SELECT g.run_id, g.key FROM gate_holders g JOIN runs r ON r.id = g.run_id
WHERE r.{owner} = $1 AND r.state <> 'running' AND NOT g.until_end ORDER BY g.run_id, g.key
"""

LIST_UNUSED_PLACES = _UNUSED_PLACES.format(owner="job_id")

LIST_UNUSED_PLACES_IN_QUEUE = _UNUSED_PLACES.format(owner="queue")


async def lock_gates(tx: Transaction, keys: Iterable[str], *, late: bool = False) -> None:
    """Nobody else takes, gives up or passes on these gates before this transaction has ended."""
    await tx.lock_keys((striped("gate", key) for key in keys), late=late)


async def lock_gates_of(tx: Transaction, run_ids: Sequence[int]) -> None:
    """The same for the gates that these runs hold or wait at; most have none."""
    await lock_gates(tx, [key for (key,) in await tx.rows(LIST_GATES_OF, run_ids)])


async def lock_gates_of_job(tx: Transaction, job_id: int) -> None:
    """The same for the gates that any run of a job holds or waits at."""
    await lock_gates(tx, [key for (key,) in await tx.rows(LIST_GATES_OF_JOB, job_id)])


async def open_gates(tx: Transaction, run_ids: Sequence[int], *, ended: bool) -> None:
    """Runs have left `running`: their gates open, and each passes to who has waited longest.

    A run that will be tried again keeps its overlap gate; one that has `ended` keeps nothing.
    """
    if not run_ids:
        return
    held = await tx.rows(LIST_HELD_GATES, run_ids, ended)
    await lock_gates(tx, (key for _, key in held), late=True)
    for run_id, key in held:
        await leave_gate(tx, key, run_id)


async def leave_gate(tx: Transaction, key: str, run_id: int) -> None:
    """Give up one gate, which is locked; it passes to who has waited longest."""
    await tx.do(LEAVE_GATE, key, run_id)
    await pass_on(tx, key)


async def pass_on(tx: Transaction, key: str) -> int:
    """An open gate passes to those who have waited longest, as far as there is room by their own capacity: they hold
    it from now on, and are ready. How many."""
    holders = await tx.value(COUNT_HOLDERS, key)
    passed = 0
    while (heir := await tx.row(FIND_HEIR, key, holders + passed)) is not None:
        run_id, due_at, until_end = heir
        await tx.do(TAKE_GATE, key, run_id, until_end)
        await tx.do(UNBLOCK, run_id)
        tx.hints.append(Hint("runs", due_at))
        passed += 1
    return passed


async def stand_aside(tx: Transaction, job_id: int) -> None:
    """Runs of the job that wait at gates are ready again, and places that others could use are given up: what they
    may hold, and where they have to wait, is decided anew when they are armed."""
    await lock_gates_of_job(tx, job_id)
    await tx.do(UNBLOCK_JOB, job_id)
    await _leave_places(tx, await tx.rows(LIST_UNUSED_PLACES, job_id))


async def stand_aside_in(tx: Transaction, queue: str) -> None:
    """The same for all runs of a queue."""
    await lock_gates(tx, [key for (key,) in await tx.rows(LIST_GATES_OF_QUEUE, queue)])
    await tx.do(UNBLOCK_QUEUE, queue)
    await _leave_places(tx, await tx.rows(LIST_UNUSED_PLACES_IN_QUEUE, queue))


async def _leave_places(tx: Transaction, places: Iterable[tuple[int, str]]) -> None:
    for run_id, key in places:
        await lock_gates(tx, [key], late=True)
        await leave_gate(tx, key, run_id)


async def recount(tx: Transaction) -> int:
    """The safety net: forget holders that are gone, pass gates that were left closed; how many runs are free now."""
    await tx.do(FORGET_GONE)
    keys = [key for (key,) in await tx.rows(LIST_LEFT_CLOSED)]
    await lock_gates(tx, keys)
    return sum([await pass_on(tx, key) for key in sorted(keys)])
