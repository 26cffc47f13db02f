"""The living workers, as the store knows them."""

from __future__ import annotations

from onthedot.clock import Micros
from onthedot.rules.placement import Place
from onthedot.stores.protocol import Store


async def live_workers(store: Store, now: Micros, loads: dict[str, int] | None = None) -> list[Place]:
    """Every worker with a living lease that is not asked to drain."""
    return [
        Place(
            node.id, node.incarnation, frozenset(node.queues), frozenset(node.labels), frozenset(node.tasks),
            (loads or {}).get(node.incarnation, 0),
        )
        for node in await store.queries.list_nodes(living=True, now=now)
        if "worker" in node.roles and not node.draining
    ]  # fmt: skip
