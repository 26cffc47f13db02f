"""A node that a test controls, on the store of a server."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from onthedot.clock import SECOND
from onthedot.ids import RandomIds
from onthedot.model.job import ability_of
from onthedot.model.run import Lease, RunState
from onthedot.model.verdict import Finish, OutcomeKind, Verdict
from onthedot.operations.open_verbs import OpenStore
from onthedot.output.output_store import Name
from onthedot.output.records import Record, encode
from onthedot.stores.values import Node, Note, ReserveRequest


class Worker:
    """Takes runs, writes their output, and ends them."""

    def __init__(self, there: OpenStore, folder: Path, name: str = "worker-1") -> None:
        self._there = there
        self._folder = folder
        self._ids = RandomIds()
        self._node = Node(id=name, incarnation=f"{name}-{self._ids.token()}")
        self._notes = 0
        self._joined = False

    async def take(self, seats: int = 1) -> list[Lease]:
        """Begin up to `seats` due runs."""
        store = self._there.store
        if not self._joined:
            await store.register(self._node, ttl=600 * SECOND)
            self._joined = True
        tasks = frozenset(ability_of(record.job) for record in await store.queries.list_jobs())
        ask = ReserveRequest(self._node.incarnation, self._ids.leases(seats), seats, tasks=tasks)
        return (await store.reserve(ask)).armed

    async def take_one(self) -> Lease:
        """Begin one run."""
        [lease] = await self.take()
        return lease

    async def say(self, lease: Lease, text: str) -> None:
        """Set the live output of the attempt so far."""
        self._notes += 1
        assert await self._there.store.note([Note(lease, self._notes, log=text)]) == [True]

    async def keep(self, lease: Lease, records: Sequence[Record], artifacts: Sequence[tuple[str, bytes]] = ()) -> None:
        """Store the final output of an attempt."""
        assert self._there.outputs is not None
        log = self._folder / f"{lease.lease_id}.log"
        log.write_bytes(b"".join(map(encode, records)))
        files = []
        for number, (called, data) in enumerate(artifacts):
            path = self._folder / f"{lease.lease_id}.{number}"
            path.write_bytes(data)
            files.append((called, path))
        await self._there.outputs.keep(Name(lease.run_id, lease.attempt, lease.lease_id), log, files)

    async def end(
        self,
        lease: Lease,
        state: RunState = RunState.SUCCEEDED,
        *,
        error: str | None = None,
        result: str | None = None,
        again_in: int = 0,
    ) -> None:
        """End an attempt. With SCHEDULED, the next attempt is due `again_in` microseconds later."""
        now = self._there.clock.now()
        kind = OutcomeKind.SUCCEEDED if state is RunState.SUCCEEDED else OutcomeKind.FAILED
        verdict = Verdict(
            state, kind, due_at=now + again_in, failed=kind is OutcomeKind.FAILED, error=error, result=result
        )
        assert await self._there.store.finish([Finish(lease, verdict, now, now)]) == [True]
