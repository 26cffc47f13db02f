"""`onthedot lint`: what is odd about a schedule, about those of a file, or about the stored jobs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from onthedot.cli.errors import Command
from onthedot.cli.options import store_url, with_debug, with_json, with_server

if TYPE_CHECKING:
    from onthedot.model.job import Job, Schedule
    from onthedot.schedules.lint import Odd

SOMETHING_ODD = 3


class Looked(NamedTuple):
    """One schedule, whose it is, and what is odd about it."""

    job: str
    schedule: Schedule
    odd: list[Odd]


_FILES = (".yaml", ".yml", ".json")


@click.command(cls=Command, short_help="Tell what is odd about a schedule, a file, or the stored jobs.")
@click.argument("words", nargs=-1, metavar="[EXPR|FILE]")
@click.option("--tz", metavar="ZONE", help="The time zone of EXPR.  [default: UTC]")
@click.option("--seconds", is_flag=True, help="The first field of EXPR is the second: 6 fields, or 4 up to the day.")
@click.option("--exit-code", is_flag=True, help="Exit with 3 if something is odd.")
@with_server
@with_json("one JSON object")
@with_debug
def command(
    words: tuple[str, ...],
    tz: str | None,
    seconds: bool,
    exit_code: bool,
    store: str | None,
    db: str | None,
    as_json: bool,
) -> None:
    """Tell what may not be meant as it is written: steps that do not divide an hour, both day fields at once, days that
    few months have, times that the clocks skip or show twice, four fields, what never comes or comes only once, and
    jobs that run after one that is not there.

    EXPR is a schedule as for 'onthedot next'. FILE is a file of jobs (jobs.yaml). With neither, it looks at the jobs of
    the store, and also tells which of their parameters a shell or another interpreter could read as code. Such jobs run
    on, but cannot be defined any more.

    \b
    --json writes: schedules [{job, expression, reading, odd [{kind, text, advice}]}], and of a store also
    parameters [{job, problem}]; of a file or a store, after [{job, problem}]

    \b
    Examples:
      onthedot lint "*/7 * * * *"
      onthedot lint "30 2 * * *" --tz Europe/Berlin
      onthedot lint jobs.yaml --exit-code
      onthedot lint --db onthedot.db
    """
    from onthedot.clock import SystemClock
    from onthedot.schedules.lint import lint

    if seconds and (not words or words[0].endswith(_FILES)):
        raise click.UsageError("--seconds: expected with EXPR only, got it without; jobs say their own")
    is_file = bool(words) and words[0].endswith(_FILES)
    stored = [] if words else _stored(store_url(store, db), tz)
    if words and (store, db) != (None, None):
        raise click.UsageError("expected EXPR or FILE, or a store, got both; leave one out")
    jobs = _of_file(words, tz) if is_file else stored
    given = [(job.name, one) for job in jobs for one in job.schedules]
    if words and not is_file:
        given = [("", _schedule(words, tz, seconds))]
    now = SystemClock().now()
    looked = [Looked(job, schedule, lint(schedule, now)) for job, schedule in given]
    doubtful = [(job.name, problem) for job in stored for problem in _doubts(job)]
    waiting = _waiting(jobs, "is in this file" if is_file else "is stored")
    if as_json:
        told: dict[str, Any] = {"schedules": [_as_json(one) for one in looked]}
        if not words:
            told["parameters"] = [{"job": job, "problem": problem} for job, problem in doubtful]
        if not words or is_file:
            told["after"] = [{"job": job, "problem": problem} for job, problem in waiting]
        click.echo(json.dumps(told, indent=2))
    else:
        _echo(looked, [*doubtful, *waiting])
    if exit_code and (doubtful or waiting or any(one.odd for one in looked)):
        raise click.exceptions.Exit(SOMETHING_ODD)


def _stored(url: str, tz: str | None) -> list[Job]:
    from onthedot.cli.asking import look

    if tz is not None:
        raise click.UsageError("--tz: expected with EXPR only, got it without; stored jobs say their own")
    return [record.job for record in look(url, lambda verbs: verbs.list_jobs())]


def _doubts(job: Job) -> list[str]:
    from onthedot.runners.interpreters import doubts

    return [str(doubt) for doubt in doubts(job.task, job.params)]


def _waiting(jobs: list[Job], where: str) -> list[tuple[str, str]]:
    """The jobs that run after one that is not among them."""
    from onthedot.define.check import missing_parents
    from onthedot.model.job import job_name

    known = {job_name(job) for job in jobs}
    return [(job.name, text) for job in jobs if (text := missing_parents(job, known, where))]


def _one(words: tuple[str, ...]) -> str:
    if len(words) > 1:
        raise click.UsageError(
            f"expected one EXPR or FILE, got {len(words)} words; put it in quotes, so that the shell leaves '*' alone: "
            "'onthedot lint \"*/7 * * * *\"'"
        )
    return words[0]


def _schedule(words: tuple[str, ...], tz: str | None, seconds: bool) -> Schedule:
    from onthedot.schedules import parse

    return parse(_one(words), tz=tz, seconds=seconds)


def _of_file(words: tuple[str, ...], tz: str | None) -> list[Job]:
    from onthedot.define.job_reader import read_file

    file = _one(words)
    if tz is not None:
        raise click.UsageError("--tz: expected with EXPR only, got it with a file; its jobs say their own")
    return read_file(Path(file))


def _echo(looked: list[Looked], doubtful: list[tuple[str, str]]) -> None:
    from onthedot.observe.formats import plain
    from onthedot.schedules import describe, to_text

    for one in looked:
        if one.job and not one.odd:
            continue
        head = f"{plain(one.job)}: " if one.job else ""
        click.echo(f"{head}{to_text(one.schedule)}   ({describe(one.schedule)})")
        for odd in one.odd:
            click.echo(f"  {odd.text}\n    {odd.advice}")
    for job, problem in doubtful:
        click.echo(plain(f"{job}: {problem}", most=2_000))
    if not doubtful and not any(one.odd for one in looked):
        click.echo("nothing is odd")


def _as_json(one: Looked) -> dict[str, Any]:
    from onthedot.schedules import describe, to_text

    return {
        "job": one.job or None,
        "expression": to_text(one.schedule),
        "reading": describe(one.schedule),
        "odd": [odd._asdict() for odd in one.odd],
    }
