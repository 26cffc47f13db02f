"""Operations on the cluster: nodes, terms, shards and queues. See `Verbs`."""

from __future__ import annotations

from collections.abc import Mapping

from onthedot.clock import Micros
from onthedot.observe.json_fields import NodeShown
from onthedot.observe.metrics import Snapshot
from onthedot.observe.node_state import state_of
from onthedot.operations.session import Session
from onthedot.rules.placement import Place
from onthedot.stores.protocol import Store
from onthedot.stores.values import Held, Layout, Node, Queue, Term


async def list_nodes(session: Session, *, limit: int | None = None) -> list[Node]:
    """The incarnations of nodes, newest first."""
    return await session.store.queries.list_nodes(limit=limit)


async def drain_node(session: Session, node: str, *, draining: bool = True) -> int:
    """Ask a node to take no more work, or to continue. Returns how many incarnations live."""
    count = await session.store.drain(node, draining=draining)
    if count:
        await session.changed("nodes.drain" if draining else "nodes.undrain", f"node/{node}")
    return count


async def list_terms(session: Session) -> list[Term]:
    """The newest term of each shard."""
    return await session.store.queries.list_terms()


async def set_shards(session: Session, shards: int) -> Layout:
    """Divide the planning among so many shards."""
    layout = await session.store.set_shards(shards)
    await session.changed("shards.set", f"layout/{layout.version}", after={"shards": layout.shards})
    return layout


async def list_queues(session: Session) -> list[Queue]:
    """The queues that have runs, or that are paused or shared."""
    return await session.store.queries.list_queues()


async def pause_queue(session: Session, queue: str, *, reason: str = "") -> Queue:
    """Start no more runs of a queue until it is resumed."""
    return await _changed(session, "pause", await session.store.pause_queue(queue, reason=reason))


async def resume_queue(session: Session, queue: str) -> Queue:
    """Resume a paused queue."""
    return await _changed(session, "resume", await session.store.resume_queue(queue))


async def share_queue(session: Session, queue: str, weights: Mapping[str, int] | None) -> Queue:
    """Share a queue by weight; None: first come, first served."""
    return await _changed(session, "share", await session.store.share_queue(queue, weights))


async def _changed(session: Session, verb: str, queue: Queue) -> Queue:
    await session.changed(f"queues.{verb}", f"queue/{queue.name}")
    return queue


# ── reading it, for nodes and for people ───────────────────────────────────────────────────────────────────────


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


async def nodes_shown(store: Store, now: Micros, *, living: bool = False) -> list[NodeShown]:
    """Every registered node, or every living one, the latest first."""
    nodes = await store.queries.list_nodes(living=living, now=now)
    terms, held = await store.queries.list_terms(), await store.queries.count_held()
    return [
        NodeShown(
            node,
            state_of(node, now),
            [term.shard for term in terms if term.incarnation == node.incarnation and term.until > now],
            held.get(node.incarnation, Held()),
        )
        for node in nodes
    ]


async def cluster_snapshot(store: Store, now: Micros) -> Snapshot:
    """The state of the cluster, for metrics."""
    layout = await store.queries.get_layout()
    nodes, queues = await nodes_shown(store, now, living=True), await store.queries.list_queues(now=now)
    return Snapshot(now, nodes, layout.shards, queues)
