"""`onthedot queue pause | resume | share`: stop one line, let it go on, say who has which part of it."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

import click

from onthedot.cli.errors import BadInput, Command
from onthedot.cli.groups import Group
from onthedot.cli.options import store_url, with_debug, with_json, with_server

if TYPE_CHECKING:
    from onthedot.operations.verbs import Verbs
    from onthedot.stores.values import Queue


@click.group(cls=Group, short_help="Pause, resume or share a queue.")
def command() -> None:
    """Do something to one queue.

    \b
    Examples:
      onthedot queue pause mail --reason "the provider is down"
      onthedot queue resume mail
      onthedot queue share mail big_tenant=3
    """


@command.command(cls=Command, short_help="Start nothing more of a queue.")
@click.argument("name")
@click.option("--reason", metavar="TEXT", default="", help="Why; 'onthedot queues' shows it.")
@with_server
@with_json("one JSON object")
@with_debug
def pause(name: str, reason: str, store: str | None, db: str | None, as_json: bool) -> None:
    """Start nothing more of the queue NAME until it is resumed. What runs goes on; a slot that is not started in time
    is missed as ever.

    \b
    Examples:
      onthedot queue pause mail
      onthedot queue pause mail --reason "the provider is down"
    """
    queue = _change(store_url(store, db), name, lambda verbs: verbs.pause_queue(name, reason=reason))
    _tell(queue, f"is paused{f': {reason}' if reason else ''}", as_json=as_json)


@command.command(cls=Command, short_help="Let a queue go on.")
@click.argument("name")
@with_server
@with_json("one JSON object")
@with_debug
def resume(name: str, store: str | None, db: str | None, as_json: bool) -> None:
    """Let the queue NAME go on. One that is not paused is left alone.

    \b
    Examples:
      onthedot queue resume mail
    """
    _tell(_change(store_url(store, db), name, lambda verbs: verbs.resume_queue(name)), "goes on", as_json=as_json)


@command.command(cls=Command, short_help="Share a queue fairly, or no more.")
@click.argument("name")
@click.argument("shares", nargs=-1, metavar="[VALUE=WEIGHT]...")
@click.option("--none", "unshared", is_flag=True, help="First come, first served again.")
@with_server
@with_json("one JSON object")
@with_debug
def share(name: str, shares: tuple[str, ...], unshared: bool, store: str | None, db: str | None, as_json: bool) -> None:
    """Share the queue NAME fairly between the values of the argument that jobs name as their 'share': who has weight 3
    has three turns for each one of the others. Who is not named has weight 1. It takes the place of what was said
    before.

    \b
    Examples:
      onthedot queue share mail
      onthedot queue share mail big_tenant=3 small_tenant=1
      onthedot queue share mail --none
    """
    from onthedot.cli.queues import shares_in_words
    from onthedot.model.route import check_weights

    if unshared and shares:
        raise click.UsageError("expected shares or --none, got both; leave one out")
    weights = None if unshared else dict(_read_share(text) for text in shares)
    if weights is not None:
        check_weights(weights)
    queue = _change(store_url(store, db), name, lambda verbs: verbs.share_queue(name, weights))
    words = f"is shared: {shares_in_words(queue)}" if weights is not None else "is not shared: first come, first served"
    _tell(queue, words, as_json=as_json)


def _read_share(text: str) -> tuple[str, int]:
    name, equals, weight = text.rpartition("=")
    if not equals or not weight.isdecimal():
        raise BadInput(f"expected VALUE=WEIGHT like 'big_tenant=3', got {text!r}")
    return name, int(weight)


def _change(url: str, name: str, change: Callable[[Verbs], Awaitable[Queue]]) -> Queue:
    """A queue is any name: so one that nobody uses is taken for a slip, and refused."""
    from onthedot.cli.asking import ask, finding
    from onthedot.operations.job_lookup import why_unused

    async def work(verbs: Verbs) -> Queue:
        refused = await why_unused(finding(verbs), name)
        if refused is not None:
            raise BadInput(f"NAME: {refused}")
        return await change(verbs)

    return ask(url, work)


def _tell(queue: Queue, words: str, *, as_json: bool) -> None:
    from onthedot.observe.cluster import said_of_queue
    from onthedot.observe.formats import plain

    click.echo(json.dumps(said_of_queue(queue), indent=2) if as_json else plain(f"queue {queue.name} {words}"))
