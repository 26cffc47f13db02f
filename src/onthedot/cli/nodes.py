"""`onthedot nodes`: who is there, who leads, what each serves and holds."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import click

from onthedot.cli.errors import Command
from onthedot.cli.options import store_url, with_debug, with_json, with_server

if TYPE_CHECKING:
    from onthedot.clock import Micros
    from onthedot.observe.cluster import NodeShown

DAY = 86_400_000_000


@click.command(cls=Command, short_help="List the nodes: state, who leads, seats, queues, labels.")
@click.option("--all", "everything", is_flag=True, help="Also those that ended more than a day ago.")
@with_server
@with_json("a JSON array with one object per node")
@with_debug
def command(everything: bool, store: str | None, db: str | None, as_json: bool) -> None:
    """List the nodes, the latest first: living, late (it has missed two beats), draining, left (it stopped in order)
    or dead (its lease has ended). It only reads.

    RUNS are the runs that it executes, of so many seats. LEASE is when the node's lease ends, or ended.

    \b
    Examples:
      onthedot nodes
      onthedot nodes --json | jq '.[] | select(.leads)'
    """
    from onthedot.cli.asking import ask_server
    from onthedot.cli.reading import read_store
    from onthedot.client import views
    from onthedot.clock import SystemClock
    from onthedot.model.addresses import is_server
    from onthedot.observe.cluster import node_fields, nodes_shown

    now = SystemClock().now()
    url = store_url(store, db)
    if is_server(url):
        nodes = ask_server(url, lambda client: views.nodes_shown(client.server))
    else:
        nodes = read_store(url, lambda opened: nodes_shown(opened, now))
    if not everything:
        nodes = [shown for shown in nodes if shown.node.lease_until > now - DAY]
    if as_json:
        click.echo(json.dumps([node_fields(shown) for shown in nodes], indent=2))
    elif nodes:
        _echo(nodes, now)
    else:
        click.echo("no nodes are registered" if everything else "no nodes of the last day; --all shows the others")


def _echo(nodes: list[NodeShown], now: Micros) -> None:
    from onthedot.cli.table import echo_table

    echo_table(
        ["NODE", "STATE", "LEADS", "RUNS", "SINCE", "LEASE", "ROLES", "QUEUES", "LABELS"],
        [_row(shown, now) for shown in nodes],
    )


def _row(shown: NodeShown, now: Micros) -> list[str]:
    from onthedot.cli.words import relative

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
