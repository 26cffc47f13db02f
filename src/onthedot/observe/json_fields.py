"""Turns runs, skips, sessions and coming starts into JSON, for the log, the command line and HTTP."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from onthedot.clock import SECOND
from onthedot.model.run import RunRecord, SkipRecord
from onthedot.observe.formats import iso, milliseconds, optional_iso
from onthedot.rules.next_slots import Coming, Start
from onthedot.schedules import describe, schedule_id

if TYPE_CHECKING:
    from onthedot.access.permissions import Principal
    from onthedot.access.users import OpenSession


def run_fields(run: RunRecord) -> dict[str, Any]:
    """A run as JSON, for the log, the command line and HTTP."""
    began = run.started_at if run.started_at is not None else run.running_since
    late = None if began is None else milliseconds(began - run.due_at)
    took = None if run.started_at is None or run.ended_at is None else milliseconds(run.ended_at - run.started_at)
    return {
        "run_id": run.id,
        "job": run.job,
        "namespace": run.namespace,
        "owner": run.owner,
        "trigger": run.trigger,
        "queue": run.queue,
        "priority": run.priority,
        "target": run.target or None,
        "node": run.node or None,
        "revision": run.revision or None,
        "state": str(run.state),
        "reason": run.reason,
        "error": run.error,
        "attempts": run.attempts,
        "failures": run.failures,
        "recoveries": run.recoveries,
        "created_at": iso(run.created_at),
        "slot_at": iso(run.slot_at),
        "due_at": iso(run.due_at),
        "armed_at": optional_iso(run.armed_at),
        "started_at": optional_iso(run.started_at),
        "ended_at": optional_iso(run.ended_at),
        "running_since": optional_iso(run.running_since),
        "late_ms": late,
        "duration_ms": took,
        "progress": None if run.progress is None else run.progress._asdict(),
    }


def skip_fields(skip: SkipRecord, namespace: str) -> dict[str, Any]:
    """A range of skipped slots as JSON, for HTTP and the command line."""
    return {
        "job": skip.job,
        "namespace": namespace,
        "schedule": skip.schedule_id,
        "first": iso(skip.first),
        "last": iso(skip.last),
        "count": skip.count,
        "reason": skip.reason,
        "recorded_at": iso(skip.recorded_at),
    }


def start_fields(start: Start) -> dict[str, Any]:
    """A coming start as JSON, for the server and for `--json`."""
    job, run = start.job.job, start.run
    return {
        "due_at": iso(start.due_at),
        "job": job.name,
        "namespace": job.namespace,
        "schedule": None if start.schedule is None else schedule_id(start.schedule),
        "reading": None if start.schedule is None else describe(start.schedule),
        "run_id": None if run is None else run.id,
        "trigger": None if run is None else run.trigger,
        "attempts": 0 if run is None else run.attempts,
        "many": start.many,
        "every_s": None if start.every is None else start.every / SECOND,
        "moved_from": None if start.moved_from is None else iso(start.moved_from),
    }


def coming_fields(one: Coming) -> dict[str, Any]:
    """A coming start of one job as JSON."""
    return {
        "schedule": one.schedule_id or None,
        "slot_at": iso(one.slot_at),
        "due_at": iso(one.due_at),
        "run_id": None if one.run is None else one.run.id,
        "moved": one.moved,
        "trigger": None if one.run is None else one.run.trigger,
        "attempts": 0 if one.run is None else one.run.attempts,
    }


def session_fields(session: OpenSession, who: Principal | None = None) -> dict[str, Any]:
    """A session as JSON; `current` if `who` uses this session."""
    return {
        "id": session.id,
        "name": session.name,
        "user": session.user,
        "role": str(session.grant.role),
        "page": session.page,
        "source": session.source,
        "made_at": iso(session.made_at),
        "expires_at": iso(session.expires_at),
        "current": who is not None and who.kind == "session" and who.id == session.id,
    }
