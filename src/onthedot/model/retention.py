"""Defines retention: how long finished runs are kept, and what remains of them. Rules, stores and nodes share these
values.

A **mark** is a place in history. History is read in the order in which runs ended. A **cut** tells a store which
finished runs to remove: those in these states, up to this mark.
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
    """Sets how long finished runs are kept. Removed runs are still counted, by job, day and state. None: no such limit.

    The key of a submitted run is kept as long as the run. Until then, the same key returns the same run.

    >>> Retention(age=2 * DAY).failures_age == 90 * DAY
    True
    """

    age: Micros | None = 7 * DAY
    """The time after their end that succeeded, skipped and cancelled runs are kept."""
    count: int | None = 10_000
    """The number of a job's newest finished runs that are kept. Older ones are removed even before `age`. Runs of the
    last hour do not count."""
    failures_age: Micros | None = 90 * DAY
    """The time after their end that dead and lost runs are kept. Ranges of skipped slots, ended nodes and old terms are
    kept as long."""
    failures_count: int | None = 100_000
    """Dead and lost runs are removed even before `failures_age` if this number of newer runs of their job have
    finished."""

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
    """A place in history. Finished runs are ordered by the instant at which they ended, and then by id."""

    ended_at: Micros
    run_id: int


class Cut(NamedTuple):
    """The finished runs to remove: those in these states, up to this mark, of one job or of all (None)."""

    states: frozenset[RunState]
    until: Mark
    job_id: int | None = None


class Pruned(NamedTuple):
    """The answer of one removal. `passed` is the last run that it looked at. `more` is True if there may be other runs
    after it."""

    runs: int
    passed: Mark | None
    more: bool


class PrunedNodes(NamedTuple):
    """The numbers of incarnations and of past terms that one call removed."""

    nodes: int
    terms: int


class Crowded(NamedTuple):
    """Jobs with more finished runs than are kept. Each comes with its newest run beyond the limit. `passed` is the last
    job that was looked at; None if all were."""

    marks: list[tuple[int, Mark]]
    passed: int | None


@dataclass(frozen=True, slots=True)
class DailyCount:
    """The number of runs of a job that ended in a state, on a day that was pruned."""

    job: str
    day: int  # days since 1970-01-01 UTC
    state: RunState
    count: int


def day_of(instant: Micros) -> int:
    """Return the UTC day of an instant, as days since 1970-01-01.

    >>> day_of(2 * DAY - 1)
    1
    """
    return instant // DAY
