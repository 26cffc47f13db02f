"""Slots whose fate was given ahead, in SQLite: found, recorded with their windows, and forgotten."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence

from onthedot.clock import Micros
from onthedot.stores.base import FateAhead, Window
from onthedot.stores.exceptions import forget_before, recorded_in
from onthedot.stores.sqlite.triggers import with_slots

# Most stores have none: one look at an empty table per call, and done.
ARE_THERE_EXCEPTIONS = "SELECT EXISTS (SELECT 1 FROM exceptions)"

LIST_EXCEPTIONS = """
SELECT slot_at, reason, recorded, run_id FROM exceptions
WHERE job_id = ? AND schedule_id = ? ORDER BY slot_at
"""

PUT_EXCEPTION = """
INSERT OR REPLACE INTO exceptions (job_id, schedule_id, slot_at, reason, recorded, run_id) VALUES (?, ?, ?, ?, ?, ?)
"""

SET_RECORDED = "UPDATE exceptions SET recorded = 1 WHERE job_id = ? AND schedule_id = ? AND slot_at = ?"

FORGET_EXCEPTIONS = "DELETE FROM exceptions WHERE job_id = ? AND schedule_id = ? AND slot_at <= ?"

# With their schedule, but for those that lie ahead and have their fate on record: it may come back.
DELETE_EXCEPTIONS = """
DELETE FROM exceptions WHERE job_id = :job_id AND schedule_id = :schedule_id AND (recorded = 0 OR slot_at <= :now)
"""

DELETE_EXCEPTIONS_OF_JOB = "DELETE FROM exceptions WHERE job_id = ?"

# A slot that is cancelled before its time: it stays so, whatever is planned anew.
EXCEPT_AHEAD = with_slots("""
INSERT OR REPLACE INTO exceptions (job_id, schedule_id, slot_at, reason, recorded)
SELECT r.job_id, s.schedule_id, r.slot_at, 'cancelled', 1
FROM runs r JOIN schedules s ON s.job_id = r.job_id AND r.trigger = {slot_trigger}
WHERE r.id = :id AND r.state <> 'running' AND r.slot_at > :now AND r.target = ''  -- one node's is not the slot's
""")


class Ahead:
    """The exceptions of schedules, as they are in this transaction."""

    def __init__(self, db: sqlite3.Connection) -> None:
        self._db = db
        self._any = bool(db.execute(ARE_THERE_EXCEPTIONS).fetchone()[0])

    def of(self, job_id: int, schedule_id: str) -> tuple[FateAhead, ...]:
        """Those of one schedule, in order."""
        if not self._any:
            return ()
        rows = self._db.execute(LIST_EXCEPTIONS, (job_id, schedule_id))
        return tuple(FateAhead(slot_at, reason, bool(recorded), run_id) for slot_at, reason, recorded, run_id in rows)


def put_exception(db: sqlite3.Connection, job_id: int, schedule_id: str, fate: FateAhead) -> None:
    """Remember a slot whose fate was given ahead."""
    db.execute(PUT_EXCEPTION, (job_id, schedule_id, fate.slot_at, fate.reason, int(fate.recorded), fate.run_id))


def except_ahead(db: sqlite3.Connection, run_id: int, now: Micros) -> None:
    """Remember that a waiting run is cancelled, if it is a slot's that lies ahead."""
    db.execute(EXCEPT_AHEAD, {"id": run_id, "now": now})


def keep_exceptions(
    db: sqlite3.Connection, job_id: int, window: Window, exceptions: Sequence[FateAhead], now: Micros
) -> None:
    """Note which exceptions the window has recorded, and forget those of long ago."""
    name = window.schedule_id
    db.executemany(SET_RECORDED, [(job_id, name, slot_at) for slot_at in recorded_in(window, exceptions)])
    db.execute(FORGET_EXCEPTIONS, (job_id, name, forget_before(window.end, now)))
