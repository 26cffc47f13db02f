"""What mutants read of a store before they make their mistake: repeated finishes, ended attempts, current leases."""

from __future__ import annotations

from collections.abc import Sequence

from onthedot.model.run import Lease
from onthedot.model.verdict import Finish
from onthedot.stores.protocol import Store


async def repeated(store: Store, finishes: Sequence[Finish]) -> list[Finish]:
    """The repeated finishes: those whose lease has an ended attempt."""
    return [finish for finish in finishes if await has_ended(store, finish.lease)]


async def has_ended(store: Store, lease: Lease) -> bool:
    """Whether an attempt under this lease has ended."""
    return any(attempt.lease_id == lease.lease_id for attempt in await store.queries.list_attempts(lease.run_id))


async def current_leases(store: Store) -> dict[int, Lease]:
    """The current lease of each reserved or running run."""
    return {
        lease.run_id: lease
        for node in await store.queries.list_nodes()
        for lease in await store.recover(node.incarnation)
    }
