"""The state of a node: living, late, draining, left or dead."""

from __future__ import annotations

import pytest

from onthedot.clock import SECOND
from onthedot.observe.node_state import state_of
from onthedot.settings import Settings
from onthedot.stores.values import Node


def node(**facts: object) -> Node:
    return Node(**{"id": "a", "incarnation": "a1", "lease_until": 15 * SECOND, "ttl": 15 * SECOND} | facts)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("one", "at", "state"),
    [
        (node(), 0, "living"),
        (node(), 8, "living"),
        (node(), 8.1, "late"),
        (node(), 15, "dead"),
        (node(draining=True), 3, "draining"),
        (node(draining=True), 14, "late"),
        (node(left_at=3 * SECOND), 4, "left"),
        (node(left_at=3 * SECOND), 40, "left"),
    ],
)
def test_a_node_has_the_state_of_its_lease_and_flags(one: Node, at: float, state: str):
    assert state_of(one, round(at * SECOND)) == state


@pytest.mark.parametrize("lease", [2 * SECOND, 15 * SECOND, 60 * SECOND])
def test_a_node_is_late_after_two_missed_heartbeats(lease: int):
    beat = Settings().with_leases(lease).beat_every
    one = node(ttl=lease, lease_until=lease)
    assert [state_of(one, 2 * beat + 2_000 * step) for step in (-1, 1)] == ["living", "late"]
