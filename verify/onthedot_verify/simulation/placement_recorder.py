"""`PlacementRecorder`: records queues, placements and draining nodes of the store."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from onthedot.model.run import LIVE
from onthedot.stores.values import Placement, Queue, Term
from onthedot_verify.simulation.control_recorder import ControlRecorder

_ALL = 1_000_000


class PlacementRecorder(ControlRecorder):
    """Records changes of queues and nodes, and the leader's placements."""

    async def pause_queue(self, name: str, **options: Any) -> Queue:
        queue = await self._store.pause_queue(name, **options)
        self._note("stop_queue", queue=name)
        live = await self._store.queries.list_runs(states=LIVE, limit=_ALL)
        self._note_aside(run for run in live if run.queue == name)
        return queue

    async def resume_queue(self, name: str, **options: Any) -> Queue:
        queue = await self._store.resume_queue(name, **options)
        self._note("open_queue", queue=name)
        return queue

    async def share_queue(self, name: str, weights: Mapping[str, int] | None, **options: Any) -> Queue:
        queue = await self._store.share_queue(name, weights, **options)
        self._note("share_queue", queue=name, weights=None if weights is None else dict(weights))
        return queue

    async def drain(self, node_id: str, *, draining: bool = True, **options: Any) -> int:
        count = await self._store.drain(node_id, draining=draining, **options)
        now = self.clock.now()
        for node in await self._store.queries.list_nodes():
            if node.id == node_id and node.left_at is None and node.lease_until > now:
                self._note("drain", inc=node.incarnation, draining=node.draining)
        return count

    async def assign(self, term: Term, placements: Sequence[Placement], **options: Any) -> list[bool]:
        answers = await self._store.assign(term, placements, **options)
        for placement, ok in zip(placements, answers, strict=True):
            if ok:
                self._note("place", run=placement.run_id, inc=placement.incarnation, term=term.number, shard=term.shard)
        return answers
