"""The parameters, bodies and answers that several routes share. Instants are RFC 3339 in UTC."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Annotated, Any
from urllib.parse import quote

from fastapi import Body as BodyParam
from fastapi import Header, Path, Query
from pydantic import BaseModel, ConfigDict, Field, JsonValue, StringConstraints, WithJsonSchema
from starlette.responses import Response

from onthedot.clock import Micros, to_micros
from onthedot.define.job_reader import read_job
from onthedot.define.job_writer import written
from onthedot.define.schema import definitions
from onthedot.model.job import Job, JobRecord
from onthedot.model.run import HIGHEST_RUN, AttemptRecord, RunRecord
from onthedot.observe.formats import iso, optional_iso
from onthedot.observe.json_fields import run_fields
from onthedot.schedules.instants import read_instant

Line = Annotated[str, Field(pattern=r"^[^\x00-\x1f\x7f]*$")]
"""Text on one line, without control characters."""


class Body(BaseModel):
    """The base class of request bodies. Types are strict, and unknown fields are refused."""

    model_config = ConfigDict(strict=True, extra="forbid", allow_inf_nan=False)


# ── parameters ─────────────────────────────────────────────────────────────────────────────────────────────────

NO_NUL = r"^[^\x00]*$"
"""Text without NUL, which every store can compare."""

Text = Annotated[str, StringConstraints(max_length=200, pattern=NO_NUL)]
RunId = Annotated[int, Path(alias="run", description="The run's id.", ge=1, le=HIGHEST_RUN, examples=[41])]
PageSize = Annotated[int, Query(ge=1, le=1000, description="The largest number of items on a page.")]
After = Annotated[str | None, Query(max_length=500, pattern=NO_NUL, description="The `next` of the previous page.")]
Instant = Annotated[
    str | None,
    Query(
        max_length=50,
        description="An instant in RFC 3339 with an offset.",
        examples=["2026-01-01T08:00:00Z"],
        json_schema_extra={"format": "date-time"},
    ),
]
IdempotencyKey = Annotated[
    str | None,
    Header(
        alias="Idempotency-Key",
        min_length=1,
        max_length=200,
        description="Another request with the same key returns the run of the first request. Each API key has its own "
        "idempotency keys.",
    ),
]

NAME = r"^[A-Za-z0-9_][A-Za-z0-9_.:-]*$"
Name = Annotated[str, Path(description="The job's name.", max_length=100, pattern=NAME, examples=["nightly_report"])]
Namespace = Annotated[str, Query(description="The job's namespace.", max_length=100, pattern=NAME)]
JobsLimit = Annotated[int, Query(description="The largest number of items on a page.", ge=1, le=1000)]
JobsAfter = Annotated[str | None, Query(description="The `next` of the previous page.", max_length=1000)]
Word = Annotated[Line | None, Query(max_length=200)]
JobName = Annotated[Text | None, Query(description="Only this job.", examples=["nightly_report"])]
QueueName = Annotated[str, Path(max_length=100, pattern=NAME, examples=["mail"])]


def instant(given: str | None, what: str) -> Micros | None:
    """Read an instant from a query. Raises `DefinitionError` if it is not one."""
    return None if given is None else to_micros(read_instant(given, what=what))


# ── job definitions ────────────────────────────────────────────────────────────────────────────────────────────

JobBody = dict[str, JsonValue]

EXAMPLE: JobBody = {
    "name": "nightly_report",
    "schedule": {"cron": "30 2 * * *", "tz": "Europe/Berlin"},
    "call": "report",
    "args": {"region": "eu"},
    "timeout": "20m",
    "retry": {"attempts": 3},
}
_AT = "#/components/schemas/"
_PREFIX = "written."
_NAMED = {"name", "namespace"}


Definition = Annotated[
    JobBody,
    WithJsonSchema({"$ref": f"{_AT}{_PREFIX}job"}),
    BodyParam(description="A job definition, as in a YAML file.", openapi_examples={"a job": {"value": EXAMPLE}}),
]
Named = Annotated[
    JobBody,
    WithJsonSchema({"$ref": f"{_AT}{_PREFIX}named_job"}),
    BodyParam(
        description="A job definition, as in a YAML file. The name is in the path.",
        openapi_examples={"a job": {"value": {name: one for name, one in EXAMPLE.items() if name not in _NAMED}}},
    ),
]
Patch = Annotated[
    JobBody,
    BodyParam(
        description="A JSON merge patch (RFC 7396) of the definition. null removes an option.",
        openapi_examples={"a patch": {"value": {"timeout": "30m", "retry": None}}},
    ),
]


def definition_of(job: Job) -> dict[str, Any]:
    """The definition of a job, in the form in which a client can send it back."""
    return dict(written(job))


def read_definition(data: JobBody) -> Job:
    """Read a job definition. Raises `DefinitionError` with every problem in it."""
    return read_job(data)


def components() -> dict[str, Any]:
    """The schemas of job definitions, by their names in the OpenAPI document.

    >>> sorted(components())[:2]
    ['written.args', 'written.delay']
    """
    found = {name: without_branches(schema) for name, schema in definitions(f"{_AT}{_PREFIX}").items()}
    whole = found["job"]
    found["named_job"] = {
        **whole,
        "properties": {name: one for name, one in whole["properties"].items() if name not in _NAMED},
        "required": [name for name in whole.get("required", ()) if name not in _NAMED],
    }
    return {f"{_PREFIX}{name}": schema for name, schema in found.items()}


def without_branches(schema: dict[str, Any]) -> dict[str, Any]:
    """Rewrite a `oneOf` of required keys without `oneOf`. Client generators make a type from each branch, and lose the
    shared properties.

    >>> one = {"type": "object", "properties": {"run": {}, "argv": {}}}
    >>> plain = without_branches({**one, "oneOf": [{"required": ["run"]}, {"required": ["argv"]}]})
    >>> plain["dependentSchemas"]["run"], plain["not"]
    ({'propertyNames': {'not': {'enum': ['argv']}}}, {'propertyNames': {'not': {'enum': ['run', 'argv']}}})
    """
    branches = {branch["required"][0]: branch.get("properties", {}) for branch in schema.get("oneOf", ())}
    if not branches:
        return schema
    clashing = {
        key: _none_of(dict.fromkeys([*(other for other in branches if other != key), *forbidden]))
        for key, forbidden in branches.items()
    }
    rest = {word: one for word, one in schema.items() if word != "oneOf"}
    dependent = {**schema.get("dependentSchemas", {}), **clashing}
    return {**rest, "dependentSchemas": dependent, "not": _none_of(branches)}


def _none_of(keys: Iterable[str]) -> dict[str, Any]:
    """The schema of an object without these keys."""
    return {"propertyNames": {"not": {"enum": list(keys)}}}


def patched(target: Any, patch: Any) -> Any:
    """Apply a JSON merge patch (RFC 7396).

    >>> patched({"a": {"b": 1, "c": 2}, "d": 3}, {"a": {"b": None}, "d": [4]})
    {'a': {'c': 2}, 'd': [4]}
    """
    if not isinstance(patch, dict):
        return patch
    made = dict(target) if isinstance(target, dict) else {}
    for name, value in patch.items():
        if value is None:
            made.pop(name, None)
        else:
            made[name] = patched(made.get(name), value)
    return made


# ── answers ────────────────────────────────────────────────────────────────────────────────────────────────────


class JobOut(BaseModel):
    """A stored job."""

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
    """The progress that the handler of a run has reported."""

    done: float
    of: float | None


class RunOut(BaseModel):
    """A run: waiting, running or finished."""

    run_id: int = Field(examples=[41])
    job: str = Field(examples=["nightly_report"])
    namespace: str = Field(examples=["default"])
    owner: str = Field(description="The present owner of its job.", examples=["ann"])
    trigger: str = Field(
        description="What created the run: a schedule, a submit, a person.", examples=["schedule:nightly"]
    )
    queue: str = Field(examples=["default"])
    priority: str = Field(examples=["normal"])
    target: str | None = Field(description="The node that has to execute it; null: any node.")
    node: str | None = Field(description="Current or last node; null: none yet.", examples=["worker-1"])
    revision: int | None = Field(description="The revision of its job in the last attempt.")
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
    running_since: str | None = Field(description="Start of the running attempt; null: none runs.")
    late_ms: float | None = Field(description="Milliseconds from `due_at` to the start; null: not started.")
    duration_ms: float | None
    args: dict[str, JsonValue] | None = Field(
        description="The arguments; null: those of the job.", examples=[{"region": "eu"}]
    )
    progress: ProgressOut | None
    settled: str = Field(description="For a dead run: whether it was replayed or discarded.")
    result: JsonValue = Field(description="The result of the handler if the run succeeded.")
    model_config = ConfigDict(extra="forbid")


class RunsOut(BaseModel):
    """A page of runs. A page can be short or empty and still have a `next`."""

    items: list[RunOut]
    next: str | None = Field(description="Send it as `after` to get the next page; null: this is the last page.")


class AttemptOut(BaseModel):
    """A finished attempt of a run."""

    run_id: int = Field(examples=[41])
    attempt: int = Field(examples=[1])
    node: str = Field(examples=["worker-1"])
    revision: int = Field(description="The revision of the job.")
    fence: int
    outcome: str = Field(examples=["succeeded"])
    error: str | None
    due_at: str
    reserved_at: str
    armed_at: str
    started_at: str | None
    ended_at: str = Field(examples=["2026-01-01T09:00:01.250000Z"])


class AttemptsOut(BaseModel):
    """A page of attempts."""

    items: list[AttemptOut]
    next: str | None = Field(description="Send it as `after` to get the next page; null: this is the last page.")


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
    """An attempt as JSON, without its lease: a client with the lease could end the attempt."""
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


def datetime_out(instant: datetime | None) -> str | None:
    """An instant as JSON; None if there is none."""
    return None if instant is None else iso(to_micros(instant))


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


# ── responses ──────────────────────────────────────────────────────────────────────────────────────────────────

_NOT_PLAIN = re.compile(r"[^A-Za-z0-9._-]+")


def to_json(value: Any) -> str:
    """JSON in ASCII on one line. FastAPI's encoder fails on some user text, such as half of a surrogate pair. Here it
    is escaped."""
    return json.dumps(value, separators=(",", ":"))


def json_response(value: Any, status: int = 200, headers: Mapping[str, str] | None = None) -> Response:
    """A JSON response."""
    return Response(to_json(value), status, headers, "application/json")


def attachment(name: str) -> dict[str, str]:
    """The headers of a download: browsers save it and never show it. The suggested file name has safe characters only.

    >>> attachment('../a "b".txt')["Content-Disposition"]
    'attachment; filename="a_b_.txt"; filename*=UTF-8\\'\\'a%20%22b%22.txt'
    """
    last = name.replace("\\", "/").rpartition("/")[2] or "file"
    safe = _NOT_PLAIN.sub("_", last).strip(".") or "file"
    encoded = quote(last.encode(errors="replace"), safe="")
    return {"Content-Disposition": f"attachment; filename=\"{safe}\"; filename*=UTF-8''{encoded}"}
