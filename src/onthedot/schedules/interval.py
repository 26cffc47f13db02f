"""Intervals of real time: `Every` counts from an anchor, `FixedDelay` from the end of the last run.

Real time has no clock changes: an hour is an hour also in the night when the clocks go back.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from itertools import count

from onthedot.clock import Micros, to_micros
from onthedot.model.duration import micros
from onthedot.model.errors import ScheduleError
from onthedot.model.job import Every, FixedDelay

SHORTEST = timedelta(milliseconds=10)  # below this the planner's own work would exceed the interval


def every_slots(schedule: Every, after: Micros) -> Iterator[Micros]:
    """The slots after `after`, its bounds aside. The first costs the same however far the anchor is.

    >>> next(every_slots(Every(interval=timedelta(hours=1)), 0)) // 1_000_000
    3600
    """
    anchor, interval = _grid(schedule)
    return count(after + interval - (after - anchor) % interval, interval)


def every_count(schedule: Every, after: Micros, until: Micros) -> int:
    """How many slots lie after `after` and not after `until`.

    >>> every_count(Every(interval=timedelta(seconds=1)), 0, 3_600_000_000)
    3600
    """
    anchor, interval = _grid(schedule)
    return max(0, (until - anchor) // interval - (after - anchor) // interval)


def fixed_delay_after(schedule: FixedDelay, after: Micros, last_end: Micros | None) -> Micros:
    """The one slot that is known: after the last end, or for the first time. A slot already past is due at once.

    >>> fixed_delay_after(FixedDelay(delay=timedelta(seconds=1)), 5, last_end=3)
    1000003
    """
    if last_end is not None:
        slot = last_end + micros(schedule.delay)
    else:
        slot = after if schedule.start is None else to_micros(schedule.start)
    return max(slot, after + 1)


def _grid(schedule: Every) -> tuple[Micros, Micros]:
    anchor = 0 if schedule.anchor is None else to_micros(schedule.anchor)
    interval = micros(schedule.interval)
    if interval <= 0:  # `check` refuses it; a division by it would say less
        raise ScheduleError(f"interval: expected a length of time above zero, got {schedule.interval!r}")
    return anchor, interval
