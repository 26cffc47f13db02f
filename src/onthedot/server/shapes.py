"""What answers are made of. Instants are RFC 3339 in UTC."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, ConfigDict, Field, JsonValue


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


class RunOut(BaseModel):
    """A run, waiting, running or finished."""

    run_id: int
    job: str
    namespace: str
    state: str = Field(examples=["succeeded"])
    model_config = ConfigDict(extra="allow")


def fields(model: type[BaseModel], **values: Any) -> dict[str, Any]:
    """The fields of an answer, which must be all that its model has: a cheap net for what no test looks at."""
    expected = set(model.model_fields)
    if set(values) != expected:
        raise TypeError(f"{model.__name__}: expected {sorted(expected)}, got {sorted(values)}")
    return values
