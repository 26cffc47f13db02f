"""What must hold of gates in each world. A mistake that the oracle shares with a store breaks it."""

from __future__ import annotations

from tests.contract.oracle.lines import holders, is_full
from tests.contract.oracle.world import World


def check_gates(world: World) -> None:
    """No limit is exceeded. No run waits at an open gate, holds a limit while it waits, or waits for itself."""
    for run in world.live():
        for gate in run.gates:
            others = holders(world, gate.key)
            most = max(one.capacity for other in others for one in other.gates if one.key == gate.key)
            assert len(others) <= most, f"{gate.key} has too many holders"
        if run.waits_at is None:
            continue
        assert is_full(world, run.waits_at), f"run {run.id} waits at {run.waits_at.key}, which is open"
        assert all(gate.until_end for gate in run.gates), f"run {run.id} waits, and holds a limit"
        ahead, seen = [run], {run}
        while ahead:
            closed = ahead.pop().waits_at
            found = [] if closed is None else holders(world, closed.key)
            assert run not in found, f"run {run.id} waits for itself"
            ahead += [one for one in found if one not in seen]
            seen |= set(found)
