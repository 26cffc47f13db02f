"""The oracle's definitions and edits. docs/design/store-moves.md has the table of what an edit does to slots."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from onthedot.model.errors import DependencyCycle, RevisionConflict, WindowStale
from onthedot.model.job import Cron, Every, JobState
from onthedot.model.job import Job as Definition
from onthedot.model.window import SkipRange, Window
from tests.contract.oracle.lines import leave, leave_lines
from tests.contract.oracle.plan import behind, edge, is_over_exception, record, settled, trigger_of, write
from tests.contract.oracle.world import Job, Schedule, World

OF_THE_PAST = {"missed", "paused", "edited"}


def put_job(
    world: World, definition: Definition, windows: Sequence[Window], expected: int | None, job_id: int, now: int
) -> tuple[Job, str, int, int]:
    """Returns the job, what was done, and how many runs were planned and withdrawn. The store chooses the id of a new
    job."""
    job = world.job_named(definition.name, definition.namespace)
    if job is not None and job.definition == definition:
        return job, "unchanged", 0, 0
    if expected not in (None, 0 if job is None else job.revision):
        raise RevisionConflict(definition.name)
    check_cycle(world, definition)
    for window in windows:
        check_past(window, now)
    if job is None:
        assert job_id not in world.jobs
        job = world.jobs[job_id] = Job(job_id, 1, definition, JobState.ACTIVE, now, now)
        planned = sum(add(world, job, window, now) for window in windows)
        return job, "created", planned, 0
    check_windows(world, job, definition, windows, now, is_fenced=expected is not None)
    keep_parents(job, definition)
    job.definition, job.revision, job.updated_at = definition, job.revision + 1, now
    for run in world.live_of(job):
        world.route(run)
    leave_lines(world, [run for run in world.live_of(job) if not run.is_running])
    return job, "changed", *edit_slots(world, job, windows, now)


def check_cycle(world: World, definition: Definition) -> None:
    """Refuse a job that runs after itself, directly or through others."""
    ahead = list(definition.after.parents if definition.after else ())
    seen: set[str] = set()
    while ahead:
        name = ahead.pop()
        if name == definition.name:
            raise DependencyCycle(name)
        if name in seen:
            continue
        seen.add(name)
        job = world.job_named(name, definition.namespace)
        if job is not None and job.definition.after is not None:
            ahead += job.definition.after.parents


def keep_parents(job: Job, definition: Definition) -> None:
    """Keep the noted runs of parents that stay, unless other ends count now."""
    old, new = job.definition.after, definition.after
    if old is None or new is None or (old.any, old.on) != (new.any, new.on):
        job.parents.clear()
        return
    job.parents = {name: noted for name, noted in job.parents.items() if name in new.parents}


# ── windows that do not fit ──────────────────────────────────────────────────────────────────────────────────────


def check_past(window: Window, now: int) -> None:
    """Refuse skips of slots that are not over."""
    if any(skip.reason in OF_THE_PAST and skip.last > now for skip in window.skips):
        raise WindowStale(window.schedule_id, watermark=window.start, now=now)


def check_windows(
    world: World, job: Job, definition: Definition, windows: Sequence[Window], now: int, *, is_fenced: bool
) -> None:
    rules = {schedule.id: schedule for schedule in definition.schedules}
    given = {window.schedule_id: window for window in windows}
    stale = []
    for name, schedule in job.schedules.items():
        if name not in rules and is_fenced and schedule.delay is None:
            stale.append(_owes(schedule, given.get(name), now))
        if name in rules and name in given:
            stale.append(given[name].start > edge(world, job, schedule, now))
        if name in given:
            stale.append(is_over_exception(schedule, given[name]))
    for name, rule in rules.items():
        if name in given and name not in job.schedules:
            late = given[name].start > now if _is_grid(rule) else _has_passed(given[name], now)
            stale.append(late)
            gone = Schedule(name, 0, 0, exceptions=job.dropped.get(name, {}))
            stale.append(is_over_exception(gone, given[name]))
    if any(stale):
        raise WindowStale(job.name, watermark=0, now=now)


def _is_grid(rule: object) -> bool:
    return isinstance(rule, Cron | Every)


def _owes(schedule: Schedule, closing: Window | None, now: int) -> bool:
    """Whether a dropped schedule has a slot up to now without a fate."""
    first = schedule.next_at
    if closing is not None:
        first = closing.next_at if closing.start == schedule.watermark else schedule.watermark
    return first is not None and first <= now


def _has_passed(window: Window, now: int) -> bool:
    """Whether an added schedule has a slot up to now. A fixed delay that begins at once may have one."""
    first = window.slots[0].slot_at if window.slots else window.next_at
    begins_at_once = window.delay is not None and first == window.start + 1
    return first is not None and first <= now and not begins_at_once


# ── slots ────────────────────────────────────────────────────────────────────────────────────────────────────────


def edit_slots(world: World, job: Job, windows: Sequence[Window], now: int) -> tuple[int, int]:
    """Returns how many runs were planned, and how many withdrawn."""
    rules = {schedule.id: schedule for schedule in job.definition.schedules}
    given = {window.schedule_id: window for window in windows}
    withdrawn = 0
    for name, schedule in job.schedules.items():
        withdrawn += withdraw(world, job, schedule, edge(world, job, schedule, now) if name in rules else now)
    armed = {
        run.slot_at
        for name in job.schedules
        if name not in rules
        for run in world.live_of(job, trigger_of(name))
        if run.slot_at > now
    }
    for name in [name for name in job.schedules if name not in rules]:
        drop(world, job, job.schedules.pop(name), given.get(name), now)
    planned = 0
    for name, window in given.items():
        if name in job.schedules:
            planned += survive(world, job, job.schedules[name], window, now)
        elif name in rules:
            if _is_grid(rules[name]):
                window = replace(behind(window, now), start=now)
            planned += add(world, job, _without(window, armed), now)
    return planned, withdrawn


def withdraw(world: World, job: Job, schedule: Schedule, after: int) -> int:
    """Withdraw runs after this instant that were never armed."""
    gone = [run for run in world.live_of(job, trigger_of(schedule.id)) if run.slot_at > after and run.attempts == 0]
    for run in gone:
        world.runs.remove(run)
    for run in gone:
        leave(world, run, [gate.key for gate in run.gates])
    return len(gone)


def drop(world: World, job: Job, schedule: Schedule, closing: Window | None, now: int) -> None:
    """Skip the slots that still need a fate. Recorded exceptions that lie ahead stay, because the schedule may come
    back."""
    if closing is not None and closing.start == schedule.watermark:
        _, skips = settled(schedule, closing)
        record(world, job, schedule, closing.start, (), skips, now)
    job.dropped[schedule.id] = {slot: one for slot, one in schedule.exceptions.items() if one.recorded and slot > now}


def survive(world: World, job: Job, schedule: Schedule, window: Window, now: int) -> int:
    w = edge(world, job, schedule, now)
    schedule.delay = window.delay
    if window.delay is not None:
        wait_for_end(world, job, schedule, w)
        return 0
    if job.state is JobState.PAUSED:
        schedule.watermark = min(schedule.watermark, w)
        return 0
    if schedule.watermark < w and schedule.next_at is not None and schedule.next_at <= w:
        return 0  # the planner is behind, and continues under the new rule
    return write(world, job, schedule, behind(window, w), now)


def wait_for_end(world: World, job: Job, schedule: Schedule, w: int) -> None:
    """The next slot of a fixed delay follows the last end. While a run is open there is none."""
    assert schedule.delay is not None
    schedule.watermark = min(schedule.watermark, w)
    if world.live_of(job, trigger_of(schedule.id)):
        schedule.next_at = None
    elif schedule.last_end is None:
        schedule.next_at = w
    else:
        schedule.next_at = max(w, schedule.last_end + schedule.delay)


def add(world: World, job: Job, window: Window, now: int) -> int:
    """Add a schedule. Nothing of a paused job is planned."""
    schedule = Schedule(window.schedule_id, window.start, window.start, delay=window.delay)
    schedule.exceptions = job.dropped.pop(schedule.id, {})
    job.schedules[schedule.id] = schedule
    if job.state is JobState.PAUSED:
        schedule.next_at = window.slots[0].slot_at if window.slots else window.next_at
        return 0
    return write(world, job, schedule, window, now)


def _without(window: Window, armed: set[int]) -> Window:
    """The window without instants at which an armed run of a dropped schedule starts. These are skipped(edited)."""
    taken = [] if window.delay is not None else [slot.slot_at for slot in window.slots if slot.slot_at in armed]
    skips = [*window.skips, *(SkipRange(slot, slot, 1, "edited") for slot in taken)]
    return replace(
        window,
        slots=[slot for slot in window.slots if slot.slot_at not in taken],
        skips=sorted(skips, key=lambda skip: skip.first),
    )
