"""`onthedot node drain`: let one node take no more work, or go on."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import click

from onthedot.cli.errors import BadInput, Command
from onthedot.cli.groups import Group
from onthedot.cli.options import store_url, with_debug, with_json, with_store

if TYPE_CHECKING:
    from onthedot.stores.base import Store


@click.group(cls=Group, short_help="Drain a node, or let it go on.")
def command() -> None:
    """Do something to one node.

    \b
    Examples:
      onthedot node drain web-1
      onthedot node drain web-1 --undo
    """


@command.command(cls=Command, short_help="Let a node take no more work.")
@click.argument("name")
@click.option("--undo", is_flag=True, help="Let it take work again.")
@with_store
@with_json("one JSON object")
@with_debug
def drain(name: str, undo: bool, store: str | None, db: str | None, as_json: bool) -> None:
    """Let the living node NAME take no more work: what it runs, and what it has
    reserved for the next two seconds, goes on.

    The node stays, and may lead; 'onthedot nodes' shows it as draining. After a restart it takes work again.

    \b
    Examples:
      onthedot node drain web-1
      onthedot node drain web-1 --undo
    """
    from onthedot.cli.writing import write_store
    from onthedot.observe.text import plain

    count = write_store(store_url(store, db), lambda opened: _drain(opened, name, draining=not undo))
    if as_json:
        click.echo(json.dumps({"node_id": name, "draining": not undo, "incarnations": count}, indent=2))
    else:
        click.echo(f"node {plain(name)} {'takes work again' if undo else 'takes no more work; what it runs goes on'}")


async def _drain(store: Store, name: str, *, draining: bool) -> int:
    from onthedot.clock import SystemClock
    from onthedot.cluster.living import is_living
    from onthedot.errors import did_you_mean

    count = await store.drain(name, draining=draining)
    if not count:
        now = SystemClock().now()
        living = {node.id for node in await store.list_nodes() if is_living(node, now)}
        raise BadInput(f"NAME: expected a living node, got {name!r}{did_you_mean(name, living)}")
    return count
