"""What crosses between a worker and its child processes: JSON, one frame after another. Nothing else, ever.

A frame is its length in four bytes and then JSON. Neither side unpickles, imports or evaluates anything that came from
a store or from a handler: a lease becomes plain fields, an outcome comes back as four plain values. In between a child
may say `checkpoint`, and is answered, and `note`, and is not (`child_desk.py`, `relay.py`).
"""

from __future__ import annotations

import json
import socket
from dataclasses import fields
from typing import Any

from onthedot.model.job import JobRecord, JobState
from onthedot.model.run import Checkpoint, Lease
from onthedot.model.verdict import Outcome, OutcomeKind
from onthedot.stores.definitions import decode, encode

TERM, KILL = b"T", b"K"
"""What a worker tells the keeper of a child."""

_LENGTH = 4
_CHUNK = 1 << 20
_LEASE = tuple(field.name for field in fields(Lease) if field.name != "record")


class BadFrame(ValueError):
    """What arrived is not what the other side can have sent."""


def frame(message: dict[str, Any]) -> bytes:
    """A message as it crosses."""
    body = json.dumps(message).encode()
    return len(body).to_bytes(_LENGTH, "big") + body


def send(talk: socket.socket, message: dict[str, Any]) -> None:
    """One frame."""
    talk.sendall(frame(message))


def receive(talk: socket.socket, most: int) -> dict[str, Any] | None:
    """The next frame, at most so many bytes of it; None if the other side has closed."""
    head = _read(talk, _LENGTH)
    if head is None:
        return None
    length = int.from_bytes(head, "big")
    if length > most:
        raise BadFrame(f"expected at most {most} bytes, got {length}")
    body = _read(talk, length)
    if body is None:
        return None
    try:
        message = json.loads(body)
    except (ValueError, RecursionError) as error:
        raise BadFrame(f"expected JSON, got {body[:100]!r}") from error
    if not isinstance(message, dict):
        raise BadFrame(f"expected a mapping, got {body[:100]!r}")
    return message


def _read(talk: socket.socket, length: int) -> bytes | None:
    parts: list[bytes] = []
    while length:
        part = talk.recv(min(length, _CHUNK))
        if not part:
            return None
        parts.append(part)
        length -= len(part)
    return b"".join(parts)


def lease_to_json(lease: Lease) -> dict[str, Any]:
    """A lease and the revision of its job, as plain values."""
    record = lease.record
    return {
        **{name: getattr(lease, name) for name in _LEASE},
        "record": [record.id, record.revision, encode(record.job), record.created_at, record.updated_at],
    }


def lease_from_json(data: dict[str, Any]) -> Lease:
    """The lease that `lease_to_json` wrote."""
    job_id, revision, definition, created_at, updated_at = data.pop("record")
    record = JobRecord(job_id, revision, decode(definition), JobState.ACTIVE, created_at, updated_at)
    saved = data.pop("checkpoint")
    return Lease(**data, record=record, checkpoint=None if saved is None else Checkpoint(*saved))


def outcome_to_json(outcome: Outcome) -> list[Any]:
    """An outcome as plain values."""
    return [outcome.kind.value, outcome.error, list(outcome.error_types), outcome.result]


def outcome_from_json(data: Any) -> Outcome:
    """The outcome that a child told: it succeeded or failed, the rest is not its to say."""
    match data:
        case ["succeeded", None, [], str() | None as result]:
            return Outcome(OutcomeKind.SUCCEEDED, result=result)
        case ["failed", str(error), [*types], None] if all(isinstance(name, str) for name in types):
            return Outcome(OutcomeKind.FAILED, error, tuple(types))
    raise BadFrame(f"expected an outcome, got {str(data)[:100]!r}")
