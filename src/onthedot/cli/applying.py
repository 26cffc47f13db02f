"""What `plan` and `apply` share: the jobs of a program, and how the answer is shown."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import click

from onthedot.cli.asking import ask
from onthedot.cli.changes import lines
from onthedot.cli.heat import HeatMap, echo_heat
from onthedot.cli.options import reader_zone
from onthedot.cli.program import load_program
from onthedot.cli.table import colours_wanted
from onthedot.cli.words import in_zone
from onthedot.clock import SystemClock
from onthedot.define.differences import load_per_hour
from onthedot.model.job import Job
from onthedot.observe.formats import count, plain
from onthedot.operations.apply import Applied
from onthedot.stores.connect import sqlite_path


class Asked(NamedTuple):
    """What is to be applied."""

    jobs: tuple[Job, ...]
    source: str
    prune: bool
    dry_run: bool
    take_over: bool

    @classmethod
    def of(cls, program: str, source: str | None, *, prune: bool, dry_run: bool, take_over: bool) -> Asked:
        """The jobs of a program; a YAML file's or a Python one's."""
        jobs = tuple(load_program(program).jobs.values())
        return cls(jobs, source or Path(program.partition(":")[0]).name, prune, dry_run, take_over)


def told(asked: Asked, url: str) -> Applied:
    """What it does, or would do. A plan makes no store: where there is none, everything is new."""
    path = sqlite_path(url)
    if asked.dry_run and path is not None and not path.exists():
        url = "memory:"
    return ask(
        url,
        lambda verbs: verbs.apply(
            asked.jobs,
            source=asked.source,
            prune=asked.prune,
            dry_run=asked.dry_run,
            take_over=asked.take_over,
        ),
        makes=True,
    )


def echo_plan(applied: Applied, verb: str) -> None:
    """For people."""
    for line in lines(applied):
        click.echo(line)
    click.echo(f"{plain(applied.source)}: {count(applied.changes, 'job')} {verb}" if applied.changes else "no changes")


def echo_load(asked: Asked) -> None:
    """How many starts there are in each hour of the day, of the jobs in the file."""
    now = SystemClock().now()
    hours = load_per_hour({job.name: job for job in asked.jobs}, now=now, tz=reader_zone())
    if any(hours):
        click.echo(f"\n{in_zone('starts in the next 30 days, by hour of the day', now)}:")
        echo_heat(HeatMap([("", [float(hour) for hour in hours])], "starts"), colours=colours_wanted())
