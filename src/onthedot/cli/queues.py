"""`onthedot queues | queue pause, resume, share`: lists the queues, and pauses, resumes or shares one."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

import click

from onthedot.cli.connect import call, queries_of, query
from onthedot.cli.errors import BadInput, Command, Group
from onthedot.cli.options import store_url, with_debug, with_json, with_server, with_utc
from onthedot.cli.terminal import echo_table, reader_time, relative
from onthedot.clock import Micros, SystemClock
from onthedot.model.route import check_weights
from onthedot.observe.formats import plain
from onthedot.observe.json_fields import queue_fields, queue_settings
from onthedot.operations.job_lookup import why_unused
from onthedot.stores.values import Queue

if TYPE_CHECKING:
    from onthedot.operations.verbs import Verbs


# ── queues ───────────────────────────────────────────────────────────────────────────────────────────────────────


@click.command(cls=Command)
@with_server
@with_utc
@with_json("a JSON array with one object per queue")
@with_debug
def queues(store: str | None, db: str | None, as_json: bool) -> None:
    """List the queues that have unfinished runs, or that are paused or shared. It only reads.

    DUE is how many waiting runs are due. OLDEST is how long the first of them has been due.

    \b
    Examples:
      onthedot queues
      onthedot queues --json | jq '.[] | select(.due > 100) | .queue'
    """
    now = SystemClock().now()
    queues = query(store_url(store, db), lambda verbs: verbs.list_queues())
    if as_json:
        click.echo(json.dumps([queue_fields(queue) for queue in queues], indent=2))
    elif queues:
        _echo_queues(queues, now)
    else:
        click.echo("no run waits in any queue")


def _echo_queues(queues: list[Queue], now: Micros) -> None:
    echo_table(
        ["QUEUE", "WAITING", "DUE", "RUNNING", "OLDEST", "SHARES", "PAUSED"], [_queue_row(one, now) for one in queues]
    )


def _queue_row(queue: Queue, now: Micros) -> list[str]:
    return [
        queue.name,
        str(queue.waiting),
        str(queue.due),
        str(queue.running),
        "-" if queue.oldest_due is None else relative(queue.oldest_due, now),
        _shares_in_words(queue),
        _paused_text(queue),
    ]


def _paused_text(queue: Queue) -> str:
    if queue.paused_at is None:
        return "-"
    return f"since {reader_time(queue.paused_at, exact=False)}{': ' if queue.reason else ''}{queue.reason}"


def _shares_in_words(queue: Queue) -> str:
    """The weights of a shared queue; `-` if it is not shared."""
    if queue.weights is None:
        return "-"
    return " ".join([*(f"{name}={weight}" for name, weight in queue.weights.items()), "others=1"])


# ── queue ────────────────────────────────────────────────────────────────────────────────────────────────────────


@click.group(cls=Group)
def queue() -> None:
    """Pause, resume or share a queue.

    \b
    Examples:
      onthedot queue pause mail --reason "the provider is down"
      onthedot queue resume mail
      onthedot queue share mail big_tenant=3
    """


@queue.command(cls=Command, short_help="Pause a queue: nothing more of it starts.")
@click.argument("name")
@click.option("--reason", metavar="TEXT", default="", help="Why; 'onthedot queues' shows it.")
@with_server
@with_json("one JSON object")
@with_debug
def pause(name: str, reason: str, store: str | None, db: str | None, as_json: bool) -> None:
    """Pause the queue NAME: nothing more of it starts until it is resumed. Running attempts continue. A slot that does
    not start in time is missed as usual.

    \b
    Examples:
      onthedot queue pause mail
      onthedot queue pause mail --reason "the provider is down"
    """
    queue = _change_queue(store_url(store, db), name, lambda verbs: verbs.pause_queue(name, reason=reason))
    _tell_change(queue, f"is paused{f': {reason}' if reason else ''}", as_json=as_json)


@queue.command(cls=Command, short_help="Resume a paused queue.")
@click.argument("name")
@with_server
@with_json("one JSON object")
@with_debug
def resume(name: str, store: str | None, db: str | None, as_json: bool) -> None:
    """Resume the queue NAME. A queue that is not paused does not change.

    \b
    Examples:
      onthedot queue resume mail
    """
    _tell_change(
        _change_queue(store_url(store, db), name, lambda verbs: verbs.resume_queue(name)), "goes on", as_json=as_json
    )


@queue.command(cls=Command, short_help="Share a queue fairly, or stop sharing it.")
@click.argument("name")
@click.argument("shares", nargs=-1, metavar="[VALUE=WEIGHT]...")
@click.option("--none", "unshared", is_flag=True, help="Stop sharing: first come, first served.")
@with_server
@with_json("one JSON object")
@with_debug
def share(name: str, shares: tuple[str, ...], unshared: bool, store: str | None, db: str | None, as_json: bool) -> None:
    """Share the queue NAME fairly between the values of the argument that jobs name as their 'share'. A value with
    weight 3 gets three turns for each turn of a value with weight 1. Values that are not named have weight 1. The new
    weights replace the old ones.

    \b
    Examples:
      onthedot queue share mail
      onthedot queue share mail big_tenant=3 small_tenant=1
      onthedot queue share mail --none
    """
    if unshared and shares:
        raise click.UsageError("expected shares or --none, got both; leave one out")
    weights = None if unshared else dict(_read_share(text) for text in shares)
    if weights is not None:
        check_weights(weights)
    queue = _change_queue(store_url(store, db), name, lambda verbs: verbs.share_queue(name, weights))
    words = (
        f"is shared: {_shares_in_words(queue)}" if weights is not None else "is not shared: first come, first served"
    )
    _tell_change(queue, words, as_json=as_json)


def _read_share(text: str) -> tuple[str, int]:
    name, equals, weight = text.rpartition("=")
    if not equals or not weight.isdecimal():
        raise BadInput(f"expected VALUE=WEIGHT like 'big_tenant=3', got {text!r}")
    return name, int(weight)


def _change_queue(url: str, name: str, change: Callable[[Verbs], Awaitable[Queue]]) -> Queue:
    """Change a queue. A name that no job uses is refused, because it is probably misspelt."""

    async def work(verbs: Verbs) -> Queue:
        refused = await why_unused(queries_of(verbs), name)
        if refused is not None:
            raise BadInput(f"NAME: {refused}")
        return await change(verbs)

    return call(url, work)


def _tell_change(queue: Queue, words: str, *, as_json: bool) -> None:
    click.echo(json.dumps(queue_settings(queue), indent=2) if as_json else plain(f"queue {queue.name} {words}"))
