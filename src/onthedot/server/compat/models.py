"""The bodies and answers of the documents' routes."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import Body
from pydantic import BaseModel, Field, JsonValue, WithJsonSchema

from onthedot.server.compat.words import OURS, Status
from onthedot.server.definitions import JobBody

Document = Annotated[
    JobBody,
    WithJsonSchema({"$ref": "#/components/schemas/written.document_job"}),
    Body(
        description="user_id, frequency and payload, and whatever else a job has (`name`, `run`, `http`, …).",
        openapi_examples={
            "every morning": {
                "value": {"name": "report", "user_id": "u003", "frequency": "0 9 * * *", "payload": {"region": "eu"}}
            },
            "once, now": {"value": {"user_id": "u003", "http": "https://example.org/hook"}},
        },
    ),
]


def document_component(job: dict[str, Any]) -> dict[str, Any]:
    """The schema of a document's body: that of a job, with the documents' words as well."""
    properties = job["properties"]
    documents = {word: properties[ours] for word, ours in OURS.items()}
    return {"type": "object", "properties": {**properties, **documents}, "additionalProperties": False}


class DocumentJob(BaseModel):
    """A job, in the documents' words."""

    job_id: int = Field(examples=[7])
    user_id: str = Field(examples=["u003"])
    name: str = Field(examples=["report"])
    frequency: str | None = Field(description="Its schedule; null: it has none.", examples=["0 9 * * *"])
    payload: dict[str, JsonValue] = Field(examples=[{"region": "eu"}])
    status: Status = Field(examples=["pending"])
    next_run_time: str | None = Field(examples=["2026-01-01T09:00:00.000000Z"])


class DocumentJobs(BaseModel):
    """A page of jobs."""

    items: list[DocumentJob]
    next: str | None = Field(examples=[None])


class CancelledJob(BaseModel):
    """A job was cancelled."""

    job_id: int = Field(examples=[7])
    cancelled: int = Field(description="How many waiting executions were cancelled with it.", examples=[1])


class Execution(BaseModel):
    """One execution that runs."""

    execution_id: int = Field(examples=[12])
    job_id: int | None = Field(description="null: its job is gone.", examples=[7])
    name: str = Field(examples=["report"])
    user_id: str = Field(examples=["u003"])
    worker_id: str = Field(examples=["w001"])
    status: Status = Field(examples=["running"])
    attempts: int = Field(examples=[1])


class Executions(BaseModel):
    """What runs on a worker."""

    items: list[Execution]
    next: str | None = Field(examples=[None])


class SubmittedJob(BaseModel):
    """One job of the file."""

    job_id: int = Field(examples=[7])
    name: str = Field(examples=["BuildAndTest"])
    change: str = Field(description="created, changed or unchanged.", examples=["created"])


class SubmittedJobs(BaseModel):
    """The jobs of a file are stored."""

    job_id: int = Field(description="That of the first job.", examples=[7])
    jobs: list[SubmittedJob]


class PastExecution(BaseModel):
    """One execution of a job."""

    job_id: int = Field(examples=[7])
    execution_id: int = Field(examples=[12])
    execution_time: str = Field(description="When it began, or is due.", examples=["2026-01-01T09:00:00.000000Z"])
    status: Status = Field(examples=["completed"])
    last_update_time: str = Field(examples=["2026-01-01T09:00:02.000000Z"])
    logs_path: str = Field(examples=["/api/v1/runs/12/logs"])
    attempts: int = Field(examples=[1])
    duration_ms: float | None = Field(examples=[2000.0])
    error: str | None = Field(examples=[None])


class History(BaseModel):
    """What has become of a job so far: what runs or waits first, then what has ended, the newest first."""

    items: list[PastExecution]
    next: str | None = Field(examples=[None])


class LastLogs(BaseModel):
    """What the last execution has said."""

    job_id: int = Field(examples=[7])
    execution_id: int | None = Field(description="null: it was never executed.", examples=[12])
    status: Status = Field(examples=["completed"])
    logs_path: str | None = Field(examples=["/api/v1/runs/12/logs"])
    logs: str = Field(examples=["ok\n"])
    cut: bool = Field(description="Whether there is more before it.")


class JobStatus(BaseModel):
    """Where a job stands."""

    job_id: int = Field(examples=[7])
    user_id: str = Field(examples=["u003"])
    name: str = Field(examples=["BuildAndTest"])
    is_recurring: bool
    schedule: str | None = Field(examples=["0 0 * * *"])
    created_time: str = Field(examples=["2026-01-01T08:00:00.000000Z"])
    status: Status = Field(examples=["pending"])
    last_status: Status | None = Field(description="Of its last execution; null: there was none.", examples=["failed"])
    next_execution_time: str | None = Field(examples=["2026-01-02T00:00:00.000000Z"])
