"""`onthedot simulate`: what a program's jobs would do in the next weeks, before they do it."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING

import click

from onthedot.cli.errors import BadInput, Command
from onthedot.cli.options import with_debug, with_json

if TYPE_CHECKING:
    from onthedot.clock import Micros
    from onthedot.model.job import Job
    from onthedot.scheduler import Scheduler
    from onthedot.simulate.scenario import Outage, Scenario

MOST_DAYS = 366
_DAY = 86_400_000_000
_PATIENCE = 2_000_000  # µs: who waits longer wants to see how far it is


@click.command(cls=Command, short_help="Play a program's schedules in advance, without running its code.")
@click.argument("program", metavar="PROGRAM")
@click.option("--days", type=click.IntRange(1, MOST_DAYS), default=30, show_default=True, help="How many days.")
@click.option("--from", "start", metavar="ISO", help="Where they begin.  [default: now]")
@click.option("--tz", metavar="ZONE", help="The zone of times and hours.  [default: that of the jobs, or UTC]")
@click.option(
    "--outage", "outages", metavar="START..END", multiple=True,
    help="No node is there from START to END, which may be +LENGTH. May be repeated.",
)  # fmt: skip
@click.option(
    "--durations", metavar="JOB=LENGTH", multiple=True,
    help="How long an attempt of JOB takes; '*' is every other job. May be repeated.  [default: *=1s]",
)  # fmt: skip
@click.option(
    "--seats", type=click.IntRange(1, 10_000), help="How many attempts run at once.  [default: the program's]"
)
@with_json("one JSON object")
@with_debug
def command(
    program: str,
    days: int,
    start: str | None,
    tz: str | None,
    outages: tuple[str, ...],
    durations: tuple[str, ...],
    seats: int | None,
    as_json: bool,
) -> None:
    """Play the schedules of PROGRAM on a virtual clock: starts, skips, waits, what is caught up after an outage, and
    the load by hour of the day.

    PROGRAM is a Python file that defines a scheduler (app.py, or app.py:name if it has several). It is imported, but
    nothing in it is called: every attempt takes the time that --durations says, and succeeds. Planner, worker and
    policies are the real ones, on a memory store. Jobs that only somebody submits do not run.

    \b
    --json writes: version (1), program, from, to, tz, days, seats, assumed_s, took_s,
      outages   [{from, to}]
      jobs      [{job, schedules, takes_s, assumed, runs, retries, skipped {reason: slots},
                 waited {overlap | limit | rate | seat: runs}, overlaps, caught_up, timed_out, replaced,
                 lost, busy_s, latest_s, latest_slot, latest_caught_up_s}]
      load      [{day, hours [24 numbers of starts]}]
      peak      {attempts, at}
      warnings  [{kind (herd | seats | timeout | overlap | missed | idle), jobs, text, advice}]
    Fields may be added; none is renamed or dropped within a version.

    \b
    Examples:
      onthedot simulate app.py
      onthedot simulate app.py --days 7 --durations report=20m --durations '*=5s'
      onthedot simulate app.py --from 2026-03-27 --tz Europe/Berlin --days 3
      onthedot simulate app.py --outage 2026-12-01T02:00..+3h --from 2026-12-01
      onthedot simulate app.py --json | jq '.warnings[].text'
    """
    from onthedot.cli.program import load_program
    from onthedot.cli.simulated import Simulated
    from onthedot.clock import SystemClock
    from onthedot.simulate.play import play
    from onthedot.simulate.results import Tally

    scheduler = load_program(program)
    if not scheduler.jobs:
        raise BadInput(
            f"PROGRAM: expected {program} to define jobs, found none; write '@sched.job(schedule=…)' above one"
        )
    where = tz or _zone_of(list(scheduler.jobs.values()))
    scenario = _scenario(scheduler, where, days, start, outages, durations, seats)
    clock = SystemClock()
    began = clock.steady()
    answer = Simulated(program, scenario, where)
    tally = Tally(scenario, answer.hour_of)
    progress = _Progress(scenario, began)
    try:
        play(scenario, tally, progress.tell)
    finally:
        progress.clear()
    answer.take(tally, took=clock.steady() - began)
    if as_json:
        click.echo(json.dumps(answer.as_json(), indent=2))
    else:
        answer.show()


def _zone_of(jobs: list[Job]) -> str:
    """The zone that all cron schedules share; else UTC."""
    from onthedot.model.job import Cron

    zones = {schedule.tz for job in jobs for schedule in job.schedules if isinstance(schedule, Cron)}
    return zones.pop() if len(zones) == 1 else "UTC"


def _scenario(
    scheduler: Scheduler,
    tz: str,
    days: int,
    start: str | None,
    outages: tuple[str, ...],
    durations: tuple[str, ...],
    seats: int | None,
) -> Scenario:
    from dataclasses import replace
    from datetime import timedelta

    from onthedot.clock import SystemClock, to_datetime, to_micros
    from onthedot.schedules.instants import read_instant
    from onthedot.schedules.zones import zone
    from onthedot.simulate.scenario import ASSUMED, Scenario

    now = SystemClock().now()
    begin = now - now % 60_000_000 if start is None else to_micros(read_instant(start, tz=tz, what="--from"))
    lengths = dict(_duration(text) for text in durations)
    assumed = lengths.pop("*", ASSUMED)
    settings = scheduler.settings if seats is None else replace(scheduler.settings, seats=seats)
    # By the calendar of the zone: a day on which clocks change has 23 hours, or 25.
    end = to_datetime(begin).astimezone(zone(tz)) + timedelta(days=days)
    return Scenario(
        jobs=scheduler.jobs, start=begin, end=to_micros(end), outages=tuple(_outage(text, tz) for text in outages),
        durations=lengths, assumed=assumed, settings=settings,
    )  # fmt: skip


def _duration(text: str) -> tuple[str, Micros]:
    from onthedot.model.duration import micros, parse_duration

    job, equals, length = text.rpartition("=")
    if not equals or not job:
        raise click.UsageError(f"--durations: expected JOB=LENGTH, such as report=5m, got {text!r}")
    return job, micros(parse_duration(length, what=f"--durations {job}"))


def _outage(text: str, tz: str) -> Outage:
    from onthedot.clock import to_micros
    from onthedot.model.duration import micros, parse_duration
    from onthedot.schedules.instants import read_instant
    from onthedot.simulate.scenario import Outage

    first, dots, last = text.partition("..")
    if not dots:
        raise click.UsageError(f"--outage: expected START..END, such as 2026-12-01T02:00..+3h, got {text!r}")
    start = to_micros(read_instant(first, tz=tz, what="--outage"))
    if last.startswith("+"):
        return Outage(start, start + micros(parse_duration(last[1:], what="--outage")))
    return Outage(start, to_micros(read_instant(last, tz=tz, what="--outage")))


class _Progress:
    """How far it is, on standard error, once somebody has waited long enough to wonder."""

    def __init__(self, scenario: Scenario, began: Micros) -> None:
        self._scenario = scenario
        self._began = self._told = began
        self._shown = False

    def tell(self, now: Micros) -> None:
        from onthedot.clock import SystemClock

        steady = SystemClock().steady()
        on_terminal = sys.stderr.isatty()
        if steady - self._began < _PATIENCE or steady - self._told < (
            _PATIENCE // 10 if on_terminal else 5 * _PATIENCE
        ):
            return
        self._told, self._shown = steady, on_terminal
        start, end = self._scenario.start, self._scenario.end
        text = f"simulated {100 * (now - start) // (end - start)} % of {(end - start) / _DAY:.3g} days"
        click.echo(f"\r{text} " if on_terminal else text, err=True, nl=not on_terminal)

    def clear(self) -> None:
        if self._shown:
            click.echo("\r" + " " * 40 + "\r", err=True, nl=False)
