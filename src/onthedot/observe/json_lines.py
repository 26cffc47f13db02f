"""Turns events into lines of JSON, each with the event's name and its fields, and records into JSON.

Instants are ISO 8601 in UTC (`…_at`, `first`, `last`), lengths of time are milliseconds (`…_ms`).
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from onthedot.clock import MILLISECOND, Micros
from onthedot.model.events import (
    AttemptEnded,
    AttemptStarted,
    CommittedBefore,
    Event,
    LeaseLost,
    RunBlocked,
    RunDelayed,
    RunMissed,
    RunProgressed,
    RunRecovered,
    RunSkipped,
    ZombieHandler,
)
from onthedot.model.job import ability_of
from onthedot.model.run import Lease, RunRecord, SkipRecord
from onthedot.model.verdict import Finish, Verdict
from onthedot.observe.formats import iso

if TYPE_CHECKING:
    from onthedot.access.principal import Principal
    from onthedot.access.users import OpenSession

_INSTANTS = ("registered_at", "expires_at", "first", "last")


def json_line(event: Event, at: Micros) -> str:
    """The event on one line. JSON escapes control characters by itself."""
    return json.dumps({"event": type(event).__name__, "at": iso(at), **_fields(event)})


def _fields(event: Event) -> dict[str, Any]:
    match event:
        case AttemptStarted(lease, started_at):
            late = started_at - lease.due_at
            return {**_lease(lease), "started_at": iso(started_at), "late_ms": milliseconds(late)}
        case RunProgressed(lease, progress):
            return {**_lease(lease), "done": progress.done, "of": progress.of}
        case AttemptEnded(finish):
            return _finish(finish)
        case LeaseLost(finish):
            return {**_finish(finish), "task": ability_of(finish.lease.record.job)}
        case RunRecovered(lease, verdict):
            return {**_lease(lease), **_verdict(verdict)}
        case RunBlocked(lease, gate, holder):
            return {**_lease(lease), "gate": gate, "holder": holder}
        case RunSkipped(lease, gate, holder, reason):
            return {**_lease(lease), "gate": gate, "holder": holder, "reason": reason}
        case RunDelayed(lease, gate, until):
            return {**_lease(lease), "gate": gate, "until_at": iso(until)}
        case ZombieHandler(lease, zombies):
            return {**_lease(lease), "task": ability_of(lease.record.job), "zombies": zombies}
        case CommittedBefore(lease, said):
            return {**_lease(lease), "said": said}
        case RunMissed(run):
            return run_fields(run)
        case _:
            return dict(_plain_field(name, value) for name, value in event._asdict().items())


def _plain_field(name: str, value: Any) -> tuple[str, Any]:
    if name == "again_in":
        return "again_in_ms", milliseconds(value)
    return name, iso(value) if name in _INSTANTS else value


def _lease(lease: Lease) -> dict[str, Any]:
    return {
        "job": lease.record.job.name,
        "namespace": lease.record.job.namespace,
        "run_id": lease.run_id,
        "revision": lease.record.revision,
        "trigger": lease.trigger,
        "slot_at": iso(lease.slot_at),
        "due_at": iso(lease.due_at),
        "attempt": lease.attempt,
        "failures": lease.failures,
        "recoveries": lease.recoveries,
        "fence": lease.fence,
        "incarnation": lease.incarnation,
    }


def _verdict(verdict: Verdict) -> dict[str, Any]:
    return {
        "state": str(verdict.state),
        "outcome": str(verdict.outcome),
        "reason": verdict.reason,
        "error": verdict.error,
        "again_at": optional_iso(verdict.due_at or None),
    }


def _finish(finish: Finish) -> dict[str, Any]:
    began = finish.started_at or None
    return {
        **_lease(finish.lease),
        **_verdict(finish.verdict),
        "started_at": optional_iso(began),
        "ended_at": iso(finish.ended_at),
        "duration_ms": None if began is None else milliseconds(finish.ended_at - began),
    }


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


def optional_iso(instant: Micros | None) -> str | None:
    """An instant as text, or None."""
    return None if instant is None else iso(instant)


def milliseconds(micros: Micros) -> float:
    """
    >>> milliseconds(1_500)
    1.5
    """
    return micros / MILLISECOND


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
