"""The oracle's upkeep: orphans, reaping, expiry and retention."""

from __future__ import annotations

from collections.abc import Sequence

from onthedot.model.retention import Cut, Mark
from onthedot.model.run import Lease, RunState
from onthedot.model.verdict import Verdict
from tests.contract.oracle.ends import check_verdict, end, end_attempt
from tests.contract.oracle.world import Run, Schedule, World

DAY = 86_400_000_000


def is_orphan(world: World, run: Run, now: int) -> bool:
    return run.is_running and run.hold is not None and not world.nodes[run.hold.incarnation].is_alive(now)


def orphans(world: World, now: int) -> list[Run]:
    return [run for run in world.live() if is_orphan(world, run, now)]


def reap(world: World, verdicts: Sequence[tuple[Lease, Verdict]], now: int) -> list[bool]:
    """Take runs whose incarnation's lease has ended. That ends the incarnation for good."""
    for _, verdict in verdicts:
        check_verdict(verdict)
    answers = []
    for lease, verdict in verdicts:
        run = world.run(lease.run_id)
        mine = run is not None and run.is_held_under(lease.lease_id, RunState.RUNNING) and is_orphan(world, run, now)
        answers.append(mine)
        if run is not None and run.hold is not None and mine:
            world.nodes[run.hold.incarnation].ended = True
            end_attempt(world, run, verdict, started_at=0, ended_at=now)
    return answers


def expire(world: World, now: int) -> list[Run]:
    """Skip runs that were not started in time."""
    missed = [run for run in world.live() if _is_missed(run, now)]
    living = {row.node.id for row in world.nodes.values() if row.is_alive(now)}
    for run in missed:
        reason = "expired" if not run.is_slot else "missed" if run.target in {"", *living} else "node_gone"
        end(world, run, RunState.SKIPPED, reason, now)
    return missed


def _is_missed(run: Run, now: int) -> bool:
    if run.expires_at is None or run.expires_at > now or run.is_running:
        return False
    lapsed = run.ready_at is not None and run.ready_at <= now
    return run.state is RunState.SCHEDULED or lapsed


# ── retention ────────────────────────────────────────────────────────────────────────────────────────────────────


def prune_runs(world: World, cut: Cut, after: Mark | None, limit: int, now: int) -> tuple[int, Mark | None, bool]:
    """Returns how many runs are pruned, the last one that was looked at, and whether there may be more."""
    marked = [(Mark(run.ended_at or 0, run.id), run) for run in world.ended() if cut.job_id in (None, run.job.id)]
    found = sorted(marked, key=lambda one: one[0])
    found = [one for one in found if (after is None or one[0] > after) and one[0] <= cut.until][:limit]
    going = [run for _, run in found if run.state in cut.states and _is_settled(run, now)]
    for run in going:
        forget(world, run)
    return len(going), found[-1][0] if found else after, len(found) == limit


def _is_settled(run: Run, now: int) -> bool:
    """Whether no planner will reach its slot again."""
    if not run.is_slot:
        return True
    schedule = _schedule_of(run)
    return run.slot_at <= now and (schedule is None or run.slot_at <= schedule.watermark)


def _schedule_of(run: Run) -> Schedule | None:
    return run.job.schedules.get(run.trigger.removeprefix("schedule:"))


def forget(world: World, run: Run) -> None:
    """Remove its keys and attempts. W of its schedule stays."""
    world.runs.remove(run)
    world.keys = {key: known for key, known in world.keys.items() if known[0] is not run}
    schedule = _schedule_of(run)
    if schedule is not None and run.is_slot and run.attempts > 0:
        schedule.skipped_to = max(schedule.skipped_to, run.slot_at)
    assert run.ended_at is not None
    count(world, run.job.name, run.ended_at, run.state, 1)


def count(world: World, job: str, at: int, state: RunState, number: int) -> None:
    day = at // DAY
    world.pruned[job, day, state] = world.pruned.get((job, day, state), 0) + number


def prune_skips(world: World, until: int) -> int:
    going = []
    for skip in world.skips:
        schedule = skip.job.schedules.get(skip.schedule_id)
        if skip.recorded_at <= until and (schedule is None or skip.last <= schedule.watermark):
            going.append(skip)
    for skip in going:
        world.skips.remove(skip)
        count(world, skip.job.name, skip.recorded_at, RunState.SKIPPED, skip.count)
    return len(going)


def prune_nodes(world: World, until: int) -> int:
    busy = {run.hold.incarnation for run in world.live() if run.hold is not None}
    going = [name for name, row in world.nodes.items() if row.lease_until <= until and name not in busy]
    for name in going:
        del world.nodes[name]
    return len(going)
