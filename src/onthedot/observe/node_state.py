"""Judges from its registration whether a node is living, late, draining, left or dead."""

from __future__ import annotations

from typing import Literal

from onthedot.clock import Micros
from onthedot.stores.values import Node

NodeState = Literal["living", "late", "draining", "left", "dead"]

_BEATS, _MISSED = 15, 8  # a lease of 15 s is renewed every 4 s: two beats missed


def is_living(node: Node, now: Micros) -> bool:
    """Return whether the lease of the node is valid."""
    return node.left_at is None and node.lease_until > now


def is_late(node: Node, now: Micros) -> bool:
    """Return whether the node is living, and has missed two heartbeats.

    >>> is_late(Node("a", "a1", lease_until=15_000_000, ttl=15_000_000), 8_000_001)
    True
    """
    return is_living(node, now) and (node.lease_until - now) * _BEATS < node.ttl * (_BEATS - _MISSED)


def state_of(node: Node, now: Micros) -> NodeState:
    """The state in one word. A draining node that is late counts as late, because that needs attention."""
    if node.left_at is not None:
        return "left"
    if not is_living(node, now):
        return "dead"
    return "late" if is_late(node, now) else "draining" if node.draining else "living"
