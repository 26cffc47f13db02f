"""Messages between a worker (`process.py`) and its child processes (`child_main.py`), as plain JSON values.

A lease goes to the child as plain fields. An outcome comes back as four plain values. In between the child may send
`checkpoint`, which the worker answers, and `note`, which it does not. `frames.py` has the frames.
"""

from __future__ import annotations

from dataclasses import fields
from typing import Any

from onthedot.model.job import JobRecord, JobState
from onthedot.model.job_json import decode, encode
from onthedot.model.run import Checkpoint, Lease
from onthedot.model.verdict import Outcome, OutcomeKind
from onthedot.runners.frames import BadFrame

TERM, KILL = b"T", b"K"
"""A worker's commands to the keeper of a child."""

_LEASE = tuple(field.name for field in fields(Lease) if field.name != "record")


def lease_to_json(lease: Lease) -> dict[str, Any]:
    """Return a lease and the revision of its job, as plain values."""
    record = lease.record
    return {
        **{name: getattr(lease, name) for name in _LEASE},
        "record": [record.id, record.revision, encode(record.job), record.created_at, record.updated_at],
    }


def lease_from_json(data: dict[str, Any]) -> Lease:
    """Return the lease that `lease_to_json` wrote."""
    job_id, revision, definition, created_at, updated_at = data.pop("record")
    record = JobRecord(job_id, revision, decode(definition), JobState.ACTIVE, created_at, updated_at)
    saved = data.pop("checkpoint")
    return Lease(**data, record=record, checkpoint=None if saved is None else Checkpoint(*saved))


def outcome_to_json(outcome: Outcome) -> list[Any]:
    """Return an outcome as plain values."""
    return [outcome.kind.value, outcome.error, list(outcome.error_types), outcome.result]


def outcome_from_json(data: Any) -> Outcome:
    """Return the outcome that a child has sent. It can only be a success or a failure."""
    match data:
        case ["succeeded", None, [], str() | None as result]:
            return Outcome(OutcomeKind.SUCCEEDED, result=result)
        case ["failed", str(error), [*types], None] if all(isinstance(name, str) for name in types):
            return Outcome(OutcomeKind.FAILED, error, tuple(types))
    raise BadFrame(f"expected an outcome, got {str(data)[:100]!r}")
