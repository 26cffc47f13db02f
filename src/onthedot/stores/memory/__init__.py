"""The reference store: the protocol in plain Python, nothing kept when the process ends.

Read this first: every other driver does the same in its own language. Nothing here awaits, so each call is atomic.
One file per slice of the protocol, all over the same `Tables`.
"""

from onthedot.stores.memory.checkpoints import Checkpoints
from onthedot.stores.memory.exceptions import Exceptions
from onthedot.stores.memory.history import History
from onthedot.stores.memory.nodes import Nodes
from onthedot.stores.memory.queues import Queues
from onthedot.stores.memory.retention import Retention
from onthedot.stores.memory.runs import Runs
from onthedot.stores.memory.shards import Shards
from onthedot.stores.memory.standing import Standings
from onthedot.stores.memory.upkeep import Upkeep


class MemoryStore(Exceptions, Queues, Runs, Checkpoints, Nodes, Shards, Upkeep, Retention, History, Standings):
    """All of it in dictionaries."""

    async def close(self) -> None:
        """Nothing to let go of."""


__all__ = ["MemoryStore"]
