"""`onthedot pause`: stop a job."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import click

from onthedot.cli.errors import Command
from onthedot.cli.options import store_url, with_debug, with_json, with_namespace, with_server, with_utc

if TYPE_CHECKING:
    from onthedot.clock import Micros


@click.command(cls=Command, short_help="Plan and start nothing more of a job.")
@click.argument("job")
@click.option("--reason", metavar="TEXT", default="", help="Why; it is kept with the job.")
@click.option("--until", metavar="WHEN", help="Resume it then by itself: an instant, or a length of time after a '+'.")
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
      onthedot pause nightly_report --until 2026-01-01T09:00+01:00
    """
    from onthedot.cli.asking import ask
    from onthedot.cli.words import reader_time
    from onthedot.clock import SystemClock, to_datetime
    from onthedot.observe.json_lines import optional_iso
    from onthedot.observe.text import count, plain

    now = SystemClock().now()
    end = None if until is None else _read_end(until, now)
    until_then = None if end is None else to_datetime(end)
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
    click.echo(f"job {plain(job)} is paused{ends}: {what}")


def _read_end(text: str, now: Micros) -> Micros:
    """The same instants as for moving a slot; a length of time counts from now."""
    from onthedot.plan.moving import new_instant

    return new_instant(text, now, now=now, what="--until")
