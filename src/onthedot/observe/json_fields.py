"""Turns runs, events, nodes and queues into JSON, for the log, the command line and HTTP."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from onthedot.clock import SECOND, Micros
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
from onthedot.observe.formats import iso, milliseconds, optional_iso
from onthedot.rules.next_slots import Coming, Start
from onthedot.schedules import describe, schedule_id
from onthedot.stores.values import Held, Node, Queue, Term

if TYPE_CHECKING:
    from onthedot.access.permissions import Principal
    from onthedot.access.users import OpenSession


# ── runs, skips and coming starts ──────────────────────────────────────────────────────────────────────────────


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


# ── the cluster ────────────────────────────────────────────────────────────────────────────────────────────────


class NodeShown(NamedTuple):
    """A node, its state, the shards that it leads, and how many runs it holds."""

    node: Node
    state: str
    terms: list[int]  # the shards that it leads
    held: Held


def node_fields(shown: NodeShown) -> dict[str, Any]:
    """A node as JSON."""
    node = shown.node
    return {
        "node_id": node.id,
        "incarnation": node.incarnation,
        "state": shown.state,
        "leads": bool(shown.terms),
        "shards": shown.terms,
        "draining": node.draining,
        "host": node.host,
        "pid": node.pid,
        "roles": list(node.roles),
        "queues": list(node.queues),
        "labels": list(node.labels),
        "tasks": list(node.tasks),
        "seats": node.seats,
        "running": shown.held.running,
        "reserved": shown.held.reserved,
        "registered_at": iso(node.registered_at),
        "lease_until": iso(node.lease_until),
        "left_at": optional_iso(node.left_at),
    }


def term_fields(term: Term, nodes: Mapping[str, str], now: Micros) -> dict[str, Any]:
    """A term as JSON. `nodes` maps incarnations to names of nodes."""
    return {
        "shard": term.shard,
        "number": term.number,
        "node_id": nodes.get(term.incarnation),
        "incarnation": term.incarnation,
        "until": iso(term.until),
        "current": bool(term.incarnation) and term.until > now,
    }


def queue_fields(queue: Queue) -> dict[str, Any]:
    """A queue as JSON, with the counts of its runs."""
    return {
        **queue_settings(queue),
        "waiting": queue.waiting,
        "due": queue.due,
        "running": queue.running,
        "oldest_due_at": optional_iso(queue.oldest_due),
    }


def queue_settings(queue: Queue) -> dict[str, Any]:
    """The settings of a queue as JSON."""
    return {
        "queue": queue.name,
        "paused": queue.paused_at is not None,
        "paused_at": optional_iso(queue.paused_at),
        "reason": queue.reason,
        "weights": None if queue.weights is None else dict(queue.weights),
    }


# ── events ─────────────────────────────────────────────────────────────────────────────────────────────────────

_INSTANTS = ("registered_at", "expires_at", "first", "last")


def json_line(event: Event, at: Micros) -> str:
    """An event as one line of JSON, with its name and its fields.

    Instants are ISO 8601 in UTC (`…_at`, `first`, `last`), lengths of time are milliseconds (`…_ms`).
    """
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
