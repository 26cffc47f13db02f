"""Gates, in SQLite: who holds them, and to whom an open one passes. Closed ones are met in `passing.py`."""

from __future__ import annotations

import json
from collections.abc import Sequence

from onthedot.clock import Micros
from onthedot.stores.base import Hint
from onthedot.stores.sqlite.lane import Transaction

# Most batches have nothing to do with gates: one look at an empty table, and done.
ARE_THERE_HOLDERS = "SELECT EXISTS (SELECT 1 FROM gate_holders)"

LIST_HELD_GATES = """
SELECT g.run_id, g.key, g.capacity, g.until_end
FROM json_each(:runs) wanted CROSS JOIN gate_holders g INDEXED BY gate_holders_run ON g.run_id = wanted.value
WHERE :ended OR g.until_end = 0
"""

TAKE_GATE = "INSERT INTO gate_holders (key, run_id, capacity, until_end) VALUES (?, ?, ?, ?)"

LEAVE_GATE = "DELETE FROM gate_holders WHERE key = ? AND run_id = ?"

COUNT_HOLDERS = "SELECT count(*) FROM gate_holders WHERE key = ?"

LIST_HEIRS = """
SELECT id, due_at FROM runs INDEXED BY runs_blocked WHERE blocked_on = ? ORDER BY due_at, id LIMIT max(0, ?)
"""

FORGET_GONE = "DELETE FROM gate_holders WHERE NOT EXISTS (SELECT 1 FROM runs r WHERE r.id = run_id)"

# The first in line at each gate: if it cannot pass, nobody behind it can.
LIST_BLOCKED = """
SELECT id, min(due_at), blocked_on, blocked_capacity, blocked_until_end
FROM runs INDEXED BY runs_blocked WHERE blocked_on IS NOT NULL GROUP BY blocked_on
"""

# A run of a paused job has its gate, and stays held.
UNBLOCK = """
UPDATE runs
SET blocked_on = NULL,
    ready_at = CASE WHEN EXISTS (SELECT 1 FROM jobs j WHERE j.id = job_id AND j.state = 'paused')
                    THEN ready_at ELSE due_at END
WHERE id = ?
"""


def open_gates(tx: Transaction, run_ids: Sequence[int], *, ended: bool) -> None:
    """Runs have left `running`: their gates open, and each passes to who has waited longest.

    A run that will be tried again keeps its overlap gate; one that has `ended` keeps nothing.
    """
    db = tx.db
    if not run_ids or not db.execute(ARE_THERE_HOLDERS).fetchone()[0]:
        return
    held = db.execute(LIST_HELD_GATES, {"runs": json.dumps(list(run_ids)), "ended": ended}).fetchall()
    for run_id, key, capacity, until_end in held:
        db.execute(LEAVE_GATE, (key, run_id))
        [holders] = db.execute(COUNT_HOLDERS, (key,)).fetchone()
        for heir, due_at in db.execute(LIST_HEIRS, (key, capacity - holders)).fetchall():
            _pass_to(tx, heir, due_at, key, capacity, until_end)


def _pass_to(tx: Transaction, heir: int, due_at: Micros, key: str, capacity: int, until_end: int) -> None:
    tx.db.execute(TAKE_GATE, (key, heir, capacity, until_end))
    tx.db.execute(UNBLOCK, (heir,))
    tx.hints.append(Hint("runs", due_at))


def recount(tx: Transaction) -> int:
    """The safety net: forget holders that are gone, pass gates that were left closed; how many runs are free now."""
    tx.db.execute(FORGET_GONE)
    freed = 0
    for heir, due_at, key, capacity, until_end in tx.db.execute(LIST_BLOCKED).fetchall():
        [holders] = tx.db.execute(COUNT_HOLDERS, (key,)).fetchone()
        if holders < capacity:
            _pass_to(tx, heir, due_at, key, capacity, until_end)
            freed += 1
    return freed
