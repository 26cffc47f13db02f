"""Who lives and who leads, in dictionaries."""

from __future__ import annotations

from dataclasses import replace
from itertools import takewhile

from onthedot.clock import Micros
from onthedot.errors import NodeExpired
from onthedot.run import RunState
from onthedot.schedules.zones import is_newer
from onthedot.shards import zoned_ids
from onthedot.stores.hints import Hint
from onthedot.stores.values import Beat, Node, Term
from tests.review.dictionaries.tables import NodeRow, Tables


class Nodes(Tables):
    """See `Store`."""

    async def register(self, node: Node, *, ttl: Micros, now: Micros | None = None) -> Beat:
        now = self.read_clock(now)
        if node.incarnation not in self.nodes:
            self.nodes[node.incarnation] = NodeRow(replace(node, registered_at=now, lease_until=now + ttl), ttl)
        return await self.beat(node.incarnation, ttl=ttl, now=now)  # asked again, it is nothing else

    async def beat(self, incarnation: str, *, ttl: Micros, now: Micros | None = None) -> Beat:
        now = self.read_clock(now)
        row = self.nodes.get(incarnation)
        if row is None or row.ended:
            raise NodeExpired(f"incarnation {incarnation}: it has ended; register a new one to go on")
        row.ttl = ttl
        row.node.lease_until = now + ttl
        for other in self.nodes.values():
            if not other.ended:  # the clock may have been set back
                other.node.lease_until = min(other.node.lease_until, now + other.ttl)
        cancels = tuple(
            (run.lease.lease_id, run.cancel_wanted)
            for run in self.runs.values()
            if run.cancel_wanted is not None and run.lease and run.lease.incarnation == incarnation
        )
        return Beat(now, row.node.lease_until, cancels, row.node.draining)

    async def leave(self, incarnation: str, *, now: Micros | None = None) -> None:
        now = self.read_clock(now)
        row = self.nodes.get(incarnation)
        if row is None or row.ended:
            return
        row.ended = True
        row.node.lease_until = row.node.left_at = now
        for run in self.runs.values():
            if run.state is RunState.RESERVED and run.lease and run.lease.incarnation == incarnation:
                run.state = RunState.SCHEDULED
                run.lease = None
                self.wait(run, run.due_at)
        for term in self.terms.values():
            if term.incarnation == incarnation:
                term.until = min(term.until, now)
        self.hints.send(Hint("runs", now))
        self.hints.send(Hint("terms", now))

    async def drain(self, node_id: str, *, draining: bool = True, now: Micros | None = None) -> int:
        now = self.read_clock(now)
        living = [
            row for row in self.nodes.values()
            if row.node.id == node_id and not row.ended and row.node.lease_until > now
        ]  # fmt: skip
        for row in living:
            row.node.draining = draining
        self.hints.send(Hint("beats", now))
        return len(living)

    async def probe(self, *, now: Micros | None = None) -> None:
        self.hints.send(Hint("beats", self.read_clock(now)))

    async def list_nodes(
        self, *, limit: int | None = None, living: bool = False, now: Micros | None = None
    ) -> list[Node]:
        now = self.read_clock(now)
        rows = [
            row for row in reversed(self.nodes.values())
            if not living or (not row.ended and row.node.lease_until > now)
        ]  # fmt: skip
        return [replace(row.node, ttl=row.ttl) for row in rows[:limit]]

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
        now = self.read_clock(now)
        self.check_lease(incarnation, now)
        self.check_layout(layout, shard)
        current = self.terms.get(shard)
        if current is not None and current.until > now and current.incarnation:
            current.until = min(current.until, now + self.term_ttls[shard])  # the clock may have been set back
            return await self.renew(current, ttl=ttl, now=now) if current.incarnation == incarnation else None
        planners = self._living_planners(now)
        tzdata = self.nodes[incarnation].node.tzdata
        if any(is_newer(node.tzdata, tzdata) for node in planners if not node.draining):
            return None
        rivals = [node.incarnation for node in planners if node.tzdata == tzdata]
        if (
            current is not None
            and now < current.until + patience
            and self._somebody_is_first(current, incarnation, rivals)
        ):
            return None
        self.terms[shard] = self._next_term(current, shard, self.nodes[incarnation].node, now + ttl)
        self.term_ttls[shard] = ttl
        return replace(self.terms[shard])

    def _next_term(self, last: Term | None, shard: int, node: Node, until: Micros) -> Term:
        layout = self.current_layout.version
        if last is not None:
            number, zones = last.number + 1, last.zones
        else:  # where nothing hangs on zones yet, everything is computed with the right ones
            zoned = any(zoned_ids(self.jobs[job_id].job) for job_id, states in self.schedules.items() if states)
            number, zones = 1, "" if zoned else node.tzdata
        return Term(shard, number, node.incarnation, until, layout, node.tzdata, zones)

    def _living_planners(self, now: Micros) -> list[Node]:
        """In the order in which they registered."""
        nodes = [row.node for row in self.nodes.values()]
        return [node for node in nodes if "planner" in node.roles and node.lease_until > now]

    def _somebody_is_first(self, last: Term, incarnation: str, rivals: list[str]) -> bool:
        """Whether somebody registered before this one, and was not the last to lead."""
        earlier = takewhile(lambda other: other != incarnation, rivals)
        return any(other != last.incarnation for other in earlier)

    async def renew(self, term: Term, *, ttl: Micros, now: Micros | None = None) -> Term | None:
        now = self.read_clock(now)
        if not self.is_current(term, now):
            return None
        current = self.terms[term.shard]
        current.until = now + ttl
        self.term_ttls[term.shard] = max(ttl, self.term_ttls[term.shard])
        return replace(current)

    async def resign(self, term: Term, *, now: Micros | None = None) -> bool:
        now = self.read_clock(now)
        if not self.is_current(term, now):
            return False
        self.terms[term.shard].until = now
        self.hints.send(Hint("terms", now))
        return True
