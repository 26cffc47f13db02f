"""Artifacts: list and download the files that attempts produced."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from typing import Annotated, Any

from fastapi import Path, Response
from pydantic import BaseModel, Field
from starlette.responses import StreamingResponse

from onthedot.output import run_output
from onthedot.server.auth import StoreDep, Who
from onthedot.server.models import NO_NUL, RunId, attachment, json_response
from onthedot.server.problems import Problem
from onthedot.server.router import Routes
from onthedot.server.visibility import visible_run

routes = Routes(prefix="/api/v1", tags=["logs"])

_LONGEST = 3 * 4_096  # characters of a name: a path, fully escaped


class ArtifactOut(BaseModel):
    """A file that an attempt produced."""

    attempt: int = Field(examples=[1])
    name: str = Field(
        description="The name that the job gave it. Bytes that are no text are escaped, as in %0A.",
        examples=["report.csv"],
    )
    size: int = Field(description="Size in bytes.")
    sha256: str


@routes.get("/runs/{run}/artifacts", response_model=list[ArtifactOut], responses={404: {}})
async def list_artifacts(opened: StoreDep, who: Who, run_id: RunId) -> Response:
    """The stored artifacts of a run, of all its attempts. 404 if you may not see the run."""
    await visible_run(opened.store, who, run_id)
    return json_response(
        [
            {"attempt": one.of.attempt, "name": one.name, "size": one.kept.size, "sha256": one.kept.sha256}
            for one in await run_output.list_artifacts(opened.store, opened.outputs, run_id)
        ]
    )


_FILE: dict[int | str, dict[str, Any]] = {
    200: {
        "description": "The file, unchanged, as a download.",
        "content": {"application/octet-stream": {"schema": {"type": "string", "format": "binary"}}},
    }
}


@routes.get("/runs/{run}/artifacts/{attempt}/{name:path}", response_class=Response, responses={404: {}, **_FILE})
async def get_artifact(
    opened: StoreDep,
    who: Who,
    run_id: RunId,
    attempt: Annotated[int, Path(ge=1, le=1_000_000)],
    name: Annotated[
        str, Path(max_length=_LONGEST, pattern=NO_NUL, description="The `name` from the list of artifacts.")
    ],
) -> Response:
    """Download an artifact. The headers make a browser save the file, and never show it. 404 if it is not listed."""
    await visible_run(opened.store, who, run_id)
    outputs = opened.outputs
    listed = await run_output.list_artifacts(opened.store, outputs, run_id, attempt=attempt)
    found = [one for one in listed if one.name == name]
    if outputs is None or not found:
        raise Problem(404, "unknown", f"there is no artifact {name!r} of attempt {attempt}; list those of the run")
    pieces = run_output.read_artifact(outputs, found[-1])
    first = await anext(pieces, b"")  # an error here can still be a problem answer
    headers = {**attachment(name), "Content-Length": str(found[-1].kept.size)}
    return StreamingResponse(_from(first, pieces), headers=headers, media_type="application/octet-stream")


async def _from(first: bytes, rest: AsyncGenerator[bytes]) -> AsyncGenerator[bytes]:
    yield first
    async for piece in rest:
        yield piece
