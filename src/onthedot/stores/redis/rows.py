"""Converts our values to the requests of scripts, and the rows that scripts return to our values."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

from onthedot.model.errors import StateError
from onthedot.model.job import Call, Job, JobRecord, ability_of, is_gated, route_of, share_of
from onthedot.model.job_json import encode
from onthedot.model.route import PRIORITIES, level_of
from onthedot.model.run import MOVES, Checkpoint, GateAsk, Lease, NewRun, Progress, RunRecord, RunState
from onthedot.model.verdict import Verdict
from onthedot.model.window import ScheduleState, SlotException, Window
from onthedot.rules.shards import zoned_ids
from onthedot.stores.values import Node, Note, Parent, Queue, Term

_AFTER_RUNNING = MOVES[RunState.RUNNING]


# ── requests ─────────────────────────────────────────────────────────────────────────────────────────────────


def without_none(**fields: Any) -> dict[str, Any]:
    """The fields that are not None. Lua has no null: it reads a missing field as nil."""
    return {name: value for name, value in fields.items() if value is not None}


def job_fields(job: Job) -> dict[str, Any]:
    """A job's definition, and the values that scripts need. They do not parse the definition."""
    after = job.after
    return without_none(
        definition=encode(job),
        name=job.name,
        namespace=job.namespace,
        owner=job.owner or None,
        labels=sorted(job.labels),
        route=route_of(job),
        level=level_of(job.priority),
        queue=job.queue,
        gated=is_gated(job) or None,
        task=ability_of(job),
        share_by=job.share or None,
        share=share_of(job, None) or None,
        zoned=sorted(zoned_ids(job)),
        after=None if after is None else {"parents": after.parents, "any": after.any, "on": after.on},
    )


def window_fields(window: Window, job: Job) -> dict[str, Any]:
    """A window, with the share of each of its runs."""
    return without_none(
        schedule_id=window.schedule_id,
        start=window.start,
        end_=window.end,
        next_at=window.next_at,
        slots=[
            without_none(
                slot=slot.slot_at,
                due=slot.due_at,
                expires=slot.expires_at,
                args=slot.args,
                share=None if slot.args is None else share_of(job, slot.args),
            )
            for slot in window.slots
        ],
        skips=[
            {"first": skip.first, "last": skip.last, "count": skip.count, "reason": skip.reason}
            for skip in window.skips
        ],
        delay=window.delay,
        targets=window.targets,
    )


def entry_fields(bodies: Sequence[str], keys: Sequence[str]) -> list[dict[str, Any]]:
    """Entries to append to a list, each with its key if it has one."""
    return [
        without_none(body=body, key=key or None) for body, key in zip(bodies, keys or [""] * len(bodies), strict=True)
    ]


def run_fields(run: NewRun, share_by: str) -> dict[str, Any]:
    """A submitted run. `share_by` is the argument by whose value its job's queue is shared, if known."""
    share = None
    if share_by and run.args is not None:
        share = share_of(_job_shared_by(share_by), run.args)
    return without_none(
        job_id=run.job_id,
        trigger=run.trigger,
        slot=run.instant,
        due=run.due_at,
        expires=run.expires_at,
        args=run.args,
        key=run.key or None,
        revision=run.revision,
        share=share,
        share_by=share_by or None,
    )


@cache
def _job_shared_by(share_by: str) -> Job:
    """Some job whose runs are shared by this argument."""
    return Job(name="any", task=Call(handler="any"), share=share_by)


def term_fields(term: Term) -> dict[str, Any]:
    return {"shard": term.shard, "number": term.number, "layout": term.layout}


def lease_fields(lease: Lease) -> dict[str, Any]:
    return {"run_id": lease.run_id, "lease": lease.lease_id}


def gates_fields(ask: GateAsk) -> dict[str, Any]:
    rate, busy = ask.rate, ask.on_busy
    return without_none(
        gates=[
            without_none(key=gate.key, capacity=gate.capacity, until_end=gate.until_end or None) for gate in ask.gates
        ],
        on_busy=None
        if busy is None
        else without_none(
            action=busy.action, max_waiting=busy.max_waiting, overdue=busy.overdue or None, late=busy.late or None
        ),
        rate=None if rate is None else {"key": rate.key, "most": rate.most, "per": rate.per, "burst": rate.burst},
    )


def verdict_fields(lease: Lease, verdict: Verdict, started_at: int = 0, ended_at: int = 0) -> dict[str, Any]:
    """An ended attempt."""
    return without_none(
        run_id=lease.run_id,
        lease=lease.lease_id,
        state=verdict.state,
        outcome=verdict.outcome,
        reason=verdict.reason,
        due=verdict.due_at,
        failed=verdict.failed or None,
        recovered=verdict.recovered or None,
        error=verdict.error,
        result=verdict.result,
        started=started_at or None,
        ended=ended_at,
    )


def check_move(verdict: Verdict) -> None:
    """Raises `StateError` for a verdict whose state cannot follow `running`."""
    if verdict.state not in _AFTER_RUNNING:
        legal = ", ".join(sorted(_AFTER_RUNNING))
        raise StateError(f"verdict: expected a state that may follow running ({legal}), got {verdict.state}")


# ── answers ──────────────────────────────────────────────────────────────────────────────────────────────────


def read_run(row: Sequence[Any]) -> RunRecord:
    """A run, with the fields that people see."""
    (
        run_id, job_id, trigger, slot, due, state, reason, attempts, failures, recoveries, created, armed, started,
        ended, error, result, queue, level, target, done, of, args, settled, name, namespace, owner, node,
        revision,
    ) = row  # fmt: skip
    progress = None if done is None else Progress(float(done), None if of is None else float(of))
    return RunRecord(
        run_id, name, namespace, trigger, slot, due, RunState(state), reason or "", attempts or 0, failures or 0,
        recoveries or 0, created, armed, started, ended, error, result, queue, PRIORITIES[level], target or "",
        progress, args, settled or "", owner, node, revision, job_id,
    )  # fmt: skip


def read_lease(row: Sequence[Any], records: Mapping[tuple[int, int], JobRecord]) -> Lease | None:
    """A lease, with its job at the lease's revision; None if `records` does not have that."""
    (
        lease_id, run_id, job_id, revision, trigger, slot, due, args, attempt, failures, recoveries, incarnation,
        created, reserved, armed, fence, target, queue, level, saved, value,
    ) = row  # fmt: skip
    record = records.get((job_id, revision))
    if record is None:
        return None
    return Lease(
        lease_id, run_id, record, trigger, slot, due, args, attempt, failures, recoveries,
        incarnation, created, reserved, armed, fence, target, queue, level,
        None if saved is None else Checkpoint(saved, value),
    )  # fmt: skip


def read_schedule(row: Sequence[Any], record: JobRecord) -> ScheduleState:
    """The state of a schedule."""
    _, schedule_id, origin, watermark, next_at, last_end, exceptions = row
    fates = tuple(SlotException(slot, reason, bool(recorded), run_id) for slot, reason, recorded, run_id in exceptions)
    return ScheduleState(record, schedule_id, origin, watermark, next_at, last_end, fates)


def read_term(row: Sequence[Any] | None) -> Term | None:
    """A term, if there is one."""
    return None if row is None else Term(*row)


def node_fields(node: Node) -> dict[str, Any]:
    return {
        "id": node.id,
        "incarnation": node.incarnation,
        "host": node.host,
        "pid": node.pid,
        "roles": node.roles,
        "queues": node.queues,
        "labels": node.labels,
        "tasks": node.tasks,
        "seats": node.seats,
        "draining": node.draining,
        "tzdata": node.tzdata,
    }


def read_node(row: list[Any]) -> Node:
    (
        node_id, incarnation, host, pid, roles, queues, labels, tasks, seats, draining, registered, until, left, ttl,
        tzdata,
    ) = row  # fmt: skip
    return Node(
        node_id, incarnation, host, pid, tuple(roles), tuple(queues), tuple(labels), tuple(tasks), seats,
        bool(draining), registered, until, left, ttl, tzdata,
    )  # fmt: skip


def note_fields(note: Note) -> dict[str, object]:
    done, of = (None, None) if note.progress is None else note.progress
    return lease_fields(note.lease) | without_none(
        number=note.number,
        done=None if done is None else repr(done),
        of=None if of is None else repr(of),
        log=note.log,
    )


def read_queue(row: list[Any]) -> Queue:
    name, paused_at, reason, weights = row
    shares = None if weights is None else dict(zip(weights[::2], weights[1::2], strict=True))
    return Queue(name, paused_at, reason, shares)


def read_parent(name: str, noted: str | None) -> Parent:
    if noted is None:
        return Parent(name)
    run_id, ended_at = noted.split()
    return Parent(name, int(run_id), int(ended_at))
