"""A store of dictionaries: the protocol in plain Python. It shares only pure rules with the other stores.

The differential tests compare it with the stores, as a second judge beside the oracle. Nothing here awaits, so each
call is atomic. There is one file for each part of the protocol, and all of them use the same `Tables`.
"""

from onthedot.stores.values import About
from tests.review.dictionaries.checkpoints import Checkpoints
from tests.review.dictionaries.documents import Documents
from tests.review.dictionaries.exceptions import Exceptions
from tests.review.dictionaries.finding import Finding
from tests.review.dictionaries.letters import Letters
from tests.review.dictionaries.nodes import Nodes
from tests.review.dictionaries.queues import Queues
from tests.review.dictionaries.retention import Retention
from tests.review.dictionaries.runs import Runs
from tests.review.dictionaries.shards import Shards
from tests.review.dictionaries.standing import Standings
from tests.review.dictionaries.upkeep import Upkeep


class DictStore(
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
):
    """All of it in dictionaries, without transactions of handlers."""

    transactions = None

    async def about(self) -> About:
        return About("dictionaries", "", "nothing: it ends with its process")

    async def close(self) -> None:
        """Nothing to let go of."""


__all__ = ["DictStore"]
