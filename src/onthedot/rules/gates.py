"""Decides which gates a run has to pass, and what it does at a closed gate. Pure."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

from onthedot.clock import SECOND, Micros
from onthedot.model.duration import micros
from onthedot.model.job import JobRecord, Limit, Rate, overlap_of
from onthedot.model.rate import RateGate
from onthedot.model.run import Gate, Lease, OnBusy, is_slot

_WAIT = OnBusy("wait")

ON_TIME = SECOND
"""A slot that requests its gate within this time is on time. Reservations of dead nodes lapse in half of it."""


def gates_of(record: JobRecord, *, target: str, arguments: Mapping[str, Any]) -> tuple[Gate, ...]:
    """Return the gates of a run, in the order in which every run takes them.

    The overlap gate comes first: a run that waits for an earlier run of its job must not take a place in a shared limit
    meanwhile. All callers use one order, so that no two runs can wait for each other.
    """
    overlap, gates = overlap_of(record.job), []
    if overlap.mode != "allow":
        gates.append(Gate(f"overlap:{record.id}:{target}", 1, until_end=True))
    elif overlap.max_running is not None:
        gates.append(Gate(f"running:{record.id}:{target}", overlap.max_running))
    limit = record.job.concurrency
    if limit is not None:
        gates.append(Gate(f"limit:{_scope(limit, record, arguments)}", limit.most))
    return tuple(gates)


def rate_of(record: JobRecord, *, arguments: Mapping[str, Any]) -> RateGate | None:
    """Return the rate that a run must keep. The rate comes after all gates, so that no run takes an instant and then
    waits at a gate.
    """
    rate = record.job.rate
    if rate is None:
        return None
    return RateGate(f"rate:{_scope(rate, record, arguments)}", rate.most, micros(rate.per), rate.burst)


def _scope(policy: Limit | Rate, record: JobRecord, arguments: Mapping[str, Any]) -> str:
    """Return the key of the runs that count together: runs of a job, or of all jobs of a namespace that share a name,
    for each value of the key. A namespace contains no colon. The default namespace is left out, so that its keys equal
    those of earlier versions.
    """
    scope = f"name:{policy.name}" if policy.name else f"job:{record.id}"
    if policy.name and record.job.namespace != "default":
        scope = f"in:{record.job.namespace}:{scope}"
    value = json.dumps(arguments.get(policy.key), sort_keys=True) if policy.key else ""
    return f"{scope}:{value}"


def on_busy(lease: Lease, *, now: Micros) -> OnBusy:
    """Return what a due run does at its closed overlap gate. Only slots are skipped or replace others.

    Overdue slots run in order, each of them; with `skip` and `replace` only the newest, unless all are caught up. A
    retry is no catch-up: it waits if it has lost its gate because of an edit.
    """
    if not is_slot(lease.trigger) or lease.attempt > 1:
        return _WAIT
    overlap, all_run = overlap_of(lease.record.job), lease.record.job.catch_up.mode == "all"
    late = lease.created_at > lease.due_at or now > lease.due_at + ON_TIME
    match overlap.mode:
        case "skip":
            return OnBusy("skip", overdue="wait" if all_run else "missed", late=late)
        case "replace":
            return OnBusy("replace", overdue="wait" if all_run else "replaced", late=late)
        case "wait":
            return OnBusy("wait", overlap.max_waiting, overdue="wait", late=late)
        case "allow":
            return _WAIT


# ── keeping and giving up a place ───────────────────────────────────────────────────────────────────────

Age = tuple[Micros, int]
"""A run's due instant and id: the run with the smaller pair has waited longer."""


def kept_while_waiting(gates: Iterable[Gate]) -> tuple[Gate, ...]:
    """Return the gates that a run keeps while it waits at a later one: its overlap gate. Other runs can use its places
    in limits.

    >>> kept_while_waiting([Gate("overlap:1:", 1, until_end=True), Gate("limit:name:x:", 2)])
    (Gate(key='overlap:1:', capacity=1, until_end=True),)
    """
    return tuple(gate for gate in gates if gate.until_end)


def giving_way(asker: Age, idle: Iterable[Age], *, holders: int, capacity: int) -> list[int] | None:
    """Return the holders of a limit that lose their places to a run that could start now; None if too few can lose
    them.

    A place that was passed to a run is not in use before that run is armed. Until then a run that has waited longer may
    take it. `idle` has the holders that do not run.

    >>> giving_way((5, 1), [(3, 2), (7, 3), (9, 4)], holders=3, capacity=3)
    [4]
    >>> giving_way((5, 1), [(3, 2), (7, 3), (9, 4)], holders=3, capacity=2)
    [3, 4]
    >>> giving_way((5, 1), [], holders=1, capacity=2), giving_way((5, 1), [(3, 2)], holders=1, capacity=1) is None
    ([], True)
    """
    needed = max(0, holders - capacity + 1)
    younger = sorted(age for age in idle if age > asker)
    if len(younger) < needed:
        return None
    return [run_id for _, run_id in younger[len(younger) - needed :]]
