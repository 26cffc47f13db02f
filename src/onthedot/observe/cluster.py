"""Nodes, terms and queues as JSON, for the command line and for HTTP."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from onthedot.clock import Micros
from onthedot.observe.formats import iso, optional_iso
from onthedot.observe.node_state import state_of
from onthedot.stores.protocol import Store
from onthedot.stores.values import Held, Node, Queue, Term


class NodeShown(NamedTuple):
    """A node, its state, the shards that it leads, and how many runs it holds."""

    node: Node
    state: str
    terms: list[int]  # the shards that it leads
    held: Held


async def nodes_shown(store: Store, now: Micros, *, living: bool = False) -> list[NodeShown]:
    """Every registered node, or every living one, the latest first."""
    nodes = await store.queries.list_nodes(living=living, now=now)
    terms, held = await store.queries.list_terms(), await store.queries.count_held()
    return [
        NodeShown(
            node,
            state_of(node, now),
            [term.shard for term in terms if term.incarnation == node.incarnation and term.until > now],
            held.get(node.incarnation, Held()),
        )
        for node in nodes
    ]


def node_fields(shown: NodeShown) -> dict[str, Any]:
    """A node as JSON."""
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


def term_fields(term: Term, nodes: Mapping[str, str], now: Micros) -> dict[str, Any]:
    """A term as JSON. `nodes` maps incarnations to names of nodes."""
    return {
        "shard": term.shard,
        "number": term.number,
        "node_id": nodes.get(term.incarnation),
        "incarnation": term.incarnation,
        "until": iso(term.until),
        "current": bool(term.incarnation) and term.until > now,
    }


def queue_fields(queue: Queue) -> dict[str, Any]:
    """A queue as JSON, with the counts of its runs."""
    return {
        **queue_settings(queue),
        "waiting": queue.waiting,
        "due": queue.due,
        "running": queue.running,
        "oldest_due_at": optional_iso(queue.oldest_due),
    }


def queue_settings(queue: Queue) -> dict[str, Any]:
    """The settings of a queue as JSON."""
    return {
        "queue": queue.name,
        "paused": queue.paused_at is not None,
        "paused_at": optional_iso(queue.paused_at),
        "reason": queue.reason,
        "weights": None if queue.weights is None else dict(queue.weights),
    }
