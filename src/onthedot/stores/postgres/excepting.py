"""Giving a slot its fate ahead, in PostgreSQL."""

from __future__ import annotations

from dataclasses import replace

from onthedot.clock import Micros
from onthedot.errors import SlotSettled, UnknownSlot
from onthedot.run import NewRun, RunState, slot_trigger
from onthedot.stores.base import Excepted, ExceptReason, FateAhead, Hint, SkipRange, Window
from onthedot.stores.exceptions import check_ahead, check_same, check_waits, counts_from
from onthedot.stores.postgres.control import Control
from onthedot.stores.postgres.exceptions import Ahead, put_exception
from onthedot.stores.postgres.failures import Contended
from onthedot.stores.postgres.finish import end_waiting
from onthedot.stores.postgres.plan import record_skips
from onthedot.stores.postgres.submitting import submit_runs
from onthedot.stores.postgres.transaction import Transaction
from onthedot.stores.postgres.triggers import with_slots
from onthedot.stores.staleness import check_revision

FIND_SCHEDULE = "SELECT watermark, delay FROM schedules WHERE job_id = $1 AND schedule_id = $2"

FIND_SLOT_RUN = """
SELECT id, state, attempt FROM runs WHERE job_id = $1 AND slot_at = $2 AND trigger = $3 AND target = ''
"""

HAS_OPEN_RUN = "SELECT 1 FROM runs WHERE job_id = $1 AND trigger = $2 LIMIT 1"

# Live, or ended: the same key is the same run.
FIND_ASKED = with_slots("""
SELECT id FROM runs WHERE job_id = $1 AND slot_at = $2 AND trigger = $3 AND target = ''
UNION ALL
SELECT id FROM history WHERE slot_at = $2 AND job_id = $1 AND trigger = $3 AND {is_no_slot}
LIMIT 1
""")

COUNT_FROM = """
UPDATE schedules SET watermark = greatest(watermark, $3), last_end = $4, next_at = $4 + delay
WHERE job_id = $1 AND schedule_id = $2
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
        async def work(tx: Transaction) -> Excepted:
            at = await tx.clock(now)
            record = await self._living(tx, job_id)
            ahead = await Ahead.of_jobs(tx, [job_id])
            given = [one for one in ahead.of(job_id, schedule_id) if one.slot_at == slot_at]
            if given:
                check_same(given[0], reason, await _find_asked(tx, run))
                return Excepted(schedule_id, slot_at, reason, given[0].run_id)
            check_revision(job_id, expected, record.revision)
            recorded = await _clear_slot(tx, job_id, schedule_id, slot_at, reason, run, at)
            run_id = None if run is None else (await submit_runs(tx, [replace(run, key="")], at))[0]
            await put_exception(tx, job_id, schedule_id, FateAhead(slot_at, reason, recorded, run_id))
            return Excepted(schedule_id, slot_at, reason, run_id)

        return await self.write(work, limit=self.limits.long)


async def _find_asked(tx: Transaction, run: NewRun | None) -> int | None:
    if run is None:
        return None
    found = await tx.value(FIND_ASKED, run.job_id, run.instant, run.trigger)
    return 0 if found is None else int(found)


async def _clear_slot(
    tx: Transaction, job_id: int, schedule_id: str, slot_at: Micros, reason: str, run: NewRun | None, now: Micros
) -> bool:
    """See to it that the slot does not run; whether the ledger has its entry by now."""
    trigger = slot_trigger(schedule_id)
    found = await tx.row(FIND_SCHEDULE, job_id, schedule_id)
    if found is None:
        raise UnknownSlot(f"job {job_id} has no schedule {schedule_id!r}")
    watermark, delay = found
    live = await tx.row(FIND_SLOT_RUN, job_id, slot_at, trigger)
    if live is not None:
        run_id, state, attempts = live
        check_waits(slot_at, run_id, RunState(state), attempts)
        if not await end_waiting(tx, run_id, RunState.SKIPPED, reason, now):
            raise Contended("a slot that was armed or ended between two looks")  # the next look tells
    else:
        check_ahead(slot_at, watermark, now)
        if delay is None:
            return False
        if await tx.row(HAS_OPEN_RUN, job_id, trigger) is not None:
            raise SlotSettled(f"schedule {schedule_id!r}: its next slot follows the end of a run that is still open")
        skip = SkipRange(slot_at, slot_at, 1, reason)
        await record_skips(tx, job_id, Window(schedule_id, watermark, slot_at, None, skips=[skip]), now)
    if delay is not None:
        since = counts_from(slot_at, None if run is None else run.due_at, now)
        await tx.do(COUNT_FROM, job_id, schedule_id, slot_at, since)
        tx.hints.append(Hint("schedules", since + delay))
    return True
