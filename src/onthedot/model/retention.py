"""Retention: how long finished runs are kept, and what remains of them. Rules, stores and nodes share these values.

A **mark** is a place in history, which is read in the order in which runs ended. A **cut** tells a store what to
remove: finished runs in these states, up to this mark.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from onthedot.clock import SECOND, Micros
from onthedot.model.duration import format_duration
from onthedot.model.errors import DefinitionError

if TYPE_CHECKING:  # who only defines jobs does not pay for what a store says of runs
    from onthedot.model.run import RunState

HOUR: Micros = 3_600 * SECOND
DAY: Micros = 24 * HOUR


@dataclass(frozen=True, slots=True, kw_only=True)
class Retention:
    """How long finished runs are kept. What goes is still counted, by job, day and state. None: no such limit.

    The key of a submitted run is kept exactly as long as the run: until then, submitting it again gives the same run.

    >>> Retention(age=2 * DAY).failures_age == 90 * DAY
    True
    """

    age: Micros | None = 7 * DAY
    """How long after their end succeeded, skipped and cancelled runs are kept."""
    count: int | None = 10_000
    """How many of a job's newest finished runs are kept although they are younger. Those of the last hour do not count.
    """
    failures_age: Micros | None = 90 * DAY
    """The same for dead and lost runs. Ranges of skipped slots, ended nodes and old terms are kept as long."""
    failures_count: int | None = 100_000
    """Of dead and lost runs: those beyond this number of newer ones of their job go, too."""

    def __post_init__(self) -> None:
        problems = []
        for name, shortest in (("age", HOUR), ("failures_age", self.age or HOUR)):
            value = getattr(self, name)
            if value is not None and value < shortest:
                problems.append(f"{name}: expected at least {format_duration(shortest)}, got {format_duration(value)}")
        for name, fewest in (("count", 1), ("failures_count", self.count or 1)):
            value = getattr(self, name)
            if value is not None and value < fewest:
                problems.append(f"{name}: expected at least {fewest:,}, got {value:,}")
        if problems:
            raise DefinitionError(problems, subject="retention")


class Mark(NamedTuple):
    """A place in history: finished runs by the instant at which they ended, and by id where that is the same."""

    ended_at: Micros
    run_id: int


class Cut(NamedTuple):
    """What is to go: finished runs in these states, up to this mark; of one job, or of all (None)."""

    states: frozenset[RunState]
    until: Mark
    job_id: int | None = None


class Pruned(NamedTuple):
    """What one call removed. `passed` is the last run it looked at, `more` whether there may be others behind it."""

    runs: int
    passed: Mark | None
    more: bool


class PrunedNodes(NamedTuple):
    """How many incarnations, and how many past terms, one call removed."""

    nodes: int
    terms: int


class Crowded(NamedTuple):
    """Jobs with more finished runs than are to be kept, each with its newest run beyond those. `passed` is the last
    job that was looked at; None: all were."""

    marks: list[tuple[int, Mark]]
    passed: int | None


@dataclass(frozen=True, slots=True)
class DailyCount:
    """What is left of a job's history on a day that was pruned: how many runs ended in a state."""

    job: str
    day: int  # days since 1970-01-01 UTC
    state: RunState
    count: int


def day_of(instant: Micros) -> int:
    """The UTC day of an instant, as days since 1970-01-01.

    >>> day_of(2 * DAY - 1)
    1
    """
    return instant // DAY
