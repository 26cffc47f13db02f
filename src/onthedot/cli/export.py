"""`onthedot export`: stored jobs as YAML, JSON or CSV."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import click

from onthedot.cli.errors import BadInput, Command
from onthedot.cli.options import store_url, with_debug, with_server

if TYPE_CHECKING:
    from onthedot.operations.job_views import Shown

COLUMNS = ("name", "namespace", "owner", "schedule", "task", "state", "next")
"""Of CSV."""
_MOST_CELL = 32_000  # characters; spreadsheets take 32,767


@click.command(cls=Command, short_help="Write stored jobs as YAML, JSON or CSV.")
@click.argument("names", nargs=-1, metavar="[JOB]…")
@click.option("--format", "form", type=click.Choice(["yaml", "json", "csv"]), default="yaml", show_default=True,
              help="What to write.")  # fmt: skip
@click.option("--namespace", metavar="NAME", help="Only jobs of this namespace.  [default: all]")
@with_server
@with_debug
def command(names: tuple[str, ...], form: str, namespace: str | None, store: str | None, db: str | None) -> None:
    """Write all stored jobs, or those that are named, in the form that 'onthedot check' and 'onthedot up' read.

    A job that is paused says so ('paused'), with its reason and its end: applied elsewhere, it is paused there, too.
    What a file cannot say (a function that decides retries) stands beside a job as a comment; with JSON it is told on
    standard error. CSV is a table for people: a row for each job, with its next instant. What a spreadsheet
    would take for a formula has a ' before it there.

    \b
    Examples:
      onthedot export > jobs.yaml
      onthedot export report clean --format json
      onthedot export --format csv --namespace team
    """
    from onthedot.cli.asking import look
    from onthedot.cli.jobs import jobs_shown
    from onthedot.clock import SystemClock
    from onthedot.operations.job_views import Shown

    url = store_url(store, db)
    if form == "csv":
        found = jobs_shown(url, SystemClock().now(), None)
    else:
        found = [Shown(record, [], None) for record in look(url, lambda verbs: verbs.list_jobs())]
    shown = _chosen(found, names, namespace)
    if form == "csv":
        click.echo(_csv(shown), nl=False)
    else:
        _echo(shown, form)


def _chosen(found: list[Shown], names: tuple[str, ...], namespace: str | None) -> list[Shown]:
    from onthedot.model.errors import did_you_mean

    some = [one for one in found if namespace in (None, one.record.job.namespace)]
    known = {one.record.job.name for one in some}
    for name in names:
        if name not in known:
            raise BadInput(f"JOB: expected the name of a stored job, got {name!r}{did_you_mean(name, known)}")
    return [one for one in some if not names or one.record.job.name in names]


def _echo(shown: list[Shown], form: str) -> None:
    from onthedot.define.job_writer import exported, yaml_file
    from onthedot.observe.formats import plain

    jobs = [exported(one.record) for one in shown]
    if form == "yaml":
        click.echo(yaml_file(jobs), nl=False)
        return
    click.echo(_safe_json({"jobs": [job.data for job in jobs if job.data is not None]}))
    for job in jobs:
        for note in job.notes:
            click.echo(plain(f"{job.name}: {note}", most=2_000), err=True)


def _safe_json(data: object) -> str:
    """JSON for people and machines: letters of all languages as they are, what a terminal might obey escaped."""
    text = json.dumps(data, indent=2, ensure_ascii=False)
    return "".join(char if char.isprintable() or char == "\n" else json.dumps(char)[1:-1] for char in text)


def _csv(shown: list[Shown]) -> str:
    import csv
    import io

    text = io.StringIO()
    table = csv.DictWriter(text, COLUMNS, lineterminator="\n")
    table.writeheader()
    table.writerows({name: _cell(value) for name, value in _row(one).items()} for one in shown)
    return text.getvalue()


def _cell(text: str) -> str:
    """A cell that no spreadsheet takes for a formula, and no terminal for a command."""
    from onthedot.observe.formats import plain

    shown = plain(text, most=_MOST_CELL)
    return f"'{shown}" if shown.startswith(("=", "+", "-", "@")) else shown


def _row(one: Shown) -> dict[str, str]:
    from onthedot.cli.words import task_in_words
    from onthedot.observe.formats import iso
    from onthedot.schedules import to_text

    job = one.record.job
    coming = [entry.at for entry in one.next if entry.at is not None]
    return {
        "name": job.name,
        "namespace": job.namespace,
        "owner": job.owner,
        "schedule": "; ".join(to_text(schedule) for schedule in job.schedules) or str(job.after or ""),
        "task": task_in_words(job),
        "state": str(one.record.state),
        "next": iso(min(coming)) if coming else "",
    }
