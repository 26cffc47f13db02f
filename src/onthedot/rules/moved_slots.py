"""Exceptions: applies slots that were skipped or moved before their time to a window. Pure, the same for every store.

A caller computes its window around the exceptions that it has read; the store applies its own exceptions in the write
itself. So an exception that was stored in between counts as well.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from onthedot.clock import SECOND, Micros, to_datetime
from onthedot.model.errors import SlotSettled
from onthedot.model.run import RunState
from onthedot.model.window import SkipRange, SlotException, Window

KEPT: Micros = 3600 * SECOND
"""How long an exception outlives its slot: no edit, pause or small clock step returns to it."""


def settle(window: Window, exceptions: Sequence[SlotException]) -> Window:
    """Return the window with each of its exceptions as a skip. Leave out an exception that the ledger has already.

    A second call changes nothing. A fixed delay has one slot at a time, and no slot comes again."""
    if window.delay is not None or not exceptions:
        return window
    given = {one.slot_at: one for one in exceptions}
    met = {slot.slot_at for slot in window.slots if slot.slot_at in given}
    met |= {skip.first for skip in window.skips if _is_one_of(skip, given)}
    if not met:
        return window
    skips = [skip for skip in window.skips if not _is_one_of(skip, given)]
    skips += [SkipRange(slot, slot, 1, given[slot].reason) for slot in met if not given[slot].recorded]
    slots = [slot for slot in window.slots if slot.slot_at not in given]
    return replace(window, slots=slots, skips=sorted(skips, key=lambda skip: skip.first))


def _is_one_of(skip: SkipRange, given: dict[Micros, SlotException]) -> bool:
    return skip.first == skip.last and skip.first in given


def runs_over(window: Window, exceptions: Sequence[SlotException]) -> bool:
    """Return whether a range of skips contains an exception, and so would give that slot a second fate."""
    return any(
        skip.first <= one.slot_at <= skip.last and skip.first < skip.last for skip in window.skips for one in exceptions
    )


def recorded_in(window: Window, exceptions: Sequence[SlotException]) -> list[Micros]:
    """Return the exceptions that this settled window records in the ledger."""
    given = {one.slot_at: one for one in exceptions if not one.recorded}
    return [skip.first for skip in window.skips if _is_one_of(skip, given)]


def forget_before(watermark: Micros, now: Micros) -> Micros:
    """Return the instant up to which exceptions are no longer needed."""
    return min(watermark, now) - KEPT


def check_same(given: SlotException, reason: str, run_id: int | None) -> None:
    """Raise `SlotSettled` unless the request repeats this exception. `run_id` is the run that the caller
    names, if any.
    """
    if (given.reason, given.run_id) != (reason, run_id):
        instead = "" if given.run_id is None else f"; run {given.run_id} takes its place: cancel that, or let it run"
        raise SlotSettled(
            f"slot {to_datetime(given.slot_at).isoformat()}: expected one without a fate, got {given.reason}{instead}"
        )


def check_waits(slot_at: Micros, run_id: int, state: RunState, attempts: int) -> None:
    """Raise `SlotSettled` if the slot's run was ever armed."""
    if state is RunState.RUNNING or attempts:
        raise SlotSettled(
            f"slot {to_datetime(slot_at).isoformat()}: expected one that has not begun, got run {run_id}, which is "
            f"{state} after {attempts} attempt{'s' if attempts > 1 else ''}; cancel the run, or let it end"
        )


def check_ahead(slot_at: Micros, watermark: Micros, now: Micros) -> None:
    """Raise `SlotSettled` if a slot without a run is past, or if its fate is decided."""
    if slot_at <= max(watermark, now):
        when = "it is past" if slot_at <= now else "it has ended or was skipped"
        raise SlotSettled(f"slot {to_datetime(slot_at).isoformat()}: expected one that lies ahead, but {when}")


def counts_from(slot_at: Micros, moved_to: Micros | None, now: Micros) -> Micros:
    """Return the instant from which a fixed delay counts after one of its slots was skipped or moved."""
    return max(now, slot_at if moved_to is None else moved_to)
