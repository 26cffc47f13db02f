"""Computes what starts next: the slots ahead of one job, or of all jobs in the order of time. Pure.

`operations/next_slots.py` reads the data for this from a store. In the list of all jobs, a schedule that would fill the
list is one line with its rate.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from heapq import heappop, heappush, merge
from itertools import islice, pairwise, takewhile
from typing import NamedTuple

from onthedot.clock import SECOND, Micros
from onthedot.model.duration import micros
from onthedot.model.job import Every, FixedDelay, JobRecord, Schedule
from onthedot.model.run import RunRecord, is_slot, schedule_of
from onthedot.model.window import ScheduleState
from onthedot.rules.windows import find_schedule
from onthedot.schedules import count_between, due_of, slots

HORIZON: Micros = 100 * 366 * 86_400 * SECOND
"""How far ahead we search: a very rare slot is searched day by day."""

_DAY: Micros = 86_400 * SECOND

Key = tuple[int, str]
"""A job's id and a schedule's."""


# ── of one job ───────────────────────────────────────────────────────────────────────────────────────────────


class Coming(NamedTuple):
    """A start of one job: a slot ahead, or a run that waits (`run`)."""

    due_at: Micros
    slot_at: Micros
    schedule_id: str = ""  # the schedule of the slot, also after a move; empty: none
    run: RunRecord | None = None
    moved: bool = False  # the run takes the place of the slot


class Ahead(NamedTuple):
    """The stored data about the next starts of one job."""

    states: Sequence[ScheduleState]
    waiting: Sequence[RunRecord] = ()  # due after now, the first ones


def coming(ahead: Ahead, now: Micros, count: int) -> list[Coming]:
    """Return the next `count` starts of a job after now, within a hundred years: slots that were not skipped or moved,
    and runs that wait after a move, for a retry, or because they were submitted. Pure."""
    runs = sorted(_singles(ahead, now), key=_order)
    found = merge(runs, *(_of(state, now) for state in ahead.states), key=_order)
    return sorted(islice(found, count), key=_order)  # jitter may be longer than the distance between two slots


def next_of_each(ahead: Ahead, now: Micros) -> dict[str, Coming]:
    """Return the next start of each schedule by id, without schedules that have none. Pure."""
    found = [*_singles(ahead, now), *(one for state in ahead.states for one in islice(_of(state, now), 1))]
    return {one.schedule_id: one for one in sorted(found, key=_order, reverse=True)}


def _order(one: Coming) -> tuple[Micros, Micros, str]:
    return one.due_at, one.slot_at, one.schedule_id


def _singles(ahead: Ahead, now: Micros) -> Iterator[Coming]:
    """Return waiting runs that no schedule yields."""
    moved, known = moved_from(ahead.states), {(state.record.id, state.schedule_id): state for state in ahead.states}
    for run in ahead.waiting:
        if run.due_at <= now or is_ahead(run, known, now):
            continue
        schedule, slot_at = moved.get(run.id, (schedule_of(run.trigger) if is_slot(run.trigger) else "", run.slot_at))
        yield Coming(run.due_at, slot_at, schedule, run, moved=run.id in moved)


def moved_from(states: Iterable[ScheduleState]) -> dict[int, tuple[str, Micros]]:
    """Return the schedule and the slot of each run that takes the place of a slot."""
    return {
        one.run_id: (state.schedule_id, one.slot_at)
        for state in states
        for one in state.exceptions
        if one.run_id is not None
    }


def _of(state: ScheduleState, now: Micros) -> Iterator[Coming]:
    """Return the slots ahead of one schedule, in the order of their due instants."""
    job = state.record.job
    schedule = find_schedule(job, state.schedule_id)
    if schedule is None:
        return
    given = {one.slot_at for one in state.exceptions}
    if isinstance(schedule, FixedDelay):  # while its run is open, the next slot is unknown
        if state.next_at is not None and state.next_at > now and state.next_at not in given:
            yield Coming(state.next_at, state.next_at, state.schedule_id)
        return
    due = due_of(job, schedule)
    for slot in takewhile((now + HORIZON).__ge__, slots(schedule, now, origin=state.origin)):
        if slot not in given:
            yield Coming(due(slot), slot, state.schedule_id)


def is_ahead(run: RunRecord, states: Mapping[Key, ScheduleState], now: Micros) -> bool:
    """Return whether the schedule of this run also yields its slot, which lies ahead."""
    if not is_slot(run.trigger) or run.attempts or run.slot_at <= now:
        return False
    state = states.get((run.job_id, schedule_of(run.trigger)))
    schedule = None if state is None else find_schedule(state.record.job, state.schedule_id)
    return schedule is not None and not isinstance(schedule, FixedDelay)


# ── of all jobs ──────────────────────────────────────────────────────────────────────────────────────────────


class Start(NamedTuple):
    """Something that starts: a slot (`schedule`), or a stored run (`run`)."""

    due_at: Micros
    job: JobRecord
    schedule: Schedule | None = None
    run: RunRecord | None = None
    many: bool = False  # true if its schedule would fill the list: this is its first start
    every: Micros | None = None  # the distance of those starts, if all days are alike
    moved_from: Micros | None = None  # the slot whose place the run takes


class Gathered(NamedTuple):
    """The stored data about the next starts. `upcoming` makes a list of it."""

    states: Sequence[ScheduleState] = ()
    runs: Sequence[tuple[RunRecord, JobRecord]] = ()  # runs without a slot, and slots that are retried
    paused: int = 0  # jobs that start nothing
    read_until: Micros | None = None  # later starts were not read, because there are too many; None: all were read


def upcoming(gathered: Gathered, now: Micros, *, limit: int, until: Micros | None = None) -> list[Start]:
    """Return the next starts in the order of time, at most `limit` lines. Pure.

    A schedule that would have more than a quarter of the lines (and more than three) has one line. The line has a rate
    if all days are alike.
    """
    each = max(3, limit // 4)
    end = now + HORIZON if until is None else until
    heap: list[tuple[Micros, int]] = []
    sources = [_starts(state, now) for state in gathered.states]
    moved = moved_from(gathered.states)
    lines = [
        Start(run.due_at, job, run=run, moved_from=moved[run.id][1] if run.id in moved else None)
        for run, job in gathered.runs
        if now < run.due_at <= end
    ]
    told: dict[int, list[Start]] = {}
    pending: dict[int, Start] = {}
    for number, source in enumerate(sources):
        _pull(heap, pending, source, number, end)
    while heap and sum(map(len, told.values())) < limit:
        _, number = heappop(heap)
        of_this = told.setdefault(number, [])
        of_this.append(pending.pop(number))
        if len(of_this) > each:
            told[number] = [of_this[0]._replace(many=True, every=_distance(gathered.states[number], now))]
        else:
            _pull(heap, pending, sources[number], number, end)
    lines += [start for starts in told.values() for start in starts]
    return sorted(lines, key=lambda start: (start.due_at, start.job.job.namespace, start.job.job.name))[:limit]


def _distance(state: ScheduleState, now: Micros) -> Micros | None:
    """Return the distance between the starts of a schedule, if it is the same all day; None if not all days
    are alike.
    """
    schedule = find_schedule(state.record.job, state.schedule_id)
    if isinstance(schedule, Every):
        return micros(schedule.interval)
    if schedule is None:
        return None
    days = [now + number * _DAY for number in range(8)]
    counts = {count_between(schedule, first, last, origin=state.origin) for first, last in pairwise(days)}
    return _DAY // counts.pop() if len(counts) == 1 and 0 not in counts else None


def _pull(
    heap: list[tuple[Micros, int]], pending: dict[int, Start], source: Iterator[Start], number: int, end: Micros
) -> None:
    start = next(source, None)
    if start is not None and start.due_at <= end:
        pending[number] = start
        heappush(heap, (start.due_at, number))


def _starts(state: ScheduleState, now: Micros) -> Iterator[Start]:
    schedule = find_schedule(state.record.job, state.schedule_id)
    return (Start(one.due_at, state.record, schedule) for one in _of(state, now))
