"""The bodies and answers that several routes share. Instants are RFC 3339 in UTC."""

from __future__ import annotations

import json
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, JsonValue

from onthedot.model.job import JobRecord
from onthedot.model.run import AttemptRecord, RunRecord
from onthedot.observe.formats import iso, optional_iso
from onthedot.observe.json_fields import run_fields
from onthedot.server.definitions import definition_of

Line = Annotated[str, Field(pattern=r"^[^\x00-\x1f\x7f]*$")]
"""Text on one line, without control characters."""


class Body(BaseModel):
    """What a request says: strictly, and nothing else."""

    model_config = ConfigDict(strict=True, extra="forbid", allow_inf_nan=False)


class JobOut(BaseModel):
    """A job as it is stored."""

    id: int
    name: str = Field(examples=["nightly_report"])
    namespace: str = Field(examples=["default"])
    owner: str
    revision: int
    state: str = Field(examples=["active"])
    created_at: str = Field(examples=["2026-01-01T09:00:00.000000Z"])
    updated_at: str
    pause_reason: str
    paused_until: str | None
    definition: dict[str, JsonValue]


class ProgressOut(BaseModel):
    """How much of a run is done, as its handler has told."""

    done: float
    of: float | None


class RunOut(BaseModel):
    """A run, waiting, running or finished."""

    run_id: int = Field(examples=[41])
    job: str = Field(examples=["nightly_report"])
    namespace: str = Field(examples=["default"])
    owner: str = Field(description="Of its job, as it is now.", examples=["ann"])
    trigger: str = Field(description="What asked for it.", examples=["schedule:nightly"])
    queue: str = Field(examples=["default"])
    priority: str = Field(examples=["normal"])
    target: str | None = Field(description="The node that it is for, if it is for one.")
    node: str | None = Field(description="That holds it, or had it last.", examples=["worker-1"])
    revision: int | None = Field(description="Of its job, that it was tried with last.")
    state: str = Field(examples=["succeeded"])
    reason: str
    error: str | None = Field(examples=["ConnectionError: no answer"])
    attempts: int
    failures: int
    recoveries: int
    created_at: str = Field(examples=["2026-01-01T09:00:00.000000Z"])
    slot_at: str
    due_at: str
    armed_at: str | None
    started_at: str | None
    ended_at: str | None
    running_since: str | None = Field(description="When the attempt that runs was let start; null: none runs.")
    late_ms: float | None = Field(description="How long after `due_at` it started; null: it has not.")
    duration_ms: float | None
    args: dict[str, JsonValue] | None = Field(description="None: the job's own.", examples=[{"region": "eu"}])
    progress: ProgressOut | None
    settled: str = Field(description="What was done about it, if it is dead.")
    result: JsonValue = Field(description="What its handler gave back, if it has succeeded.")
    model_config = ConfigDict(extra="forbid")


class RunsOut(BaseModel):
    """Some runs, and where the next ones begin. A page may be short, or empty, and still have a next one."""

    items: list[RunOut]
    next: str | None = Field(description="Send it as `after` to read on; null: that was all.")


class AttemptOut(BaseModel):
    """One try at a run, which is over."""

    run_id: int = Field(examples=[41])
    attempt: int = Field(examples=[1])
    node: str = Field(examples=["worker-1"])
    revision: int = Field(description="Of the job, that was tried.")
    fence: int
    outcome: str = Field(examples=["succeeded"])
    error: str | None
    due_at: str
    reserved_at: str
    armed_at: str
    started_at: str | None
    ended_at: str = Field(examples=["2026-01-01T09:00:01.250000Z"])


class AttemptsOut(BaseModel):
    """Some attempts, and where the next ones begin."""

    items: list[AttemptOut]
    next: str | None = Field(description="Send it as `after` to read on; null: that was all.")


def job_out(record: JobRecord) -> dict[str, Any]:
    """A job as JSON."""
    return fields(
        JobOut,
        id=record.id,
        name=record.job.name,
        namespace=record.job.namespace,
        owner=record.job.owner,
        revision=record.revision,
        state=str(record.state),
        created_at=iso(record.created_at),
        updated_at=iso(record.updated_at),
        pause_reason=record.pause_reason,
        paused_until=optional_iso(record.paused_until),
        definition=definition_of(record.job),
    )


def run_out(run: RunRecord) -> dict[str, Any]:
    """A run as JSON."""
    return {
        **run_fields(run),
        "args": None if run.args is None else json.loads(run.args),
        "settled": run.settled,
        "result": None if run.result is None else json.loads(run.result),
    }


def attempt_out(attempt: AttemptRecord) -> dict[str, Any]:
    """An attempt as JSON, without its lease: who knows the lease can end the attempt."""
    return fields(
        AttemptOut,
        run_id=attempt.run_id,
        attempt=attempt.attempt,
        node=attempt.node,
        revision=attempt.revision,
        fence=attempt.fence,
        outcome=str(attempt.outcome),
        error=attempt.error,
        due_at=iso(attempt.due_at),
        reserved_at=iso(attempt.reserved_at),
        armed_at=iso(attempt.armed_at),
        started_at=optional_iso(attempt.started_at),
        ended_at=iso(attempt.ended_at),
    )


def fields(model: type[BaseModel], **values: Any) -> dict[str, Any]:
    """The fields of an answer. `TypeError` unless they are exactly those of its model."""
    expected = set(model.model_fields)
    if set(values) != expected:
        raise TypeError(f"{model.__name__}: expected {sorted(expected)}, got {sorted(values)}")
    return values


def schema_of(model: type[BaseModel]) -> dict[str, Any]:
    """The schema of a model, with references into the OpenAPI document."""
    schema = model.model_json_schema(ref_template="#/components/schemas/{model}")
    return {name: value for name, value in schema.items() if name != "$defs"}
