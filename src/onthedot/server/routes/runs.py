"""Runs: ask for them, look at them, end them."""

from __future__ import annotations

from typing import Any

from fastapi import Response
from pydantic import BaseModel, Field, JsonValue

from onthedot.server.door import There, Who
from onthedot.server.routes.jobs import Namespace, seen_job
from onthedot.server.routing import Routes
from onthedot.server.shapes import Body

routes = Routes(prefix="/api/v1", tags=["runs"])


class Submit(Body):
    """One run that is asked for."""

    job: str = Field(max_length=100, examples=["nightly_report"])
    args: dict[str, JsonValue] | None = Field(None, examples=[{"region": "eu"}])
    key: str = Field("", max_length=200, description="Asked for once, however often this is sent.")
    delay: str | None = Field(None, max_length=50, examples=["10m"])
    expires: str | None = Field(None, max_length=50, examples=["1h"])


class Submitted(BaseModel):
    """A run is stored."""

    run_id: int
    created: bool = Field(description="False: a run with this key was there already.")


@routes.post("/runs", response_model=Submitted, status_code=201, responses={404: {}, 409: {}})
async def submit_run(there: There, who: Who, asked: Submit, namespace: Namespace = "default") -> Response:
    """Ask for one run of a job, now or after a delay. It is stored when this is answered."""
    verbs, _ = await seen_job(there, who, asked.job, namespace)
    run = await verbs.submit(asked.job, asked.args, delay=asked.delay, expires=asked.expires, key=asked.key)
    made: dict[str, Any] = {"run_id": run.id, "created": run.created}
    return Response(Submitted(**made).model_dump_json(), 201, media_type="application/json")
