"""What a store must show of the oracle's world."""

from __future__ import annotations

from collections import Counter

from onthedot.model.job import JobState
from onthedot.model.run import AttemptRecord, RunRecord, RunState, SkipRecord, WaitReason
from onthedot.model.window import ScheduleState, SlotException
from onthedot.stores.values import Held, LogRecord, Owned, Parent
from tests.contract.oracle.lines import holders
from tests.contract.oracle.runs import progress_of
from tests.contract.oracle.world import PRIORITIES, Job, Run, World


def run(one: Run) -> RunRecord:
    job, last = one.job.definition, one.tried[-1] if one.tried else None
    node, revision = ("", 0) if last is None else (last.node, last.revision)
    if one.hold is not None:
        node, revision = one.hold.node, one.hold.revision
    armed_at = (one.hold.armed_at or None) if one.hold is not None else one.armed_at
    return RunRecord(
        one.id, job.name, job.namespace, one.trigger, one.slot_at, one.due_at, one.state, one.reason, one.attempts,
        one.failures, one.recoveries, one.created_at, armed_at, one.started_at, one.ended_at, one.error, one.result,
        one.queue, PRIORITIES[one.level], one.target, progress_of(one), one.args, one.settled, job.owner, node,
        revision, one.job.id,
    )  # fmt: skip


def runs(world: World) -> list[RunRecord]:
    return [run(one) for one in sorted(world.runs, key=lambda one: one.id)]


def attempts(one: Run) -> list[AttemptRecord]:
    return list(one.tried)


def logs(one: Run) -> list[LogRecord]:
    return [LogRecord(attempt, note.log) for attempt, note in sorted(one.notes.items()) if note.log is not None]


def standing(world: World, one: Run) -> WaitReason | None:
    if not one.is_live:
        return None
    hold, gate = one.hold, one.waits_at
    return WaitReason(
        one.id,
        expires_at=one.expires_at,
        node=hold.node if hold else "",
        incarnation=hold.incarnation if hold else "",
        reserved_at=hold.reserved_at if hold else None,
        fence=hold.fence if hold else 0,
        gate=gate.key if gate else "",
        holders=tuple(sorted(other.id for other in holders(world, gate.key))) if gate else (),
        granted_at=one.granted_at,
        for_leader=one.for_leader,
        place=one.place,
        cancel_wanted=one.cancel_wanted,
    )


def state(world: World, job: Job) -> JobState:
    """A job is exhausted if none of its schedules has another slot or an open run."""
    open_runs = {one.trigger for one in world.live_of(job)}
    schedules = job.schedules.values()
    if job.state is not JobState.ACTIVE or not schedules:
        return job.state
    if any(one.next_at is not None or f"schedule:{one.id}" in open_runs for one in schedules):
        return job.state
    return JobState.EXHAUSTED


def job(world: World, one: Job) -> tuple[object, ...]:
    """A job as it is listed: its record, field by field."""
    pause = (one.pause_reason, one.paused_until)
    return (one.id, one.revision, one.definition, state(world, one), one.created_at, one.updated_at, *pause)


def jobs(world: World) -> list[tuple[object, ...]]:
    """Jobs by namespace and name."""
    known = [one for one in world.jobs.values() if one.state is not JobState.DELETED]
    return [job(world, one) for one in sorted(known, key=lambda one: (one.definition.namespace, one.name))]


def schedules(one: Job) -> list[tuple[object, ...]]:
    """The schedules of a job by id, with the fields of a `ScheduleState` and the revision."""
    return [
        (
            one.id, one.revision, schedule.id, schedule.origin, schedule.watermark, schedule.next_at,
            schedule.last_end,
            tuple(
                SlotException(slot, given.reason, given.recorded, given.run.id if given.run else None)
                for slot, given in sorted(schedule.exceptions.items())
            ),
        )
        for _, schedule in sorted(one.schedules.items())
    ]  # fmt: skip


def told(one: ScheduleState) -> tuple[object, ...]:
    """The same fields of a store's answer."""
    return (
        one.record.id, one.record.revision, one.schedule_id, one.origin, one.watermark, one.next_at, one.last_end,
        one.exceptions,
    )  # fmt: skip


def parents(one: Job) -> list[Parent]:
    """The parents of a job by name, with the noted run of each."""
    after = one.definition.after
    if one.state is JobState.DELETED or after is None:
        return []
    return [one.parents.get(name, Parent(name)) for name in sorted(after.parents)]


def skips(world: World) -> list[SkipRecord]:
    return [
        SkipRecord(one.job.name, one.schedule_id, one.first, one.last, one.count, one.reason, one.recorded_at)
        for one in world.skips
    ]


def counts(world: World) -> dict[RunState, int]:
    return dict(Counter(one.state for one in world.runs))


def dead(world: World) -> list[int]:
    """Dead letters, by id."""
    return sorted(one.id for one in world.runs if one.state is RunState.DEAD and not one.settled)


def held(world: World) -> dict[str, Held]:
    """What each incarnation holds."""
    mine = Counter((one.hold.incarnation, one.state) for one in world.live() if one.hold is not None)
    return {
        incarnation: Held(mine[incarnation, RunState.RESERVED], mine[incarnation, RunState.RUNNING])
        for incarnation, _ in mine
    }


def owned(world: World, owner: str) -> Owned:
    """What an owner has."""
    mine = [one for one in world.jobs.values() if one.definition.owner == owner and one.state is not JobState.DELETED]
    return Owned(len(mine), sum(len(world.live_of(one)) for one in mine))
