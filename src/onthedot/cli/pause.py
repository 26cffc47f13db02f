"""`onthedot pause`: stop a job."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import click

from onthedot.cli.errors import Command
from onthedot.cli.options import read_ahead, store_url, with_debug, with_json, with_namespace, with_server, with_utc

if TYPE_CHECKING:
    pass


@click.command(cls=Command, short_help="Plan and start nothing more of a job.")
@click.argument("job")
@click.option("--reason", metavar="TEXT", default="", help="Why; it is kept with the job.")
@click.option(
    "--until", metavar="WHEN", help="Resume it then by itself: +2h, 'tomorrow 03:00', 'monday 03:00', 2026-12-24."
)
@with_namespace
@with_server
@with_utc
@with_json("one JSON object")
@with_debug
def command(
    job: str, reason: str, until: str | None, namespace: str, store: str | None, db: str | None, as_json: bool
) -> None:
    """Plan and start nothing more of JOB until it is resumed. What runs goes on; what was submitted, or is to be tried
    again, is held. Paused again, it only changes the reason and the end.

    \b
    Examples:
      onthedot pause nightly_report --reason "the database moves"
      onthedot pause nightly_report --until +2h
      onthedot pause nightly_report --until 'monday 03:00'
      onthedot pause nightly_report --until 2026-01-01T09:00+01:00
    """
    from onthedot.cli.asking import ask
    from onthedot.cli.words import reader_time
    from onthedot.clock import to_micros
    from onthedot.observe.formats import count, plain
    from onthedot.observe.json_lines import optional_iso

    until_then = None if until is None else read_ahead(until, "--until")
    end = None if until_then is None else to_micros(until_then)
    paused = ask(
        store_url(store, db), lambda verbs: verbs.pause(job, reason=reason, until=until_then), namespace=namespace
    )
    if as_json:
        told = {
            "job": job, "namespace": namespace, "state": str(paused.record.state), "reason": reason,
            "until": optional_iso(end), "withdrawn": paused.withdrawn, "skipped": paused.skipped, "held": paused.held,
        }  # fmt: skip
        click.echo(json.dumps(told, indent=2))
        return
    ends = "" if end is None else f" until {reader_time(end, exact=False)}"
    what = f"{count(paused.held, 'run')} held, {count(paused.skipped, 'slot')} skipped"
    if paused.withdrawn:
        what = f"{count(paused.withdrawn, 'planned run')} withdrawn, {what}"
    click.echo(f"job {plain(job)} is paused{ends}: {what}")
