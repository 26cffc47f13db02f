"""Which gates a run has to pass, and what becomes of it at a closed one."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from onthedot.clock import Micros
from onthedot.job import JobRecord, overlap_of
from onthedot.run import Gate, OnBusy, is_slot

_WAIT = OnBusy("wait")


def gates_of(record: JobRecord, *, target: str, arguments: Mapping[str, Any]) -> tuple[Gate, ...]:
    """The gates of a run, in the order in which everyone takes them.

    The overlap gate first: who waits for an earlier run of its own job must not take a place in a shared limit
    meanwhile. One order for all callers, so that no two runs can wait for each other.
    """
    overlap, gates = overlap_of(record.job), []
    if overlap.mode != "allow":
        gates.append(Gate(f"overlap:{record.id}:{target}", 1, until_end=True))
    elif overlap.max_running is not None:
        gates.append(Gate(f"running:{record.id}:{target}", overlap.max_running))
    limit = record.job.concurrency
    if limit is not None:
        scope = f"name:{limit.name}" if limit.name else f"job:{record.id}"
        value = json.dumps(arguments.get(limit.key), sort_keys=True) if limit.key else ""
        gates.append(Gate(f"limit:{scope}:{value}", limit.most))
    return tuple(gates)


def on_busy(record: JobRecord, *, trigger: str, slot_at: Micros, now: Micros, late_after: Micros) -> OnBusy:
    """What a due run does at its closed overlap gate. Only slots that are on time are skipped or replace others."""
    overlap = overlap_of(record.job)
    if not is_slot(trigger) or now > slot_at + late_after:
        return _WAIT
    match overlap.mode:
        case "skip":
            return OnBusy("skip")
        case "replace":
            return OnBusy("replace")
        case "wait":
            return OnBusy("wait", overlap.max_waiting)
        case "allow":
            return _WAIT
