"""Reads a server's JSON as the values of the library, as a store returns them.

The lease id of an attempt is empty here. The server does not send it, because its holder can end the run.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any, TypeVar, cast

from onthedot.clock import Micros, to_datetime, to_micros
from onthedot.define.differences import Difference, Move
from onthedot.define.job_reader import read_job
from onthedot.model.duration import micros, parse_duration
from onthedot.model.errors import RunFailed, StoreError
from onthedot.model.job import JobRecord, JobState, Json, canonical
from onthedot.model.run import AttemptRecord, Progress, RunRecord, RunState, SkipRecord
from onthedot.model.window import SkipRange
from onthedot.operations.apply import Applied
from onthedot.operations.backfill import Backfill
from onthedot.operations.dead_letters import DeadLetters, Replayed
from onthedot.stores.values import Layout, MovedSlot, Node, Paused, PutJob, Queue, Resumed, Term

T = TypeVar("T")
Told = Mapping[str, Any]


def read(kind: Callable[[Any], T], told: Any) -> T:
    """Read one value of JSON. Raises `StoreError` if this version cannot read it.

    >>> read(layout, {"version": 1})  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    onthedot.model.errors.StoreError: layout: expected what this version can read, but KeyError: 'shards'...
    """
    try:
        return kind(told)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        what = f"{kind.__name__}: expected what this version can read, but {type(error).__name__}: {error}"
        raise StoreError(f"{what}; does the server have another version?") from error


def instant(text: str) -> Micros:
    """Read an instant.

    >>> instant("1970-01-01T00:00:00.000001Z")
    1
    """
    return to_micros(datetime.fromisoformat(text))


def optional(text: str | None) -> Micros | None:
    """Read an instant, or None."""
    return None if text is None else instant(text)


def moment(text: str | None) -> datetime | None:
    """Read an instant as a datetime, or None."""
    return None if text is None else to_datetime(instant(text))


# ── jobs ─────────────────────────────────────────────────────────────────────────────────────────────────────


def job_record(told: Told) -> JobRecord:
    """Read a job as it is stored."""
    return JobRecord(
        id=told["id"],
        revision=told["revision"],
        job=read_job(told["definition"], stored=True),
        state=JobState(told["state"]),
        created_at=instant(told["created_at"]),
        updated_at=instant(told["updated_at"]),
        pause_reason=told["pause_reason"],
        paused_until=optional(told["paused_until"]),
    )


def put_job(told: Told) -> PutJob:
    """Read the result of storing a job."""
    return PutJob(job_record(told), told["change"], told["planned"], told["withdrawn"])


def paused(told: Told) -> Paused:
    """Read the result of a pause."""
    return Paused(job_record(told["job"]), told["withdrawn"], told["skipped"], told["held"])


def resumed(told: Told) -> Resumed:
    """Read the result of a resume."""
    skips = [
        SkipRange(instant(one["first"]), instant(one["last"]), one["count"], one["reason"]) for one in told["skips"]
    ]
    return Resumed(job_record(told["job"]), tuple(map(instant, told["slots"])), tuple(skips), told["released"])


def moved_slot(told: Told) -> MovedSlot:
    """Read a slot that was skipped or moved."""
    return MovedSlot(told["schedule"], instant(told["slot_at"]), told["reason"], told["run_id"])


def difference(told: Told) -> Difference:
    """Read the changes of one job."""
    return Difference(
        name=told["name"],
        kind=told["kind"],
        fields={name: (was, is_) for name, (was, is_) in told["fields"].items()},
        appear=tuple(map(instant, told["appear"])),
        vanish=tuple(map(instant, told["vanish"])),
        moved=tuple(Move(instant(one["old"]), instant(one["new"])) for one in told["moved"]),
        until=optional(told["until"]) or 0,
        stopped=bool(told.get("stopped", False)),  # servers of earlier versions do not say
    )


def applied(told: Told) -> Applied:
    """Read the result of an apply, or its preview."""
    return Applied(
        source=told["source"],
        differences=tuple(map(difference, told["differences"])),
        elsewhere=told["elsewhere"],
        warnings=told.get("warnings", {}),
        refused=tuple(told.get("refused", ())),
        paused=tuple(told["paused"]),
        left=tuple(told["left"]),
        dry_run=told["dry_run"],
    )


def backfill(told: Told) -> Backfill:
    """Read the result of a backfill, or its preview."""
    return Backfill(
        told["job"],
        told["slots"],
        moment(told["first"]),
        moment(told["last"]),
        told["existing"],
        told["succeeded"],
        tuple(told["run_ids"]),
        told["dry_run"],
    )


# ── runs ─────────────────────────────────────────────────────────────────────────────────────────────────────


def run_record(told: Told) -> RunRecord:
    """Read a run."""
    progress, args, result = told["progress"], told["args"], told["result"]
    return RunRecord(
        id=told["run_id"],
        job=told["job"],
        namespace=told["namespace"],
        trigger=told["trigger"],
        slot_at=instant(told["slot_at"]),
        due_at=instant(told["due_at"]),
        state=RunState(told["state"]),
        reason=told["reason"],
        attempts=told["attempts"],
        failures=told["failures"],
        recoveries=told["recoveries"],
        created_at=instant(told["created_at"]),
        armed_at=optional(told["armed_at"]),
        started_at=optional(told["started_at"]),
        ended_at=optional(told["ended_at"]),
        error=told["error"],
        result=None if result is None else json.dumps(result, separators=(",", ":")),
        queue=told["queue"],
        priority=told["priority"],
        target=told["target"] or "",
        progress=None if progress is None else Progress(progress["done"], progress["of"]),
        args=None if args is None else canonical(args),
        settled=told["settled"],
        owner=told["owner"],
        node=told["node"] or "",
        revision=told["revision"] or 0,
    )


def skip_record(told: Told) -> SkipRecord:
    """Read a range of skipped slots."""
    return SkipRecord(
        job=told["job"],
        schedule_id=told["schedule"],
        first=instant(told["first"]),
        last=instant(told["last"]),
        count=told["count"],
        reason=told["reason"],
        recorded_at=instant(told["recorded_at"]),
    )


def attempt_record(told: Told) -> AttemptRecord:
    """Read a finished attempt."""
    return AttemptRecord(
        run_id=told["run_id"],
        attempt=told["attempt"],
        lease_id="",
        fence=told["fence"],
        node=told["node"],
        revision=told["revision"],
        outcome=told["outcome"],
        error=told["error"],
        due_at=instant(told["due_at"]),
        reserved_at=instant(told["reserved_at"]),
        armed_at=instant(told["armed_at"]),
        started_at=optional(told["started_at"]),
        ended_at=instant(told["ended_at"]),
    )


def dead_letters(told: Told) -> DeadLetters:
    """Read dead letters with the same error."""
    return DeadLetters(
        told["fingerprint"],
        told["job"],
        told["namespace"],
        told["error_type"],
        told["error"],
        told["count"],
        to_datetime(instant(told["first"])),
        to_datetime(instant(told["last"])),
        run_record(told["example"]),
    )


def replayed(told: Told) -> Replayed:
    """Read the result of a replay, or its preview."""
    return Replayed(
        told["letters"],
        told["without_job"],
        moment(told["first_due"]),
        moment(told["last_due"]),
        tuple(told["run_ids"]),
        told["dry_run"],
    )


def result(told: Told) -> Json:
    """Read the result of a run's handler. Raises `RunFailed` if the run did not succeed."""
    if told["state"] != RunState.SUCCEEDED:
        raise RunFailed(told["run_id"], state=told["state"], reason=told["reason"], error=told["error"])
    result: Json = told["result"]
    return result


# ── the cluster ──────────────────────────────────────────────────────────────────────────────────────────────


def node(told: Told) -> Node:
    """Read a node."""
    return Node(
        id=told["node_id"],
        incarnation=told["incarnation"],
        host=told["host"],
        pid=told["pid"],
        roles=tuple(told["roles"]),
        queues=tuple(told["queues"]),
        labels=tuple(told["labels"]),
        tasks=tuple(told["tasks"]),
        seats=told["seats"],
        draining=told["draining"],
        registered_at=instant(told["registered_at"]),
        lease_until=instant(told["lease_until"]),
        left_at=optional(told["left_at"]),
        ttl=0 if told["ttl"] == "0s" else micros(parse_duration(told["ttl"])),
        tzdata=told["tzdata"],
    )


def term(told: Told) -> Term:
    """Read a term."""
    return Term(
        told["shard"], told["number"], told["incarnation"], instant(told["until"]),
        told["layout"], told["tzdata"], told["zones"],
    )  # fmt: skip


def layout(told: Told) -> Layout:
    """Read the number of shards."""
    return Layout(told["version"], told["shards"])


def queue(told: Told) -> Queue:
    """Read a queue. The answer to a change of a queue has no counts."""
    return Queue(
        name=told["queue"],
        paused_at=optional(told["paused_at"]),
        reason=told["reason"],
        weights=cast("Mapping[str, int] | None", told["weights"]),
        waiting=told.get("waiting", 0),
        due=told.get("due", 0),
        running=told.get("running", 0),
        oldest_due=optional(told.get("oldest_due_at")),
    )
