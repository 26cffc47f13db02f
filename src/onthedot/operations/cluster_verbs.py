"""The verbs about nodes and queues, which are a part of `Verbs`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from onthedot.stores.values import Layout, Node, Queue, Term


class ClusterVerbs(Protocol):
    """What can be asked about nodes, who leads, and queues. In the examples `sched` is the one of `Scheduler`.

    >>> async def who_leads(onthedot: ClusterVerbs) -> list[str]:
    ...     return [term.node_id for term in await onthedot.list_terms()]
    """

    async def list_nodes(self, *, limit: int | None = None) -> list[Node]:
        """The incarnations of nodes, newest first; those that have ended, too, until they are forgotten.

        >>> async with sched:
        ...     print([node.roles for node in await sched.list_nodes()])
        [('planner', 'worker')]
        """
        ...

    async def drain_node(self, node: str, *, draining: bool = True) -> int:
        """Ask the living incarnations of a node to take no more work, or to go on; how many there are.

        >>> async with sched:
        ...     [node] = await sched.list_nodes()
        ...     print(await sched.drain_node(node.id), await sched.drain_node("nobody"))
        1 0
        """
        ...

    async def list_terms(self) -> list[Term]:
        """Who plans which shard, by shard: the newest term of each.

        >>> async with sched:
        ...     print([term.shard for term in await sched.list_terms()])
        [0]
        """
        ...

    async def set_shards(self, shards: int) -> Layout:
        """Divide the planning of all jobs among so many nodes (64 at the most), of those that there are.

        State of the cluster, kept in the store: one is enough unless a single planner has too much to do. All terms end
        with the change, and the next ones begin within seconds; what is planned already is not touched.

        >>> async with sched:
        ...     print(await sched.set_shards(4))
        Layout(version=2, shards=4)
        """
        ...

    async def list_queues(self) -> list[Queue]:
        """The queues that have runs, or about which something was said.

        >>> async with sched:
        ...     _ = await sched.submit("report", delay="1h")
        ...     print([(queue.name, queue.waiting) for queue in await sched.list_queues()])
        [('default', 1)]
        """
        ...

    async def pause_queue(self, queue: str, *, reason: str = "") -> Queue:
        """Give out nothing more of a queue, until it is resumed. What runs goes on.

        >>> async with sched:
        ...     print((await sched.pause_queue("mail", reason="the server moves")).reason)
        the server moves
        """
        ...

    async def resume_queue(self, queue: str) -> Queue:
        """Let a paused queue go on.

        >>> async with sched:
        ...     print((await sched.resume_queue("mail")).paused_at)
        None
        """
        ...

    async def share_queue(self, queue: str, weights: Mapping[str, int] | None) -> Queue:
        """Share a queue fairly between the values of the argument that its jobs name as their `share`, by weight; None:
        first come, first served again.

        >>> async with sched:
        ...     print((await sched.share_queue("mail", {"gold": 3})).weights)
        {'gold': 3}
        """
        ...
