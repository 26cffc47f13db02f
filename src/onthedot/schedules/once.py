"""Single instants: given (`At`), or counted from the schedule's creation (`In`)."""

from __future__ import annotations

from onthedot.clock import Micros, to_micros
from onthedot.model.duration import micros
from onthedot.model.job import At, In


def the_instants(schedule: At | In, origin: Micros) -> tuple[Micros, ...]:
    """All slots, ascending. Those of an `At` may lie before its origin: what becomes of them is for the planner to say.

    >>> from datetime import timedelta
    >>> the_instants(In(delay=timedelta(seconds=2)), origin=1)
    (2000001,)
    """
    if isinstance(schedule, In):
        return (origin + micros(schedule.delay),)
    return tuple(map(to_micros, schedule.instants))
