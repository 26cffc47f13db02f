"""Decides which windows a store writes, with which runs and skips, and which it refuses as stale. Pure.

docs/design/time.md has the rules: "How a window is written".
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace
from typing import NamedTuple, Protocol

from onthedot.clock import Micros
from onthedot.model.errors import RevisionConflict, WindowStale
from onthedot.model.run import slot_trigger
from onthedot.model.window import NO_NODE, ScheduleState, SkipRange, SlotException, Window
from onthedot.rules.moved_slots import runs_over, settle

_OF_THE_PAST = frozenset({"missed", "paused", "edited"})
_AGAIN = "read the store's clock and compute it again"


SlotTarget = tuple[Micros, str]
"""One run of a slot, by its target."""


class KnownExceptions(Protocol):
    """The exceptions of schedules, as a transaction sees them."""

    def of(self, job_id: int, schedule_id: str) -> tuple[SlotException, ...]:
        """Return the exceptions of one schedule, in order."""


class SchedulePosition(NamedTuple):
    """The watermark of a schedule whose job is active, at the revision that the planner saw."""

    watermark: Micros
    delayed: bool  # whether the schedule has a fixed delay


class Planned(NamedTuple):
    """A window to write, the exceptions that were applied to it, and which of its runs have ended already."""

    job_id: int
    window: Window
    delayed: bool  # of a fixed delay
    exceptions: tuple[SlotException, ...] = ()
    ended: Collection[SlotTarget] = ()

    @classmethod
    def settled(
        cls,
        known: KnownExceptions,
        job_id: int,
        window: Window,
        *,
        delayed: bool = False,
        ended: Collection[SlotTarget] = (),
    ) -> Planned:
        """Return a window that is ready to be written: skipped or moved slots become no runs."""
        exceptions = known.of(job_id, window.schedule_id)
        return cls(job_id, settle(window, exceptions), delayed, exceptions, ended)


class Insert(NamedTuple):
    """A run to insert."""

    job_id: int
    trigger: str
    due_at: Micros
    expires_at: Micros | None
    args: str | None
    delayed: bool
    target: str
    slot_at: Micros


def choose_windows(
    windows: Sequence[tuple[ScheduleState, Window]], stands: Iterable[SchedulePosition | None], known: KnownExceptions
) -> tuple[list[bool], list[Planned]]:
    """Return for each window whether it continues its schedule's watermark; and the windows that do, settled.

    A window may continue an earlier window of the same call. A position of None means that the job has changed since it
    was read.
    """
    moved: dict[tuple[int, str], Micros] = {}  # by earlier windows of the same batch
    answers: list[bool] = []
    taken: list[Planned] = []
    for (seen, window), stand in zip(windows, stands, strict=True):
        key = (seen.record.id, window.schedule_id)
        if stand is None or moved.get(key, stand.watermark) != window.start or runs_over(window, known.of(*key)):
            answers.append(False)
            continue
        answers.append(True)
        moved[key] = window.end
        taken.append(Planned.settled(known, seen.record.id, window, delayed=stand.delayed))
    return answers, taken


def inserts_of(windows: Iterable[Planned]) -> list[Insert]:
    """Return the runs of the windows, in the order of their instants. Their ids get the same order."""
    runs = [
        Insert(job_id, trigger, slot.due, slot.expires_at, slot.args, delayed, target, slot.slot_at)
        for job_id, window, delayed, _, ended in windows
        for trigger in [slot_trigger(window.schedule_id)]
        for slot in window.slots
        for target in window.targets
        if (slot.slot_at, target) not in ended
    ]
    return sorted(runs, key=lambda run: run.due_at)


def behind(window: Window, edge: Micros) -> Window:
    """Return the part of a window behind the edge; the window reaches the edge at least."""
    slots = [slot for slot in window.slots if slot.slot_at > edge]
    skips = [skip for skip in window.skips if skip.first > edge]
    return replace(window, end=max(window.end, edge), slots=slots, skips=skips)


def begun(window: Window, now: Micros) -> Window:
    """Return the window of a grid that an edit adds. It begins now, because the old definition covers the
    time before.
    """
    return replace(behind(window, now), start=now)


def without(window: Window, armed: Collection[Micros]) -> Window:
    """Return the window of an added schedule without the instants at which runs of dropped schedules were armed. Those
    runs start then, and the new slots are skipped(edited). The slots of a fixed delay are no fixed instants.
    """
    return settle(window, [SlotException(slot.slot_at, "edited") for slot in window.slots if slot.slot_at in armed])


def skipped_ahead(window: Window, now: Micros) -> Micros | None:
    """Return the newest slot that the window skips before its time: no slot up to it is planned again."""
    return max((skip.last for skip in window.skips if skip.reason == NO_NODE and skip.last > now), default=None)


def slots_with_fates(window: Window, exceptions: Iterable[SlotException]) -> list[Micros]:
    """Return slots in or near a window that do not belong to its ranges of skips."""
    return [*(slot.slot_at for slot in window.slots), *(one.slot_at for one in exceptions)]


def lengthened(skip: SkipRange, last: SkipRange | None, edge: Micros, fated: Iterable[Micros]) -> SkipRange | None:
    """Return the schedule's last range of skips, extended by this skip, if the skip continues it: the range ends at the
    edge, has the same reason, and no slot between the two has another fate. Return None if the skip starts a new range.
    """
    if last is None or (last.last, last.reason) != (edge, skip.reason):
        return None
    if any(edge < slot < skip.first for slot in fated):
        return None
    return SkipRange(last.first, skip.last, last.count + skip.count, skip.reason)


# ── windows computed from stale data, or by a clock that is wrong ────────────────────────────────────────────────


def _stale(schedule: str, why: str, watermark: Micros, now: Micros) -> WindowStale:
    return WindowStale(f"schedule {schedule!r}: {why}", watermark=watermark, now=now)


def check_past(window: Window, now: Micros) -> None:
    """Raise `WindowStale` if slots are skipped as past, although they lie ahead: the caller's clock is wrong."""
    for skip in window.skips:
        if skip.reason in _OF_THE_PAST and skip.last > now:
            why = f"slots up to {skip.last} cannot be {skip.reason} at {now}; {_AGAIN}"
            raise _stale(window.schedule_id, why, window.start, now)


def check_dropped(name: str, watermark: Micros, next_at: Micros | None, closing: Window | None, now: Micros) -> None:
    """Raise `WindowStale` if a schedule is dropped while some of its slots are undecided: the window came too late, or
    is missing.

    A window that does not start at the watermark was computed before others planned, or before a pause took slots back.
    It is accepted only if the watermark lies ahead: then all slots so far have their fates."""
    left = next_at
    if closing is not None:
        left = closing.next_at if closing.start == watermark else watermark
    if left is not None and left <= now:
        why = f"its slot at {left} has no fate yet; read the schedule and compute its window again"
        raise _stale(name, why, watermark, now)


def check_edge(window: Window, edge: Micros, now: Micros) -> None:
    """Raise `WindowStale` if the window of a schedule that survives an edit leaves out slots behind the edge."""
    if window.start > edge:
        why = f"the window starts at {window.start}, after {edge}; {_AGAIN}"
        raise _stale(window.schedule_id, why, edge, now)


def check_added(window: Window, now: Micros, *, grid: bool) -> None:
    """Raise `WindowStale` if the window of a schedule that an edit adds has slots up to now that cannot be left out.

    The old definition covers the time up to now. A grid (`schedules.is_grid`) begins after now (`begun`). Every other
    schedule is computed again. But the first slot of a fixed delay that begins at once is due whenever it is written.
    """
    if grid:
        check_edge(window, now, now)
        return
    first = window.slots[0].slot_at if window.slots else window.next_at
    at_once = window.delay is not None and first == window.start + 1
    if first is not None and first <= now and not at_once:
        why = f"its slot at {first} has passed before the edit; {_AGAIN}"
        raise _stale(window.schedule_id, why, window.start, now)


def check_exceptions(window: Window, exceptions: Sequence[SlotException], now: Micros) -> None:
    """Raise `WindowStale` if the window was computed without an exception that its schedule has."""
    if runs_over(window, exceptions):
        raise _stale(window.schedule_id, "a range of skips runs over an exception; read it again", window.start, now)


def check_revision(job: object, expected: int | None, found: int) -> None:
    """Raise `RevisionConflict` if the stored revision is not the one that the caller has read. `job` is the caller's
    name for it.
    """
    if expected not in (None, found):
        raise RevisionConflict(f"job {job!r}: expected revision {expected}, found {found}; read it again")
