"""`onthedot apply`: store the jobs of a file."""

from __future__ import annotations

import json

import click

from onthedot.cli.errors import Command
from onthedot.cli.options import store_url, with_debug, with_json, with_server, with_utc


@click.command(cls=Command, short_help="Store the jobs of a file.")
@click.argument("program")
@click.option("--source", metavar="NAME", help="What its jobs are marked with.  [default: the file's name]")
@click.option("--prune", is_flag=True, help="Remove jobs that came from it, and are not in it now.")
@click.option("--take-over", is_flag=True, help="Replace jobs that are stored from another file.")
@click.option("--yes", is_flag=True, help="Do not ask before jobs are removed.")
@with_server
@with_utc
@with_json("one JSON object")
@with_debug
def command(
    program: str,
    source: str | None,
    prune: bool,
    take_over: bool,
    yes: bool,
    store: str | None,
    db: str | None,
    as_json: bool,
) -> None:
    """Store the jobs of PROGRAM, and tell what that has changed. See first with 'onthedot plan'. A job that somebody
    has paused stays paused, unless the file says 'paused: false'; what did not come from this file is never removed.
    If a job is stored from another file, nothing is written, unless you say --take-over.

    PROGRAM is a YAML file with jobs (jobs.yaml) or a Python program that defines a scheduler (app.py), whose handlers
    the workers must have.

    \b
    Examples:
      onthedot apply jobs.yaml
      onthedot apply jobs.yaml --prune --yes
      onthedot apply renamed.yaml --take-over
    """
    import sys

    from onthedot.cli.applying import Asked, echo_plan, told
    from onthedot.cli.changes import as_json as fields

    url = store_url(store, db)
    asked = Asked.of(program, source, prune=prune, dry_run=False, take_over=take_over)
    if prune and not yes and not as_json and sys.stdin.isatty():
        planned = told(asked._replace(dry_run=True), url)
        if any(one.kind == "removed" for one in planned.differences):
            echo_plan(planned, "would change")
            click.confirm("Remove and change these?", abort=True)
    changes = told(asked, url)
    if as_json:
        click.echo(json.dumps(fields(changes), indent=2))
    else:
        echo_plan(changes, "changed")
