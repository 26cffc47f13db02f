"""Draws stable pseudo-random numbers: the values of `H`, and the jitter of each run.

They are made from names alone, so every planner, on every machine and after every restart, gets the same ones.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable

from onthedot.clock import Micros
from onthedot.model.duration import micros
from onthedot.model.job import FixedDelay, Job, Schedule, job_name
from onthedot.model.schedule_json import schedule_id


def draw(below: int, *names: str) -> int:
    """A whole number from 0 up to but without `below`: always the same for the same names.

    >>> draw(60, "default/report", "minute"), draw(60, "default/report", "minute"), draw(60, "default/other", "minute")
    (17, 17, 24)
    """
    digest = hashlib.sha256("\n".join(names).encode()).digest()
    return int.from_bytes(digest[:8], "big") % below


def due_of(job: Job, schedule: Schedule) -> Callable[[Micros], Micros]:
    """When the run of a slot is due: at the slot, or with jitter a little later, always by the same distance.

    >>> from datetime import timedelta
    >>> from onthedot.model.job import Call, Every
    >>> minutely = Every(interval=timedelta(minutes=1), jitter=timedelta(seconds=10))
    >>> due = due_of(Job(name="report", task=Call(handler="report"), schedules=(minutely,)), minutely)
    >>> [due(slot) - slot for slot in (0, 60_000_000)]
    [2835621, 1117382]
    """
    if isinstance(schedule, FixedDelay) or not schedule.jitter:
        return lambda slot: slot
    below, whose, which = micros(schedule.jitter), job_name(job), schedule_id(schedule)
    return lambda slot: slot + draw(below, whose, which, str(slot))
