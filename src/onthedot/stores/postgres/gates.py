"""Gates, in PostgreSQL: who holds them, and to whom an open one passes. Closed ones are met in `passing.py`.

Whoever takes, gives up or passes on a gate holds its key until the end of the transaction; keys before runs.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from onthedot.clock import Micros
from onthedot.stores.base import Hint
from onthedot.stores.places import Need, Serving
from onthedot.stores.postgres.failures import Contended
from onthedot.stores.postgres.nodes import living_nodes
from onthedot.stores.postgres.transaction import Transaction, striped
from onthedot.stores.postgres.triggers import with_slots

Heir = tuple[str, int, Micros, bool, Micros | None]
"""To whom a gate passes: its key, the run, when it is due, whether it is kept until the end, when it was caught up."""

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

TAKE_GATES = """
INSERT INTO gate_holders (key, run_id, until_end) SELECT * FROM unnest($1::text[], $2::bigint[], $3::boolean[])
"""

LEAVE_GATES = """
DELETE FROM gate_holders held USING unnest($1::text[], $2::bigint[]) given (key, run_id)
WHERE held.key = given.key AND held.run_id = given.run_id
"""

# Those who have waited longest at each gate, of those for whom there is room by their own capacity; no more than there
# could be room for.
LIST_HEIRS = """
SELECT gate.key, gate.holders, heir.id, heir.due_at, heir.blocked_until_end, heir.blocked_capacity, heir.caught_up_at
FROM (SELECT given.key, (SELECT count(*) FROM gate_holders g WHERE g.key = given.key) AS holders,
             (SELECT max(r.blocked_capacity) FROM runs r WHERE r.blocked_on = given.key) AS most
      FROM unnest($1::text[]) given (key)) gate
CROSS JOIN LATERAL (
    SELECT r.id, r.due_at, r.blocked_until_end, r.blocked_capacity, r.caught_up_at FROM runs r
    WHERE r.blocked_on = gate.key AND r.blocked_capacity > gate.holders
    ORDER BY r.due_at, r.id LIMIT greatest(gate.most - gate.holders, 0) FOR UPDATE
) heir
ORDER BY gate.key, heir.due_at, heir.id
"""

# The first slot of the job that is due before this one, has not asked for its overlap gate, and can still start,
# whoever has reserved it.
FIND_OLDER = with_slots("""
SELECT other.id, other.due_at FROM runs this JOIN runs other
  ON other.job_id = this.job_id AND other.due_at < this.due_at AND other.target = this.target
 AND other.state <> 'running' AND other.blocked_on IS NULL AND other.{is_slot}
 AND (other.expires_at IS NULL OR other.expires_at > $2 OR other.state = 'reserved' AND other.ready_at > $2)
 AND NOT EXISTS (SELECT 1 FROM gate_holders g WHERE g.run_id = other.id AND g.until_end)
WHERE this.id = $1 ORDER BY other.due_at, other.id LIMIT 1
""")

MARK_CAUGHT_UP = "UPDATE runs SET caught_up_at = $2 WHERE id = $1"

# Not if somebody else is at this run.
MARK_FIRST = """
UPDATE runs SET caught_up_at = $2
WHERE id = (SELECT id FROM runs WHERE id = $1 AND state <> 'running' FOR UPDATE SKIP LOCKED)
"""

# Holders that were passed a place in a limit and have not started, what they need, and who has reserved them.
LIST_IDLE = """
SELECT g.key, r.id, r.due_at, j.task, j.route, r.target,
       CASE WHEN r.state = 'reserved' AND r.ready_at > $2 THEN r.incarnation END
FROM gate_holders g JOIN runs r ON r.id = g.run_id JOIN jobs j ON j.id = r.job_id
WHERE g.key = ANY($1) AND NOT g.until_end AND r.state <> 'running'
"""

LIST_WAITING = """
SELECT r.id, j.task, j.route, r.target FROM runs r JOIN jobs j ON j.id = r.job_id WHERE r.blocked_on = $1
"""

# Limits at which somebody waits, and that a run holds which has not started.
LIST_NOT_IN_USE = """
SELECT DISTINCT g.key FROM gate_holders g JOIN runs r ON r.id = g.run_id
WHERE NOT g.until_end AND r.state <> 'running' AND EXISTS (SELECT 1 FROM runs w WHERE w.blocked_on = g.key)
"""

FORGET_GONE = "DELETE FROM gate_holders g WHERE NOT EXISTS (SELECT 1 FROM runs r WHERE r.id = g.run_id)"

# Gates at which somebody waits although there seems to be room.
LIST_LEFT_CLOSED = """
SELECT r.blocked_on FROM runs r WHERE r.blocked_on IS NOT NULL GROUP BY r.blocked_on
HAVING max(r.blocked_capacity) > (SELECT count(*) FROM gate_holders g WHERE g.key = r.blocked_on)
"""

UNBLOCK = "UPDATE runs SET blocked_on = NULL, reason = '', ready_at = due_at WHERE id = ANY($1)"

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
    await leave_gates(tx, await tx.rows(LIST_HELD_GATES, run_ids, ended))


async def take_gates(tx: Transaction, places: Sequence[tuple[str, int, bool]]) -> None:
    """Hold gates, which are locked and have room: each by its key, the run, and whether it is kept until the end."""
    if places:
        keys, run_ids, until_end = zip(*places, strict=True)
        await tx.do(TAKE_GATES, keys, run_ids, until_end)


async def leave_gates(tx: Transaction, places: Sequence[tuple[int, str]]) -> None:
    """Runs give up gates; each passes to who has waited longest."""
    if not places:
        return
    run_ids, keys = zip(*places, strict=True)
    await lock_gates(tx, keys, late=True)
    await tx.do(LEAVE_GATES, keys, run_ids)
    await pass_on(tx, keys)


async def pass_on(tx: Transaction, keys: Iterable[str]) -> int:
    """Open gates, which are locked, pass to those who have waited longest, as far as there is room by their own
    capacity: they hold them from now on, and are ready. How many. Slots are caught up in order: an older one comes
    first."""
    passed, open_keys = 0, sorted(set(keys))
    while open_keys:
        heirs = await tx.rows(LIST_HEIRS, open_keys)
        chosen = [heir for heir in _choose(heirs) if not await _put_older_first(tx, heir)]
        if not chosen:
            break
        await take_gates(tx, [(key, run_id, until_end) for key, run_id, _, until_end, _ in chosen])
        await tx.do(UNBLOCK, [run_id for _, run_id, *_ in chosen])
        tx.hints += [Hint("runs", due_at) for _, _, due_at, *_ in chosen]
        passed += len(chosen)
        open_keys = [] if len(chosen) == len(heirs) else sorted({key for key, *_ in chosen})
    return passed


async def _put_older_first(tx: Transaction, heir: Heir) -> bool:
    """Whether a slot that is due before this one takes the gate in its place."""
    key, run_id, _, until_end, caught_up_at = heir
    if not until_end or caught_up_at is None:
        return False
    older = await tx.row(FIND_OLDER, run_id, caught_up_at)
    if older is not None and not await put_first(tx, older, key, caught_up_at):
        raise Contended(f"run {older[0]}, which is first at {key}")
    return older is not None


async def put_first(tx: Transaction, older: tuple[int, Micros], key: str, now: Micros) -> bool:
    """A slot holds its overlap gate, which is locked, before it has asked for it; False if somebody else is at it."""
    run_id, due_at = older
    if not await tx.do(MARK_FIRST, run_id, now):
        return False
    await take_gates(tx, [(key, run_id, True)])
    tx.hints.append(Hint("runs", due_at))
    return True


def _choose(heirs: Iterable[tuple[str, int, int, Micros, bool, int, Micros | None]]) -> list[Heir]:
    """Whom each gate passes to: with everyone who takes it, there is less room for those behind.

    >>> _choose([("a", 1, 7, 10, True, 3, None), ("a", 1, 8, 11, True, 2, None), ("a", 1, 9, 12, True, 3, None)])
    [('a', 7, 10, True, None), ('a', 9, 12, True, None)]
    """
    holders: dict[str, int] = {}
    chosen = []
    for key, before, run_id, due_at, until_end, capacity, caught_up_at in heirs:
        count = holders.setdefault(key, before)
        if capacity > count:
            holders[key] = count + 1
            chosen.append((key, run_id, due_at, until_end, caught_up_at))
    return chosen


async def find_stuck(tx: Transaction, keys: Sequence[str], now: Micros) -> tuple[Serving, dict[str, list[int]]]:
    """By limit, the holders that no living worker can start; and what the living ones can."""
    idle = await tx.rows(LIST_IDLE, keys, now) if keys else []
    serving = Serving(await living_nodes(tx, now) if idle else ())
    stuck: dict[str, list[int]] = {}
    for key, run_id, _, *need, holder in idle:
        if not serving.can_start(Need(*need), holder):
            stuck.setdefault(key, []).append(run_id)
    return serving, stuck


async def take_back(tx: Transaction, key: str, now: Micros, *, wanted: bool) -> None:
    """A limit's places that passed to runs which no living worker can start go to others, if any can use them: `wanted`
    says that somebody asks for one. Those runs, and all like them that wait there, are ready, hold no place, and ask
    again when a worker for them is back. The key is locked."""
    serving, stuck = await find_stuck(tx, [key], now)
    if not stuck:
        return
    waiting = await tx.rows(LIST_WAITING, key)
    unable = [run_id for run_id, *need in waiting if not serving.can_start(Need(*need))]
    if wanted or len(unable) < len(waiting):
        await tx.do(UNBLOCK, unable)
        await leave_gates(tx, [(run_id, key) for run_id in stuck[key]])


async def stand_aside(tx: Transaction, job_id: int) -> None:
    """Runs of the job that wait at gates are ready again, and places that others could use are given up: what they
    may hold, and where they have to wait, is decided anew when they are armed."""
    await lock_gates_of_job(tx, job_id)
    await tx.do(UNBLOCK_JOB, job_id)
    await leave_gates(tx, await tx.rows(LIST_UNUSED_PLACES, job_id))


async def stand_aside_in(tx: Transaction, queue: str) -> None:
    """The same for all runs of a queue."""
    await lock_gates(tx, [key for (key,) in await tx.rows(LIST_GATES_OF_QUEUE, queue)])
    await tx.do(UNBLOCK_QUEUE, queue)
    await leave_gates(tx, await tx.rows(LIST_UNUSED_PLACES_IN_QUEUE, queue))


async def recount(tx: Transaction, now: Micros) -> int:
    """The safety net: forget holders that are gone, pass gates that were left closed; how many runs are free now.
    Places that nobody can use go to others."""
    await tx.do(FORGET_GONE)
    closed = [key for (key,) in await tx.rows(LIST_LEFT_CLOSED)]
    _, stuck = await find_stuck(tx, [key for (key,) in await tx.rows(LIST_NOT_IN_USE)], now)
    await lock_gates(tx, [*closed, *stuck])
    freed = await pass_on(tx, closed)
    for key in stuck:
        await take_back(tx, key, now, wanted=False)
    return freed
