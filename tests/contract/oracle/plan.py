"""The oracle's windows, exceptions and ledger: each slot of a schedule has one fate."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from onthedot.model.job import JobState
from onthedot.model.window import ScheduleState, SkipRange, Slot, Window
from onthedot.stores.values import Term
from tests.contract.oracle.world import Given, Job, Run, Schedule, Skip, World

HOUR = 3_600_000_000


def trigger_of(schedule_id: str) -> str:
    return f"schedule:{schedule_id}"


def edge(world: World, job: Job, schedule: Schedule, now: int) -> int:
    """W: the latest of now, the newest slot ever armed, and the newest that was skipped ahead."""
    mine = [run for run in world.runs if run.job is job and run.trigger == trigger_of(schedule.id)]
    return max([now, schedule.skipped_to, *(run.slot_at for run in mine if run.attempts > 0)])


def is_over_exception(schedule: Schedule, window: Window) -> bool:
    """Whether a range of several skips contains an exception. Then it was computed without it."""
    return any(
        skip.first <= slot <= skip.last
        for skip in window.skips
        if skip.first < skip.last
        for slot in schedule.exceptions
    )


def settled(schedule: Schedule, window: Window) -> tuple[list[Slot], list[SkipRange]]:
    """The slots that become runs, and the skips. Each exception is a skip, once."""
    if window.delay is not None:
        return list(window.slots), list(window.skips)
    given = schedule.exceptions
    slots = [slot for slot in window.slots if slot.slot_at not in given]
    skips = [skip for skip in window.skips if skip.first < skip.last or skip.first not in given]
    met = {slot.slot_at for slot in window.slots} | {skip.first for skip in window.skips if skip.first == skip.last}
    skips += [SkipRange(at, at, 1, given[at].reason) for at in met if at in given and not given[at].recorded]
    return slots, sorted(skips, key=lambda skip: skip.first)


def write(world: World, job: Job, schedule: Schedule, window: Window, now: int) -> int:
    """Record a window. Returns how many runs are new."""
    slots, skips = settled(schedule, window)
    before = len(world.runs)
    for slot in slots:
        for target in window.targets:
            due_at = slot.slot_at if slot.due_at is None else slot.due_at
            world.insert(
                job, trigger_of(schedule.id), slot.slot_at, target=target, due_at=due_at, now=now,
                expires_at=slot.expires_at, args=slot.args,
            )  # fmt: skip
    record(world, job, schedule, window.start, slots, skips, now)
    for skip in skips:
        if skip.first == skip.last and skip.first in schedule.exceptions:
            schedule.exceptions[skip.first].recorded = True
    gone = min(window.end, now) - HOUR
    schedule.exceptions = {slot: one for slot, one in schedule.exceptions.items() if slot > gone}
    schedule.watermark, schedule.next_at = window.end, window.next_at
    return len(world.runs) - before


def record(
    world: World, job: Job, schedule: Schedule, start: int, slots: Sequence[Slot], skips: Sequence[SkipRange], now: int
) -> None:
    """Add skips to the ledger. One that continues the last range, with no slot between, extends it."""
    fated = [*(slot.slot_at for slot in slots), *schedule.exceptions]
    continued = start
    for skip in skips:
        mine = [one for one in world.skips if one.job is job and one.schedule_id == schedule.id]
        last = max(mine, key=lambda one: one.last, default=None)
        entry = Skip(job, schedule.id, skip.first, skip.last, skip.count, skip.reason, now)
        follows = last is not None and (last.last, last.reason) == (continued, skip.reason)
        if last is not None and follows and not any(continued < slot < skip.first for slot in fated):
            world.skips.remove(last)
            entry.first, entry.count = last.first, last.count + skip.count
        world.skips.append(entry)
        continued = skip.last
        if skip.reason == "no_node" and skip.last > now:
            schedule.skipped_to = max(schedule.skipped_to, skip.last)


def plan(world: World, term: Term, windows: Sequence[tuple[ScheduleState, Window]], now: int) -> list[bool]:
    """Write each window that continues the stored state."""
    world.check_term(term, now)
    answers = []
    for seen, window in windows:
        job = world.jobs[seen.record.id]
        schedule = job.schedules.get(window.schedule_id)
        fits = (
            schedule is not None
            and schedule.watermark == window.start
            and job.revision == seen.record.revision
            and job.state is JobState.ACTIVE
            and not is_over_exception(schedule, window)
        )
        answers.append(fits)
        if schedule is not None and fits:
            write(world, job, schedule, window, now)
    return answers


def due(world: World, until: int) -> list[tuple[int, int, str]]:
    """The schedules of active jobs whose next slot is due by then, earliest first."""
    found = [
        (schedule.next_at, job.id, schedule.id)
        for job in world.jobs.values()
        if job.state is JobState.ACTIVE
        for schedule in job.schedules.values()
        if schedule.next_at is not None and schedule.next_at <= until
    ]
    return sorted(found)


def note_exception(schedule: Schedule, slot: int, reason: str, *, recorded: bool, run: Run | None = None) -> None:
    schedule.exceptions[slot] = Given(reason, recorded, run)


def behind(window: Window, after: int) -> Window:
    """The part of a window after this instant. It ends there or later."""
    return replace(
        window,
        end=max(window.end, after),
        slots=[slot for slot in window.slots if slot.slot_at > after],
        skips=[skip for skip in window.skips if skip.first > after],
    )
