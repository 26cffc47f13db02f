"""Registers nodes, renews and ends their leases, drains them, and lists them. For their terms, see `terms.py`."""

from __future__ import annotations

import json
from typing import Any

from onthedot.clock import Micros
from onthedot.model.errors import NodeExpired
from onthedot.stores.hints import Hint
from onthedot.stores.sql.fragments import release_runs
from onthedot.stores.sql.port import Now, Tx, sql
from onthedot.stores.values import Beat, Node, most

LOCK_NODE = sql("SELECT 1 FROM nodes WHERE incarnation = $1 [[FOR UPDATE]]")
LOCK_NODES_OF = sql("SELECT 1 FROM nodes WHERE id = $1 ORDER BY number [[FOR UPDATE]]")

# A second registration renews the lease, like a heartbeat.
REGISTER = sql("""
INSERT INTO nodes (incarnation, id, host, pid, roles, offers, tzdata, registered_at, ttl, lease_until, ended, reaped)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $8[[::bigint]] + $9[[::bigint]], false, 0)
ON CONFLICT (incarnation) DO NOTHING
""")

BEAT = sql("""
UPDATE nodes SET lease_until = $2, ttl = $3, draining = draining OR $4
WHERE incarnation = $1 AND NOT ended RETURNING draining
""")

# Shortens leases that were written before the clock was set back. A node that sends a heartbeat now does this itself.
SHORTEN_LEASES = sql("""
UPDATE nodes SET lease_until = $1[[::bigint]] + ttl
WHERE [[number IN (SELECT number FROM nodes WHERE]] NOT ended AND lease_until > $1[[::bigint]] + ttl
      [[FOR UPDATE SKIP LOCKED)]]
""")

LIST_CANCELS = sql("""
SELECT lease_id, cancel_wanted FROM runs <<INDEXED BY runs_held>>
WHERE incarnation = $1 AND state = 'running' AND cancel_wanted IS NOT NULL
""")

DRAIN = sql("UPDATE nodes SET draining = $1 WHERE id = $2 AND NOT ended AND lease_until > $3")
LEAVE = sql("UPDATE nodes SET ended = true, lease_until = $2, left_at = $2 WHERE incarnation = $1 AND NOT ended")

LOCK_TERMS_OF = sql("SELECT shard FROM terms WHERE incarnation = $1 ORDER BY shard [[FOR UPDATE]]")

END_TERMS = sql("UPDATE terms SET until = {least}(until, $2) WHERE shard {in1}")

FREE_RESERVATIONS = release_runs("incarnation = $1")

_NODES = """
SELECT id, incarnation, host, pid, [[to_json(roles)]]<<roles>>, offers, draining, registered_at, lease_until, left_at,
       ttl, tzdata
FROM nodes
"""

LIST_NODES = sql(_NODES + "ORDER BY number DESC LIMIT $1")

LIST_LIVING = sql(_NODES + "WHERE NOT ended AND lease_until > $1 ORDER BY number DESC")


async def register(tx: Tx, node: Node, *, ttl: Micros, now: Now = None) -> Beat:
    at = await tx.clock(now)
    offers = json.dumps({"queues": node.queues, "labels": node.labels, "tasks": node.tasks, "seats": node.seats})
    await tx.do(
        REGISTER, node.incarnation, node.id, node.host, node.pid, list(node.roles), offers, node.tzdata, at, ttl
    )
    return await _beat(tx, node.incarnation, ttl, at, draining=False)


async def beat(tx: Tx, incarnation: str, *, ttl: Micros, draining: bool = False, now: Now = None) -> Beat:
    return await _beat(tx, incarnation, ttl, await tx.clock(now), draining=draining)


async def _beat(tx: Tx, incarnation: str, ttl: Micros, now: Micros, *, draining: bool) -> Beat:
    draining = await tx.value(BEAT, incarnation, now + ttl, ttl, draining)
    if draining is None:
        raise NodeExpired(f"incarnation {incarnation}: it has ended; register a new one to go on")
    await tx.do(SHORTEN_LEASES, now)
    cancels = tuple((lease_id, why) for lease_id, why in await tx.rows(LIST_CANCELS, incarnation))
    return Beat(now, now + ttl, cancels, bool(draining))


async def leave(tx: Tx, incarnation: str, *, now: Now = None) -> None:
    at = await tx.clock(now)
    await lock_node(tx, incarnation)
    if await tx.do(LEAVE, incarnation, at):
        await tx.do(END_TERMS, await tx.values(LOCK_TERMS_OF, incarnation), at)
        await tx.do(FREE_RESERVATIONS, incarnation)
        tx.hints += [Hint("runs", at), Hint("terms", at)]


async def drain(tx: Tx, node_id: str, *, draining: bool = True, now: Now = None) -> int:
    at = await tx.clock(now)
    tx.hints.append(Hint("beats", at))
    if tx.concurrent:
        await tx.rows(LOCK_NODES_OF, node_id)
    return await tx.do(DRAIN, draining, node_id, at)


async def probe(tx: Tx, *, now: Now = None) -> None:
    tx.hints.append(Hint("beats", await tx.clock(now)))


async def list_nodes(tx: Tx, *, limit: int | None = None, living: bool = False, now: Now = None) -> list[Node]:
    if living:
        return (await living_nodes(tx, await tx.clock(now)))[:limit]
    return [_node(*row) for row in await tx.rows(LIST_NODES, most(limit))]


async def living_nodes(tx: Tx, now: Micros) -> list[Node]:
    """Return the nodes whose lease is alive, newest first."""
    return [_node(*row) for row in await tx.rows(LIST_LIVING, now)]


def _node(id: str, incarnation: str, host: str, pid: int, roles: str, offers: str, draining: bool, *rest: Any) -> Node:
    """Return a node from its row. Its roles and its offers are JSON."""
    offer = json.loads(offers)
    queues, labels, tasks = (tuple(offer[name]) for name in ("queues", "labels", "tasks"))
    work = (tuple(json.loads(roles)), queues, labels, tasks, offer["seats"], bool(draining))
    return Node(id, incarnation, host, pid, *work, *rest)


def expired(incarnation: str) -> NodeExpired:
    """Return the error for a node that is not registered, or whose lease has ended."""
    return NodeExpired(f"incarnation {incarnation}: its lease has ended; register a new one to go on")


async def lock_node(tx: Tx, incarnation: str) -> None:
    """Lock a node before changing more than its lease. FOR KEY SHARE does not wait for a plain UPDATE."""
    if tx.concurrent:
        await tx.rows(LOCK_NODE, incarnation)
