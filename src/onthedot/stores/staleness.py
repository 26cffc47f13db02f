"""What was read or computed at another time than it is recorded at: long ago, or by a clock that is wrong."""

from __future__ import annotations

from collections.abc import Sequence

from onthedot.clock import Micros
from onthedot.errors import RevisionConflict, WindowStale
from onthedot.stores.exceptions import runs_over
from onthedot.stores.values import FateAhead, Window

_OF_THE_PAST = frozenset({"missed", "paused", "edited"})


def check_past(window: Window, now: Micros) -> None:
    """`WindowStale` if slots are skipped for what is over, although they lie ahead: the caller's clock is wrong."""
    for skip in window.skips:
        if skip.reason in _OF_THE_PAST and skip.last > now:
            raise WindowStale(
                f"schedule {window.schedule_id!r}: slots up to {skip.last} cannot be {skip.reason} at {now}; "
                "read the store's clock and compute it again",
                watermark=window.start,
                now=now,
            )


def check_dropped(name: str, watermark: Micros, next_at: Micros | None, closing: Window | None, now: Micros) -> None:
    """`WindowStale` if a schedule is dropped with slots that nobody gave a fate: the window came too late, or not.

    A window that does not start at the watermark was computed before others planned, or before a pause took slots back.
    It is accepted only if the watermark lies ahead: then all slots so far have their fates.
    """
    left = next_at
    if closing is not None:
        left = closing.next_at if closing.start == watermark else watermark
    if left is not None and left <= now:
        raise WindowStale(
            f"schedule {name!r}: its slot at {left} has no fate yet; read the schedule and compute its window again",
            watermark=watermark,
            now=now,
        )


def check_edge(window: Window, edge: Micros, now: Micros) -> None:
    """`WindowStale` if the window of a schedule that survives an edit leaves slots out behind the edge."""
    if window.start > edge:
        raise WindowStale(
            f"schedule {window.schedule_id!r}: the window starts at {window.start}, after {edge}; "
            "read the store's clock and compute it again",
            watermark=edge,
            now=now,
        )


def check_added(window: Window, now: Micros, *, grid: bool) -> None:
    """`WindowStale` if the window of a schedule that an edit adds has slots up to now that cannot be left out.

    The old definition has the time up to now. A grid (`schedules.is_grid`) begins after it (`planned.begun`), and all
    else is computed again. But the first slot of a fixed delay that begins at once is due whenever it is written.
    """
    if grid:
        check_edge(window, now, now)
        return
    first = window.slots[0].slot_at if window.slots else window.next_at
    at_once = window.delay is not None and first == window.start + 1
    if first is not None and first <= now and not at_once:
        raise WindowStale(
            f"schedule {window.schedule_id!r}: its slot at {first} has passed before the edit; "
            "read the store's clock and compute it again",
            watermark=window.start,
            now=now,
        )


def check_exceptions(window: Window, exceptions: Sequence[FateAhead], now: Micros) -> None:
    """`WindowStale` if the window was computed without an exception that its schedule has."""
    if runs_over(window, exceptions):
        raise WindowStale(
            f"schedule {window.schedule_id!r}: a range of skips runs over an exception; read it again",
            watermark=window.start,
            now=now,
        )


def check_revision(job: object, expected: int | None, found: int) -> None:
    """`RevisionConflict` if the caller has read another revision than is stored. `job` is how the caller calls it."""
    if expected not in (None, found):
        raise RevisionConflict(f"job {job!r}: expected revision {expected}, found {found}; read it again")
