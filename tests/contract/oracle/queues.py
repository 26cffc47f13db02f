"""The oracle's queues: pauses, fair shares, and placement by the leader."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from onthedot.clock import SECOND
from onthedot.stores.values import Placement, Queue, Term
from tests.contract.oracle.lines import leave_lines
from tests.contract.oracle.world import QueueSet, Run, World


def pause_queue(world: World, name: str, reason: str, now: int) -> None:
    queue = world.queues.setdefault(name, QueueSet())
    queue.paused_at = now if queue.paused_at is None else queue.paused_at
    queue.reason = reason
    leave_lines(world, [run for run in world.live() if run.queue == name and not run.is_running])


def resume_queue(world: World, name: str) -> None:
    queue = world.queues.setdefault(name, QueueSet())
    queue.paused_at, queue.reason = None, ""


def shown(world: World, name: str, now: int) -> Queue:
    """A queue with its counts."""
    queue = world.queues.get(name, QueueSet())
    mine = [run for run in world.live() if run.queue == name]
    waiting = [run for run in mine if not run.is_running]
    due = [run.due_at for run in waiting if run.due_at <= now]
    return Queue(
        name, queue.paused_at, queue.reason, queue.weights, len(waiting), len(due), len(mine) - len(waiting),
        min(due, default=None),
    )  # fmt: skip


# ── fair shares ──────────────────────────────────────────────────────────────────────────────────────────────────


def share_queue(world: World, name: str, weights: Mapping[str, int] | None) -> None:
    """Start ranks and turns again, with the new weights."""
    queue = world.queues.setdefault(name, QueueSet())
    queue.weights = None if weights is None else dict(weights)
    queue.turns.clear()
    for run in world.live():
        if run.queue == name:
            run.rank = None


def pass_time(world: World, taken: Iterable[Run]) -> None:
    """Advance virtual time for the runs that are taken."""
    for run in taken:
        if run.rank is not None:
            world.queues[run.queue].time = max(world.queues[run.queue].time, run.rank)


# ── places ───────────────────────────────────────────────────────────────────────────────────────────────────────


def needs_a_place(world: World, run: Run, now: int) -> bool:
    """Whether the leader must place it: it has no placement, or its worker is dead or has not used it for a second."""
    if run.is_running or run.ready_at is None:
        return False
    if not run.place:
        return run.for_leader
    node = world.nodes.get(run.place)
    return node is None or not node.is_alive(now) or run.ready_at + SECOND <= now


def unplaced(world: World, until: int, now: int) -> list[Run]:
    found = [
        run
        for run in world.live()
        if needs_a_place(world, run, now)
        and run.ready_at is not None
        and run.ready_at <= until
        and not world.is_paused(run.queue)
    ]
    return sorted(found, key=lambda run: (run.ready_at, run.id))


def place(world: World, term: Term, placements: Sequence[Placement], now: int) -> list[bool]:
    world.check_term(term, now)
    answers = []
    for one in placements:
        run = world.run(one.run_id)
        answers.append(run is not None and run.is_live and needs_a_place(world, run, now))
        if run is not None and answers[-1]:
            run.wait_until(max(run.due_at, now))
            run.place, run.for_leader = one.incarnation, False
    return answers


def loads(world: World) -> dict[str, int]:
    """By incarnation: the runs that it holds, and those placed with it."""
    return dict(
        Counter(run.hold.incarnation if run.hold else run.place for run in world.live() if run.hold or run.place)
    )
