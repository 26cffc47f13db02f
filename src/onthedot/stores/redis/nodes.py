"""Who lives, and who leads, in Redis."""

from __future__ import annotations

from typing import Any

from onthedot.clock import Micros
from onthedot.stores.redis.rows import read_term, term_asked
from onthedot.stores.redis.tables import Tables
from onthedot.stores.values import Beat, Node, Term, most


class Nodes(Tables):
    """See `Store`."""

    async def register(self, node: Node, *, ttl: Micros, now: Micros | None = None) -> Beat:
        return await self._beat(node.incarnation, ttl, now, node=_asked(node))

    async def beat(self, incarnation: str, *, ttl: Micros, now: Micros | None = None) -> Beat:
        return await self._beat(incarnation, ttl, now)

    async def _beat(self, incarnation: str, ttl: Micros, now: Micros | None, **fields: Any) -> Beat:
        read_at, said = await self.ask_at("beat", now=now, incarnation=incarnation, ttl=ttl, **fields)
        lease_until, stops, draining = said
        return Beat(read_at, lease_until, tuple((lease, why) for lease, why in stops), bool(draining))

    async def leave(self, incarnation: str, *, now: Micros | None = None) -> None:
        await self.ask("leave", now=now, incarnation=incarnation)

    async def drain(self, node_id: str, *, draining: bool = True, now: Micros | None = None) -> int:
        count: int = await self.ask("drain", now=now, node_id=node_id, draining=draining or None)
        return count

    async def probe(self, *, now: Micros | None = None) -> None:
        await self.ask("probe", now=now)

    async def list_nodes(
        self, *, limit: int | None = None, living: bool = False, now: Micros | None = None
    ) -> list[Node]:
        rows = await self.look("list_nodes", now=now, limit=most(limit), living=living or None)
        return [_read(row) for row in rows]

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
        row = await self.ask(
            "campaign", now=now, incarnation=incarnation, ttl=ttl, shard=shard, layout=layout, patience=patience
        )
        return read_term(row)

    async def renew(self, term: Term, *, ttl: Micros, now: Micros | None = None) -> Term | None:
        return read_term(await self.ask("renew", now=now, term=term_asked(term), ttl=ttl))

    async def resign(self, term: Term, *, now: Micros | None = None) -> bool:
        return bool(await self.ask("resign", now=now, term=term_asked(term)))


def _asked(node: Node) -> dict[str, Any]:
    return {
        "id": node.id,
        "incarnation": node.incarnation,
        "host": node.host,
        "pid": node.pid,
        "roles": node.roles,
        "queues": node.queues,
        "labels": node.labels,
        "tasks": node.tasks,
        "seats": node.seats,
        "draining": node.draining,
        "tzdata": node.tzdata,
    }


def _read(row: list[Any]) -> Node:
    (
        node_id, incarnation, host, pid, roles, queues, labels, tasks, seats, draining, registered, until, left, ttl,
        tzdata,
    ) = row  # fmt: skip
    return Node(
        node_id, incarnation, host, pid, tuple(roles), tuple(queues), tuple(labels), tuple(tasks), seats,
        bool(draining), registered, until, left, ttl, tzdata,
    )  # fmt: skip
