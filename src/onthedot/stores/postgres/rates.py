"""Rates, in PostgreSQL: one row for each key that was busy of late. The arithmetic is in `onthedot.rate`."""

from __future__ import annotations

from onthedot.clock import Micros
from onthedot.rate import RateGate, Tat, next_start, wait_reason
from onthedot.run import ArmAnswer, Busy, Delayed, Lease
from onthedot.stores.base import Hint
from onthedot.stores.postgres.gates import open_gates
from onthedot.stores.postgres.transaction import Transaction
from onthedot.stores.postgres.triggers import with_slots

FIND_TAT = "SELECT tat, part, parts FROM rates WHERE key = $1"

SET_TAT = """
INSERT INTO rates (key, tat, part, parts) VALUES ($1, $2, $3, $4)
ON CONFLICT (key) DO UPDATE SET tat = excluded.tat, part = excluded.part, parts = excluded.parts
"""

FIND_GRANT = "SELECT granted_at FROM runs WHERE id = $1 AND granted_by = $2"

# A slot that was granted an instant is not missed, and does not expire any more. Its lease id stays until it is
# reserved again, so that an arm whose answer was lost is answered the same.
DELAY = with_slots("""
UPDATE runs
SET state = 'scheduled', due_at = $3, ready_at = $3, granted_at = $3, granted_by = $4, reason = $5,
    expires_at = CASE WHEN {is_slot} THEN NULL ELSE expires_at END,
    incarnation = NULL, revision = NULL, reserved_at = NULL
WHERE id = $1 AND lease_id = $2 AND state = 'reserved'
""")

# Who is replaced leaves its instant to who comes after it.
INHERIT_GRANT = """
UPDATE runs SET granted_at = old.granted_at, granted_by = old.granted_by
FROM runs old WHERE old.id = $1 AND runs.id = $2 AND runs.granted_at IS NULL
"""

# Idle rates, a few thousand at a time: there may be one for every value of an argument. One that somebody is asking at
# this moment is not idle.
FORGET_IDLE = """
DELETE FROM rates
WHERE key IN (SELECT key FROM rates WHERE tat < $1 ORDER BY tat LIMIT 5000 FOR UPDATE SKIP LOCKED) AND tat < $1
"""


async def keep_rate(tx: Transaction, lease: Lease, gate: RateGate, now: Micros, *, due: bool) -> ArmAnswer | None:
    """None if the run may start at its instant; else, once it is due, it is given another one. The key is locked."""
    start = max(now, lease.due_at)  # armed ahead, it starts when it is due
    row = await tx.row(FIND_TAT, gate.key)
    granted_at = await tx.value(FIND_GRANT, lease.run_id, gate.key)
    stands = None if row is None else Tat(*row)
    instant, tat = next_start(gate, stands, start=start, granted_at=granted_at)
    if instant > start and not due:
        return Busy(gate.key, 0)
    if tat is not None:
        await tx.do(SET_TAT, gate.key, *tat)
    return None if instant <= start else await _delay(tx, lease, gate, instant)


async def _delay(tx: Transaction, lease: Lease, gate: RateGate, until: Micros) -> ArmAnswer:
    """Let a run start at another instant. It gives its places in limits to others meanwhile."""
    await tx.do(DELAY, lease.run_id, lease.lease_id, until, gate.key, wait_reason(gate, until))
    await open_gates(tx, [lease.run_id], ended=False)
    tx.hints.append(Hint("runs", until))
    return Delayed(gate.key, until)
