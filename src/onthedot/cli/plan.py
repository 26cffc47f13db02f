"""`onthedot plan`: what a file of jobs would change."""

from __future__ import annotations

import json

import click

from onthedot.cli.errors import Command
from onthedot.cli.options import store_url, with_debug, with_json, with_server, with_utc

CHANGES = 3


@click.command(cls=Command, short_help="Tell what a file of jobs would change, in text and in time.")
@click.argument("program")
@click.option("--source", metavar="NAME", help="What its jobs are marked with.  [default: the file's name]")
@click.option(
    "--prune", is_flag=True, help="Also what would be removed: jobs that came from it, and are not in it now."
)
@click.option("--take-over", is_flag=True, help="Replace jobs that are stored from another file.")
@click.option("--exit-code", is_flag=True, help=f"End with {CHANGES} if something would change.")
@click.option("--no-load", is_flag=True, help="Leave out the picture of the load per hour.")
@with_server
@with_utc
@with_json("one JSON object")
@with_debug
def command(
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
    """Tell what 'onthedot apply PROGRAM' would do: which jobs are new, changed or gone, which of their starts in the
    next 30 days appear, vanish or move, and how many there are in each hour of the day. Nothing is changed.

    PROGRAM is a YAML file with jobs (jobs.yaml) or a Python program that defines a scheduler (app.py).

    \b
    Examples:
      onthedot plan jobs.yaml
      onthedot plan jobs.yaml --prune --exit-code
      onthedot plan app.py --store postgresql://localhost/jobs --json
    """
    from onthedot.cli.applying import Asked, told

    asked = Asked.of(program, source, prune=prune, dry_run=True, take_over=take_over)
    changes = told(asked, store_url(store, db))
    if as_json:
        from onthedot.cli.changes import as_json as fields

        click.echo(json.dumps(fields(changes), indent=2))
    else:
        from onthedot.cli.applying import echo_load, echo_plan

        echo_plan(changes, "would change")
        if changes.changes and not no_load:
            echo_load(asked)
    if exit_code and changes.changes:
        raise click.exceptions.Exit(CHANGES)
