"""Slots whose fate was given ahead, in PostgreSQL: found, recorded with their windows, and forgotten."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence

from onthedot.clock import Micros
from onthedot.stores.base import FateAhead, Window
from onthedot.stores.exceptions import forget_before, recorded_in
from onthedot.stores.postgres.transaction import Transaction
from onthedot.stores.postgres.triggers import with_slots

LIST_EXCEPTIONS = """
SELECT job_id, schedule_id, slot_at, reason, recorded, run_id FROM exceptions
WHERE job_id = ANY($1) ORDER BY job_id, schedule_id, slot_at
"""

PUT_EXCEPTION = """
INSERT INTO exceptions (job_id, schedule_id, slot_at, reason, recorded, run_id) VALUES ($1, $2, $3, $4, $5, $6)
ON CONFLICT (job_id, schedule_id, slot_at) DO UPDATE
SET reason = excluded.reason, recorded = excluded.recorded, run_id = excluded.run_id
"""

SET_RECORDED = """
UPDATE exceptions SET recorded = true WHERE job_id = $1 AND schedule_id = $2 AND slot_at = ANY($3)
"""

FORGET_EXCEPTIONS = "DELETE FROM exceptions WHERE job_id = $1 AND schedule_id = $2 AND slot_at <= $3"

# With their schedule, but for those that lie ahead and have their fate on record: it may come back.
DELETE_EXCEPTIONS = """
DELETE FROM exceptions WHERE job_id = $1 AND schedule_id = $2 AND (NOT recorded OR slot_at <= $3)
"""

DELETE_EXCEPTIONS_OF_JOB = "DELETE FROM exceptions WHERE job_id = $1"

# A slot that is cancelled before its time: it stays so, whatever is planned anew.
EXCEPT_AHEAD = with_slots("""
INSERT INTO exceptions (job_id, schedule_id, slot_at, reason, recorded)
SELECT r.job_id, s.schedule_id, r.slot_at, 'cancelled', true
FROM runs r JOIN schedules s ON s.job_id = r.job_id AND r.trigger = {slot_trigger}
WHERE r.id = $1 AND r.state <> 'running' AND r.slot_at > $2 AND r.target = ''  -- one node's is not the slot's
ON CONFLICT (job_id, schedule_id, slot_at) DO UPDATE SET reason = 'cancelled', recorded = true, run_id = NULL
""")


class Ahead:
    """The exceptions of the schedules of some jobs, as they are in this transaction."""

    def __init__(self, rows: Iterable[Sequence[object]]) -> None:
        self._fates: dict[tuple[object, object], list[FateAhead]] = defaultdict(list)
        for job_id, schedule_id, *fate in rows:
            self._fates[job_id, schedule_id].append(FateAhead(*fate))  # type: ignore[arg-type]  # as the schema says

    @classmethod
    async def of_jobs(cls, tx: Transaction, job_ids: Iterable[int]) -> Ahead:
        """Read them."""
        return cls(await tx.rows(LIST_EXCEPTIONS, list(set(job_ids))))

    def of(self, job_id: int, schedule_id: str) -> tuple[FateAhead, ...]:
        """Those of one schedule, in order."""
        found = self._fates.get((job_id, schedule_id))
        return () if found is None else tuple(found)


async def put_exception(tx: Transaction, job_id: int, schedule_id: str, fate: FateAhead) -> None:
    """Remember a slot whose fate was given ahead."""
    await tx.do(PUT_EXCEPTION, job_id, schedule_id, fate.slot_at, fate.reason, fate.recorded, fate.run_id)


async def except_ahead(tx: Transaction, run_id: int, now: Micros) -> None:
    """Remember that a waiting run is cancelled, if it is a slot's that lies ahead."""
    await tx.do(EXCEPT_AHEAD, run_id, now)


async def keep_exceptions(
    tx: Transaction, job_id: int, window: Window, exceptions: Sequence[FateAhead], now: Micros
) -> None:
    """Note which exceptions the window has recorded, and forget those of long ago."""
    name = window.schedule_id
    recorded = recorded_in(window, exceptions)
    if recorded:
        await tx.do(SET_RECORDED, job_id, name, recorded)
    await tx.do(FORGET_EXCEPTIONS, job_id, name, forget_before(window.end, now))
