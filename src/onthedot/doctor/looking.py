"""All that a doctor looks at."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import NamedTuple

from onthedot.doctor.findings import Finding
from onthedot.doctor.machine import Wants, look_at_machine
from onthedot.doctor.output import look_at_output
from onthedot.doctor.store import look_at_store
from onthedot.ids import RandomIds
from onthedot.model.job import Job
from onthedot.model.task import Command, Container, Steps
from onthedot.settings import Settings


class Asked(NamedTuple):
    """What is to be looked at: a configuration, and where it keeps things."""

    settings: Settings
    jobs: tuple[Job, ...] = ()
    store: str = ""
    store_wanted: bool = False  # somebody has named it
    output: str = ""


def look(asked: Asked) -> list[Finding]:
    """One finding for each thing, in the order in which people want to know."""
    return [*asyncio.run(_elsewhere(asked)), *look_at_machine(asked.settings, wants_of(asked.settings, asked.jobs))]


async def _elsewhere(asked: Asked) -> list[Finding]:
    found = await look_at_store(asked.store, asked.settings, wanted=asked.store_wanted)
    return [*found, await look_at_output(asked.output, RandomIds())] if asked.output else found


def wants_of(settings: Settings, jobs: Iterable[Job]) -> Wants:
    """What a configuration asks of a machine.

    >>> wants_of(Settings(), [Job(name="build", task=Command(argv=("make",)), isolation="sandbox")]).sandbox
    True
    """
    known = list(jobs)
    levels = {str(getattr(settings, "least_isolation", "none")), *(str(job.isolation) for job in known)}
    tasks = [job.task for job in known]
    return Wants(
        sandbox="sandbox" in levels,
        user="user" in levels,
        containers=any(isinstance(task, Container) for task in tasks),
        git=any(isinstance(task, Steps) and task.source is not None for task in tasks),
        programs=any(isinstance(task, Command | Steps) for task in tasks),
    )
