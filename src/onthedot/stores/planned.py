"""Windows that are to be written, as the SQL stores write them: which are, their runs, and their entries in the ledger.

The store reads and writes; what follows from what it has read is decided here, the same for all of them.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace
from typing import NamedTuple, Protocol

from onthedot.clock import Micros
from onthedot.run import slot_trigger
from onthedot.stores.exceptions import runs_over, settle
from onthedot.stores.values import FateAhead, ScheduleState, SkipRange, Window


class Fates(Protocol):
    """The exceptions of schedules, as they are in a transaction."""

    def of(self, job_id: int, schedule_id: str) -> tuple[FateAhead, ...]:
        """Those of one schedule, in order."""
        ...


class Stand(NamedTuple):
    """Where a schedule stands whose job is active and as the planner saw it."""

    watermark: Micros
    delayed: bool  # it has a fixed delay


class Planned(NamedTuple):
    """A window that is to be written, and the exceptions that it was settled with."""

    job_id: int
    window: Window
    delayed: bool  # of a fixed delay
    exceptions: tuple[FateAhead, ...] = ()

    @classmethod
    def settled(cls, fates: Fates, job_id: int, window: Window, *, delayed: bool = False) -> Planned:
        """A window as it is to be written: what was given ahead is no run."""
        exceptions = fates.of(job_id, window.schedule_id)
        return cls(job_id, settle(window, exceptions), delayed, exceptions)


class Insert(NamedTuple):
    """A run that is to be inserted."""

    job_id: int
    trigger: str
    due_at: Micros
    expires_at: Micros | None
    args: str | None
    delayed: bool
    target: str
    slot_at: Micros


def choose_windows(
    windows: Sequence[tuple[ScheduleState, Window]], stands: Iterable[Stand | None], fates: Fates
) -> tuple[list[bool], list[Planned]]:
    """Of each window whether it continues its schedule's watermark; and those that do, settled.

    A window may continue one that stands before it. None instead of a stand: the job is not as it was seen."""
    moved: dict[tuple[int, str], Micros] = {}  # by earlier windows of the same batch
    answers: list[bool] = []
    taken: list[Planned] = []
    for (seen, window), stand in zip(windows, stands, strict=True):
        key = (seen.record.id, window.schedule_id)
        if stand is None or moved.get(key, stand.watermark) != window.start or runs_over(window, fates.of(*key)):
            answers.append(False)
            continue
        answers.append(True)
        moved[key] = window.end
        taken.append(Planned.settled(fates, seen.record.id, window, delayed=stand.delayed))
    return answers, taken


def inserts_of(windows: Iterable[Planned]) -> list[Insert]:
    """The runs of the windows, in the order of their instants, which is that of their ids."""
    runs = [
        Insert(
            job_id,
            slot_trigger(window.schedule_id),
            slot.due,
            slot.expires_at,
            slot.args,
            delayed,
            target,
            slot.slot_at,
        )
        for job_id, window, delayed, _ in windows
        for slot in window.slots
        for target in window.targets
    ]
    return sorted(runs, key=lambda run: run.due_at)


def behind(window: Window, edge: Micros) -> Window:
    """What of a window lies behind the edge: it goes there at least."""
    slots = [slot for slot in window.slots if slot.slot_at > edge]
    skips = [skip for skip in window.skips if skip.first > edge]
    return replace(window, end=max(window.end, edge), slots=slots, skips=skips)


def begun(window: Window, now: Micros) -> Window:
    """The window of a grid that an edit adds: it begins now, because the old definition has the time before."""
    return replace(behind(window, now), start=now)


def without(window: Window, armed: Collection[Micros]) -> Window:
    """The window of an added schedule without instants at which runs of dropped schedules were armed: they start then,
    and the slots are skipped(edited). The slots of a fixed delay are no fixed instants."""
    taken = [slot.slot_at for slot in window.slots if slot.slot_at in armed]
    if not taken or window.delay is not None:
        return window
    skips = [*window.skips, *(SkipRange(slot, slot, 1, "edited") for slot in taken)]
    slots = [slot for slot in window.slots if slot.slot_at not in armed]
    return replace(window, slots=slots, skips=sorted(skips, key=lambda skip: skip.first))


NO_NODE = "no_node"
"""Why a slot that is to run everywhere runs nowhere. The one reason for which a planner skips what is still ahead."""


def skipped_ahead(window: Window, now: Micros) -> Micros | None:
    """The newest slot that the window skips before its time: nothing up to it is planned anew."""
    return max((skip.last for skip in window.skips if skip.reason == NO_NODE and skip.last > now), default=None)


def slots_with_fates(window: Window, exceptions: Iterable[FateAhead]) -> list[Micros]:
    """Slots in or near a window that are no part of its ranges of skips."""
    return [*(slot.slot_at for slot in window.slots), *(one.slot_at for one in exceptions)]


def lengthened(skip: SkipRange, last: SkipRange | None, edge: Micros, fated: Iterable[Micros]) -> SkipRange | None:
    """The range that the schedule's last one becomes with this skip, if that continues it with nothing between: it
    ends at the edge, has the same reason, and no slot between the two has another fate. None: it is a new one."""
    if last is None or (last.last, last.reason) != (edge, skip.reason):
        return None
    if any(edge < slot < skip.first for slot in fated):
        return None
    return SkipRange(last.first, skip.last, last.count + skip.count, skip.reason)
