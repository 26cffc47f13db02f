"""The scenario: what is to be simulated, as one value."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from onthedot.clock import SECOND, Micros
from onthedot.model.duration import micros
from onthedot.model.errors import DefinitionError, did_you_mean
from onthedot.model.job import Job, Sleep
from onthedot.settings import Settings

ASSUMED: Micros = 1 * SECOND
"""How long an attempt takes if its duration is not given."""


class Outage(NamedTuple):
    """A span of time without any node."""

    start: Micros
    end: Micros


@dataclass(frozen=True, kw_only=True)
class Scenario:
    """These jobs, from one instant to another, on one node with so many seats that is gone during the outages."""

    jobs: Mapping[str, Job]
    start: Micros
    end: Micros
    outages: tuple[Outage, ...] = ()
    durations: Mapping[str, Micros] = field(default_factory=dict)  # of an attempt, by job
    assumed: Micros = ASSUMED
    settings: Settings = field(default_factory=Settings)

    def __post_init__(self) -> None:
        problems = [
            f"durations: expected a job of this program, got {name!r}{did_you_mean(name, self.jobs)}"
            for name in self.durations
            if name not in self.jobs
        ]
        last = self.start
        for outage in sorted(self.outages):
            if outage.end <= outage.start:
                problems.append("outage: expected its end after its start")
            elif outage.start < last:
                problems.append("outage: expected outages within the simulated time, none of them over another")
            last = outage.end
        if last > self.end:
            problems.append("outage: expected its end within the simulated time; simulate more days")
        if problems:
            raise DefinitionError(list(dict.fromkeys(problems)), subject="simulate")

    def duration(self, job: Job) -> Micros:
        """Return how long an attempt of this job takes."""
        if job.name in self.durations:
            return self.durations[job.name]
        return micros(job.task.duration) if isinstance(job.task, Sleep) else self.assumed

    def is_out(self, instant: Micros) -> bool:
        """Whether no node runs at this instant."""
        return any(outage.start <= instant < outage.end for outage in self.outages)
