"""`onthedot plan | apply`: shows what a file of jobs would change, and stores its jobs."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import click

from onthedot.cli.connect import call
from onthedot.cli.errors import Command
from onthedot.cli.options import reader_zone, store_url, with_debug, with_json, with_server, with_utc
from onthedot.cli.program import load_program
from onthedot.cli.terminal import HeatMap, colours_wanted, echo_heat, in_zone, reader_time
from onthedot.clock import SECOND, Micros, SystemClock
from onthedot.define.differences import HORIZON, Difference, load_per_hour
from onthedot.model.job import Job, job_name
from onthedot.observe.formats import count, iso, length, optional_iso, plain
from onthedot.operations.apply import Applied, shown
from onthedot.schedules import due_of, next_after
from onthedot.stores.connect import sqlite_path

# ── plan ─────────────────────────────────────────────────────────────────────────────────────────────────────────


CHANGES = 3


@click.command(cls=Command)
@click.argument("program")
@click.option("--source", metavar="NAME", help="The source that its jobs are stored under.  [default: the file's name]")
@click.option(
    "--prune", is_flag=True, help="Include jobs that would be removed: stored from this source, and no longer in it."
)
@click.option("--take-over", is_flag=True, help="Replace jobs that are stored from another file.")
@click.option("--exit-code", is_flag=True, help=f"Exit with {CHANGES} if something would change.")
@click.option("--no-load", is_flag=True, help="Leave out the chart of the load per hour.")
@with_server
@with_utc
@with_json("one JSON object")
@with_debug
def plan(
    program: str,
    source: str | None,
    prune: bool,
    take_over: bool,
    exit_code: bool,
    no_load: bool,
    store: str | None,
    db: str | None,
    as_json: bool,
) -> None:
    """Show what 'onthedot apply PROGRAM' would do, and change nothing: new, changed and removed jobs; starts of the
    next 30 days that appear, vanish or move; and how many starts there are in each hour of the day.

    PROGRAM is a YAML file with jobs (jobs.yaml) or a Python program that defines a scheduler (app.py).

    \b
    Examples:
      onthedot plan jobs.yaml
      onthedot plan jobs.yaml --prune --exit-code
      onthedot plan app.py --store postgresql://localhost/jobs --json
    """
    asked = _Request.of(program, source, prune=prune, dry_run=True, take_over=take_over)
    changes = _applied(asked, store_url(store, db))
    if as_json:
        click.echo(json.dumps(_changes_as_json(changes), indent=2))
    else:
        _echo_plan(changes, asked, "would change")
        if changes.changes and not no_load:
            _echo_load(asked)
    if exit_code and changes.changes:
        raise click.exceptions.Exit(CHANGES)


# ── apply ────────────────────────────────────────────────────────────────────────────────────────────────────────


@click.command(cls=Command)
@click.argument("program")
@click.option("--source", metavar="NAME", help="The source that its jobs are stored under.  [default: the file's name]")
@click.option("--prune", is_flag=True, help="Remove jobs that were stored from this source, and are no longer in it.")
@click.option("--take-over", is_flag=True, help="Replace jobs that are stored from another file.")
@click.option("--yes", is_flag=True, help="Do not ask before removing jobs.")
@with_server
@with_utc
@with_json("one JSON object")
@with_debug
def apply(
    program: str,
    source: str | None,
    prune: bool,
    take_over: bool,
    yes: bool,
    store: str | None,
    db: str | None,
    as_json: bool,
) -> None:
    """Store the jobs of PROGRAM, and show what that changed. 'onthedot plan' shows it before. A paused job stays paused
    unless the file says 'paused: false'. Jobs of other sources are never removed. If a job is stored from another
    source, nothing is written unless you give --take-over.

    PROGRAM is a YAML file with jobs (jobs.yaml) or a Python program that defines a scheduler (app.py), whose handlers
    the workers must have.

    \b
    Examples:
      onthedot apply jobs.yaml
      onthedot apply jobs.yaml --prune --yes
      onthedot apply renamed.yaml --take-over
    """
    url = store_url(store, db)
    asked = _Request.of(program, source, prune=prune, dry_run=False, take_over=take_over)
    if prune and not yes and not as_json and sys.stdin.isatty():
        planned = _applied(asked._replace(dry_run=True), url)
        if any(one.kind == "removed" for one in planned.differences):
            _echo_plan(planned, asked, "would change")
            click.confirm("Remove and change these?", abort=True)
    changes = _applied(asked, url)
    if as_json:
        click.echo(json.dumps(_changes_as_json(changes), indent=2))
    else:
        _echo_plan(changes, asked, "changed")


# ── applying a program ───────────────────────────────────────────────────────────────────────────────────────────


class _Request(NamedTuple):
    """Jobs to apply, and how."""

    jobs: tuple[Job, ...]
    source: str
    prune: bool
    dry_run: bool
    take_over: bool

    @classmethod
    def of(cls, program: str, source: str | None, *, prune: bool, dry_run: bool, take_over: bool) -> _Request:
        """Read the jobs of a program or a YAML file."""
        jobs = tuple(load_program(program).jobs.values())
        return cls(jobs, source or Path(program.partition(":")[0]).name, prune, dry_run, take_over)


def _applied(asked: _Request, url: str) -> Applied:
    """Apply the jobs, or compute what that would change. A plan creates no store. If there is no store, every job is
    new."""
    path = sqlite_path(url)
    if asked.dry_run and path is not None and not path.exists():
        url = "memory:"
    return call(
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


def _echo_plan(applied: Applied, asked: _Request, verb: str) -> None:
    """Print the changes for people."""
    for line in _change_lines(applied, {shown(job_name(job)): job for job in asked.jobs}):
        click.echo(line)
    click.echo(f"{plain(applied.source)}: {count(applied.changes, 'job')} {verb}" if applied.changes else "no changes")


def _echo_load(asked: _Request) -> None:
    """Print how many starts the jobs of the file have in each hour of the day."""
    now = SystemClock().now()
    hours = load_per_hour({job.name: job for job in asked.jobs}, now=now, tz=reader_zone())
    if any(hours):
        click.echo(f"\n{in_zone('starts in the next 30 days, by hour of the day', now)}:")
        echo_heat(HeatMap([("", [float(hour) for hour in hours])], "starts"), colours=colours_wanted())


# ── showing the changes ──────────────────────────────────────────────────────────────────────────────────────────


_SIGNS = {"created": "+", "changed": "~", "removed": "-"}
_FEW = 3
_MOST_FIELDS = 12


def _change_lines(applied: Applied, jobs: Mapping[str, Job]) -> Iterator[str]:
    """Lines for each changed job; unchanged jobs are only counted."""
    for one in applied.differences:
        if one.kind != "unchanged":
            yield f"{_SIGNS[one.kind]} {plain(one.name)}: {one.kind}{_notes(applied, one)}"
            if one.kind == "changed":
                yield from _fields(one)
            yield from _starts(one, _first_start(one, jobs))
    same = sum(one.kind == "unchanged" for one in applied.differences)
    if same:
        yield f"= {count(same, 'job')} unchanged"
    for name, text in applied.warnings.items():
        yield plain(f"! {name}: {text}", most=2_000)
    for name in applied.refused:
        source = plain(applied.elsewhere[name])
        yield (
            f"! {plain(name)} is stored from {source}: 'apply' refuses the whole file; give one of the two another "
            "name, or say --take-over"
        )
    if applied.left:
        names = ", ".join(map(plain, applied.left))
        yield f"! not in {plain(applied.source)} any more, and left as they are (--prune removes them): {names}"


def _notes(applied: Applied, one: Difference) -> str:
    name, notes = one.name, []
    if name in applied.elsewhere:
        source = applied.elsewhere[name]
        notes.append(f"until now from {plain(source)}" if source else "until now from no file")
    if name in applied.paused:
        notes.append("paused, and stays so")
    if one.kind == "created" and one.fields.get("paused", (None, False))[1]:
        notes.append("paused")
    return f" ({'; '.join(notes)})" if notes else ""


def _fields(one: Difference) -> Iterator[str]:
    for name, (old, new) in list(one.fields.items())[:_MOST_FIELDS]:
        yield f"    {plain(name)}: {_value_text(old)} → {_value_text(new)}"
    if len(one.fields) > _MOST_FIELDS:
        yield f"    … and {len(one.fields) - _MOST_FIELDS} more"


def _value_text(value: Any) -> str:
    return "nothing" if value is None else plain(json.dumps(value, ensure_ascii=False), most=80)


def _first_start(one: Difference, jobs: Mapping[str, Job]) -> str:
    """Return when a job starts first, if that is not within the next 30 days; else return empty text."""
    job = None if one.kind == "removed" else jobs.get(one.name)
    if job is None or not job.schedules or (job.paused is not None and job.paused.on):
        return ""
    now = SystemClock().now()
    slots = [(schedule, next_after(schedule, now, origin=now)) for schedule in job.schedules]
    starts = [due_of(job, schedule)(slot) for schedule, slot in slots if slot is not None]
    if not starts:
        return "no start in the next 30 days, and none later"
    return f"no start in the next 30 days; the first is {_moment(min(starts))}" if min(starts) > now + HORIZON else ""


def _starts(one: Difference, first: str) -> Iterator[str]:
    """The changes in time: how many starts, and the first few."""
    if one.moved:
        shifts = {move.new - move.old for move in one.moved}
        by = ""
        if len(shifts) == 1:
            [shift] = shifts
            by = f" by {length(abs(shift))} {'later' if shift > 0 else 'earlier'}"
        yield f"    {_counted(one, len(one.moved), 'start')} moved{by}:"
        yield from _few([f"{_moment(move.old)} → {_moment(move.new)}" for move in one.moved[: _FEW + 1]])
    for instants, what in ((one.appear, "new start"), (one.vanish, "lost start")):
        if instants:
            yield f"    {_counted(one, len(instants), what)}:"
            yield from _few([_moment(instant) for instant in instants[: _FEW + 1]])
    if first:
        yield f"    {first}"
    elif one.kind == "changed" and not one.starts_change:
        yield "    it starts as before"


def _counted(one: Difference, number: int, what: str) -> str:
    """Return how many starts there are, or that there are more than were counted."""
    some = f"{number:,} {what}{'' if number == 1 else 's'}"
    if one.stopped:
        end = (one.until + 1) // SECOND * SECOND  # the first instant that was not counted, in whole seconds
        return f"more than {some}, counting stopped at {reader_time(end, exact=False)}"
    return f"{some} in the next 30 days"


def _moment(instant: Micros) -> str:
    return reader_time(instant, exact=False)


def _few(shown: list[str]) -> Iterator[str]:
    for text in shown[:_FEW]:
        yield f"      {text}"
    if len(shown) > _FEW:
        yield "      …"


def _changes_as_json(applied: Applied) -> dict[str, Any]:
    """The changes as JSON, with every changed start of the next 30 days."""
    return {
        "source": applied.source,
        "dry_run": applied.dry_run,
        "changes": applied.changes,
        "left": list(applied.left),
        "refused": list(applied.refused),
        "warnings": dict(applied.warnings),
        "jobs": [
            {
                "name": one.name,
                "change": one.kind,
                "fields": {name: {"old": old, "new": new} for name, (old, new) in one.fields.items()},
                "appear": [iso(at) for at in one.appear],
                "vanish": [iso(at) for at in one.vanish],
                "moved": [{"old": iso(move.old), "new": iso(move.new)} for move in one.moved],
                "counted_until": optional_iso(one.until or None),
                "stopped": one.stopped,
                "paused": one.name in applied.paused,
                "until_now_from": applied.elsewhere.get(one.name),
            }
            for one in applied.differences
        ],
    }
