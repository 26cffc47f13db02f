"""Skips or moves one slot: finds the slot, checks that it exists, and computes the new instant."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta

from onthedot.clock import Clock, Micros, to_datetime, to_micros
from onthedot.model.duration import micros, parse_duration
from onthedot.model.errors import DefinitionError, RevisionConflict, UnknownSlot
from onthedot.model.job import Cron, FixedDelay, Schedule
from onthedot.model.run import NewRun
from onthedot.model.window import ScheduleState
from onthedot.operations.session import Compute, at_once
from onthedot.rules.windows import find_schedule, of_schedule
from onthedot.schedules import last_before, next_after, slots
from onthedot.schedules.instants import read_instant
from onthedot.stores.protocol import Store
from onthedot.stores.values import MovedSlot

To = datetime | timedelta | str
"""The target of a move: an instant, or a distance from the slot; as text `"+2h"`, `"-10m"`, ISO 8601, `"now"`."""


async def move_next_slot(
    store: Store,
    job_id: int,
    *,
    slot: datetime | None,
    to: To | None,
    trigger: str,
    clock: Clock,
    schedule: str | None = None,
    compute: Compute = at_once,
) -> MovedSlot:
    """Move the job's next slot, or the named one; without `to`, cancel it. With `schedule`, it is a slot of the
    schedule with this id."""
    while True:
        now = clock.now()
        states = await store.queries.schedules_of(job_id)
        if schedule is not None:
            name = states[0].record.job.name if states else ""
            states = [state for state, _ in of_schedule(states, schedule, name)]
        meant = compute(next_slot, states, now) if slot is None else compute(named_slot, states, to_micros(slot), now)
        state, slot_at = await meant
        run = None
        if to is not None:
            run = NewRun(job_id, trigger, new_instant(to, slot_at, now=now, tz=_zone(_rule(state))))
        try:
            return await store.move_slot(
                job_id,
                state.schedule_id,
                slot_at,
                reason="cancelled" if run is None else "moved",
                run=run,
                expected=state.record.revision,
            )
        except RevisionConflict:
            continue  # the job was edited meanwhile: its next slot may differ


def next_slot(states: Sequence[ScheduleState], now: Micros) -> tuple[ScheduleState, Micros]:
    """Return the earliest undecided slot ahead of all schedules, and its schedule. Raise `UnknownSlot` if there is
    none.
    """
    found = [(slot_at, state) for state in states if (slot_at := _next_open(state, now)) is not None]
    if not found:
        raise UnknownSlot("expected a job with a slot ahead, but none of its schedules yields another one")
    slot_at, state = min(found, key=lambda one: (one[0], one[1].schedule_id))
    return state, slot_at


def named_slot(states: Sequence[ScheduleState], slot_at: Micros, now: Micros) -> tuple[ScheduleState, Micros]:
    """Return the first schedule, by id, for which this slot is undecided. Otherwise raise `UnknownSlot` with the
    nearest slots.
    """
    having = [state for state in states if _yields(state, slot_at)]
    if not having:
        near = ", ".join(to_datetime(one).isoformat() for one in _nearest(states, slot_at, now))
        raise UnknownSlot(
            f"slot: expected an instant that the job's schedules yield, got {to_datetime(slot_at).isoformat()}; "
            + (f"the nearest: {near}" if near else "they yield none any more")
        )
    is_open = [state for state in having if all(one.slot_at != slot_at for one in state.exceptions)]
    return (is_open or having)[0], slot_at


def new_instant(to: To, slot_at: Micros, *, now: Micros, tz: str | None = None, what: str = "to") -> Micros:
    """Return the instant that a slot is moved to. A distance counts from the slot. Local times are in `tz`.

    >>> new_instant("+2m", 60_000_000, now=0), new_instant("now", 60_000_000, now=5)
    (180000000, 5)
    >>> new_instant("1970-01-01T01:03", 60_000_000, now=0, tz="Europe/Berlin")
    180000000
    """
    text = to.strip() if isinstance(to, str) else ""
    if text == "now":
        return now
    if isinstance(to, timedelta):
        instant = slot_at + micros(to)
    elif text[:1] in ("+", "-"):
        length = micros(parse_duration(text[1:], what=what))
        instant = slot_at + (length if text[0] == "+" else -length)
    else:
        instant = to_micros(read_instant(to, tz=tz, what=what))
    if instant < now:
        raise DefinitionError(
            f"{what}: expected an instant that lies ahead, got {to_datetime(instant).isoformat()}"
            + ("; for a run at once say to='now'" if what == "to" else "")
        )
    return instant


def _rule(state: ScheduleState) -> Schedule | None:
    return find_schedule(state.record.job, state.schedule_id)


def _zone(schedule: Schedule | None) -> str | None:
    return schedule.tz if isinstance(schedule, Cron) else None


def _next_open(state: ScheduleState, now: Micros) -> Micros | None:
    schedule, given = _rule(state), {one.slot_at for one in state.exceptions}
    if schedule is None:
        return None
    if isinstance(schedule, FixedDelay):
        return _slot_of_delay(state, schedule)
    return next((slot for slot in slots(schedule, now, origin=state.origin) if slot not in given), None)


def _slot_of_delay(state: ScheduleState, schedule: FixedDelay) -> Micros | None:
    """Return the one known slot of a fixed delay: that of the open run, to which the watermark has moved, or the next
    one.
    """
    if state.next_at is None:
        return state.watermark
    return next_after(schedule, state.watermark, origin=state.origin, last_end=state.last_end)


def _yields(state: ScheduleState, slot_at: Micros) -> bool:
    schedule = _rule(state)
    if schedule is None:
        return False
    if isinstance(schedule, FixedDelay):
        return slot_at in (_slot_of_delay(state, schedule), *(one.slot_at for one in state.exceptions))
    return next_after(schedule, slot_at - 1, origin=state.origin) == slot_at


def _nearest(states: Sequence[ScheduleState], slot_at: Micros, now: Micros) -> list[Micros]:
    """Return the last slot ahead before this instant, and the first one after it."""
    before: list[Micros] = []
    after: list[Micros] = []
    for state in states:
        schedule = _rule(state)
        if isinstance(schedule, FixedDelay):
            found = [_slot_of_delay(state, schedule)]
        elif schedule is not None:
            after_it = next_after(schedule, max(slot_at, now), origin=state.origin)
            found = [last_before(schedule, slot_at, after=now, origin=state.origin), after_it]
        else:
            found = []
        for one in found:
            if one is not None:
                (before if one < slot_at else after).append(one)
    return [*([max(before)] if before else []), *([min(after)] if after else [])]
