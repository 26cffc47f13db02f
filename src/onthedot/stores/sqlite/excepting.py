"""Giving a slot its fate ahead, in SQLite."""

from __future__ import annotations

from dataclasses import replace

from onthedot.clock import Micros
from onthedot.errors import SlotSettled, UnknownSlot
from onthedot.run import NewRun, RunState, slot_trigger
from onthedot.stores.base import Excepted, ExceptReason, FateAhead, Hint, SkipRange, Window
from onthedot.stores.exceptions import check_ahead, check_same, check_waits, counts_from
from onthedot.stores.sqlite.control import Control
from onthedot.stores.sqlite.exceptions import Ahead, put_exception
from onthedot.stores.sqlite.finish import end_waiting
from onthedot.stores.sqlite.lane import Transaction
from onthedot.stores.sqlite.plan import record_skips
from onthedot.stores.sqlite.runs import submit_runs
from onthedot.stores.sqlite.triggers import with_slots
from onthedot.stores.staleness import check_revision

FIND_SCHEDULE = "SELECT watermark, delay FROM schedules WHERE job_id = ? AND schedule_id = ?"

FIND_SLOT_RUN = "SELECT id, state, attempt FROM runs WHERE job_id = ? AND slot_at = ? AND trigger = ? AND target = ''"

HAS_OPEN_RUN = "SELECT 1 FROM runs WHERE job_id = ? AND trigger = ?"

# Live, or ended: the same key is the same run.
FIND_ASKED = with_slots("""
SELECT id FROM runs WHERE job_id = :job_id AND slot_at = :slot_at AND trigger = :trigger AND target = ''
UNION ALL
SELECT id FROM history INDEXED BY history_submitted
WHERE slot_at = :slot_at AND job_id = :job_id AND trigger = :trigger AND {is_no_slot}
""")

COUNT_FROM = """
UPDATE schedules SET watermark = max(watermark, :slot_at), last_end = :since, next_at = :since + delay
WHERE job_id = :job_id AND schedule_id = :schedule_id
"""


class Excepting(Control):
    """See `ControlSlice.except_slot`."""

    async def except_slot(
        self,
        job_id: int,
        schedule_id: str,
        slot_at: Micros,
        *,
        reason: ExceptReason,
        run: NewRun | None = None,
        expected: int | None = None,
        now: Micros | None = None,
    ) -> Excepted:
        def work(tx: Transaction) -> Excepted:
            at = self.read_clock(now)
            record = self._living(tx, job_id)
            given = [one for one in Ahead(tx.db).of(job_id, schedule_id) if one.slot_at == slot_at]
            if given:
                check_same(given[0], reason, _find_asked(tx, run))
                return Excepted(schedule_id, slot_at, reason, given[0].run_id)
            check_revision(job_id, expected, record.revision)
            recorded = _clear_slot(tx, job_id, schedule_id, slot_at, reason, run, at)
            run_id = None if run is None else submit_runs(tx, [replace(run, key="")], at)[0]
            put_exception(tx.db, job_id, schedule_id, FateAhead(slot_at, reason, recorded, run_id))
            return Excepted(schedule_id, slot_at, reason, run_id)

        return await self.write(work)


def _find_asked(tx: Transaction, run: NewRun | None) -> int | None:
    if run is None:
        return None
    values = {"job_id": run.job_id, "slot_at": run.instant, "trigger": run.trigger}
    found = tx.db.execute(FIND_ASKED, values).fetchone()
    return 0 if found is None else int(found[0])


def _clear_slot(
    tx: Transaction, job_id: int, schedule_id: str, slot_at: Micros, reason: str, run: NewRun | None, now: Micros
) -> bool:
    """See to it that the slot does not run; whether the ledger has its entry by now."""
    db, trigger = tx.db, slot_trigger(schedule_id)
    found = db.execute(FIND_SCHEDULE, (job_id, schedule_id)).fetchone()
    if found is None:
        raise UnknownSlot(f"job {job_id} has no schedule {schedule_id!r}")
    watermark, delay = found
    live = db.execute(FIND_SLOT_RUN, (job_id, slot_at, trigger)).fetchone()
    if live is not None:
        run_id, state, attempts = live
        check_waits(slot_at, run_id, RunState(state), attempts)
        end_waiting(tx, run_id, RunState.SKIPPED, reason, now)
    else:
        check_ahead(slot_at, watermark, now)
        if delay is None:
            return False
        if db.execute(HAS_OPEN_RUN, (job_id, trigger)).fetchone() is not None:
            raise SlotSettled(f"schedule {schedule_id!r}: its next slot follows the end of a run that is still open")
        skip = SkipRange(slot_at, slot_at, 1, reason)
        record_skips(db, job_id, Window(schedule_id, watermark, slot_at, None, skips=[skip]), now)
    if delay is not None:
        since = counts_from(slot_at, None if run is None else run.due_at, now)
        values = {"job_id": job_id, "schedule_id": schedule_id, "slot_at": slot_at, "since": since}
        db.execute(COUNT_FROM, values)
        tx.hints.append(Hint("schedules", since + delay))
    return True
