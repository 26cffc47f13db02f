"""What came of a simulation, for people and for machines."""

from __future__ import annotations

from collections import Counter
from datetime import date
from typing import Any

import click

from onthedot.cli.heat import HeatMap, echo_heat
from onthedot.cli.table import colours_wanted, echo_table
from onthedot.cli.words import in_words, local_time
from onthedot.clock import SECOND, Micros, to_datetime
from onthedot.model.job import Job, Sleep
from onthedot.observe.formats import count, iso, length, plain
from onthedot.observe.json_lines import optional_iso
from onthedot.schedules.zones import zone
from onthedot.simulate.results import JobTally, Tally, Warning, warnings
from onthedot.simulate.scenario import Scenario

_QUARTER = 900 * SECOND  # no zone's offset is finer
_DAYS_ONE_BY_ONE = 14


class Simulated:
    """A scenario, and its answer."""

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
        """The day, as a number, and the hour of it that an instant lies in."""
        quarter = instant // _QUARTER
        found = self._hours.get(quarter)
        if found is None:
            local = to_datetime(instant).astimezone(self._zone)
            found = self._hours[quarter] = (local.toordinal(), local.hour)
        return found

    def take(self, tally: Tally, *, took: Micros) -> None:
        """It is over, and took so long in real time."""
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
        """Every day that was played, a part of it at least."""
        return range(self.hour_of(self._scenario.start)[0], self.hour_of(self._scenario.end - 1)[0] + 1)

    # ── for people ───────────────────────────────────────────────────────────────────────────────────────────

    def show(self) -> None:
        """On standard output."""
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
            job.name, _runs(tally), _counts(tally.skipped), _counts(tally.waited), str(tally.caught_up or ""),
            length(latest) if latest else "on time" if tally.runs else "", takes, _schedule(job),
        ]  # fmt: skip

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
        """See `onthedot simulate --help`."""
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


def _runs(tally: JobTally) -> str:
    return f"{tally.runs} (+{tally.retries} again)" if tally.retries else str(tally.runs)


def _counts(counts: Counter[str]) -> str:
    return ", ".join(f"{number} {reason}" for reason, number in counts.most_common() if number)


def _schedule(job: Job) -> str:
    if job.schedules:
        return "; ".join(in_words(schedule) for schedule in job.schedules)
    return f"after {', '.join(job.after.parents)}" if job.after else "when it is submitted"
