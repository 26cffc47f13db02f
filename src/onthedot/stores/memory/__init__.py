"""The reference store: the protocol in plain Python, nothing kept when the process ends.

Read this first: every other driver does the same in its own language. Nothing here awaits, so each call is atomic.
One file per slice of the protocol, all over the same `Tables`.
"""

from onthedot.clock import Clock
from onthedot.stores.about import About
from onthedot.stores.memory.checkpoints import Checkpoints
from onthedot.stores.memory.documents import Documents
from onthedot.stores.memory.exceptions import Exceptions
from onthedot.stores.memory.finding import Finding
from onthedot.stores.memory.letters import Letters
from onthedot.stores.memory.nodes import Nodes
from onthedot.stores.memory.queues import Queues
from onthedot.stores.memory.retention import Retention
from onthedot.stores.memory.runs import Runs
from onthedot.stores.memory.shards import Shards
from onthedot.stores.memory.standing import Standings
from onthedot.stores.memory.transactions import Connect, MemoryTransactions, Statement, Statements, Transacting
from onthedot.stores.memory.upkeep import Upkeep


class MemoryStore(
    Exceptions,
    Queues,
    Runs,
    Checkpoints,
    Nodes,
    Shards,
    Upkeep,
    Retention,
    Finding,
    Letters,
    Standings,
    Documents,
    Transacting,
):
    """All of it in dictionaries. `connect` makes what handlers get from `ctx.transaction()`."""

    def __init__(self, clock: Clock | None = None, *, connect: Connect = Statements) -> None:
        super().__init__(clock)
        self.statements: list[Statement] = []
        self.transactions = MemoryTransactions(self, connect)

    async def about(self) -> About:
        return About("memory", "", "nothing: it ends with its process")

    async def close(self) -> None:
        """Nothing to let go of."""


__all__ = ["MemoryStore", "Statement", "Statements"]
