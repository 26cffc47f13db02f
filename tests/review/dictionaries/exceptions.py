"""Slots whose fate is given ahead, in dictionaries."""

from __future__ import annotations

from onthedot.clock import Micros
from onthedot.errors import SlotSettled, UnknownSlot
from onthedot.policy.window_rules import check_ahead, check_revision, check_same, check_waits, counts_from
from onthedot.run import NewRun, slot_trigger
from onthedot.stores.hints import Hint
from onthedot.stores.values import Excepted
from onthedot.window import ExceptReason, FateAhead, ScheduleState, SkipRange, Window
from tests.review.dictionaries.control import Control
from tests.review.dictionaries.tables import RunKey


class Exceptions(Control):
    """See `Store.except_slot`."""

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
        now = self.read_clock(now)
        record = self._known(job_id)
        state = self.schedules[job_id].get(schedule_id)
        given = [] if state is None else [one for one in state.exceptions if one.slot_at == slot_at]
        if given:
            asked = None if run is None else self.keys.get(RunKey(run.job_id, run.trigger, run.instant), 0)
            check_same(given[0], reason, asked)
            return Excepted(schedule_id, slot_at, reason, given[0].run_id)
        check_revision(job_id, expected, record.revision)
        if state is None:
            raise UnknownSlot(f"job {job_id} has no schedule {schedule_id!r}")
        recorded = self._clear_slot(state, slot_at, reason, None if run is None else run.due_at, now)
        run_id = None if run is None else self._instead(run, now)
        self.note_exception(state, FateAhead(slot_at, reason, recorded, run_id))
        return Excepted(schedule_id, slot_at, reason, run_id)

    def _clear_slot(
        self, state: ScheduleState, slot_at: Micros, reason: str, moved_to: Micros | None, now: Micros
    ) -> bool:
        """See to it that the slot does not run; whether the ledger has its entry by now."""
        job_id, schedule_id = state.record.id, state.schedule_id
        trigger, delay = slot_trigger(schedule_id), self.delays.get((job_id, schedule_id))
        live = self.runs.get(self.keys.get(RunKey(job_id, trigger, slot_at), 0))
        if live is not None:
            check_waits(slot_at, live.id, live.state, live.attempt)
            self.skip(live, reason, now)
        else:
            check_ahead(slot_at, state.watermark, now)
            if delay is None:
                return False
            if self.runs_of(job_id, trigger):
                raise SlotSettled(
                    f"schedule {schedule_id!r}: its next slot follows the end of a run that is still open"
                )
            self.record_skips(
                state,
                Window(schedule_id, state.watermark, slot_at, None, skips=[SkipRange(slot_at, slot_at, 1, reason)]),
                now,
            )
            state.watermark = slot_at
        if delay is not None:
            state.last_end = counts_from(slot_at, moved_to, now)
            self.expect(state, state.last_end + delay)
            self.hints.send(Hint("schedules", state.last_end + delay))
        return True

    def _instead(self, run: NewRun, now: Micros) -> int:
        key = RunKey(run.job_id, run.trigger, run.instant)
        run_id = self.insert(key, due_at=run.due_at, now=now, expires_at=run.expires_at, args=run.args)
        self.hints.send(Hint("runs", run.due_at))
        return run_id
