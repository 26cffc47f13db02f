"""The oracle's nodes, leases and terms."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from onthedot.model.errors import NodeExpired
from onthedot.model.run import RunState
from onthedot.stores.values import Node, Term
from tests.contract.oracle.world import Incarnation, World


def register(world: World, node: Node, ttl: int, now: int) -> Incarnation:
    """Add an incarnation. A repetition is a beat."""
    if node.incarnation not in world.nodes:
        world.nodes[node.incarnation] = Incarnation(replace(node, registered_at=now), now + ttl, ttl)
    return beat(world, node.incarnation, ttl, now)


def beat(world: World, incarnation: str, ttl: int, now: int) -> Incarnation:
    """Renew a lease, unless the reaper has acted. Leases from before the clock was set back end one lease from now."""
    node = world.nodes.get(incarnation)
    if node is None or node.ended:
        raise NodeExpired(incarnation)
    node.lease_until, node.ttl = now + ttl, ttl
    for other in world.nodes.values():
        if not other.ended:
            other.lease_until = min(other.lease_until, now + other.ttl)
    return node


def cancels(world: World, incarnation: str) -> list[tuple[str, str]]:
    """The attempts of an incarnation that are asked to stop."""
    mine = [run for run in world.live() if run.hold is not None and run.hold.incarnation == incarnation]
    return sorted((run.hold.lease_id, run.cancel_wanted) for run in mine if run.hold and run.cancel_wanted is not None)


def leave(world: World, incarnation: str, now: int) -> None:
    """Free its reservations and end its term. Running runs stay for the reaper."""
    node = world.nodes.get(incarnation)
    if node is None or node.ended:
        return
    node.ended, node.left_at, node.lease_until = True, now, now
    for run in world.live():
        if run.state is RunState.RESERVED and run.hold is not None and run.hold.incarnation == incarnation:
            run.wait_until(run.due_at)
    if world.term is not None and world.term.incarnation == incarnation:
        world.term.until = min(world.term.until, now)


def drain(world: World, node_id: str, draining: bool, now: int) -> int:
    living = [node for node in world.nodes.values() if node.node.id == node_id and node.is_alive(now)]
    for node in living:
        node.draining = draining
    return len(living)


# ── terms ────────────────────────────────────────────────────────────────────────────────────────────────────────


def campaign(world: World, incarnation: str, ttl: int, patience: int, now: int) -> Term | None:
    """Return a new term if there is none, or if the last one has ended and no other node has precedence."""
    node = world.living(incarnation, now).node
    current = world.term
    if current is not None and current.until > now:
        current.until = min(current.until, now + world.term_ttl)
        return renew(world, current, ttl, now) if current.incarnation == incarnation else None
    planners = [row for row in world.nodes.values() if row.is_alive(now) and "planner" in row.node.roles]
    if any(row.node.tzdata > node.tzdata for row in planners if not row.draining):
        return None
    if current is not None and now < current.until + patience:
        alike = [row.node.incarnation for row in planners if row.node.tzdata == node.tzdata]
        earlier = alike[: alike.index(incarnation)] if incarnation in alike else alike
        if any(other != current.incarnation for other in earlier):
            return None
    number, zones = (1, node.tzdata) if current is None else (current.number + 1, current.zones)
    world.term = Term(0, number, incarnation, now + ttl, 1, node.tzdata, zones)
    world.term_ttl = ttl
    return replace(world.term)


def renew(world: World, term: Term, ttl: int, now: int) -> Term | None:
    current = world.term
    if current is None or current.number != term.number or current.until <= now:
        return None
    current.until = now + ttl
    world.term_ttl = max(world.term_ttl, ttl)
    return replace(current)


def resign(world: World, term: Term, now: int) -> bool:
    current = world.term
    if current is None or current.number != term.number or current.until <= now:
        return False
    current.until = now
    return True


def shown(world: World) -> Sequence[Node]:
    """The nodes, newest first."""
    return [
        replace(row.node, lease_until=row.lease_until, left_at=row.left_at, ttl=row.ttl, draining=row.draining)
        for row in reversed(world.nodes.values())
    ]
