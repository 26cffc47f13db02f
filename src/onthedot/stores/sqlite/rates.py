"""Rates, in SQLite: one row for each key that was busy of late. The arithmetic is in `onthedot.rate`."""

from __future__ import annotations

from onthedot.clock import Micros
from onthedot.rate import RateGate, Tat, next_start, wait_reason
from onthedot.run import ArmAnswer, Busy, Delayed, Lease
from onthedot.stores.base import Hint
from onthedot.stores.sqlite.gates import open_gates
from onthedot.stores.sqlite.lane import Transaction
from onthedot.stores.sqlite.triggers import with_slots

FIND_TAT = "SELECT tat, part, parts FROM rates WHERE key = ?"

SET_TAT = "INSERT OR REPLACE INTO rates (key, tat, part, parts) VALUES (?, ?, ?, ?)"

FIND_GRANT = "SELECT granted_at FROM runs WHERE id = ? AND granted_by = ?"

# A slot that was granted an instant is not missed, and does not expire any more. Its lease id stays until it is
# reserved again, so that an arm whose answer was lost is answered the same.
DELAY = with_slots("""
UPDATE runs
SET state = 'scheduled', due_at = :until, ready_at = :until, granted_at = :until, granted_by = :key, reason = :reason,
    expires_at = CASE WHEN {is_slot} THEN NULL ELSE expires_at END,
    incarnation = NULL, revision = NULL, reserved_at = NULL
WHERE id = :id AND lease_id = :lease_id AND state = 'reserved'
""")

# Who is replaced leaves its instant to who comes after it.
INHERIT_GRANT = """
UPDATE runs SET (granted_at, granted_by) = (SELECT old.granted_at, old.granted_by FROM runs old WHERE old.id = ?)
WHERE id = ? AND granted_at IS NULL
"""

# Idle rates, a few thousand at a time: there may be one for every value of an argument.
FORGET_IDLE = """
DELETE FROM rates WHERE key IN (SELECT key FROM rates INDEXED BY rates_tat WHERE tat < ? ORDER BY tat LIMIT 5000)
"""


def keep_rate(tx: Transaction, lease: Lease, gate: RateGate, now: Micros, *, due: bool) -> ArmAnswer | None:
    """None if the run may start at its instant; else, once it is due, it is given another one."""
    start = max(now, lease.due_at)  # armed ahead, it starts when it is due
    row = tx.db.execute(FIND_TAT, (gate.key,)).fetchone()
    granted = tx.db.execute(FIND_GRANT, (lease.run_id, gate.key)).fetchone()
    stands = None if row is None else Tat(*row)
    instant, tat = next_start(gate, stands, start=start, granted_at=None if granted is None else granted[0])
    if instant > start and not due:
        return Busy(gate.key, 0)
    if tat is not None:
        tx.db.execute(SET_TAT, (gate.key, *tat))
    return None if instant <= start else _delay(tx, lease, gate, instant)


def _delay(tx: Transaction, lease: Lease, gate: RateGate, until: Micros) -> ArmAnswer:
    """Let a run start at another instant. It gives its places in limits to others meanwhile."""
    values = {
        "until": until, "key": gate.key, "reason": wait_reason(gate, until), "id": lease.run_id,
        "lease_id": lease.lease_id,
    }  # fmt: skip
    tx.db.execute(DELAY, values)
    open_gates(tx, [lease.run_id], ended=False)
    tx.hints.append(Hint("runs", until))
    return Delayed(gate.key, until)
