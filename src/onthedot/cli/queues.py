"""`onthedot queues`: how long each line is, and whether it moves."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import click

from onthedot.cli.errors import Command
from onthedot.cli.options import store_url, with_debug, with_json, with_server, with_utc

if TYPE_CHECKING:
    from onthedot.clock import Micros
    from onthedot.stores.values import Queue


@click.command(cls=Command, short_help="List the queues: who waits, what runs, what is paused.")
@with_server
@with_utc
@with_json("a JSON array with one object per queue")
@with_debug
def command(store: str | None, db: str | None, as_json: bool) -> None:
    """List the queues that have a run that has not ended, or that somebody has paused or shared. It only reads.

    DUE are those that wait although their instant has come, OLDEST is the instant of the first of them.

    \b
    Examples:
      onthedot queues
      onthedot queues --json | jq '.[] | select(.due > 100) | .queue'
    """
    from onthedot.cli.asking import look
    from onthedot.clock import SystemClock
    from onthedot.observe.cluster import queue_fields

    now = SystemClock().now()
    queues = look(store_url(store, db), lambda verbs: verbs.list_queues())
    if as_json:
        click.echo(json.dumps([queue_fields(queue) for queue in queues], indent=2))
    elif queues:
        _echo(queues, now)
    else:
        click.echo("no run waits in any queue")


def _echo(queues: list[Queue], now: Micros) -> None:
    from onthedot.cli.table import echo_table

    echo_table(["QUEUE", "WAITING", "DUE", "RUNNING", "OLDEST", "SHARES", "PAUSED"], [_row(one, now) for one in queues])


def _row(queue: Queue, now: Micros) -> list[str]:
    from onthedot.cli.words import relative

    return [
        queue.name,
        str(queue.waiting),
        str(queue.due),
        str(queue.running),
        "-" if queue.oldest_due is None else relative(queue.oldest_due, now),
        shares_in_words(queue),
        _paused(queue),
    ]


def _paused(queue: Queue) -> str:
    from onthedot.cli.words import reader_time

    if queue.paused_at is None:
        return "-"
    return f"since {reader_time(queue.paused_at, exact=False)}{': ' if queue.reason else ''}{queue.reason}"


def shares_in_words(queue: Queue) -> str:
    """Who has which part of a queue; `-` if it is not shared."""
    if queue.weights is None:
        return "-"
    return " ".join([*(f"{name}={weight}" for name, weight in queue.weights.items()), "others=1"])
