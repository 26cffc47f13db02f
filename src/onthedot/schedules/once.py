"""One instant: given (`At`), or counted from the schedule's creation (`In`)."""

from __future__ import annotations

from onthedot.clock import Micros, to_micros
from onthedot.duration import micros
from onthedot.job import At, In


def the_instant(schedule: At | In, origin: Micros) -> Micros:
    """The only slot. That of an `At` may lie before its origin: whether it still runs is for catch-up to decide.

    >>> from datetime import timedelta
    >>> the_instant(In(delay=timedelta(seconds=2)), origin=1)
    2000001
    """
    return to_micros(schedule.instant) if isinstance(schedule, At) else origin + micros(schedule.delay)
