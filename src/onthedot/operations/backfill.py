"""Backfill: runs for slots that have passed, because the job did not exist then, failed, or has learned something.

They are asked for by hand, so they are no slots of the ledger. Their keys are `backfill:<schedule id>` and the slot, so
that the same backfill again gives the same runs, as long as they are kept. They are due at once, the oldest first, do
not expire, and wait at the overlap gate however many they are.
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
"""How many runs one write asks for: the engine has other things to do in between."""


class Asked(NamedTuple):
    """The range to backfill: slots from `start` on, up to but without `end`."""

    start: datetime | str
    end: datetime | str
    schedule: str | None = None  # its id; None: all that the job has
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
    existing: int = 0  # slots that an earlier backfill has asked for already
    succeeded: int = 0  # slots whose own run has succeeded, as far as history goes back
    run_ids: tuple[int, ...] = ()  # of all slots, the oldest first; none of a dry run
    dry_run: bool = False

    @property
    def created(self) -> int:
        """How many runs are new, or would be."""
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
    """One run for each slot of the range that has passed; `DefinitionError`, and nothing is written, if there are more
    than the limit. With `dry_run` nothing is written, and the answer is the same but for the runs' ids. Without
    `compute` the slots are found here, with turns for others in between."""
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
    """The schedules that are meant. A fixed delay has no slots in the past but those that it had."""
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
    """The slots of the range that have passed, the oldest first, and whose they are."""
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
            await asyncio.sleep(0)  # let others have their turn
    return found


def _passed(
    state: ScheduleState, rule: Schedule, start: Micros, until: Micros
) -> Iterator[tuple[Micros, ScheduleState]]:
    for slot in takewhile(until.__ge__, slots(rule, start - 1, origin=state.origin)):
        yield slot, state


async def _known(store: Store, job_id: int, found: Sequence[tuple[Micros, ScheduleState]]) -> tuple[int, int]:
    """How many of these slots were backfilled before, and how many succeeded in their own time."""
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
    """Ask for the runs, batch by batch. All are due at one instant: those that came first are taken first."""
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
