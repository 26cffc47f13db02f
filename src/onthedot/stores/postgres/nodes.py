"""Who lives and who leads, in PostgreSQL."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

from onthedot.clock import Micros
from onthedot.errors import NodeExpired, TermLost
from onthedot.schedules.zones import is_newer
from onthedot.stores.base import Beat, Hint, Layout, Node, Term
from onthedot.stores.postgres.tables import LOCK_NODE, Tables, check_lease
from onthedot.stores.postgres.transaction import Transaction
from onthedot.stores.shards import buckets_of

# Asked again, it is a beat.
REGISTER = """
INSERT INTO nodes (incarnation, id, host, pid, roles, offers, tzdata, registered_at, ttl, lease_until)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $8::bigint + $9::bigint)
ON CONFLICT (incarnation) DO NOTHING
"""

BEAT = "UPDATE nodes SET lease_until = $2, ttl = $3 WHERE incarnation = $1 AND NOT ended RETURNING draining"

# Written before the clock was set back. Who beats at this moment does so by itself.
SHORTEN_LEASES = """
UPDATE nodes SET lease_until = $1::bigint + ttl
WHERE number IN (SELECT number FROM nodes WHERE NOT ended AND lease_until > $1::bigint + ttl FOR UPDATE SKIP LOCKED)
"""
SHORTEN_TERM = "UPDATE terms SET until = $2::bigint + ttl WHERE shard = $1 AND until > $2::bigint + ttl"

# A living planner with the same zone data that registered earlier, other than the one that led last.
FIND_EARLIER = """
SELECT 1 FROM nodes
WHERE number < (SELECT number FROM nodes WHERE incarnation = $1) AND incarnation <> $2
  AND tzdata = $3 AND NOT ended AND lease_until > $4 AND 'planner' = ANY(roles)
LIMIT 1
"""

LIST_VERSIONS = """
SELECT DISTINCT tzdata FROM nodes WHERE NOT ended AND lease_until > $1 AND NOT draining AND 'planner' = ANY(roles)
"""

FIND_VERSION = "SELECT tzdata FROM nodes WHERE incarnation = $1"

LOCK_NODES_OF = "SELECT 1 FROM nodes WHERE id = $1 ORDER BY number FOR UPDATE"

DRAIN = "UPDATE nodes SET draining = $1 WHERE id = $2 AND NOT ended AND lease_until > $3"

LIST_CANCELS = """
SELECT lease_id, cancel_wanted FROM runs
WHERE incarnation = $1 AND state = 'running' AND cancel_wanted IS NOT NULL
"""

LEAVE = "UPDATE nodes SET ended = true, lease_until = $2, left_at = $2 WHERE incarnation = $1 AND NOT ended"

FREE_RESERVATIONS = """
UPDATE runs
SET state = 'scheduled', ready_at = due_at, lease_id = NULL, incarnation = NULL, revision = NULL, reserved_at = NULL
WHERE incarnation = $1 AND state = 'reserved'
"""

END_TERMS = "UPDATE terms SET until = least(until, $2) WHERE incarnation = $1"

_NODES = """
SELECT id, incarnation, host, pid, roles, offers, draining, registered_at, lease_until, left_at, ttl, tzdata FROM nodes
"""

LIST_NODES = _NODES + "ORDER BY number DESC LIMIT $1"

LIST_LIVING = _NODES + "WHERE NOT ended AND lease_until > $1 ORDER BY number DESC"

FIND_TERM = "SELECT shard, number, incarnation, until, layout, tzdata, zones FROM terms WHERE shard = $1"

# Until the end of the transaction nobody else begins a term, or changes the layout.
HOLD_TERM = FIND_TERM + " FOR SHARE"

FIND_LAYOUT = "SELECT version, shards FROM layouts ORDER BY version DESC LIMIT 1"

FIND_ANY_ZONED = "SELECT 1 FROM schedules WHERE zoned LIMIT 1"

BEGIN_TERM = """
INSERT INTO terms (shard, number, incarnation, until, layout, tzdata, zones, ttl)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8)
ON CONFLICT (shard) DO UPDATE
SET number = excluded.number, incarnation = excluded.incarnation, until = excluded.until, ttl = excluded.ttl,
    layout = excluded.layout, tzdata = excluded.tzdata, zones = excluded.zones
"""

REMEMBER_TERM = "INSERT INTO term_history (shard, number, incarnation, began_at) VALUES ($1, $2, $3, $4)"

EXTEND_TERM = """
UPDATE terms SET until = $5, ttl = greatest(ttl, $5::bigint - $4::bigint)
WHERE shard = $1 AND number = $2 AND layout = $3 AND until > $4
RETURNING shard, number, incarnation, until, layout, tzdata, zones
"""

TERMS = "terms"
"""The key that whoever begins a term or changes the layout holds: one at a time."""


class Nodes(Tables):
    """See `NodesSlice`."""

    async def register(self, node: Node, *, ttl: Micros, now: Micros | None = None) -> Beat:
        self.limits.know_lease(ttl)

        async def work(tx: Transaction) -> Beat:
            at = await tx.clock(now)
            await tx.do(
                REGISTER, node.incarnation, node.id, node.host, node.pid, list(node.roles), _offers(node), node.tzdata,
                at, ttl,
            )  # fmt: skip
            return await _beat(tx, node.incarnation, at, ttl)

        return await self.write(work)

    async def beat(self, incarnation: str, *, ttl: Micros, now: Micros | None = None) -> Beat:
        async def work(tx: Transaction) -> Beat:
            return await _beat(tx, incarnation, await tx.clock(now), ttl)

        return await self.write(work)

    async def leave(self, incarnation: str, *, now: Micros | None = None) -> None:
        async def work(tx: Transaction) -> None:
            at = await tx.clock(now)
            await tx.rows(LOCK_NODE, incarnation)
            if await tx.do(LEAVE, incarnation, at):
                await tx.do(END_TERMS, incarnation, at)
                await tx.do(FREE_RESERVATIONS, incarnation)
                tx.hints += [Hint("runs", at), Hint("terms", at)]

        await self.write(work)

    async def list_nodes(
        self, *, limit: int | None = None, living: bool = False, now: Micros | None = None
    ) -> list[Node]:
        async def alive(tx: Transaction) -> list[Node]:
            return (await living_nodes(tx, await tx.clock(now)))[:limit]

        if living:
            return await self.read(alive)
        return [_node(row) for row in await self.read(lambda tx: tx.rows(LIST_NODES, limit))]

    async def drain(self, node_id: str, *, draining: bool = True, now: Micros | None = None) -> int:
        async def work(tx: Transaction) -> int:
            at = await tx.clock(now)
            tx.hints.append(Hint("beats", at))
            await tx.rows(LOCK_NODES_OF, node_id)
            return await tx.do(DRAIN, draining, node_id, at)

        return await self.write(work)

    async def probe(self, *, now: Micros | None = None) -> None:
        async def work(tx: Transaction) -> None:
            tx.hints.append(Hint("beats", await tx.clock(now)))

        await self.write(work)

    async def campaign(
        self,
        incarnation: str,
        *,
        ttl: Micros,
        shard: int = 0,
        layout: int | None = None,
        patience: Micros = 0,
        now: Micros | None = None,
    ) -> Term | None:
        async def work(tx: Transaction) -> Term | None:
            at = await tx.clock(now)
            await check_lease(tx, incarnation, at)
            await tx.lock_keys([TERMS])
            await check_layout(tx, layout, shard)
            current = await find_term(tx, shard)
            if current is not None and current.until > at and current.incarnation:
                await tx.do(SHORTEN_TERM, shard, at)
                return await _extend(tx, current, at, at + ttl) if current.incarnation == incarnation else None
            tzdata = await tx.value(FIND_VERSION, incarnation)
            if any(is_newer(version, tzdata) for (version,) in await tx.rows(LIST_VERSIONS, at)):
                return None
            is_early = current is not None and at < current.until + patience
            last = "" if current is None else current.incarnation
            if is_early and await tx.row(FIND_EARLIER, incarnation, last, tzdata, at):
                return None
            term = await _next_term(tx, current, Term(shard, 1, incarnation, at + ttl, tzdata=tzdata))
            await tx.do(
                BEGIN_TERM, shard, term.number, incarnation, term.until, term.layout, term.tzdata, term.zones, ttl
            )
            await tx.do(REMEMBER_TERM, shard, term.number, incarnation, at)
            return term

        return await self.write(work)

    async def renew(self, term: Term, *, ttl: Micros, now: Micros | None = None) -> Term | None:
        async def work(tx: Transaction) -> Term | None:
            at = await tx.clock(now)
            return await _extend(tx, term, at, at + ttl)

        return await self.write(work)

    async def resign(self, term: Term, *, now: Micros | None = None) -> bool:
        async def work(tx: Transaction) -> bool:
            at = await tx.clock(now)
            resigned = await _extend(tx, term, at, at) is not None
            if resigned:
                tx.hints.append(Hint("terms", at))
            return resigned

        return await self.write(work)


async def living_nodes(tx: Transaction, now: Micros) -> list[Node]:
    """Those whose lease is alive."""
    return [_node(row) for row in await tx.rows(LIST_LIVING, now)]


async def _beat(tx: Transaction, incarnation: str, now: Micros, ttl: Micros) -> Beat:
    row = await tx.row(BEAT, incarnation, now + ttl, ttl)
    if row is None:
        raise NodeExpired(f"incarnation {incarnation}: it has ended; register a new one to go on")
    await tx.do(SHORTEN_LEASES, now)
    cancels = await tx.rows(LIST_CANCELS, incarnation)
    return Beat(now, now + ttl, tuple((lease_id, why) for lease_id, why in cancels), row[0])


def _offers(node: Node) -> str:
    return json.dumps({"queues": node.queues, "labels": node.labels, "tasks": node.tasks, "seats": node.seats})


def _node(row: Any) -> Node:
    node_id, incarnation, host, pid, roles, offers, draining, *lease = row
    given = json.loads(offers)
    return Node(
        node_id, incarnation, host, pid, tuple(roles), tuple(given["queues"]), tuple(given["labels"]),
        tuple(given["tasks"]), given["seats"], draining, *lease,
    )  # fmt: skip


async def _next_term(tx: Transaction, last: Term | None, first: Term) -> Term:
    """The term that follows the last one of its shard, or the first."""
    layout = (await find_layout(tx)).version
    if last is not None:
        return replace(first, number=last.number + 1, layout=layout, zones=last.zones)
    zoned = await tx.row(FIND_ANY_ZONED)  # without any, all are computed with the right zones
    return replace(first, layout=layout, zones="" if zoned else first.tzdata)


async def find_layout(tx: Transaction) -> Layout:
    """The current one."""
    return Layout(*await tx.row(FIND_LAYOUT))


async def check_layout(tx: Transaction, layout: int | None, shard: int) -> range:
    """The shard's buckets; `TermLost` for a version that is not current, or a shard that it does not have."""
    now = await find_layout(tx)
    if layout not in (None, now.version) or not 0 <= shard < now.shards:
        raise TermLost(f"shard {shard}, layout {layout}: the layout is {now.version}, of {now.shards} by now")
    return buckets_of(shard, now.shards)


async def check_term(tx: Transaction, term: Term, now: Micros) -> None:
    """`TermLost` unless this is its shard's current term. Nobody ends it before this transaction has ended."""
    row = await tx.row(HOLD_TERM, term.shard)
    current = None if row is None else Term(*row)
    current_is_it = current is not None and (current.number, current.layout) == (term.number, term.layout)
    if current is None or not current_is_it or current.until <= now:
        raise TermLost(f"term {term.number} of shard {term.shard} is over; campaign again before planning")


async def find_term(tx: Transaction, shard: int) -> Term | None:
    """The newest term of a shard, over or not."""
    row = await tx.row(FIND_TERM, shard)
    return None if row is None else Term(*row)


async def _extend(tx: Transaction, term: Term, now: Micros, until: Micros) -> Term | None:
    """Move a term's end; None if it is not the current one, or is over."""
    row = await tx.row(EXTEND_TERM, term.shard, term.number, term.layout, now, until)
    return None if row is None else Term(*row)
