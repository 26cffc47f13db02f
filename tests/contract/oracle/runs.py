"""The oracle's runs until they start: submit, reserve, release, and what an attempt saves with its run."""

from __future__ import annotations

from collections.abc import Sequence

from onthedot.clock import MILLISECOND
from onthedot.model.errors import KeyConflict
from onthedot.model.run import Checkpoint, Lease, NewRun, Progress, RunState
from onthedot.stores.values import Note, Reserved, ReserveRequest
from tests.contract.oracle.queues import pass_time
from tests.contract.oracle.world import Hold, Incarnation, Run, World

MINUTE = 60_000_000
BONUS = (0, 10 * MINUTE, 30 * MINUTE, 120 * MINUTE)  # by level
A_MOMENT = 20 * MILLISECOND  # a store may delay a worker by this while others use its runs


def submit(world: World, asked: Sequence[NewRun], now: int) -> list[Run]:
    """Returns the runs, in order. Existing ones are unchanged."""
    given: dict[tuple[int, str], str | None] = {}
    for one in asked:
        job = world.known_job(one.job_id, one.revision)
        same = (job.id, one.key)
        if one.key and same in world.keys and world.keys[same][1] != one.args:
            raise KeyConflict(one.key)
        if one.key and given.setdefault(same, one.args) != one.args:
            raise KeyConflict(one.key)
    runs = []
    for one in asked:
        job = world.jobs[one.job_id]
        if one.key and (job.id, one.key) in world.keys:
            runs.append(world.keys[job.id, one.key][0])
            continue
        instant = one.due_at if one.slot_at is None else one.slot_at
        run = world.insert(
            job, one.trigger, instant, due_at=one.due_at, now=now, expires_at=one.expires_at, args=one.args
        )
        if one.key:
            world.keys[job.id, one.key] = (run, one.args)
        runs.append(run)
    return runs


# ── reserve ──────────────────────────────────────────────────────────────────────────────────────────────────────


def is_served(run: Run, ask: ReserveRequest, node_id: str) -> bool:
    """Whether the worker serves the place where the run waits."""
    if run.target:
        return run.target == node_id
    if run.place:
        return run.place == ask.incarnation
    return not run.for_leader and run.queue in ask.queues and run.labels <= ask.labels


def may_take(world: World, run: Run, ask: ReserveRequest, now: int) -> bool:
    """Whether a worker may get the run once it is ready."""
    is_expired = run.expires_at is not None and run.expires_at <= now
    return not is_expired and run.job.task in ask.tasks and not world.is_paused(run.queue)


def reserve(world: World, ask: ReserveRequest, got: Reserved, now: int) -> None:
    """Check what a worker got, and take it over."""
    node = world.living(ask.incarnation, now)
    world.past_fence = world.last_fence
    assert got.now == now
    if node.draining or ask.number < node.void_below:
        assert (got.armed, got.held, got.look_again_at) == ([], [], None)
        return
    for queue in ask.queues:
        _rank_due(world, queue, ask, now)
    waiting = [run for run in world.live() if run.ready_at is not None and is_served(run, ask, node.node.id)]
    mine = [run for run in waiting if may_take(world, run, ask, now)]
    due = [run for run in mine if _ready(run) <= now]
    near = [run for run in mine if now < _ready(run) <= now + ask.horizon and run.state is RunState.SCHEDULED]
    taken = [world.run(lease.run_id) for lease in [*got.armed, *got.held]]
    assert len({id(run) for run in taken}) == len(taken), "expected each run once"
    of_due = [run for run in due if run in taken]
    ahead = [run for run in near if run in taken]
    assert len(of_due) + len(ahead) == len(taken), "expected only runs that are ready"
    _check_due(due, of_due, ask, now)
    assert len(ahead) <= ask.ahead
    left = [run for run in due if run not in taken]
    soon = [run for run in near if run.rank is None]  # a run that had its turn is taken when it is due
    assert len(ahead) >= min(ask.ahead, len(soon)) or left, "expected more runs, because there was room ahead"
    _check_order([run.due_at for run in ahead], [run.due_at for run in soon if run not in taken])
    _check_look_again(world, ask, got, [run for run in waiting if run not in taken], left, len(ahead), now)
    used = [lease.lease_id for lease in [*got.armed, *got.held]]
    assert len(set(used)) == len(used)
    assert set(used) <= set(ask.lease_ids)
    pass_time(world, of_due)
    for lease in got.armed:
        run = world.run(lease.run_id)
        assert run is not None
        assert run in of_due
        assert not run.job.is_gated, "expected no armed run with gates"
        _hold(run, lease, ask, node, now)
        assert (lease.queue, lease.level) == (run.queue, run.level)
        arm(world, run, lease.fence, now)
        check_lease(run, lease)
    for lease in got.held:
        run = world.run(lease.run_id)
        assert run is not None
        assert run in ahead or run.job.is_gated, "expected the run to be armed at once"
        _hold(run, lease, ask, node, now)
        assert (lease.queue, lease.level) == (run.queue, run.level)
        run.state, run.ready_at = RunState.RESERVED, max(run.due_at, now) + ask.lapse
        check_lease(run, lease)


def _rank_due(world: World, queue: str, ask: ReserveRequest, now: int) -> None:
    """Due runs of a fair queue get their turn when a worker asks."""
    if world.is_paused(queue):
        return
    here = [run for run in world.live() if run.queue == queue and not run.is_running and run.labels <= ask.labels]
    due = [run for run in here if run.ready_at is not None and run.ready_at <= now]
    for run in sorted(due, key=lambda run: (_ready(run), run.id)):
        world.give_rank(run)


def _ready(run: Run) -> int:
    assert run.ready_at is not None
    return run.ready_at


def _check_due(due: list[Run], taken: list[Run], ask: ReserveRequest, now: int) -> None:
    """One for each seat, by age; then quick ones without gates."""
    seated = min(ask.seats, len(due))
    assert seated <= len(taken) <= ask.seats + ask.extra
    extra = [run for run in taken if run.job.id in ask.quick and not run.job.is_gated]
    assert len(taken) - seated <= len(extra), "expected no run beyond the seats"
    if len(taken) > seated or not seated:
        return  # how far a store looks for quick ones behind a backlog is its choice
    left = [run for run in due if run not in taken]
    for queue in {run.queue for run in due}:  # the order of several fair queues is the store's choice
        ranked = [run.rank for run in taken if run.queue == queue and run.rank is not None]
        _check_order(ranked, [run.rank for run in left if run.queue == queue and run.rank is not None])
    if all(run.rank is None for run in due):
        _check_order([_ready(run) - BONUS[run.level] for run in taken], [_ready(r) - BONUS[r.level] for r in left])


def _check_order(taken: list[int], left: list[int]) -> None:
    """The smallest are taken first. Among equals the store may choose."""
    assert not taken or not left or max(taken) <= min(left), "expected the run that has waited longest"


def _check_look_again(
    world: World, ask: ReserveRequest, got: Reserved, waiting: list[Run], left: list[Run], ahead: int, now: int
) -> None:
    """Now if a run is due, otherwise when the next one can be taken: never later. It may be earlier only for runs of
    other workers. A run that had its turn in a fair queue is never taken ahead."""
    if left:
        assert got.look_again_at == now
        return
    lead = ask.horizon if ahead < ask.ahead else 0
    free = {run.id: _free_at(run, ask, lead if run.rank is None else 0, now) for run in waiting}
    latest = [free[run.id] for run in waiting if may_take(world, run, ask, now)]
    earliest = [free[run.id] for run in waiting]
    by_then = min((at for at in latest if at is not None), default=None)
    from_then = min((at for at in earliest if at is not None and at > now), default=by_then)
    if by_then is None and got.look_again_at is None:
        return
    assert got.look_again_at is not None, f"expected {by_then}"
    assert by_then is None or got.look_again_at <= by_then
    assert from_then is not None
    assert got.look_again_at >= from_then


def _free_at(run: Run, ask: ReserveRequest, lead: int, now: int) -> int | None:
    """When a run that this worker did not get can be taken; None if the worker has it itself."""
    if run.state is RunState.SCHEDULED:
        return max(now, _ready(run) - lead)
    assert run.hold is not None
    return None if run.hold.incarnation == ask.incarnation else max(now, _ready(run))


def _hold(run: Run, lease: Lease, ask: ReserveRequest, node: Incarnation, now: int) -> None:
    run.hold = Hold(lease.lease_id, ask.incarnation, node.node.id, run.job.revision, now)
    run.delayed_under = ""


def arm(world: World, run: Run, fence: int, now: int) -> None:
    """Start the attempt."""
    assert run.hold is not None
    assert fence > world.past_fence, "expected a fence higher than all before"
    assert all(fence != other.hold.fence for other in world.live() if other.hold), "expected a new fence"
    run.hold.fence, run.hold.armed_at = fence, now
    run.state, run.ready_at, run.expires_at = RunState.RUNNING, None, None
    run.attempts += 1
    world.last_fence = max(world.last_fence, fence)


def check_lease(run: Run, lease: Lease) -> None:
    """Check that a lease has all of its run."""
    hold = run.hold
    assert hold is not None
    attempt = run.attempts + (run.state is RunState.RESERVED)
    assert (lease.lease_id, lease.incarnation, lease.run_id) == (hold.lease_id, hold.incarnation, run.id)
    assert (lease.record.id, lease.record.revision) == (run.job.id, hold.revision)
    assert (lease.trigger, lease.slot_at, lease.due_at) == (run.trigger, run.slot_at, run.due_at)
    assert (lease.args, lease.target) == (run.args, run.target)
    assert (lease.attempt, lease.failures, lease.recoveries) == (attempt, run.failures, run.recoveries)
    assert (lease.created_at, lease.reserved_at) == (run.created_at, hold.reserved_at)
    assert (lease.armed_at, lease.fence) == (hold.armed_at, hold.fence)
    assert lease.checkpoint == run.checkpoint


def held(world: World, incarnation: str, leases: Sequence[Lease], *, void_below: int = 0) -> None:
    """Check all that an incarnation holds. Its earlier asks are void."""
    if incarnation in world.nodes:
        node = world.nodes[incarnation]
        node.void_below = max(node.void_below, void_below)
    mine = {run.id: run for run in world.live() if run.hold is not None and run.hold.incarnation == incarnation}
    assert sorted(lease.run_id for lease in leases) == sorted(mine)
    for lease in leases:
        check_lease(mine[lease.run_id], lease)


def release(world: World, leases: Sequence[Lease]) -> list[bool]:
    """Release reservations."""
    answers = []
    for lease in leases:
        run = world.run(lease.run_id)
        mine = run is not None and run.is_held_under(lease.lease_id, RunState.RESERVED)
        answers.append(mine)
        if run is not None and mine:
            run.wait_until(run.due_at)
    return answers


# ── checkpoints and notes ────────────────────────────────────────────────────────────────────────────────────────


def checkpoint(world: World, saves: Sequence[tuple[Lease, Checkpoint]]) -> list[bool]:
    """The highest revision stays."""
    answers = []
    for lease, saved in saves:
        run = world.run(lease.run_id)
        answers.append(run is not None and run.is_held_under(lease.lease_id, RunState.RUNNING))
        if run is not None and answers[-1] and (run.checkpoint is None or run.checkpoint.revision < saved.revision):
            run.checkpoint = saved
    return answers


def note(world: World, notes: Sequence[Note]) -> list[bool]:
    """The highest number of an attempt stays. Fields that it leaves out keep their value."""
    answers = []
    for one in notes:
        run = world.run(one.lease.run_id)
        answers.append(run is not None and run.is_held_under(one.lease.lease_id, RunState.RUNNING))
        if run is None or not answers[-1]:
            continue
        known = run.notes.get(run.attempts)
        if known is None:
            run.notes[run.attempts] = one
        elif known.number < one.number:
            progress = known.progress if one.progress is None else one.progress
            run.notes[run.attempts] = one._replace(progress=progress, log=known.log if one.log is None else one.log)
    return answers


def progress_of(run: Run) -> Progress | None:
    """The last progress of the newest attempt that has any."""
    told = [note.progress for _, note in sorted(run.notes.items()) if note.progress is not None]
    return told[-1] if told else None


def settle_dead(world: World, settled: Sequence[tuple[int, str]]) -> list[bool]:
    """Settle dead runs, each once."""
    answers = []
    for run_id, word in settled:
        run = world.run(run_id)
        answers.append(run is not None and run.state is RunState.DEAD and not run.settled)
        if run is not None and answers[-1]:
            run.settled = word
    return answers
