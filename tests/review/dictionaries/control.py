"""What people do to jobs and runs that exist, in dictionaries."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from onthedot.clock import NEVER, Micros
from onthedot.errors import UnknownJob, WindowStale
from onthedot.job import JobRecord, JobState
from onthedot.policy.window_rules import check_past, check_revision, settle
from onthedot.run import RunState, is_slot, slot_trigger
from onthedot.stores.hints import Hint
from onthedot.stores.values import CancelAnswer, Paused, Resumed
from onthedot.window import FateAhead, Window
from tests.review.dictionaries.jobs import Jobs
from tests.review.dictionaries.tables import Run, RunKey


class Control(Jobs):
    """See `Store`."""

    async def pause(
        self, job_id: int, *, reason: str, until: Micros | None = None, now: Micros | None = None
    ) -> Paused:
        now = self.read_clock(now)
        record = self._known(job_id)
        paused = replace(record, state=JobState.PAUSED, pause_reason=reason, paused_until=until)
        self._replace(paused)
        if record.state is JobState.PAUSED:
            return Paused(paused, 0, 0, 0)
        self.stand_aside(self.of_job[job_id].values())
        withdrawn = 0
        for state in self.schedules[job_id].values():
            edge = self._edge(job_id, state.schedule_id, now)
            withdrawn += self._withdraw(job_id, state.schedule_id, edge)
            state.watermark = min(state.watermark, edge)
            delay = self.delays.get((job_id, state.schedule_id))
            if delay is not None:
                self._await_end(state, delay, edge)
        waiting = [run for run in self.of_job[job_id].values() if run.state is not RunState.RUNNING]
        missed = [run for run in waiting if is_slot(run.key.trigger) and not run.attempt]
        for run in missed:
            self.skip(run, "paused", now)
        held = [run for run in waiting if run.id in self.runs]
        for run in held:
            self._hold_back(run)
        return Paused(paused, withdrawn, len(missed), len(held))

    def _known(self, job_id: int) -> JobRecord:
        record = self.jobs.get(job_id)
        if record is None or record.state is JobState.DELETED:
            raise UnknownJob(f"job {job_id} does not exist, or not any more")
        return record

    def _replace(self, record: JobRecord) -> None:
        self.jobs[record.id] = record
        for state in self.schedules[record.id].values():
            state.record = record
            self.expect(state, state.next_at)  # a planner that found it while it was paused has dropped it

    def _hold_back(self, run: Run) -> None:
        run.state = RunState.SCHEDULED
        run.lease = None
        run.delayed_under = ""
        run.expires_at = None
        run.ready_at = NEVER

    async def resume(
        self,
        job_id: int,
        windows: Sequence[Window] = (),
        *,
        expected: int | None = None,
        overdue: bool = False,
        dry_run: bool = False,
        now: Micros | None = None,
    ) -> Resumed:
        now = self.read_clock(now)
        record = self._known(job_id)
        if record.state is not JobState.PAUSED or (overdue and not _is_over(record, now)):
            return Resumed(record)
        check_revision(job_id, expected, record.revision)
        states = self.schedules[job_id]
        for window in windows:
            state = states.get(window.schedule_id)
            if state is None or state.watermark != window.start:
                raise WindowStale("the schedule has moved on; read it again", watermark=window.start, now=now)
            check_past(window, now)
            self.check_exceptions(job_id, window, now)
        windows = [settle(window, states[window.schedule_id].exceptions) for window in windows]
        held = [run for run in self.of_job[job_id].values() if run.state is RunState.SCHEDULED]
        active = replace(record, state=JobState.ACTIVE, pause_reason="", paused_until=None)
        slots = tuple(
            slot.slot_at
            for window in windows
            for slot in window.slots
            if RunKey(job_id, slot_trigger(window.schedule_id), slot.slot_at) not in self.keys  # else: had its fate
        )
        answer = Resumed(active, slots, tuple(skip for window in windows for skip in window.skips), len(held))
        if dry_run:
            return answer
        self._replace(active)
        for window in windows:
            self.apply_window(states[window.schedule_id], window, now)
        for run in held:
            self.wait(run, run.due_at)
        self.hints.send(Hint("schedules", now))
        self.hints.send(Hint("runs", now))
        return answer

    async def delete_job(self, job_id: int, *, expected: int | None = None, now: Micros | None = None) -> int:
        now = self.read_clock(now)
        record = self._known(job_id)
        check_revision(job_id, expected, record.revision)
        self._replace(replace(record, state=JobState.DELETED, updated_at=now))
        self.schedules[job_id].clear()
        self.dependencies.drop(job_id)
        del self.names[record.job.namespace, record.job.name]
        waiting = [run for run in self.of_job[job_id].values() if run.state is not RunState.RUNNING]
        for run in waiting:
            run.reason = "deleted"
            self.end_run(run, RunState.CANCELLED, now)
        return len(waiting)

    async def cancel(self, run_ids: Sequence[int], *, why: str, now: Micros | None = None) -> list[CancelAnswer]:
        now = self.read_clock(now)
        return [self._cancel_one(run_id, why, now) for run_id in run_ids]

    def _cancel_one(self, run_id: int, why: str, now: Micros) -> CancelAnswer:
        run, ended = self.runs.get(run_id), self.finished.get(run_id)
        if ended is not None:
            return CancelAnswer("ended", ended.state)
        if run is None:
            return CancelAnswer("unknown")
        if run.state is RunState.RUNNING:
            self.ask_to_stop(run, why, now)
            return CancelAnswer("asked", run.state)
        run.reason = why
        self.end_run(run, RunState.CANCELLED, now)
        if is_slot(run.key.trigger) and run.key.slot_at > now and not run.key.target:  # one node's is not the slot's
            self._except_ahead(run)
        return CancelAnswer("cancelled", RunState.CANCELLED)

    def _except_ahead(self, run: Run) -> None:
        """A slot that was cancelled before its time: it stays so, whatever is planned anew."""
        for state in self.schedules[run.key.job_id].values():
            if slot_trigger(state.schedule_id) == run.key.trigger:
                self.note_exception(state, FateAhead(run.key.slot_at, "cancelled", recorded=True))

    async def due_resumes(self, *, now: Micros | None = None) -> list[JobRecord]:
        now = self.read_clock(now)
        return [record for record in self.jobs.values() if record.state is JobState.PAUSED and _is_over(record, now)]


def _is_over(record: JobRecord, now: Micros) -> bool:
    return record.paused_until is not None and record.paused_until <= now
