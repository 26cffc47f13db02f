"""`onthedot next`: what a schedule means, before anyone relies on it."""

from __future__ import annotations

import json
from datetime import datetime, tzinfo
from itertools import islice, pairwise
from typing import TYPE_CHECKING, Any, Literal

import click

from onthedot.cli.errors import Command
from onthedot.cli.options import with_debug, with_json

if TYPE_CHECKING:
    from onthedot.clock import Micros
    from onthedot.model.job import Schedule

MOST = 1_000


@click.command(cls=Command, name="next", short_help="Show what a schedule means and its next instants.")
@click.argument("words", nargs=-1, required=True, metavar="EXPR")
@click.option("--tz", metavar="ZONE", help="The time zone, such as Europe/Berlin.  [default: UTC]")
@click.option("-n", "--count", type=click.IntRange(1, MOST), default=10, show_default=True, help="How many instants.")
@click.option("--from", "start", metavar="ISO", help="Show the instants after this one.  [default: now]")
@click.option(
    "--gap", type=click.Choice(["run_after", "skip"]), help="For a fixed time that a clock change leaves out."
)
@click.option("--fold", type=click.Choice(["first", "second", "both"]), help="For a fixed time that it repeats.")
@click.option("--seconds", is_flag=True, help="The first field is the second: 6 fields, or 4 up to the day.")
@click.option("--job", metavar="NAME", help="The job whose name (or namespace/name) chooses what H stands for.")
@with_json("one JSON object")
@with_debug
def command(
    words: tuple[str, ...],
    tz: str | None,
    count: int,
    start: str | None,
    gap: Literal["run_after", "skip"] | None,
    fold: Literal["first", "second", "both"] | None,
    seconds: bool,
    job: str | None,
    as_json: bool,
) -> None:
    """Show how EXPR is read, in words, and its next instants.

    EXPR is what a job's schedule may be: cron with 5 fields (6 with seconds in front; with --seconds also 4: 'second
    minute hour day'), '@daily' and the like, 'every 1h30m', 'gap 10m', 'at 2026-01-01T09:00+01:00', 'in 10m'. H in a
    cron field is a value that the job's name chooses.

    \b
    Examples:
      onthedot next "30 2 * * *" --tz Europe/Berlin
      onthedot next "*/10 * * * * *" -n 3
      onthedot next "H H(0-5) * * *" --job report
      onthedot next "30 2 * * *" --tz Europe/Berlin --from 2026-03-27T12:00+01:00
    """
    from onthedot.clock import SystemClock, to_micros
    from onthedot.schedules import parse, slots
    from onthedot.schedules.instants import read_instant

    schedule = _of_job(parse(_one(words), tz=tz, gap=gap, fold=fold, seconds=seconds), job)
    now = SystemClock().now() if start is None else to_micros(read_instant(start, tz=tz or "UTC", what="--from"))
    where = _where(schedule, tz)
    instants = list(islice(slots(schedule, now, origin=now), count))
    if as_json:
        click.echo(json.dumps(_as_json(schedule, instants, now, where), indent=2))
    else:
        click.echo("\n".join([*_reading(schedule, where), "", *_rows(schedule, instants, now, where)]))


def _one(words: tuple[str, ...]) -> str:
    if len(words) > 1:
        raise click.UsageError(
            f"expected one EXPR, got {len(words)} words; put it in quotes, so that the shell leaves '*' alone: "
            "'onthedot next \"30 2 * * *\"'"
        )
    return words[0]


def _of_job(schedule: Schedule, job: str | None) -> Schedule:
    """The schedule as a job of this name has it."""
    from onthedot.model.job import Call, Job

    namespace, _, name = (job or "").rpartition("/")
    called = Job(name=name, namespace=namespace or "default", task=Call(handler=""), schedules=(schedule,))
    return called.schedules[0]


def _where(schedule: Schedule, tz: str | None) -> tzinfo:
    from onthedot.model.job import Cron
    from onthedot.schedules.zones import zone

    return zone(schedule.tz if isinstance(schedule, Cron) else tz or "UTC")


def _reading(schedule: Schedule, where: tzinfo) -> list[str]:
    from onthedot.model.job import Cron
    from onthedot.schedules import cron_fields, describe

    lines = [f"reading   {describe(schedule)}"]
    if isinstance(schedule, Cron):
        fields = cron_fields(schedule.expression, schedule.spread)
        lines.append("fields    " + ", ".join(f"{name} {text}" for name, text in fields.items()))
        if schedule.spread.endswith("/"):
            lines.append("note      H is another value for each job: say for which with --job")
    return [*lines, f"zone      {where}"]


def _rows(schedule: Schedule, instants: list[Micros], now: Micros, where: tzinfo) -> list[str]:
    from onthedot.cli.table import table
    from onthedot.cli.words import local_time, relative
    from onthedot.clock import to_datetime
    from onthedot.model.job import FixedDelay
    from onthedot.schedules.instants import format_instant

    if not instants:
        return [f"no instant after {local_time(now, where)}: this schedule is over"]
    rows = [
        [
            f"{local:%a} {local_time(instant, where)}",
            format_instant(to_datetime(instant)),
            relative(instant, now) + (f"   ← clocks go {change}" if change else ""),
        ]
        for instant, local, change in _with_changes(instants, where)
    ]
    lines = table(["LOCAL TIME", "UTC", "WHEN"], rows).split("\n")
    if isinstance(schedule, FixedDelay):
        lines.append("the following ones depend on when its runs end")
    return lines


def _with_changes(instants: list[Micros], where: tzinfo) -> list[tuple[Micros, datetime, str | None]]:
    """Each instant, its local time, and what the clocks did since the one before."""
    from onthedot.cli.words import clock_change
    from onthedot.clock import to_datetime

    local = [to_datetime(instant).astimezone(where) for instant in instants]
    changes = [None, *(clock_change(before, after) for before, after in pairwise(local))]
    return list(zip(instants, local, changes, strict=True))


def _as_json(schedule: Schedule, instants: list[Micros], now: Micros, where: tzinfo) -> dict[str, Any]:
    from onthedot.clock import SECOND
    from onthedot.model.job import Cron
    from onthedot.observe.formats import iso
    from onthedot.schedules import cron_fields, describe, to_text

    return {
        "expression": to_text(schedule),
        "reading": describe(schedule),
        "fields": cron_fields(schedule.expression, schedule.spread) if isinstance(schedule, Cron) else None,
        "tz": str(where),
        "from": iso(now),
        "instants": [
            {"local": local.isoformat(), "utc": iso(instant), "in_s": (instant - now) / SECOND, "clocks": change}
            for instant, local, change in _with_changes(instants, where)
        ],
    }
