"""`onthedot nodes`: who is there, who leads, what each serves and holds."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import click

from onthedot.cli.errors import Command
from onthedot.cli.options import store_url, with_debug, with_json, with_store

if TYPE_CHECKING:
    from onthedot.clock import Micros
    from onthedot.stores.base import Held, Node, Store

MOST = 10_000
DAY = 86_400_000_000


@dataclass(frozen=True)
class Shown:
    """A node with what people want to know of it."""

    node: Node
    state: str
    terms: list[int]  # the shards that it leads
    held: Held


@click.command(cls=Command, short_help="List the nodes: state, who leads, seats, queues, labels.")
@click.option("--all", "everything", is_flag=True, help="Also those that ended more than a day ago.")
@with_store
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
    from onthedot.cli.reading import read_store
    from onthedot.clock import SystemClock

    now = SystemClock().now()
    nodes = read_store(store_url(store, db), lambda opened: _nodes(opened, now))
    if not everything:
        nodes = [shown for shown in nodes if shown.node.lease_until > now - DAY]
    if as_json:
        click.echo(json.dumps([_as_json(shown) for shown in nodes], indent=2))
    elif nodes:
        _echo(nodes, now)
    else:
        click.echo("no nodes are registered" if everything else "no nodes of the last day; --all shows the others")


async def _nodes(store: Store, now: Micros) -> list[Shown]:
    from onthedot.cluster.living import state_of
    from onthedot.stores.base import Held

    nodes, terms, held = await store.list_nodes(limit=MOST), await store.list_terms(), await store.count_held()
    return [
        Shown(
            node,
            state_of(node, now),
            [term.shard for term in terms if term.incarnation == node.incarnation and term.until > now],
            held.get(node.incarnation, Held()),
        )
        for node in nodes
    ]


def _echo(nodes: list[Shown], now: Micros) -> None:
    from onthedot.cli.table import echo_table

    echo_table(
        ["NODE", "STATE", "LEADS", "RUNS", "SINCE", "LEASE", "ROLES", "QUEUES", "LABELS"],
        [_row(shown, now) for shown in nodes],
    )


def _row(shown: Shown, now: Micros) -> list[str]:
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


def _as_json(shown: Shown) -> dict[str, Any]:
    from onthedot.observe.json_lines import optional_iso
    from onthedot.observe.text import iso

    node = shown.node
    return {
        "node_id": node.id,
        "incarnation": node.incarnation,
        "state": shown.state,
        "leads": bool(shown.terms),
        "shards": shown.terms,
        "draining": node.draining,
        "host": node.host,
        "pid": node.pid,
        "roles": list(node.roles),
        "queues": list(node.queues),
        "labels": list(node.labels),
        "tasks": list(node.tasks),
        "seats": node.seats,
        "running": shown.held.running,
        "reserved": shown.held.reserved,
        "registered_at": iso(node.registered_at),
        "lease_until": iso(node.lease_until),
        "left_at": optional_iso(node.left_at),
    }
