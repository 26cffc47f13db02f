"""`onthedot skips`: slots that did not run, and why."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import click

from onthedot.cli.errors import Command
from onthedot.cli.options import check_range, store_url, with_debug, with_json, with_namespace, with_range, with_server

if TYPE_CHECKING:
    from datetime import datetime

    from onthedot.clock import Micros
    from onthedot.model.run import SkipRecord


@click.command(cls=Command, short_help="List slots that did not run, and why.")
@click.option("--job", metavar="NAME", help="Only the slots of this job.")
@with_namespace
@with_range("slots")
@click.option("-n", "--count", type=click.IntRange(1), default=50, show_default=True, help="How many ranges, at most.")
@with_server
@with_json("a JSON array with one object per range of slots")
@with_debug
def command(
    job: str | None,
    namespace: str,
    since: datetime | None,
    until: datetime | None,
    count: int,
    store: str | None,
    db: str | None,
    as_json: bool,
) -> None:
    """List slots that were skipped before there was a run of them, the newest first: ranges of one schedule each, with
    the reason. Runs that were skipped are among the runs: 'onthedot runs --state skipped'. A start that was left out
    by hand is listed when its time is planned; until then 'onthedot upcoming JOB' does not have it.

    \b
    Examples:
      onthedot skips --since yesterday
      onthedot skips --job nightly_report --since 'monday 02:55' --until 'monday 03:05'
      onthedot skips --since -24h --json | jq '.[] | select(.reason == "missed")'
    """
    from onthedot.cli.asking import look
    from onthedot.clock import SystemClock

    check_range(since, until)
    found = look(
        store_url(store, db),
        lambda verbs: verbs.list_skips(job, since=since, until=until, limit=count + 1),
        namespace=namespace,
    )
    skips = found[:count]
    if as_json:
        from onthedot.observe.json_lines import skip_fields

        click.echo(json.dumps([skip_fields(skip, namespace) for skip in skips], indent=2))
    elif skips:
        _echo(skips, SystemClock().now())
    else:
        click.echo(
            "no skipped slots match; 'onthedot runs --state skipped' lists skipped runs; "
            "a start that 'skip-next' leaves out is listed when its time is planned"
        )
    if len(skips) < len(found):
        from onthedot.cli.table import echo_more

        echo_more(len(skips), "range", "-n sets how many", as_json=as_json)


def _echo(skips: list[SkipRecord], now: Micros) -> None:
    from onthedot.cli.table import echo_table
    from onthedot.cli.words import in_zone, moment, skip_in_words

    rows = [
        [
            skip.job,
            str(skip.count),
            moment(skip.first, now),
            "" if skip.first == skip.last else moment(skip.last, now),
            skip_in_words(skip.reason),
            moment(skip.recorded_at, now),
        ]
        for skip in skips
    ]
    echo_table(["JOB", "SLOTS", in_zone("FIRST", now), "LAST", "REASON", "RECORDED"], rows)
