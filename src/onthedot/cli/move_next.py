"""`onthedot move-next`: one start of a job at another instant."""

from __future__ import annotations

import re

import click

from onthedot.cli.errors import Command
from onthedot.cli.options import (
    is_date,
    read_ahead,
    store_url,
    with_debug,
    with_json,
    with_namespace,
    with_server,
    with_utc,
)
from onthedot.cli.skip_next import change, read_slot, with_slot


class Earlier(Command):
    """Takes a distance such as -10m as a value: it is no option."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        distances = [one for one in args if re.match(r"-\d", one)]
        if distances and "--" not in args:
            args = [*(one for one in args if one not in distances), "--", *distances]
        return super().parse_args(ctx, args)


@click.command(cls=Earlier, name="move-next", short_help="Run the next start of a job at another time.")
@click.argument("job")
@click.argument("when")
@with_slot
@with_utc
@with_namespace
@with_server
@with_json("one JSON object")
@with_debug
def command(
    job: str, when: str, slot: str | None, schedule: str | None, namespace: str,
    store: str | None, db: str | None, as_json: bool,
) -> None:  # fmt: skip
    """Run the next start of JOB at WHEN instead, and show what comes after it. All other starts stay as they are.

    WHEN is a distance from the start such as +2h or -10m, an instant (without an offset from UTC: in the schedule's own
    time zone), 'now', or plain words such as 'tomorrow 05:00' or 'monday 03:00' in your own time zone.
    The run that takes its place can be cancelled with 'onthedot cancel'.

    \b
    Examples:
      onthedot move-next nightly_report +2h
      onthedot move-next nightly_report 2026-01-01T06:00
      onthedot move-next nightly_report 'tomorrow 05:00'
      onthedot move-next nightly_report now --schedule weekly
    """
    at = read_slot(slot)
    to = when if when.strip() == "now" or when.strip()[:1] in ("+", "-") or is_date(when) else read_ahead(when, "WHEN")
    change(
        store_url(store, db), job, namespace, as_json,
        lambda verbs: verbs.move_next(job, to=to, slot=at, schedule=schedule),
    )  # fmt: skip
