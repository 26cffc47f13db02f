"""Computes windows: the fates of a schedule's slots in a span of time. The store records them. Pure.

`plan_window` is for the planner, `edit_windows` for a definition that is stored, and `resume_windows` for the end of a
pause. Each works around slots that somebody has skipped or moved (`moved_slots.py`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import takewhile
from typing import Literal

from onthedot.clock import Micros, to_micros
from onthedot.model.duration import micros
from onthedot.model.errors import DefinitionError, did_you_mean
from onthedot.model.job import At, Every, FixedDelay, Job, Schedule, slot_args
from onthedot.model.window import NO_NODE, ScheduleState, SkipRange, Slot, Window
from onthedot.rules import catch_up
from onthedot.rules.moved_slots import runs_over, settle
from onthedot.schedules import count_between, due_of, is_grid, last_before, next_after, schedule_id, slots

Missed = Literal["none", "last", "all"]

MOST_SLOTS = 1_000
"""How many slots of one schedule one pass handles: about 20 ms of cron arithmetic."""


def of_schedule(states: Sequence[ScheduleState], wanted: str | None, job: str) -> list[tuple[ScheduleState, Schedule]]:
    """Return the schedules of a job, or the one with this id. Raises `DefinitionError` if there is no such one."""
    having = [(state, rule) for state in states if (rule := find_schedule(state.record.job, state.schedule_id))]
    named = [state.schedule_id for state, _ in having]
    if wanted is not None and wanted not in named:
        raise DefinitionError(
            f"schedule: expected one of job {job!r} ({', '.join(named) or 'it has none'}), got {wanted!r}"
            + did_you_mean(wanted, named)
        )
    return [one for one in having if wanted in (None, one[0].schedule_id)]


def find_schedule(job: Job, wanted: str) -> Schedule | None:
    """Return the schedule of a job that has this id."""
    return next((schedule for schedule in job.schedules if schedule_id(schedule) == wanted), None)


def plan_window(state: ScheduleState, *, until: Micros, now: Micros, late_after: Micros) -> Window | None:
    """Return the fates of a schedule's slots from its watermark to `until`; None if its job has no such schedule."""
    job = state.record.job
    schedule = find_schedule(job, state.schedule_id)
    if schedule is None:
        return None
    if isinstance(schedule, FixedDelay):
        return _delay_window(state, schedule, late_after)
    long_gone = _long_gone(state, schedule, now, late_after)
    start = state.watermark if long_gone is None else long_gone.last
    coming = slots(schedule, start, origin=state.origin)
    found = _fates(coming, job, schedule, until=until, now=now, late_after=late_after)
    missed = [SkipRange(*missed, reason="missed") for missed in found.missed]
    if long_gone is not None and missed:
        missed[0] = replace(missed[0], first=long_gone.first, count=missed[0].count + long_gone.count)
    elif long_gone is not None:
        missed = [long_gone]
    window = Window(
        state.schedule_id,
        start=state.watermark,
        end=found.end,
        next_at=found.next_at,
        slots=_slots(job, schedule, found.runs),
        skips=missed,
    )
    return _around_exceptions(window, schedule, state)


def _around_exceptions(window: Window, schedule: Schedule, state: ScheduleState) -> Window:
    """Return the window with exceptions: they cut ranges of skips, and each exception becomes a skip of its own."""
    if runs_over(window, state.exceptions):
        window = replace(window, skips=[part for skip in window.skips for part in _cut(skip, schedule, state)])
    return settle(window, state.exceptions)


def _cut(skip: SkipRange, schedule: Schedule, state: ScheduleState) -> Iterator[SkipRange]:
    """Return the range in parts. Between them each exception is a skip of its own, if the schedule yields that slot."""
    edge = skip.first - 1
    for one in state.exceptions:
        if skip.first <= one.slot_at <= skip.last:
            yield from _range(schedule, state.origin, edge, one.slot_at - 1, skip.reason)
            yield from _range(schedule, state.origin, one.slot_at - 1, one.slot_at, one.reason)
            edge = one.slot_at
    yield from _range(schedule, state.origin, edge, skip.last, skip.reason)


def _range(schedule: Schedule, origin: Micros, after: Micros, until: Micros, reason: str) -> list[SkipRange]:
    """Return all slots of a schedule after `after` and up to `until` as one range; nothing if there are none."""
    first = next_after(schedule, after, origin=origin)
    last = last_before(schedule, until + 1, after=after, origin=origin)
    if first is None or last is None:
        return []
    return [SkipRange(first, last, count_between(schedule, after, until, origin=origin), reason)]


def aimed(window: Window, targets: tuple[str, ...], now: Micros) -> Window:
    """Return the window with one run of each slot for each target. Without a target, its slots are skipped(no_node).

    Slots ahead are skipped one by one: an edit may decide some of them earlier, and the rest of a range would have no
    fate.
    """
    if targets or not window.slots:
        return replace(window, targets=targets or ("",))
    past = [slot.slot_at for slot in window.slots if slot.slot_at <= now]
    nobody = [SkipRange(past[0], past[-1], len(past), NO_NODE)] if past else []
    nobody += [SkipRange(slot.slot_at, slot.slot_at, 1, NO_NODE) for slot in window.slots if slot.slot_at > now]
    return replace(window, slots=(), skips=[*window.skips, *nobody])


def _long_gone(state: ScheduleState, schedule: Schedule, now: Micros, late_after: Micros) -> SkipRange | None:
    """Return the slots of an interval that have certainly expired. They are counted, not walked: a year of outage is
    one step.

    If the schedule ends, its last slots have no N-th slot after them. Those slots are walked.
    """
    if not isinstance(schedule, Every) or schedule.run_once:
        return None
    policy, step = state.record.job.catch_up, micros(schedule.interval)
    look = catch_up.depth(policy)
    lives = catch_up.expires(0, look * step, policy, late_after) or 0
    oldest = now - lives - micros(schedule.jitter)
    if state.watermark >= oldest - MOST_SLOTS * step:
        return None
    first = next_after(schedule, state.watermark, origin=state.origin)
    count = count_between(schedule, state.watermark, oldest, origin=state.origin)
    count -= look - count_between(schedule, oldest, oldest + look * step, origin=state.origin)
    return None if first is None or count <= 0 else SkipRange(first, first + (count - 1) * step, count, "missed")


def _delay_window(state: ScheduleState, schedule: FixedDelay, late_after: Micros) -> Window:
    """Return the window of a fixed delay, which has one slot at a time. A late slot is planned too, because the next
    slot follows the end of its run.
    """
    slot = next_after(schedule, state.watermark, origin=state.origin, last_end=state.last_end)
    if slot is None:
        raise AssertionError(f"a fixed delay always has a next slot: {schedule!r}")
    job, delay = state.record.job, micros(schedule.delay)
    planned = _slots(job, schedule, [(slot, catch_up.expires(slot, None, job.catch_up, late_after))])
    return Window(state.schedule_id, state.watermark, slot, None, slots=planned, delay=delay)


def edit_windows(
    job: Job,
    known: Mapping[str, ScheduleState],
    *,
    now: Micros,
    lookahead: Micros,
    late_after: Micros,
    slack: Micros = 0,
) -> list[Window]:
    """Return one window for each schedule of a definition that will be stored, and for each schedule that it drops.

    `slack` is how long the write may take: new schedules that count from their creation begin that much later.
    """
    windows = []
    for schedule in job.schedules:
        name = schedule_id(schedule)
        if name in known:
            window = _first_window(job, schedule, known[name].origin, now, lookahead, late_after)
            window = settle(window, known[name].exceptions)
        else:
            start = now if is_grid(schedule) or isinstance(schedule, At | FixedDelay) else now + slack
            window = _first_window(job, schedule, start, start, lookahead, late_after)
            window = replace(window, skips=_past_when_given(schedule, now))
        windows.append(window)
    kept = {window.schedule_id for window in windows}
    windows.extend(_closing_windows((state for name, state in known.items() if name not in kept), now))
    return windows


def _first_window(
    job: Job, schedule: Schedule, origin: Micros, now: Micros, lookahead: Micros, late_after: Micros
) -> Window:
    name, until = schedule_id(schedule), now + lookahead
    if isinstance(schedule, FixedDelay):
        first = next_after(schedule, now, origin=origin)
        if first is None or first > until:
            return Window(name, now, now, first, delay=micros(schedule.delay))
        planned = _slots(job, schedule, [(first, catch_up.expires(first, None, job.catch_up, late_after))])
        return Window(name, now, first, None, slots=planned, delay=micros(schedule.delay))
    coming = slots(schedule, now, origin=origin)
    found = _fates(coming, job, schedule, until=until, now=now, late_after=late_after)
    return Window(name, now, found.end, found.next_at, slots=_slots(job, schedule, found.runs))


def _past_when_given(schedule: Schedule, now: Micros) -> list[SkipRange]:
    """Return the single instants that were past when they were given: they are missed. Repeating schedules begin at
    their creation.
    """
    past = [at for at in map(to_micros, schedule.instants) if at <= now] if isinstance(schedule, At) else []
    return [SkipRange(past[0], past[-1], len(past), "missed")] if past else []


def _fates(
    coming: Iterator[Micros], job: Job, schedule: Schedule, *, until: Micros, now: Micros, late_after: Micros
) -> catch_up.Fates:
    """Return the fates of a schedule's next slots."""
    due_at, policy = due_of(job, schedule), job.catch_up
    return catch_up.fates(coming, policy, until=until, now=now, late_after=late_after, most=MOST_SLOTS, due_at=due_at)


def _slots(job: Job, schedule: Schedule, runs: Iterable[tuple[Micros, Micros | None]]) -> list[Slot]:
    """Return the planned runs of slots: with their expiries, their jitter, and the arguments of their schedule."""
    args, due_at = slot_args(job, schedule), due_of(job, schedule)
    return [Slot(slot, expires_at, due if (due := due_at(slot)) > slot else None, args) for slot, expires_at in runs]


def resume_windows(
    states: Iterable[ScheduleState], *, missed: Missed, now: Micros, lookahead: Micros, late_after: Micros
) -> list[Window]:
    """Return the fates of the slots that came while a job was paused, and of its next slots.

    `none`: all of them are skipped(paused). `last`: all but the newest are skipped. `all`: every slot runs (the newest
    1,000 at most). Late runs have no expiry, because a user requested them. Slots that were decided ahead do not count.
    A fixed delay continues by itself.
    """
    windows = []
    for state in states:
        schedule = find_schedule(state.record.job, state.schedule_id)
        if schedule is None or isinstance(schedule, FixedDelay):
            continue
        job, start, origin = state.record.job, state.watermark, state.origin
        edge = _edge(state, schedule, {"none": 0, "last": 1, "all": MOST_SLOTS}[missed], now)
        late = takewhile(now.__ge__, slots(schedule, edge, origin=origin))
        ahead = slots(schedule, max(start, now), origin=origin)
        coming = _fates(ahead, job, schedule, until=now + lookahead, now=now, late_after=late_after)
        window = Window(
            state.schedule_id,
            start=start,
            end=max(coming.end, start),
            next_at=coming.next_at,
            slots=_slots(job, schedule, [*((slot, None) for slot in late), *coming.runs]),
            skips=_range(schedule, origin, start, edge, "paused"),
        )
        windows.append(_around_exceptions(window, schedule, state))
    return windows


def _edge(state: ScheduleState, schedule: Schedule, keep: int, now: Micros) -> Micros:
    """Return the instant of a pause after which its newest `keep` slots came, not counting slots that were decided
    ahead.

    It is found by halving and counting, so that a month of pause does not mean millions of steps.
    """
    low, high, origin = state.watermark, max(state.watermark, now), state.origin
    ahead = [one.slot_at for one in state.exceptions]
    given = [slot for slot in ahead if next_after(schedule, slot - 1, origin=origin) == slot]

    def came(after: Micros) -> int:
        return count_between(schedule, after, now, origin=origin) - sum(after < slot <= now for slot in given)

    if keep == 0 or low == high:
        return high
    if came(low) <= keep:
        return low
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if came(middle) >= keep else (low, middle)
    return low


def _closing_windows(dropped: Iterable[ScheduleState], now: Micros) -> list[Window]:
    """Return windows for the undecided slots of dropped schedules: slots that came while all planners were away. A
    schedule without such slots has a window, too: by it the store sees whether a pause took slots back since.
    """
    windows = []
    for state in dropped:
        schedule = find_schedule(state.record.job, state.schedule_id)
        if schedule is None or isinstance(schedule, FixedDelay):
            continue
        end = max(now, state.watermark)
        owed = _range(schedule, state.origin, state.watermark, end, "edited") if state.watermark < now else []
        following = next_after(schedule, end, origin=state.origin)
        window = Window(state.schedule_id, state.watermark, end, following, skips=owed)
        windows.append(_around_exceptions(window, schedule, state))
    return windows
