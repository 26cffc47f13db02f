"""Artifacts: the files that attempts have kept."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from typing import Annotated, Any

from fastapi import Path, Response
from pydantic import BaseModel, Field
from starlette.responses import StreamingResponse

from onthedot.output import run_output
from onthedot.server.auth import There, Who
from onthedot.server.models import NO_NUL, RunId, attachment, json_response
from onthedot.server.problems import Problem
from onthedot.server.router import Routes
from onthedot.server.visibility import visible_run

routes = Routes(prefix="/api/v1", tags=["logs"])

_LONGEST = 3 * 4_096  # characters of a name: a path, fully escaped


class ArtifactOut(BaseModel):
    """One file that an attempt has left."""

    attempt: int = Field(examples=[1])
    name: str = Field(
        description="As the job calls it; what is no text in it is escaped, as %0A.", examples=["report.csv"]
    )
    size: int = Field(description="In bytes.")
    sha256: str


@routes.get("/runs/{run}/artifacts", response_model=list[ArtifactOut], responses={404: {}})
async def list_artifacts(there: There, who: Who, run_id: RunId) -> Response:
    """The files that the attempts of a run have left, and that are kept."""
    await visible_run(there.store, who, run_id)
    return json_response(
        [
            {"attempt": one.of.attempt, "name": one.name, "size": one.kept.size, "sha256": one.kept.sha256}
            for one in await run_output.list_artifacts(there.store, there.outputs, run_id)
        ]
    )


_FILE: dict[int | str, dict[str, Any]] = {
    200: {
        "description": "The file, as it was kept. Never to be shown: always to be saved.",
        "content": {"application/octet-stream": {"schema": {"type": "string", "format": "binary"}}},
    }
}


@routes.get("/runs/{run}/artifacts/{attempt}/{name:path}", response_class=Response, responses={404: {}, **_FILE})
async def get_artifact(
    there: There,
    who: Who,
    run_id: RunId,
    attempt: Annotated[int, Path(ge=1, le=1_000_000)],
    name: Annotated[str, Path(max_length=_LONGEST, pattern=NO_NUL, description="One of those that are listed.")],
) -> Response:
    """One of these files. Its name is looked for among those that are listed, and is part of no path."""
    await visible_run(there.store, who, run_id)
    outputs = there.outputs
    listed = await run_output.list_artifacts(there.store, outputs, run_id, attempt=attempt)
    found = [one for one in listed if one.name == name]
    if outputs is None or not found:
        raise Problem(404, "unknown", f"there is no artifact {name!r} of attempt {attempt}; list those of the run")
    pieces = run_output.read_artifact(outputs, found[-1])
    first = await anext(pieces, b"")  # an error here is still a problem, not half an answer
    headers = {**attachment(name), "Content-Length": str(found[-1].kept.size)}
    return StreamingResponse(_from(first, pieces), headers=headers, media_type="application/octet-stream")


async def _from(first: bytes, rest: AsyncGenerator[bytes]) -> AsyncGenerator[bytes]:
    yield first
    async for piece in rest:
        yield piece
