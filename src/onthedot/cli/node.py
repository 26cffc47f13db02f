"""`onthedot node drain`: let one node take no more work, or go on."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import click

from onthedot.cli.errors import BadInput, Command
from onthedot.cli.groups import Group
from onthedot.cli.options import store_url, with_debug, with_json, with_server

if TYPE_CHECKING:
    from onthedot.operations.verbs import Verbs


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
@with_server
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
    from onthedot.cli.asking import ask
    from onthedot.observe.formats import plain

    count = ask(store_url(store, db), lambda verbs: _drain(verbs, name, draining=not undo))
    if as_json:
        click.echo(json.dumps({"node_id": name, "draining": not undo, "incarnations": count}, indent=2))
    else:
        click.echo(f"node {plain(name)} {'takes work again' if undo else 'takes no more work; what it runs goes on'}")


async def _drain(verbs: Verbs, name: str, *, draining: bool) -> int:
    from onthedot.clock import SystemClock
    from onthedot.model.errors import did_you_mean
    from onthedot.stores.living import is_living

    count = await verbs.drain_node(name, draining=draining)
    if not count:
        now = SystemClock().now()
        living = {node.id for node in await verbs.list_nodes() if is_living(node, now)}
        raise BadInput(f"NAME: expected a living node, got {name!r}{did_you_mean(name, living)}")
    return count
