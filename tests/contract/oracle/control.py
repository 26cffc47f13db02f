"""The oracle's pause, resume, delete, cancel and moved slots."""

from __future__ import annotations

from collections.abc import Sequence

from onthedot.model.errors import SlotSettled, UnknownSlot, WindowStale
from onthedot.model.job import JobState
from onthedot.model.run import NewRun, RunState
from onthedot.model.window import SkipRange, Window
from onthedot.stores.values import CancelAnswer
from tests.contract.oracle.edits import check_past, wait_for_end, withdraw
from tests.contract.oracle.ends import end
from tests.contract.oracle.gates import ask_to_stop
from tests.contract.oracle.lines import leave_lines
from tests.contract.oracle.plan import edge, is_over_exception, note_exception, record, settled, trigger_of, write
from tests.contract.oracle.world import Job, Run, Schedule, World


def pause(world: World, job_id: int, reason: str, until: int | None, now: int) -> tuple[int, int, int]:
    """Returns how many runs were withdrawn, skipped and held."""
    job = world.known_job(job_id)
    was_paused = job.state is JobState.PAUSED
    job.state, job.pause_reason, job.paused_until = JobState.PAUSED, reason, until
    if was_paused:
        return 0, 0, 0
    leave_lines(world, _waiting(world, job))
    withdrawn = 0
    for schedule in job.schedules.values():
        w = edge(world, job, schedule, now)
        withdrawn += withdraw(world, job, schedule, w)
        schedule.watermark = min(schedule.watermark, w)
        if schedule.delay is not None:
            wait_for_end(world, job, schedule, w)
    due = [run for run in _waiting(world, job) if run.is_slot and run.attempts == 0]
    for run in due:
        end(world, run, RunState.SKIPPED, "paused", now)
    held = _waiting(world, job)
    for run in held:
        run.wait_until(None)
        run.expires_at, run.delayed_under = None, ""
    return withdrawn, len(due), len(held)


def _waiting(world: World, job: Job) -> list[Run]:
    return [run for run in world.live_of(job) if not run.is_running]


def resume(
    world: World, job_id: int, windows: Sequence[Window], expected: int | None, now: int, *, overdue: bool,
    dry_run: bool,
) -> tuple[list[int], list[SkipRange], int]:  # fmt: skip
    """Returns the slots that become runs, those that are skipped, and how many held runs are released."""
    job = world.known_job(job_id)
    if job.state is not JobState.PAUSED or (overdue and not is_over(job, now)):
        return [], [], 0
    world.known_job(job_id, expected)
    for window in windows:
        schedule = job.schedules.get(window.schedule_id)
        if schedule is None or schedule.watermark != window.start or is_over_exception(schedule, window):
            raise WindowStale(window.schedule_id, watermark=window.start, now=now)
        check_past(window, now)
    fates = [settled(job.schedules[window.schedule_id], window) for window in windows]
    slots = [
        slot.slot_at
        for window, (planned, _) in zip(windows, fates, strict=True)
        for slot in planned
        if world.find(job, trigger_of(window.schedule_id), slot.slot_at) is None
    ]
    skips = [skip for _, skipped in fates for skip in skipped]
    held = _waiting(world, job)
    if not dry_run:
        job.state, job.pause_reason, job.paused_until = JobState.ACTIVE, "", None
        for window in windows:
            write(world, job, job.schedules[window.schedule_id], window, now)
        for run in held:
            run.ready_at = run.due_at
    return slots, skips, len(held)


def is_over(job: Job, now: int) -> bool:
    """Whether a pause has reached its end."""
    return job.paused_until is not None and job.paused_until <= now


def due_resumes(world: World, now: int) -> list[int]:
    return sorted(job.id for job in world.jobs.values() if job.state is JobState.PAUSED and is_over(job, now))


def delete_job(world: World, job_id: int, expected: int | None, now: int) -> int:
    """Returns how many runs were cancelled."""
    job = world.known_job(job_id, expected)
    job.state = JobState.DELETED
    job.schedules.clear()
    job.dropped.clear()
    job.parents.clear()
    waiting = _waiting(world, job)
    for run in waiting:
        end(world, run, RunState.CANCELLED, "deleted", now)
    return len(waiting)


def cancel(world: World, run_ids: Sequence[int], why: str, now: int) -> list[CancelAnswer]:
    return [_cancel(world, run_id, why, now) for run_id in run_ids]


def _cancel(world: World, run_id: int, why: str, now: int) -> CancelAnswer:
    run = world.run(run_id)
    if run is None:
        return CancelAnswer("unknown")
    if not run.is_live:
        return CancelAnswer("ended", run.state)
    if run.is_running:
        ask_to_stop(run, why)
        return CancelAnswer("asked", RunState.RUNNING)
    end(world, run, RunState.CANCELLED, why, now)
    for schedule in run.job.schedules.values():
        if run.trigger == trigger_of(schedule.id) and run.slot_at > now and not run.target:
            note_exception(schedule, run.slot_at, "cancelled", recorded=True)
    return CancelAnswer("cancelled", RunState.CANCELLED)


def except_slot(
    world: World, job_id: int, schedule_id: str, slot: int, reason: str, new: NewRun | None, expected: int | None,
    now: int,
) -> Run | None:  # fmt: skip
    """Returns the run that replaces the slot's run, if any."""
    job = world.known_job(job_id)
    schedule = job.schedules.get(schedule_id)
    given = None if schedule is None else schedule.exceptions.get(slot)
    if given is not None:
        instead = None if new is None else world.find(job, new.trigger, _instant(new))
        if given.reason != reason or given.run is not instead or (new is None) != (given.run is None):
            raise SlotSettled(slot)
        return given.run
    world.known_job(job_id, expected)
    if schedule is None:
        raise UnknownSlot(schedule_id)
    recorded = _take_slot(world, job, schedule, slot, reason, None if new is None else new.due_at, now)
    run = None
    if new is not None:
        run = world.insert(
            job, new.trigger, _instant(new), due_at=new.due_at, now=now, expires_at=new.expires_at, args=new.args
        )
    note_exception(schedule, slot, reason, recorded=recorded, run=run)
    return run


def _instant(new: NewRun) -> int:
    return new.due_at if new.slot_at is None else new.slot_at


def _take_slot(
    world: World, job: Job, schedule: Schedule, slot: int, reason: str, moved_to: int | None, now: int
) -> bool:
    """Skip the slot ahead. Returns whether the ledger has it then."""
    run = world.find(job, trigger_of(schedule.id), slot)
    if run is not None and run.is_live:
        if run.attempts > 0:
            raise SlotSettled(slot)
        end(world, run, RunState.SKIPPED, reason, now)
    else:
        if slot <= max(schedule.watermark, now):
            raise SlotSettled(slot)
        if schedule.delay is None:
            return False
        if world.live_of(job, trigger_of(schedule.id)):
            raise SlotSettled(slot)
        record(world, job, schedule, schedule.watermark, (), [SkipRange(slot, slot, 1, reason)], now)
        schedule.watermark = slot
    if schedule.delay is not None:
        schedule.last_end = max(now, slot if moved_to is None else moved_to)
        schedule.next_at = schedule.last_end + schedule.delay
    return True
