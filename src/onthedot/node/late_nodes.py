"""Late nodes: the leader watches for nodes whose heartbeat is late, asks them to beat, and emits an event.

A late heartbeat moves no run: a node is dead only when its lease has ended. But the operator learns from the log that a
node is silent before other nodes take its runs.
"""

from __future__ import annotations

from onthedot.clock import Micros
from onthedot.loop import Service
from onthedot.model.events import Events, NodeBack, NodeLate
from onthedot.node.leadership import Leadership
from onthedot.observe.node_state import is_late
from onthedot.settings import Settings
from onthedot.stores.protocol import Store


class LateNodes(Service):
    """Checks the leases of the other nodes while this node is the leader."""

    name = "late nodes"

    def __init__(self, store: Store, leadership: Leadership, settings: Settings, events: Events) -> None:
        super().__init__()
        self._store = store
        self._leadership = leadership
        self._settings = settings
        self._events = events
        self._late: dict[str, str] = {}  # incarnation → node

    async def tick(self, now: Micros) -> Micros:
        """Check all leases once."""
        settings = self._settings
        if self._leadership.term is None:
            self._late.clear()
            return settings.renew_every
        living = {node.incarnation: node for node in await self._store.queries.list_nodes(living=True, now=now)}
        late = {incarnation: node for incarnation, node in living.items() if is_late(node, now)}
        for incarnation in [known for known in self._late if known not in late]:
            node_id = self._late.pop(incarnation)
            if incarnation in living:
                self._events.emit(NodeBack(node_id, incarnation))
        new = [node for incarnation, node in late.items() if incarnation not in self._late]
        for node in new:
            self._late[node.incarnation] = node.id
            self._events.emit(NodeLate(node.id, node.incarnation, node.lease_until))
        if new:
            await self._store.probe()
        return settings.beat_every
