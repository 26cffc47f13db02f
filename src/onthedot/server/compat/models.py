"""Bodies and answers of the documents' routes, and the translation between their words and ours.

In the documents a job has a number, a user, a frequency and a payload. It is pending, running, completed or failed.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from fastapi import Body
from pydantic import BaseModel, Field, JsonValue, WithJsonSchema

from onthedot.define.key_readers import TASK_READERS as TASKS
from onthedot.model.errors import DefinitionError
from onthedot.model.job import At, FixedDelay, In, Job, JobRecord, JobState
from onthedot.model.run import LIVE, RunRecord, RunState
from onthedot.schedules import to_text
from onthedot.server.models import JobBody

Status = Literal["pending", "running", "completed", "failed"]

OURS = {"user_id": "owner", "frequency": "schedule", "payload": "args"}
"""Words of the documents, and our words for them."""

AT_ONCE = "in 1ms"
_WHEN = ("schedule", "schedules", "after")
_WHAT = (*TASKS, "steps", "url", "run", "argv", "command")


def in_our_words(body: Mapping[str, Any]) -> dict[str, Any]:
    """Translate a body in the documents' words into a job definition. Without a frequency the job runs once,
    immediately. Without a task it calls the handler of its own name, with the payload as arguments.

    >>> in_our_words({"name": "report", "user_id": "u003", "payload": {"n": 1}})
    {'name': 'report', 'owner': 'u003', 'args': {'n': 1}, 'schedule': 'in 1ms', 'call': 'report'}
    """
    twice = [f"{word}: expected this or {ours!r}, got both" for word, ours in OURS.items() if {word, ours} <= set(body)]
    if twice:
        raise DefinitionError(twice)
    ours = {OURS.get(word, word): value for word, value in body.items()}
    if not any(word in ours for word in _WHEN):
        ours["schedule"] = AT_ONCE
    if not any(word in ours for word in _WHAT):
        ours["call"] = ours["name"]
    return ours


def status_of_run(run: RunRecord) -> Status:
    """The status of one execution."""
    if run.state is RunState.RUNNING:
        return "running"
    if run.state in LIVE:
        return "pending"
    return "completed" if run.state is RunState.SUCCEEDED else "failed"


def has_more(record: JobRecord) -> bool:
    """Whether the job has a slot to come."""
    return bool(record.job.schedules) and record.state is not JobState.EXHAUSTED


def status_of_job(record: JobRecord, newest: RunRecord | None) -> Status:
    """The status of a job: running while a run is running; pending while a run waits or a slot is to come; else the
    status of the newest run. `newest` is a running run, else a waiting one, else the one that ended last."""
    if newest is not None and newest.state in LIVE:
        return status_of_run(newest)
    return "pending" if newest is None or has_more(record) else status_of_run(newest)


def is_recurring(job: Job) -> bool:
    """Whether a job has a schedule with more than one slot.

    >>> from onthedot.schedules import every
    >>> from onthedot.model.task import Noop
    >>> is_recurring(Job(name="j", task=Noop(), schedules=(every("1h"),)))
    True
    """
    return any(isinstance(one, FixedDelay) or not (isinstance(one, At | In) or one.run_once) for one in job.schedules)


def frequency_of(job: Job) -> str | None:
    """The schedules of a job as text; None if it has none, or was submitted without a frequency.

    >>> from onthedot.schedules import every
    >>> from onthedot.model.task import Noop
    >>> frequency_of(Job(name="j", task=Noop(), schedules=(every("1h30m"),)))
    'every 1h30m'
    """
    texts = [to_text(schedule) for schedule in job.schedules]
    return None if texts == [AT_ONCE] else "; ".join(texts) or None


# ── bodies and answers ─────────────────────────────────────────────────────────────────────────────────────────

Document = Annotated[
    JobBody,
    WithJsonSchema({"$ref": "#/components/schemas/written.document_job"}),
    Body(
        description="`user_id`, `frequency` and `payload`, and any option of a job (`name`, `run`, `http`, …).",
        openapi_examples={
            "every morning": {
                "value": {"name": "report", "user_id": "u003", "frequency": "0 9 * * *", "payload": {"region": "eu"}}
            },
            "once, now": {"value": {"user_id": "u003", "http": "https://example.org/hook"}},
        },
    ),
]


def document_component(job: dict[str, Any]) -> dict[str, Any]:
    """The schema of a body in the documents' words: that of a job with these words added."""
    properties = job["properties"]
    documents = {word: properties[ours] for word, ours in OURS.items()}
    return {"type": "object", "properties": {**properties, **documents}, "additionalProperties": False}


class DocumentJob(BaseModel):
    """A job."""

    job_id: int = Field(examples=[7])
    user_id: str = Field(examples=["u003"])
    name: str = Field(examples=["report"])
    frequency: str | None = Field(description="Its schedule; null: none.", examples=["0 9 * * *"])
    payload: dict[str, JsonValue] = Field(examples=[{"region": "eu"}])
    status: Status = Field(examples=["pending"])
    next_run_time: str | None = Field(examples=["2026-01-01T09:00:00.000000Z"])


class DocumentJobs(BaseModel):
    """A page of jobs."""

    items: list[DocumentJob]
    next: str | None = Field(examples=[None])


class CancelledJob(BaseModel):
    """The answer to a cancelled job."""

    job_id: int = Field(examples=[7])
    cancelled: int = Field(description="The number of waiting executions that were cancelled.", examples=[1])


class Execution(BaseModel):
    """A running execution."""

    execution_id: int = Field(examples=[12])
    job_id: int | None = Field(description="null: its job was deleted.", examples=[7])
    name: str = Field(examples=["report"])
    user_id: str = Field(examples=["u003"])
    worker_id: str = Field(examples=["w001"])
    status: Status = Field(examples=["running"])
    attempts: int = Field(examples=[1])


class Executions(BaseModel):
    """A page of running executions on a worker."""

    items: list[Execution]
    next: str | None = Field(examples=[None])


class SubmittedJob(BaseModel):
    """A job of the file."""

    job_id: int = Field(examples=[7])
    name: str = Field(examples=["BuildAndTest"])
    change: str = Field(description="created, changed or unchanged.", examples=["created"])


class SubmittedJobs(BaseModel):
    """The stored jobs of a file."""

    job_id: int = Field(description="The id of the first job.", examples=[7])
    jobs: list[SubmittedJob]


class PastExecution(BaseModel):
    """An execution of a job."""

    job_id: int = Field(examples=[7])
    execution_id: int = Field(examples=[12])
    execution_time: str = Field(
        description="Start of the execution; before it starts, its due time.", examples=["2026-01-01T09:00:00.000000Z"]
    )
    status: Status = Field(examples=["completed"])
    last_update_time: str = Field(examples=["2026-01-01T09:00:02.000000Z"])
    logs_path: str = Field(examples=["/api/v1/runs/12/logs"])
    attempts: int = Field(examples=[1])
    duration_ms: float | None = Field(examples=[2000.0])
    error: str | None = Field(examples=[None])


class History(BaseModel):
    """A page of executions: running and waiting ones first, then finished ones, newest first."""

    items: list[PastExecution]
    next: str | None = Field(examples=[None])


class LastLogs(BaseModel):
    """The logs of the last execution."""

    job_id: int = Field(examples=[7])
    execution_id: int | None = Field(description="null: the job was never executed.", examples=[12])
    status: Status = Field(examples=["completed"])
    logs_path: str | None = Field(examples=["/api/v1/runs/12/logs"])
    logs: str = Field(examples=["ok\n"])
    cut: bool = Field(description="Whether earlier text was left out.")


class JobStatus(BaseModel):
    """The status of a job."""

    job_id: int = Field(examples=[7])
    user_id: str = Field(examples=["u003"])
    name: str = Field(examples=["BuildAndTest"])
    is_recurring: bool
    schedule: str | None = Field(examples=["0 0 * * *"])
    created_time: str = Field(examples=["2026-01-01T08:00:00.000000Z"])
    status: Status = Field(examples=["pending"])
    last_status: Status | None = Field(description="Status of the last execution; null: none.", examples=["failed"])
    next_execution_time: str | None = Field(examples=["2026-01-02T00:00:00.000000Z"])
