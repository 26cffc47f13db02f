"""`onthedot nodes | node drain`: lists the nodes, and drains one."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import click

from onthedot.cli.connect import call, call_server, read_store
from onthedot.cli.errors import BadInput, Command, Group
from onthedot.cli.options import store_url, with_debug, with_json, with_server
from onthedot.cli.terminal import echo_table, relative
from onthedot.clock import Micros, SystemClock
from onthedot.model.addresses import is_server
from onthedot.model.errors import did_you_mean
from onthedot.observe.formats import plain
from onthedot.observe.json_fields import NodeShown, node_fields
from onthedot.observe.node_state import is_living
from onthedot.operations.cluster import nodes_shown

if TYPE_CHECKING:
    from onthedot.operations.verbs import Verbs


# ── nodes ────────────────────────────────────────────────────────────────────────────────────────────────────────


DAY = 86_400_000_000


@click.command(cls=Command)
@click.option("--all", "everything", is_flag=True, help="Also nodes that ended more than a day ago.")
@with_server
@with_json("a JSON array with one object per node")
@with_debug
def nodes(everything: bool, store: str | None, db: str | None, as_json: bool) -> None:
    """List the nodes, the latest first. STATE is living, late (it missed two heartbeats), draining, left (it stopped
    cleanly) or dead (its lease has ended). It only reads.

    RUNS is how many runs it executes, of how many seats. LEASE is when the node's lease ends, or ended.

    \b
    Examples:
      onthedot nodes
      onthedot nodes --json | jq '.[] | select(.leads)'
    """
    from onthedot.client import views

    now = SystemClock().now()
    url = store_url(store, db)
    if is_server(url):
        nodes = call_server(url, lambda client: views.nodes_shown(client.server))
    else:
        nodes = read_store(url, lambda opened: nodes_shown(opened, now))
    if not everything:
        nodes = [shown for shown in nodes if shown.node.lease_until > now - DAY]
    if as_json:
        click.echo(json.dumps([node_fields(shown) for shown in nodes], indent=2))
    elif nodes:
        _echo_nodes(nodes, now)
    else:
        click.echo("no nodes are registered" if everything else "no nodes of the last day; --all shows the others")


def _echo_nodes(nodes: list[NodeShown], now: Micros) -> None:
    echo_table(
        ["NODE", "STATE", "LEADS", "RUNS", "SINCE", "LEASE", "ROLES", "QUEUES", "LABELS"],
        [_node_row(shown, now) for shown in nodes],
    )


def _node_row(shown: NodeShown, now: Micros) -> list[str]:
    node = shown.node
    return [
        node.id,
        shown.state,
        "yes" if shown.terms else "-",
        f"{shown.held.running}/{node.seats}",
        relative(node.registered_at, now),
        relative(node.lease_until, now),
        ",".join(node.roles) or "-",
        ",".join(node.queues) or "-",
        ",".join(node.labels) or "-",
    ]


# ── node ─────────────────────────────────────────────────────────────────────────────────────────────────────────


@click.group(cls=Group)
def node() -> None:
    """Drain a node, or end its drain.

    \b
    Examples:
      onthedot node drain web-1
      onthedot node drain web-1 --undo
    """


@node.command(cls=Command, short_help="Drain a node: it takes no more work.")
@click.argument("name")
@click.option("--undo", is_flag=True, help="End the drain: it takes work again.")
@with_server
@with_json("one JSON object")
@with_debug
def drain(name: str, undo: bool, store: str | None, db: str | None, as_json: bool) -> None:
    """Drain the living node NAME: it takes no more work. Its running attempts continue, and so do the runs that it has
    reserved for the next two seconds.

    The node keeps running, and no longer leads: another planner does. If there is none, nothing new is planned until
    the drain ends. 'onthedot nodes' shows it as draining. After a restart it takes work again.

    \b
    Examples:
      onthedot node drain web-1
      onthedot node drain web-1 --undo
    """
    count = call(store_url(store, db), lambda verbs: _drain(verbs, name, draining=not undo))
    if as_json:
        click.echo(json.dumps({"node_id": name, "draining": not undo, "incarnations": count}, indent=2))
    else:
        click.echo(f"node {plain(name)} {'takes work again' if undo else 'takes no more work; what it runs goes on'}")


async def _drain(verbs: Verbs, name: str, *, draining: bool) -> int:
    count = await verbs.drain_node(name, draining=draining)
    if not count:
        now = SystemClock().now()
        living = {node.id for node in await verbs.list_nodes() if is_living(node, now)}
        raise BadInput(f"NAME: expected a living node, got {name!r}{did_you_mean(name, living)}")
    return count
