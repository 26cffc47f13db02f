"""Lines at gates in the oracle: the holders, the waiting runs, and the next run."""

from __future__ import annotations

from collections.abc import Sequence

from onthedot.model.run import Gate, RunState
from tests.contract.oracle.world import Run, World


def holders(world: World, key: str) -> list[Run]:
    return [run for run in world.live() if run.holds(key)]


def waiters(world: World, key: str) -> list[Run]:
    """The runs that wait at a gate, the longest first."""
    waiting = [run for run in world.live() if run.waits_at is not None and run.waits_at.key == key]
    return sorted(waiting, key=lambda run: run.age)


def is_full(world: World, gate: Gate) -> bool:
    return len(holders(world, gate.key)) >= gate.capacity


def leave(world: World, run: Run, keys: Sequence[str]) -> None:
    """Give up gates. Each passes to the run that has waited longest."""
    for key in keys:
        run.gates = [gate for gate in run.gates if gate.key != key]
        pass_on(world, key)


def pass_on(world: World, key: str) -> int:
    """Pass a gate to waiting runs, while there is room by their own capacity. Returns to how many.

    Overdue slots start in order: an older slot that has not asked yet comes first.
    """
    passed = 0
    for heir in waiters(world, key):
        gate = heir.waits_at
        assert gate is not None
        if is_full(world, gate):
            continue
        if gate.until_end and heir.caught_up_at is not None:
            older = first_older(world, heir, heir.caught_up_at)
            if older is not None:
                older.gates.append(gate)
                older.caught_up_at = heir.caught_up_at
                continue
        heir.gates.append(gate)
        heir.waits_at, heir.reason, heir.ready_at = None, "", heir.due_at
        passed += 1
    return passed


def first_older(world: World, run: Run, now: int) -> Run | None:
    """The first slot of the job that is due before this one, can still start, and has not asked for its gate."""
    found = [
        other
        for other in world.live_of(run.job)
        if other.is_slot
        and other.target == run.target
        and other.due_at < run.due_at
        and not other.is_running
        and other.waits_at is None
        and not any(gate.until_end for gate in other.gates)
        and (other.expires_at is None or other.expires_at > now or is_reserved(other, now))
    ]
    return min(found, key=lambda other: other.age, default=None)


def is_reserved(run: Run, now: int) -> bool:
    return run.state is RunState.RESERVED and run.ready_at is not None and run.ready_at > now


def leave_lines(world: World, waiting: Sequence[Run]) -> None:
    """Let these waiting runs ask again: they leave their line and their places in limits."""
    for run in waiting:
        if run.waits_at is not None:
            run.waits_at, run.reason, run.ready_at = None, "", run.due_at
    for run in waiting:
        leave(world, run, [gate.key for gate in run.gates if not gate.until_end])
