"""Who lives and who leads, in SQLite."""

from __future__ import annotations

import json
import sqlite3
from dataclasses import asdict, replace
from typing import Any

from onthedot.clock import Micros
from onthedot.errors import NodeExpired, TermLost
from onthedot.schedules.zones import is_newer
from onthedot.stores.base import Beat, Hint, Layout, Node, Term
from onthedot.stores.shards import buckets_of
from onthedot.stores.sqlite.lane import Transaction
from onthedot.stores.sqlite.tables import Tables, check_lease
from onthedot.stores.values import most

# Asked again, it is a beat.
REGISTER = """
INSERT INTO nodes (incarnation, id, host, pid, roles, offers, tzdata, registered_at, ttl, lease_until, ended, reaped)
VALUES (:incarnation, :id, :host, :pid, :roles, :offers, :tzdata, :now, :until - :now, :until, 0, 0)
ON CONFLICT (incarnation) DO NOTHING
"""

BEAT = "UPDATE nodes SET lease_until = :until, ttl = :until - :now WHERE incarnation = :incarnation AND ended = 0"

# Written before the clock was set back.
SHORTEN_LEASES = "UPDATE nodes SET lease_until = :now + ttl WHERE ended = 0 AND lease_until > :now + ttl"
SHORTEN_TERM = "UPDATE terms SET until = :now + ttl WHERE shard = :shard AND until > :now + ttl"

# A living planner with the same zone data that registered earlier, other than the one that led last.
FIND_EARLIER = """
SELECT 1 FROM nodes
WHERE number < (SELECT number FROM nodes WHERE incarnation = :incarnation) AND incarnation <> :last
  AND tzdata = :tzdata
  AND ended = 0 AND lease_until > :now AND EXISTS (SELECT 1 FROM json_each(roles) WHERE value = 'planner')
LIMIT 1
"""

LIST_VERSIONS = """
SELECT DISTINCT tzdata FROM nodes
WHERE ended = 0 AND lease_until > :now AND draining = 0
  AND EXISTS (SELECT 1 FROM json_each(roles) WHERE value = 'planner')
"""

FIND_VERSION = "SELECT tzdata FROM nodes WHERE incarnation = ?"

FIND_DRAINING = "SELECT draining FROM nodes WHERE incarnation = ?"

DRAIN = "UPDATE nodes SET draining = :draining WHERE id = :id AND ended = 0 AND lease_until > :now"

LIST_CANCELS = """
SELECT lease_id, cancel_wanted FROM runs INDEXED BY runs_held
WHERE incarnation = ? AND state = 'running' AND cancel_wanted IS NOT NULL
"""

LEAVE = """
UPDATE nodes SET ended = 1, lease_until = :now, left_at = :now WHERE incarnation = :incarnation AND ended = 0
"""

FREE_RESERVATIONS = """
UPDATE runs
SET state = 'scheduled', ready_at = due_at, lease_id = NULL, incarnation = NULL, revision = NULL, reserved_at = NULL
WHERE incarnation = :incarnation AND state = 'reserved'
"""

END_TERMS = "UPDATE terms SET until = min(until, :now) WHERE incarnation = :incarnation"

_NODES = """
SELECT id, incarnation, host, pid, roles, offers, draining, registered_at, lease_until, left_at, ttl, tzdata FROM nodes
"""

LIST_NODES = _NODES + "ORDER BY number DESC LIMIT ?"

LIST_LIVING = _NODES + "WHERE ended = 0 AND lease_until > ? ORDER BY number DESC"

FIND_TERM = "SELECT shard, number, incarnation, until, layout, tzdata, zones FROM terms WHERE shard = ?"

FIND_LAYOUT = "SELECT version, shards FROM layouts ORDER BY version DESC LIMIT 1"

FIND_ANY_ZONED = "SELECT 1 FROM schedules INDEXED BY schedules_zoned WHERE zoned = 1 LIMIT 1"

BEGIN_TERM = """
INSERT INTO terms (shard, number, incarnation, until, ttl, layout, tzdata, zones)
VALUES (:shard, :number, :incarnation, :now + :ttl, :ttl, :layout, :tzdata, :zones)
ON CONFLICT (shard) DO UPDATE
SET number = excluded.number, incarnation = excluded.incarnation, until = excluded.until, ttl = excluded.ttl,
    layout = excluded.layout, tzdata = excluded.tzdata, zones = excluded.zones
"""

REMEMBER_TERM = "INSERT INTO term_history (shard, number, incarnation, began_at) VALUES (?, ?, ?, ?)"

EXTEND_TERM = """
UPDATE terms SET until = :until, ttl = max(ttl, :until - :now)
WHERE shard = :shard AND number = :number AND layout = :layout AND until > :now
"""


class Nodes(Tables):
    """See `NodesSlice`."""

    async def register(self, node: Node, *, ttl: Micros, now: Micros | None = None) -> Beat:
        def work(tx: Transaction) -> Beat:
            at = self.read_clock(now)
            row = {
                "incarnation": node.incarnation, "id": node.id, "host": node.host, "pid": node.pid,
                "roles": json.dumps(node.roles), "offers": _offers(node), "tzdata": node.tzdata,
                "now": at, "until": at + ttl,
            }  # fmt: skip
            tx.db.execute(REGISTER, row)
            return _beat(tx.db, node.incarnation, at, at + ttl)

        return await self.write(work)

    async def beat(self, incarnation: str, *, ttl: Micros, now: Micros | None = None) -> Beat:
        def work(tx: Transaction) -> Beat:
            at = self.read_clock(now)
            return _beat(tx.db, incarnation, at, at + ttl)

        return await self.write(work)

    async def leave(self, incarnation: str, *, now: Micros | None = None) -> None:
        def work(tx: Transaction) -> None:
            at = self.read_clock(now)
            values = {"incarnation": incarnation, "now": at}
            if tx.db.execute(LEAVE, values).rowcount:
                tx.db.execute(FREE_RESERVATIONS, values)
                tx.db.execute(END_TERMS, values)
                tx.hints += [Hint("runs", at), Hint("terms", at)]

        await self.write(work)

    async def list_nodes(
        self, *, limit: int | None = None, living: bool = False, now: Micros | None = None
    ) -> list[Node]:
        if living:
            return (await self.read(lambda tx: living_nodes(tx.db, self.read_clock(now))))[:limit]
        rows = await self.read(lambda tx: tx.db.execute(LIST_NODES, (most(limit),)).fetchall())
        return [_node(row) for row in rows]

    async def drain(self, node_id: str, *, draining: bool = True, now: Micros | None = None) -> int:
        def work(tx: Transaction) -> int:
            at = self.read_clock(now)
            tx.hints.append(Hint("beats", at))
            return tx.db.execute(DRAIN, {"draining": int(draining), "id": node_id, "now": at}).rowcount

        return await self.write(work)

    async def probe(self, *, now: Micros | None = None) -> None:
        def work(tx: Transaction) -> None:
            tx.hints.append(Hint("beats", self.read_clock(now)))

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
        def work(tx: Transaction) -> Term | None:
            at = self.read_clock(now)
            check_lease(tx.db, incarnation, at)
            check_layout(tx.db, layout, shard)
            current = find_term(tx.db, shard)
            if current is not None and current.until > at and current.incarnation:
                tx.db.execute(SHORTEN_TERM, {"shard": shard, "now": at})
                return _extend(tx.db, current, at, at + ttl) if current.incarnation == incarnation else None
            [tzdata] = tx.db.execute(FIND_VERSION, (incarnation,)).fetchone()
            if any(is_newer(version, tzdata) for (version,) in tx.db.execute(LIST_VERSIONS, {"now": at})):
                return None
            if current is not None and at < current.until + patience:
                rivals = {"incarnation": incarnation, "last": current.incarnation, "tzdata": tzdata, "now": at}
                if tx.db.execute(FIND_EARLIER, rivals).fetchone():
                    return None
            term = _next_term(tx.db, current, Term(shard, 1, incarnation, at + ttl, tzdata=tzdata))
            tx.db.execute(BEGIN_TERM, asdict(term) | {"now": at, "ttl": ttl})
            tx.db.execute(REMEMBER_TERM, (shard, term.number, incarnation, at))
            return term

        return await self.write(work)

    async def renew(self, term: Term, *, ttl: Micros, now: Micros | None = None) -> Term | None:
        def work(tx: Transaction) -> Term | None:
            at = self.read_clock(now)
            return _extend(tx.db, term, at, at + ttl)

        return await self.write(work)

    async def resign(self, term: Term, *, now: Micros | None = None) -> bool:
        def work(tx: Transaction) -> bool:
            at = self.read_clock(now)
            resigned = _extend(tx.db, term, at, at) is not None
            if resigned:
                tx.hints.append(Hint("terms", at))
            return resigned

        return await self.write(work)


def living_nodes(db: sqlite3.Connection, now: Micros) -> list[Node]:
    """Those whose lease is alive, newest first."""
    return [_node(row) for row in db.execute(LIST_LIVING, (now,))]


def _beat(db: sqlite3.Connection, incarnation: str, now: Micros, until: Micros) -> Beat:
    if not db.execute(BEAT, {"incarnation": incarnation, "now": now, "until": until}).rowcount:
        raise NodeExpired(f"incarnation {incarnation}: it has ended; register a new one to go on")
    db.execute(SHORTEN_LEASES, {"now": now})
    [draining] = db.execute(FIND_DRAINING, (incarnation,)).fetchone()
    return Beat(now, until, tuple(db.execute(LIST_CANCELS, (incarnation,)).fetchall()), bool(draining))


def _offers(node: Node) -> str:
    return json.dumps({"queues": node.queues, "labels": node.labels, "tasks": node.tasks, "seats": node.seats})


def _node(row: tuple[Any, ...]) -> Node:
    node_id, incarnation, host, pid, roles, offers, draining, *lease = row
    given = json.loads(offers)
    return Node(
        node_id, incarnation, host, pid, tuple(json.loads(roles)), tuple(given["queues"]), tuple(given["labels"]),
        tuple(given["tasks"]), given["seats"], bool(draining), *lease,
    )  # fmt: skip


def _next_term(db: sqlite3.Connection, last: Term | None, first: Term) -> Term:
    """The term that follows the last one of its shard, or the first."""
    layout = find_layout(db).version
    if last is not None:
        return replace(first, number=last.number + 1, layout=layout, zones=last.zones)
    zoned = db.execute(FIND_ANY_ZONED).fetchone()  # without any, all are computed with the right zones
    return replace(first, layout=layout, zones="" if zoned else first.tzdata)


def find_layout(db: sqlite3.Connection) -> Layout:
    """The current one."""
    return Layout(*db.execute(FIND_LAYOUT).fetchone())


def check_layout(db: sqlite3.Connection, layout: int | None, shard: int) -> range:
    """The shard's buckets; `TermLost` for a version that is not current, or a shard that it does not have."""
    now = find_layout(db)
    if layout not in (None, now.version) or not 0 <= shard < now.shards:
        raise TermLost(f"shard {shard}, layout {layout}: the layout is {now.version}, of {now.shards} by now")
    return buckets_of(shard, now.shards)


def check_term(db: sqlite3.Connection, term: Term, now: Micros) -> None:
    """`TermLost` unless this is its shard's current term."""
    current = find_term(db, term.shard)
    current_is_it = current is not None and (current.number, current.layout) == (term.number, term.layout)
    if current is None or not current_is_it or current.until <= now:
        raise TermLost(f"term {term.number} of shard {term.shard} is over; campaign again before planning")


def find_term(db: sqlite3.Connection, shard: int) -> Term | None:
    """The newest term of a shard, over or not."""
    row = db.execute(FIND_TERM, (shard,)).fetchone()
    return None if row is None else Term(*row)


def _extend(db: sqlite3.Connection, term: Term, now: Micros, until: Micros) -> Term | None:
    """Move a term's end; None if it is not the current one, or is over."""
    values = {"shard": term.shard, "number": term.number, "layout": term.layout, "now": now, "until": until}
    moved = db.execute(EXTEND_TERM, values)
    return find_term(db, term.shard) if moved.rowcount else None
