"""Keeps the gates: takes, leaves and passes on places, and chooses which waiting run is next.

`arm.py` decides for a run that asks for its gates. This module has the parts that several moves share.

A transaction that takes, leaves or passes on a gate holds its key until it ends. Keys are locked before runs.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import chain
from typing import Any, NamedTuple

from onthedot.clock import Micros
from onthedot.rules.placement import Need, Serving
from onthedot.stores.hints import Hint
from onthedot.stores.sql.fragments import HELD_BY, RUN_OF_HOLDER, each_line, job_of
from onthedot.stores.sql.nodes import living_nodes
from onthedot.stores.sql.port import Contended, Now, Statement, Tx, sql, striped

PAGE = 16
"""How many waiting runs are read at a time for each gate."""

LIST_KEYS_OF_RUNS = sql(f"""
SELECT g.key FROM gate_holders g WHERE {HELD_BY} {{in1}}
UNION ALL SELECT blocked_on FROM runs WHERE id {{in1}} AND coalesce(blocked_on, '') <> ''
""")  # noqa: S608 - a constant


class Place(NamedTuple):
    """A run's place at a gate."""

    run_id: int
    key: str


LIST_PLACES = sql(
    f"""
    SELECT g.run_id, g.key FROM gate_holders g <<INDEXED BY gate_holders_run>>
    WHERE {HELD_BY} {{in1}} AND ($2 OR NOT g.until_end) ORDER BY g.run_id, g.key
    """,  # noqa: S608 - a constant
    Place,
)

TAKE = sql("INSERT INTO gate_holders (key, run_id, until_end) VALUES ($1, $2, $3)", arrays="text bigint bool")

LEAVE = sql(
    "DELETE FROM gate_holders WHERE key = $2 AND run_id = $1",
    bulk="""
    DELETE FROM gate_holders WHERE ctid = ANY(ARRAY(
        SELECT g.place FROM unnest($1::bigint[], $2::text[]) given (run_id, key) CROSS JOIN LATERAL (
            SELECT ctid AS place FROM gate_holders WHERE key = given.key AND run_id = given.run_id OFFSET 0) g))
    """,
)


class Heir(NamedTuple):
    """A run that waits at a gate and may be next. `holders` is the number of runs that hold the gate now."""

    key: str
    holders: int
    run_id: int
    due_at: Micros
    until_end: bool
    capacity: int
    caught_up_at: Micros | None


# Lists the runs that have waited longest at a gate, if their own capacity leaves room. Other runs may be locked
# already. So PostgreSQL does not wait for these runs, and locks no more of them than may find room.
LIST_HEIRS = each_line(
    """
    SELECT $2, gate.holders, r.id, r.due_at, r.blocked_until_end, r.blocked_capacity, r.caught_up_at
    FROM (SELECT count(*) AS holders FROM gate_holders WHERE key = $2 [[OFFSET 0]]) gate
    CROSS JOIN runs r <<INDEXED BY runs_blocked>>
    WHERE r.blocked_on = $2 AND coalesce(r.blocked_capacity > gate.holders, false)
    ORDER BY r.due_at, r.id
    LIMIT <<$1>>[[least($1, greatest(0, (SELECT max(w.blocked_capacity) FROM runs w WHERE w.blocked_on = $2)
                                        - (SELECT count(*) FROM gate_holders g WHERE g.key = $2)))
    FOR UPDATE OF r NOWAIT]]
    """,
    "key text",
    Heir,
    first=2,
)

# Finds the first slot of the job that is due before this one, has not asked for its overlap gate, and can still start.
# Any node may have reserved it.
OLDER_SLOT = f"""
SELECT other.id FROM runs other
WHERE other.job_id = mine.job_id AND other.due_at < mine.due_at AND other.target = mine.target
  AND other.state <> 'running' AND other.blocked_on IS NULL AND other.{{is_slot}}
  AND (other.expires_at IS NULL OR other.expires_at > {{at}} OR other.state = 'reserved' AND other.ready_at > {{at}})
  AND NOT EXISTS (SELECT 1 FROM gate_holders g <<INDEXED BY gate_holders_run>>
                  WHERE {HELD_BY} = other.id AND g.until_end [[OFFSET 0]])
ORDER BY other.due_at, other.id LIMIT 1
"""  # noqa: S608 - a constant
FIND_OLDER = sql(f"SELECT ({OLDER_SLOT.replace('{at}', '$2')}) FROM runs mine WHERE mine.id = $1")  # noqa: S608

# A run that another transaction has locked stays unchanged.
MARK_FIRST = sql("""
UPDATE runs SET caught_up_at = $2
WHERE id = (SELECT id FROM runs WHERE id = $1 AND state <> 'running' [[FOR UPDATE SKIP LOCKED]])
""")


class Idle(NamedTuple):
    """A run that holds a place in a limit and has not started: its needs, and the node that has reserved it."""

    key: str
    run_id: int
    due_at: Micros
    task: str
    route: str
    target: str
    holder: str | None

    @property
    def need(self) -> Need:
        return Need(self.task, self.route, self.target)


LIST_IDLE = sql(
    f"""
    SELECT g.key, r.id, r.due_at, j.task, j.route, r.target,
           CASE WHEN r.state = 'reserved' AND r.ready_at > $2 THEN r.incarnation END
    FROM gate_holders g {RUN_OF_HOLDER} CROSS JOIN jobs j
    WHERE g.key {{in1}} AND NOT g.until_end AND r.state <> 'running' AND {job_of("r")}
    """,  # noqa: S608 - constants
    Idle,
)


LIST_WAITING = sql(
    f"""
    SELECT r.id, j.task, j.route, r.target FROM runs r <<INDEXED BY runs_blocked>> CROSS JOIN jobs j
    WHERE r.blocked_on = $1 AND {job_of("r")}
    """  # noqa: S608 - a constant
)

# Lists limits where runs wait while a holder has not started.
LIST_NOT_IN_USE = sql(f"""
SELECT DISTINCT g.key FROM gate_holders g {RUN_OF_HOLDER}
WHERE NOT g.until_end AND r.state <> 'running'
  AND EXISTS (SELECT 1 FROM runs w <<INDEXED BY runs_blocked>> WHERE w.blocked_on = g.key)
""")  # noqa: S608 - a constant

_UNBLOCKED = "blocked_on = NULL, reason = '', ready_at = due_at"
UNBLOCK = sql(f"UPDATE runs SET {_UNBLOCKED} WHERE id {{in1}}")  # noqa: S608 - a constant


class Crowd(NamedTuple):
    """Statements about all runs of a job or a queue. They list the gates that the runs hold or wait at, list unused
    places in limits, and make waiting runs ready again."""

    keys: Statement[Any]
    unused: Statement[Place]
    unblock: Statement[Any]


def _crowd(owner: str, index: str = "") -> Crowd:
    keys = f"""
    SELECT g.key FROM gate_holders g JOIN runs r ON r.id = g.run_id WHERE r.{owner} = $1
    UNION SELECT r.blocked_on FROM runs r WHERE r.{owner} = $1 AND r.blocked_on IS NOT NULL
    """  # noqa: S608 - constants
    unused = f"""
    SELECT g.run_id, g.key FROM gate_holders g CROSS JOIN runs r
    WHERE r.id = g.run_id AND r.{owner} = $1 AND r.state <> 'running' AND NOT g.until_end ORDER BY g.run_id, g.key
    """  # noqa: S608 - constants
    unblock = f"UPDATE runs {index} SET {_UNBLOCKED} WHERE {owner} = $1 AND blocked_on IS NOT NULL"  # noqa: S608
    return Crowd(sql(keys), sql(unused, Place), sql(unblock))


OF_JOB = _crowd("job_id")
OF_QUEUE = _crowd("queue", "<<INDEXED BY runs_blocked>>")

FORGET_GONE = sql("DELETE FROM gate_holders WHERE NOT EXISTS (SELECT 1 FROM runs r WHERE r.id = run_id)")

LIST_LEFT_CLOSED = sql("""
SELECT r.blocked_on FROM runs r <<INDEXED BY runs_blocked>>
WHERE r.blocked_on IS NOT NULL AND r.blocked_capacity IS NOT NULL GROUP BY r.blocked_on
HAVING max(r.blocked_capacity) > (SELECT count(*) FROM gate_holders g WHERE g.key = r.blocked_on)
""")

# Deletes some thousand idle rates at a time, because each value of an argument may have its own. A rate that another
# transaction has locked is not idle.
FORGET_IDLE_RATES = sql("""
DELETE FROM rates
WHERE key IN (SELECT key FROM rates WHERE tat < $1 ORDER BY tat LIMIT 5000 [[FOR UPDATE SKIP LOCKED]]) AND tat < $1
""")


# ── locks ────────────────────────────────────────────────────────────────────────────────────────────────────────


async def lock_gates(tx: Tx, keys: Iterable[str], *, late: bool = False) -> None:
    """Lock these gates until the transaction ends."""
    if tx.concurrent:
        await tx.lock_keys((striped("gate", key) for key in keys), late=late)


async def lock_gates_of(tx: Tx, run_ids: Sequence[int], *, late: bool = False) -> None:
    """Lock the gates that these runs hold or wait at."""
    if tx.concurrent:
        await lock_gates(tx, await tx.values(LIST_KEYS_OF_RUNS, run_ids), late=late)


async def lock_gates_of_all(tx: Tx, runs: Crowd, owner: int | str) -> None:
    """Lock the gates that any run of a job or a queue holds or waits at."""
    if tx.concurrent:
        await lock_gates(tx, await tx.values(runs.keys, owner))


# ── taking, leaving, passing on ──────────────────────────────────────────────────────────────────────────────────


async def take_gates(tx: Tx, places: Sequence[tuple[str, int, bool]]) -> None:
    """Take places at gates that are locked and have room. Each is a key, a run, and whether the run holds it to its
    end."""
    if places:
        await tx.each(TAKE, places)


async def open_gates(tx: Tx, run_ids: Sequence[int], *, ended: bool) -> None:
    """Open the gates of runs that stopped running. A run that is retried keeps its overlap gate."""
    if run_ids:
        await leave_gates(tx, await tx.rows(LIST_PLACES, run_ids, ended))


async def leave_gates(tx: Tx, places: Sequence[Place]) -> None:
    """Give up places. Each gate passes to the run that has waited longest."""
    if places:
        keys = [place.key for place in places]
        await lock_gates(tx, keys, late=True)
        await tx.each(LEAVE, places)
        await pass_on(tx, keys)


async def pass_on(tx: Tx, keys: Iterable[str]) -> int:
    """Pass open gates to the runs that have waited longest, while there is room. Return how many runs got one.

    Overdue slots start in order, so an older slot that has not asked yet goes first.
    """
    passed, open_keys = 0, sorted(set(keys))
    while open_keys:
        heirs = list(chain.from_iterable(await tx.scan(LIST_HEIRS, [(key,) for key in open_keys], PAGE)))
        chosen = [heir for heir in choose_heirs(heirs) if not await _put_older_first(tx, heir)]
        if not chosen:
            break
        await take_gates(tx, [(heir.key, heir.run_id, heir.until_end) for heir in chosen])
        await tx.do(UNBLOCK, [heir.run_id for heir in chosen])
        tx.hints += [Hint("runs", heir.due_at) for heir in chosen]
        passed += len(chosen)
        read, took = Counter(heir.key for heir in heirs), Counter(heir.key for heir in chosen)
        open_keys = [key for key in sorted(took) if took[key] < read[key] or read[key] == PAGE]  # more may fit
    return passed


def choose_heirs(heirs: Iterable[Heir]) -> list[Heir]:
    """Choose the next run for each gate. Each run that takes a gate leaves less room for the runs behind it.

    >>> line = [("a", 1, 7, 10, True, 3, None), ("a", 1, 8, 11, True, 2, None), ("a", 1, 9, 12, True, 3, None)]
    >>> [heir.run_id for heir in choose_heirs(map(Heir._make, line))]
    [7, 9]
    """
    holders: dict[str, int] = {}
    chosen = []
    for heir in heirs:
        count = holders.setdefault(heir.key, heir.holders)
        if heir.capacity > count:
            holders[heir.key] = count + 1
            chosen.append(heir)
    return chosen


async def _put_older_first(tx: Tx, heir: Heir) -> bool:
    """Give the gate to an older slot instead of this one, if there is one. Return whether that was done."""
    if not heir.until_end or heir.caught_up_at is None:
        return False
    older = await tx.value(FIND_OLDER, heir.run_id, heir.caught_up_at)
    if older is not None and not await put_first(tx, older, heir.key, heir.caught_up_at):
        raise Contended(f"run {older}, which is first at {heir.key}")
    return older is not None


async def put_first(tx: Tx, run_id: int, key: str, now: Micros) -> bool:
    """Give a slot its overlap gate before it has asked. The gate is locked and open. Return False if another
    transaction has locked the slot."""
    if not await tx.do(MARK_FIRST, run_id, now):
        return False
    await take_gates(tx, [(key, run_id, True)])
    tx.hints.append(Hint("runs", now))
    return True


# ── places that are not used ─────────────────────────────────────────────────────────────────────────────────────


async def find_idle(tx: Tx, keys: Sequence[str], now: Micros) -> tuple[list[Idle], Serving]:
    """Return the holders of these limits that have not started, and the runs' needs that living nodes can serve."""
    idle = await tx.rows(LIST_IDLE, keys, now) if keys else []
    return idle, Serving(await living_nodes(tx, now) if idle else ())


def stuck_runs(idle: Iterable[Idle], serving: Serving) -> list[Place]:
    """Return the places of runs that no living worker can start."""
    return [Place(one.run_id, one.key) for one in idle if not serving.can_start(one.need, one.holder)]


async def take_back(tx: Tx, key: str, stuck: Sequence[Place], serving: Serving, *, wanted: bool) -> bool:
    """Release a limit's places that no living worker can use, if another run can use them. Return whether that was
    done.

    `wanted`: a run asks for a place now. The stuck runs, and all waiting runs like them, become ready and hold no
    place. They ask again when a worker for them is back. The key is locked.
    """
    waiting = await tx.rows(LIST_WAITING, key)
    unable = [run_id for run_id, *need in waiting if not serving.can_start(Need(*need))]
    if not wanted and len(unable) == len(waiting):
        return False
    await tx.do(UNBLOCK, unable)
    await leave_gates(tx, stuck)
    return True


async def leave_lines(tx: Tx, runs: Crowd, owner: int | str) -> None:
    """Make the waiting runs of a job or a queue ready again, and give up the places that they do not use. Then `arm`
    decides again. Their gates are locked."""
    await tx.do(runs.unblock, owner)
    await leave_gates(tx, await tx.rows(runs.unused, owner))


async def recount_gates(tx: Tx, *, now: Now = None) -> int:
    """Delete holders that no longer exist, pass on gates that stayed closed by mistake, give unusable places to other
    runs, and delete idle rates. Return how many runs got a gate that had stayed closed."""
    at = await tx.clock(now)
    await tx.do(FORGET_GONE)
    closed = await tx.values(LIST_LEFT_CLOSED)
    stuck = {place.key for place in stuck_runs(*await find_idle(tx, await tx.values(LIST_NOT_IN_USE), at))}
    await lock_gates(tx, [*closed, *stuck])
    freed = await pass_on(tx, closed)
    for key in sorted(stuck):
        idle, serving = await find_idle(tx, [key], at)  # read again, now that the key is locked
        places = stuck_runs(idle, serving)
        if places:
            await take_back(tx, key, places, serving, wanted=False)
    await tx.do(FORGET_IDLE_RATES, at)  # after the gates, as in `arm`: it locks gates first, then rates
    return freed
