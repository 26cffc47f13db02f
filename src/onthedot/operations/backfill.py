"""Backfill: runs for slots that have passed, because the job did not exist then, failed, or has learned something.

A user requests these runs by hand, so they are not slots of the ledger. Their keys are `backfill:<schedule id>` and the
slot, so that the same backfill again gives the same runs, as long as they are kept. They are due at once, the oldest
first, do not expire, and wait at the overlap gate however many they are.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from heapq import merge
from itertools import takewhile
from typing import TYPE_CHECKING, NamedTuple

from onthedot.clock import Clock, Micros, to_datetime, to_micros
from onthedot.model.errors import DefinitionError
from onthedot.model.events import Events, RunsBackfilled
from onthedot.model.job import Cron, FixedDelay, JobRecord, Schedule, slot_args
from onthedot.model.run import NewRun, RunState, backfill_trigger, slot_trigger
from onthedot.model.window import ScheduleState
from onthedot.rules.windows import find_schedule, of_schedule
from onthedot.schedules import slots
from onthedot.schedules.instants import format_instant, read_instant
from onthedot.stores.protocol import Store

if TYPE_CHECKING:
    from onthedot.operations.session import Compute

BATCH = 500
"""How many runs one write stores. The engine does other work in between."""


class Asked(NamedTuple):
    """The range to backfill: slots from `start` on, up to but without `end`."""

    start: datetime | str
    end: datetime | str
    schedule: str | None = None  # its id; None: all schedules of the job
    limit: int = 10_000


@dataclass(frozen=True, slots=True)
class Backfill:
    """The result of a backfill, or of its dry run.

    >>> from datetime import UTC
    >>> print(Backfill("report", 2, datetime(2026, 1, 1, tzinfo=UTC), datetime(2026, 1, 2, tzinfo=UTC), existing=1))
    report: 2 slots from 2026-01-01T00:00Z to 2026-01-02T00:00Z, 1 new run, 1 was there before
    """

    job: str
    slots: int  # in the range
    first: datetime | None = None
    last: datetime | None = None
    existing: int = 0  # slots that an earlier backfill has already run
    succeeded: int = 0  # slots whose own run has succeeded, as far as history reaches
    run_ids: tuple[int, ...] = ()  # the run ids of all slots, oldest first; empty after a dry run
    dry_run: bool = False

    @property
    def created(self) -> int:
        """The number of runs that are new, or would be new."""
        return self.slots - self.existing

    def __str__(self) -> str:
        return self.in_words()

    def in_words(self, at: Callable[[datetime], str] = format_instant) -> str:
        """The same with instants as the reader wants them."""
        if self.first is None or self.last is None:
            return f"{self.job}: no slot in this range has passed"
        parts = [f"{_count(self.slots, 'slot')} from {at(self.first)} to {at(self.last)}"]
        parts.append(f"{_count(self.created, 'new run')}{' would be made' if self.dry_run else ''}")
        if self.existing:
            parts.append(f"{self.existing} {'was' if self.existing == 1 else 'were'} there before")
        if self.succeeded:
            parts.append(f"{self.succeeded} succeeded in {'its' if self.succeeded == 1 else 'their'} own time")
        return f"{self.job}: {', '.join(parts)}"


async def backfill(
    store: Store,
    record: JobRecord,
    asked: Asked,
    *,
    dry_run: bool,
    clock: Clock,
    events: Events,
    compute: Compute | None = None,
) -> Backfill:
    """Store one run for each past slot of the range. If there are more than the limit, raise `DefinitionError` and
    write nothing. With `dry_run` nothing is written, and the answer is the same without the runs' ids. Without
    `compute` this loop computes the slots, and other tasks get turns in between.
    """
    if asked.limit < 1:
        raise DefinitionError(f"limit: expected a whole number above zero, got {asked.limit!r}")
    now = clock.now()
    chosen = _chosen(await store.queries.schedules_of(record.id), asked.schedule, record.job.name)
    passing = _slots(chosen, asked, now)
    found = await (_in_turns(passing) if compute is None else compute(list, passing))
    if not found:
        return Backfill(record.job.name, 0, dry_run=dry_run)
    existing, succeeded = await _known(store, record.id, found)
    ids = () if dry_run else await _ask_for(store, record, found, now, events)
    first, last = to_datetime(found[0][0]), to_datetime(found[-1][0])
    return Backfill(record.job.name, len(found), first, last, existing, succeeded, ids, dry_run)


def _chosen(states: Sequence[ScheduleState], wanted: str | None, job: str) -> list[tuple[ScheduleState, Schedule]]:
    """Return the requested schedules. A fixed delay has no past slots except those that have run."""
    meant = of_schedule(states, wanted, job)
    steady = [one for one in meant if not isinstance(one[1], FixedDelay)]
    if not steady:
        raise DefinitionError(
            f"job {job!r}: expected a schedule whose slots in the past can be told, got "
            + ("a fixed delay; its slots follow its runs" if meant else "none; submit the runs instead")
        )
    return steady


def _slots(
    chosen: Sequence[tuple[ScheduleState, Schedule]], asked: Asked, now: Micros
) -> Iterator[tuple[Micros, ScheduleState]]:
    """Return the past slots of the range, oldest first, each with its schedule."""
    zones = {rule.tz if isinstance(rule, Cron) else None for _, rule in chosen}
    tz = zones.pop() if len(zones) == 1 else None
    start, end = (
        to_micros(read_instant(value, tz=tz, what=what)) for what, value in (("start", asked.start), ("end", asked.end))
    )
    if end <= start:
        raise DefinitionError(f"end: expected an instant after start, got {to_datetime(end).isoformat()}")
    until = min(end - 1, now)
    passed = merge(*(_passed(*one, start, until) for one in chosen), key=lambda one: (one[0], one[1].schedule_id))
    for number, one in enumerate(passed):
        if number == asked.limit:
            raise DefinitionError(
                f"limit: expected at most {asked.limit} slots in the range, got more; narrow it, or raise the limit"
            )
        yield one


async def _in_turns(passing: Iterator[tuple[Micros, ScheduleState]]) -> list[tuple[Micros, ScheduleState]]:
    found = []
    for one in passing:
        found.append(one)
        if len(found) % BATCH == 0:
            await asyncio.sleep(0)  # let other tasks have their turn
    return found


def _passed(
    state: ScheduleState, rule: Schedule, start: Micros, until: Micros
) -> Iterator[tuple[Micros, ScheduleState]]:
    for slot in takewhile(until.__ge__, slots(rule, start - 1, origin=state.origin)):
        yield slot, state


async def _known(store: Store, job_id: int, found: Sequence[tuple[Micros, ScheduleState]]) -> tuple[int, int]:
    """Return how many of these slots were backfilled before, and how many have a successful run of their own."""
    existing = succeeded = 0
    for schedule_id in {state.schedule_id for _, state in found}:
        mine = {slot for slot, state in found if state.schedule_id == schedule_id}
        first, last = min(mine), max(mine)
        before = await store.queries.runs_of_slots(job_id, backfill_trigger(schedule_id), first=first, last=last)
        own = await store.queries.runs_of_slots(job_id, slot_trigger(schedule_id), first=first, last=last)
        existing += len(mine & {slot for slot, _ in before})
        succeeded += len(mine & {slot for slot, state in own if state is RunState.SUCCEEDED})
    return existing, succeeded


async def _ask_for(
    store: Store, record: JobRecord, found: Sequence[tuple[Micros, ScheduleState]], now: Micros, events: Events
) -> tuple[int, ...]:
    """Store the runs, batch by batch. All are due at one instant, so workers take them in the order in which they were
    stored.
    """
    args = {state.schedule_id: _args(state) for _, state in found}
    ids: list[int] = []
    for start in range(0, len(found), BATCH):
        batch = [
            NewRun(record.id, backfill_trigger(state.schedule_id), now, args[state.schedule_id], slot_at=slot)
            for slot, state in found[start : start + BATCH]
        ]
        ids += await store.submit(batch)
        events.emit(RunsBackfilled(record.job.name, len(ids), len(found)))
    return tuple(ids)


def _args(state: ScheduleState) -> str | None:
    rule = find_schedule(state.record.job, state.schedule_id)
    return None if rule is None else slot_args(state.record.job, rule)


def _count(number: int, what: str) -> str:
    return f"{number} {what}{'' if number == 1 else 's'}"
