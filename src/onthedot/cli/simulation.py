"""`onthedot simulate`: shows what a program's jobs would do in the next weeks."""

from __future__ import annotations

import json
import sys
from collections import Counter
from dataclasses import replace
from datetime import date, timedelta
from typing import TYPE_CHECKING, Any

import click

from onthedot.cli.errors import BadInput, Command
from onthedot.cli.options import with_debug, with_json
from onthedot.cli.program import load_program
from onthedot.cli.terminal import HeatMap, colours_wanted, echo_heat, echo_table, in_words, local_time
from onthedot.clock import SECOND, Micros, SystemClock, to_datetime, to_micros
from onthedot.model.duration import micros, parse_duration
from onthedot.model.job import Cron, Job, Sleep
from onthedot.observe.formats import count, iso, length, optional_iso, plain
from onthedot.schedules.instants import read_instant
from onthedot.schedules.zones import zone
from onthedot.simulate.results import JobTally, Tally, Warning, warnings
from onthedot.simulate.scenario import ASSUMED, Outage, Scenario

if TYPE_CHECKING:
    from onthedot.scheduler import Scheduler


# ── the question ─────────────────────────────────────────────────────────────────────────────────────────────────


MOST_DAYS = 366
_DAY = 86_400_000_000
_PATIENCE = 2_000_000  # µs until progress is printed


@click.command(cls=Command)
@click.argument("program", metavar="PROGRAM")
@click.option("--days", type=click.IntRange(1, MOST_DAYS), default=30, show_default=True, help="How many days.")
@click.option("--from", "start", metavar="ISO", help="When they begin.  [default: now]")
@click.option("--tz", metavar="ZONE", help="The zone of times and hours.  [default: that of the jobs, or UTC]")
@click.option(
    "--outage", "outages", metavar="START..END", multiple=True,
    help="No node runs from START to END, which may be +LENGTH. May be repeated.",
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
def simulate(
    program: str,
    days: int,
    start: str | None,
    tz: str | None,
    outages: tuple[str, ...],
    durations: tuple[str, ...],
    seats: int | None,
    as_json: bool,
) -> None:
    """Simulate the schedules of PROGRAM on a virtual clock: starts, skips, waits, catch-up after an outage, and the
    load by hour of the day.

    PROGRAM is a Python file that defines a scheduler (app.py, or app.py:name if it has several). It is imported, but
    no handler is called: every attempt takes the time of --durations, and succeeds. Planner, worker and policies are
    the real ones, on a store in memory. Jobs without a schedule do not run.

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
    from onthedot.simulate.play import play

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

    now = SystemClock().now()
    begin = now - now % 60_000_000 if start is None else to_micros(read_instant(start, tz=tz, what="--from"))
    lengths = dict(_duration(text) for text in durations)
    assumed = lengths.pop("*", ASSUMED)
    settings = scheduler.settings if seats is None else replace(scheduler.settings, seats=seats)
    # Days of the zone's calendar: a day on which the clocks change has 23 or 25 hours.
    end = to_datetime(begin).astimezone(zone(tz)) + timedelta(days=days)
    return Scenario(
        jobs=scheduler.jobs, start=begin, end=to_micros(end), outages=tuple(_outage(text, tz) for text in outages),
        durations=lengths, assumed=assumed, settings=settings,
    )  # fmt: skip


def _duration(text: str) -> tuple[str, Micros]:
    job, equals, length = text.rpartition("=")
    if not equals or not job:
        raise click.UsageError(f"--durations: expected JOB=LENGTH, such as report=5m, got {text!r}")
    return job, micros(parse_duration(length, what=f"--durations {job}"))


def _outage(text: str, tz: str) -> Outage:

    first, dots, last = text.partition("..")
    if not dots:
        raise click.UsageError(f"--outage: expected START..END, such as 2026-12-01T02:00..+3h, got {text!r}")
    start = to_micros(read_instant(first, tz=tz, what="--outage"))
    if last.startswith("+"):
        return Outage(start, start + micros(parse_duration(last[1:], what="--outage")))
    return Outage(start, to_micros(read_instant(last, tz=tz, what="--outage")))


class _Progress:
    """Prints the progress on standard error, after two seconds."""

    def __init__(self, scenario: Scenario, began: Micros) -> None:
        self._scenario = scenario
        self._began = self._told = began
        self._shown = False

    def tell(self, now: Micros) -> None:
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


# ── the results ──────────────────────────────────────────────────────────────────────────────────────────────────


_QUARTER = 900 * SECOND  # the offset of every zone is a multiple of this
_DAYS_ONE_BY_ONE = 14


class Simulated:
    """A simulation and its results, for people and as JSON."""

    def __init__(self, program: str, scenario: Scenario, tz: str) -> None:
        self._program = program
        self._scenario = scenario
        self._tz = tz
        self._zone = zone(tz)
        self._hours: dict[int, tuple[int, int]] = {}
        self._tally: Tally | None = None
        self._took: Micros = 0
        self._warnings: list[Warning] = []

    def hour_of(self, instant: Micros) -> tuple[int, int]:
        """The day, as a number, and the hour of an instant."""
        quarter = instant // _QUARTER
        found = self._hours.get(quarter)
        if found is None:
            local = to_datetime(instant).astimezone(self._zone)
            found = self._hours[quarter] = (local.toordinal(), local.hour)
        return found

    def take(self, tally: Tally, *, took: Micros) -> None:
        """Take the results. `took` is the real time that the simulation took."""
        self._tally = tally
        self._took = took
        self._warnings = warnings(self._scenario, tally)

    @property
    def tally(self) -> Tally:
        if self._tally is None:
            raise AssertionError("a simulation is shown when it is over")
        return self._tally

    @property
    def _days(self) -> range:
        """Every day of the simulation."""
        return range(self.hour_of(self._scenario.start)[0], self.hour_of(self._scenario.end - 1)[0] + 1)

    # ── for people ───────────────────────────────────────────────────────────────────────────────────────────

    def show(self) -> None:
        """Print the results for people."""
        for name, text in self._facts():
            click.echo(f"{name:<10} {text}")
        click.echo()
        echo_table(
            ["JOB", "STARTS", "SKIPPED", "WAITED", "CAUGHT UP", "LATEST START", "TAKES", "SCHEDULE"],
            [self._row(job) for job in self._scenario.jobs.values()],
        )
        click.echo()
        if self.tally.load:
            echo_heat(self._heat(), colours=colours_wanted())
            click.echo()
        if self.tally.peak_at is not None:
            at = local_time(self.tally.peak_at, self._zone, exact=False)
            click.echo(f"{'peak':<10} {count(self.tally.peak, 'attempt')} at once, first at {at}")
        for warning in self._warnings:
            name = click.style("warning", fg="yellow") + "   " if colours_wanted() else f"{'warning':<10}"
            click.echo(f"{name} {plain(warning.text)}\n{'':<10} → {warning.advice}")
        if not self._warnings:
            click.echo(f"{'warnings':<10} none")

    def _facts(self) -> list[tuple[str, str]]:
        scenario = self._scenario
        first, last = (local_time(at, self._zone, exact=False) for at in (scenario.start, scenario.end))
        facts = [
            ("simulated", f"{plain(self._program)} from {first} to {last} ({self._tz}), in {length(self._took)}"),
            ("node", f"{count(scenario.settings.seats, 'seat')}, {count(len(scenario.jobs), 'job')}"),
        ]
        facts += [
            ("outage", f"from {local_time(out.start, self._zone)} to {local_time(out.end, self._zone)}")
            for out in sorted(scenario.outages)
        ]
        if any(self._is_assumed(job) for job in scenario.jobs.values()):
            takes = f"every attempt succeeds; those marked ~ take {length(scenario.assumed)}, which is a guess"
            facts.append(("assumed", f"{takes}: --durations JOB=5m"))
        else:
            facts.append(("assumed", "every attempt succeeds"))
        return facts

    def _is_assumed(self, job: Job) -> bool:
        return job.name not in self._scenario.durations and not isinstance(job.task, Sleep)

    def _row(self, job: Job) -> list[str]:
        tally = self.tally.jobs[job.name]
        takes = ("~" if self._is_assumed(job) else "") + length(self._scenario.duration(job))
        latest = max(tally.latest, tally.latest_caught_up)
        return [
            job.name,
            _runs_text(tally),
            _counts_text(tally.skipped),
            _counts_text(tally.waited),
            str(tally.caught_up or ""),
            length(latest) if latest else "on time" if tally.runs else "",
            takes,
            _schedule_text(job),
        ]

    def _heat(self) -> HeatMap:
        days = self._days
        if len(days) <= _DAYS_ONE_BY_ONE:
            rows = [
                (f"{date.fromordinal(day):%a %m-%d}", [float(self.tally.load[day, hour]) for hour in range(24)])
                for day in days
            ]
            return HeatMap(rows, f"starts an hour ({self._tz})")
        weekdays = Counter(date.fromordinal(day).weekday() for day in days)
        totals: Counter[tuple[int, int]] = Counter()
        for (day, hour), starts in self.tally.load.items():
            totals[date.fromordinal(day).weekday(), hour] += starts
        names = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")
        averages = [
            (name, [totals[weekday, hour] / weekdays[weekday] for hour in range(24)])
            for weekday, name in enumerate(names)
        ]
        return HeatMap(averages, f"starts an hour, on average ({self._tz})")

    # ── for machines ─────────────────────────────────────────────────────────────────────────────────────────

    def as_json(self) -> dict[str, Any]:
        """The results as JSON: see `onthedot simulate --help`."""
        scenario, tally = self._scenario, self.tally
        return {
            "version": 1,
            "program": self._program,
            "from": iso(scenario.start),
            "to": iso(scenario.end),
            "tz": self._tz,
            "days": len(self._days),
            "seats": scenario.settings.seats,
            "assumed_s": scenario.assumed / SECOND,
            "took_s": self._took / SECOND,
            "outages": [{"from": iso(out.start), "to": iso(out.end)} for out in sorted(scenario.outages)],
            "jobs": [self._job_as_json(job) for job in scenario.jobs.values()],
            "load": [
                {
                    "day": date.fromordinal(day).isoformat(),
                    "hours": [tally.load[day, hour] for hour in range(24)],
                }
                for day in self._days
            ],
            "peak": {"attempts": tally.peak, "at": optional_iso(tally.peak_at)},
            "warnings": [{**warning._asdict(), "jobs": list(warning.jobs)} for warning in self._warnings],
        }

    def _job_as_json(self, job: Job) -> dict[str, Any]:
        tally = self.tally.jobs[job.name]
        return {
            "job": job.name,
            "schedules": [in_words(schedule) for schedule in job.schedules],
            "takes_s": self._scenario.duration(job) / SECOND,
            "assumed": self._is_assumed(job),
            "runs": tally.runs,
            "retries": tally.retries,
            "skipped": dict(tally.skipped),
            "waited": dict(tally.waited),
            "overlaps": tally.overlaps,
            "caught_up": tally.caught_up,
            "timed_out": tally.timed_out,
            "replaced": tally.replaced,
            "lost": tally.lost,
            "busy_s": tally.busy / SECOND,
            "latest_s": tally.latest / SECOND,
            "latest_slot": optional_iso(tally.latest_slot),
            "latest_caught_up_s": tally.latest_caught_up / SECOND,
        }


def _runs_text(tally: JobTally) -> str:
    return f"{tally.runs} (+{tally.retries} again)" if tally.retries else str(tally.runs)


def _counts_text(counts: Counter[str]) -> str:
    return ", ".join(f"{number} {reason}" for reason, number in counts.most_common() if number)


def _schedule_text(job: Job) -> str:
    if job.schedules:
        return "; ".join(in_words(schedule) for schedule in job.schedules)
    return f"after {', '.join(job.after.parents)}" if job.after else "when it is submitted"
