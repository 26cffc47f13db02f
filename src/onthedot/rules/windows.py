"""Computes windows: what becomes of a schedule's slots in a span of time. The store records them. Pure.

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
"""How many slots of one schedule one pass looks at: about 20 ms of cron arithmetic."""


def of_schedule(states: Sequence[ScheduleState], wanted: str | None, job: str) -> list[tuple[ScheduleState, Schedule]]:
    """The schedules of a job, or the one with this id. Raises `DefinitionError` if there is no such one."""
    having = [(state, rule) for state in states if (rule := find_schedule(state.record.job, state.schedule_id))]
    named = [state.schedule_id for state, _ in having]
    if wanted is not None and wanted not in named:
        raise DefinitionError(
            f"schedule: expected one of job {job!r} ({', '.join(named) or 'it has none'}), got {wanted!r}"
            + did_you_mean(wanted, named)
        )
    return [one for one in having if wanted in (None, one[0].schedule_id)]


def find_schedule(job: Job, wanted: str) -> Schedule | None:
    """The schedule of a job that has this id."""
    return next((schedule for schedule in job.schedules if schedule_id(schedule) == wanted), None)


def plan_window(state: ScheduleState, *, until: Micros, now: Micros, late_after: Micros) -> Window | None:
    """The fates of a schedule's slots from its watermark to `until`; None if its job has no such schedule."""
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
    """The window around exceptions: ranges of skips are cut there, and each exception is a skip by itself."""
    if runs_over(window, state.exceptions):
        window = replace(window, skips=[part for skip in window.skips for part in _cut(skip, schedule, state)])
    return settle(window, state.exceptions)


def _cut(skip: SkipRange, schedule: Schedule, state: ScheduleState) -> Iterator[SkipRange]:
    """The range in parts, each exception between them by itself if the rule yields it at all."""
    edge = skip.first - 1
    for one in state.exceptions:
        if skip.first <= one.slot_at <= skip.last:
            yield from _range(schedule, state.origin, edge, one.slot_at - 1, skip.reason)
            yield from _range(schedule, state.origin, one.slot_at - 1, one.slot_at, one.reason)
            edge = one.slot_at
    yield from _range(schedule, state.origin, edge, skip.last, skip.reason)


def _range(schedule: Schedule, origin: Micros, after: Micros, until: Micros, reason: str) -> list[SkipRange]:
    """All slots of a schedule after `after` and up to `until`, as one range; none if there are none."""
    first = next_after(schedule, after, origin=origin)
    last = last_before(schedule, until + 1, after=after, origin=origin)
    if first is None or last is None:
        return []
    return [SkipRange(first, last, count_between(schedule, after, until, origin=origin), reason)]


def aimed(window: Window, targets: tuple[str, ...], now: Micros) -> Window:
    """The window with one run of each slot for each target; where there is none, its slots are skipped(no_node).

    Those ahead one by one: an edit may find some of them with their fates, and the rest of a range would have none.
    """
    if targets or not window.slots:
        return replace(window, targets=targets or ("",))
    past = [slot.slot_at for slot in window.slots if slot.slot_at <= now]
    nobody = [SkipRange(past[0], past[-1], len(past), NO_NODE)] if past else []
    nobody += [SkipRange(slot.slot_at, slot.slot_at, 1, NO_NODE) for slot in window.slots if slot.slot_at > now]
    return replace(window, slots=(), skips=[*window.skips, *nobody])


def _long_gone(state: ScheduleState, schedule: Schedule, now: Micros, late_after: Micros) -> SkipRange | None:
    """The slots of an interval that have expired for certain, counted instead of walked: a year off is one step.

    If the schedule ends, the N-th slot after its last ones never comes: those are walked.
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
    """A fixed delay has one slot at a time. It is planned even when it is late: the next one follows its end."""
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
    """One window for each schedule of a definition that is to be stored, and for each one that it drops.

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
    """Single instants that were past when they were given are missed. Repeating schedules begin at their creation."""
    past = [at for at in map(to_micros, schedule.instants) if at <= now] if isinstance(schedule, At) else []
    return [SkipRange(past[0], past[-1], len(past), "missed")] if past else []


def _fates(
    coming: Iterator[Micros], job: Job, schedule: Schedule, *, until: Micros, now: Micros, late_after: Micros
) -> catch_up.Fates:
    """What becomes of a schedule's next slots."""
    due_at, policy = due_of(job, schedule), job.catch_up
    return catch_up.fates(coming, policy, until=until, now=now, late_after=late_after, most=MOST_SLOTS, due_at=due_at)


def _slots(job: Job, schedule: Schedule, runs: Iterable[tuple[Micros, Micros | None]]) -> list[Slot]:
    """Slots and their expiries as the runs that they become: with their jitter, and the arguments of their schedule."""
    args, due_at = slot_args(job, schedule), due_of(job, schedule)
    return [Slot(slot, expires_at, due if (due := due_at(slot)) > slot else None, args) for slot, expires_at in runs]


def resume_windows(
    states: Iterable[ScheduleState], *, missed: Missed, now: Micros, lookahead: Micros, late_after: Micros
) -> list[Window]:
    """What becomes of the slots that came while a job was paused, and of its next moments.

    `none`: all of them are skipped(paused). `last`: but for the newest. `all`: every one runs (1,000 at most, the
    newest ones). What runs late has no expiry: somebody has asked for it. A slot whose fate was given ahead is none of
    these. A fixed delay goes on by itself.
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
    """The instant of a pause after which its newest `keep` slots came, those aside whose fate was given ahead.

    Found by halving and counting: nobody walks the slots of a job of every second that was paused for a month.
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
    """What a dropped schedule still owed: the slots that nobody gave a fate while all planners were away. One that owes
    nothing has a window, too: the store sees by it whether a pause took slots back since."""
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
