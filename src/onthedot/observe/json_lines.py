"""Turns events into lines of JSON, each with the event's name and its fields.

Instants are ISO 8601 in UTC (`…_at`, `first`, `last`), lengths of time are milliseconds (`…_ms`).
"""

from __future__ import annotations

import json
from typing import Any

from onthedot.clock import Micros
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
from onthedot.model.run import Lease
from onthedot.model.verdict import Finish, Verdict
from onthedot.observe.formats import iso, milliseconds, optional_iso
from onthedot.observe.json_fields import run_fields

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
