"""Finds runs of dead nodes, and takes them from these nodes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from onthedot import fault_points
from onthedot.model.run import Lease
from onthedot.model.verdict import Finish, Verdict
from onthedot.stores.sql.finish import check_moves, lock_for, move_runs
from onthedot.stores.sql.fragments import job_of
from onthedot.stores.sql.port import Now, Tx, sql
from onthedot.stores.sql.reserve import LEASES, leases_of

# A node that another transaction has locked is left for the next call.
LOCK_DEAD = sql(
    """
    SELECT incarnation FROM nodes WHERE incarnation = ANY($1) AND (ended OR lease_until <= $2) ORDER BY number
    FOR UPDATE SKIP LOCKED
    """,
    # An incarnation without a row is dead, too.
    sqlite="""
    SELECT wanted.value FROM json_each($1) wanted WHERE NOT EXISTS (
        SELECT 1 FROM nodes n WHERE n.incarnation = wanted.value AND NOT n.ended AND n.lease_until > $2)
    """,
)

# Finds incarnations whose lease has ended, and which may still hold runs. SQLite has an index of holders. PostgreSQL
# has no such index: it notes which dead incarnations hold no runs (`empty_at`). These get no new runs before their
# lease is renewed, so one search after each end is enough.
_DEAD = """
SELECT incarnation FROM nodes
WHERE (ended OR lease_until <= $1) AND empty_at IS DISTINCT FROM lease_until ORDER BY number
"""
_DEAD_HOLDERS = """
WITH RECURSIVE holders (incarnation) AS (
    SELECT min(incarnation) FROM runs WHERE incarnation IS NOT NULL
    UNION ALL
    SELECT (SELECT min(r.incarnation) FROM runs r WHERE r.incarnation > holders.incarnation)
    FROM holders WHERE holders.incarnation IS NOT NULL
)
SELECT holders.incarnation FROM holders
LEFT JOIN nodes n INDEXED BY sqlite_autoindex_nodes_1 ON n.incarnation = holders.incarnation
WHERE holders.incarnation IS NOT NULL AND (n.incarnation IS NULL OR n.ended OR n.lease_until <= $1)
"""
LIST_DEAD = sql(_DEAD, sqlite=_DEAD_HOLDERS)
LOCK_ALL_DEAD = sql(_DEAD + "FOR UPDATE SKIP LOCKED", sqlite=_DEAD_HOLDERS)

LIST_ORPHANS = sql(
    LEASES.format(
        source="runs r <<INDEXED BY runs_held>> CROSS JOIN jobs j",
        wanted=f"{job_of('r')} AND r.incarnation {{in1}} AND r.state = 'running'",
    )
    + " LIMIT $2"
)

NOTE_EMPTY = sql("UPDATE nodes SET empty_at = lease_until WHERE incarnation {in1}")

# This is final: the incarnation can never renew its lease.
END_NODE = sql("UPDATE nodes SET ended = true, reaped = reaped + $2 WHERE incarnation = $1")


async def has_dead(tx: Tx, *, now: Now = None) -> bool:
    """Return whether a dead incarnation may still hold runs."""
    return bool(await tx.values(LIST_DEAD, await tx.clock(now)))


async def orphans(tx: Tx, *, limit: int, now: Now = None) -> list[Lease]:
    """Return the attempts that dead incarnations still hold."""
    dead = await tx.values(LOCK_ALL_DEAD, await tx.clock(now))
    rows = await tx.rows(LIST_ORPHANS, dead, limit)
    if not rows and tx.concurrent:
        await tx.do(NOTE_EMPTY, dead)
    return await leases_of(tx, rows)


async def reap(tx: Tx, verdicts: Sequence[tuple[Lease, Verdict]], *, now: Now = None) -> list[bool]:
    """Take runs from dead nodes, row by row, and end these nodes finally."""
    at = await tx.clock(now)
    check_moves(verdict for _, verdict in verdicts)
    whose = sorted({lease.incarnation for lease, _ in verdicts})
    dead = set(await tx.values(LOCK_DEAD, whose, at))
    finishes = [Finish(lease, verdict, 0, at) for lease, verdict in verdicts]
    locked = await lock_for(tx, finishes)
    taken = locked.moving(one for one in finishes if one.lease.incarnation in dead)
    if taken:
        await tx.each(END_NODE, sorted(Counter(one.lease.incarnation for one in taken.values()).items()))
    fault_points.point("reap.in_transaction")
    await move_runs(tx, list(taken.values()), locked)
    return [taken.get(one.lease.run_id) is one for one in finishes]
