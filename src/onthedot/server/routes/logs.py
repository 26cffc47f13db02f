"""Logs of runs: a range of them, or the stream of all that comes."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Annotated, Any, Literal

from fastapi import Header, Query, Request, Response
from pydantic import BaseModel, Field

from onthedot.model.errors import DefinitionError
from onthedot.observe.content_negotiation import wants_text
from onthedot.observe.formats import iso
from onthedot.output.log_positions import LogPosition, read_position
from onthedot.output.run_output import Said, read_said
from onthedot.server.auth import There, Who
from onthedot.server.event_stream import event_content
from onthedot.server.feeds import FeedsOfApp
from onthedot.server.json_response import attachment, json_response
from onthedot.server.log_feed import END
from onthedot.server.params import RunId
from onthedot.server.router import Routes
from onthedot.server.visibility import visible_run

routes = Routes(prefix="/api/v1", tags=["logs"])

MOST_CHARACTERS = 1024 * 1024
MOST_RECORDS = 1_000

Attempt = Annotated[int | None, Query(ge=1, le=1_000_000, description="Of this attempt only.")]
LastEventId = Annotated[
    str | None,
    Header(alias="Last-Event-ID", max_length=100, description="The id of the last event that was read: go on there."),
]


class RecordOut(BaseModel):
    """Some text that came at once. If a node of an older version runs the attempt, only its text is known."""

    attempt: int = Field(examples=[1])
    at: str | None = Field(examples=["2026-01-01T09:00:00.125000Z"])
    stream: str | None = Field(
        description="`out`, `err`, `log` for what a handler logs, or `otd` for remarks of ours.", examples=["out"]
    )
    step: str | None = Field(examples=["build"])
    text: str = Field(examples=["done\n"])


class LogsOut(BaseModel):
    """Some of what a run has said."""

    items: list[RecordOut]
    next: int | None = Field(description="The offset to read on at; null: that was all there is now.")
    trouble: list[str] = Field(description="Why something could not be read from where output is kept.")


_TEXT: dict[int | str, dict[str, Any]] = {
    200: {
        "content": {"text/plain": {"schema": {"type": "string"}}},
        "description": "With `format=text` or `Accept: text/plain`, a file.",
    }
}


@routes.get("/runs/{run}/logs", response_model=LogsOut, responses={404: {}, **_TEXT})
async def get_logs(
    request: Request,
    there: There,
    who: Who,
    run_id: RunId,
    format: Annotated[
        Literal["text", "json"] | None, Query(description="A file of text, or JSON; null: as `Accept` says, else JSON.")
    ] = None,
    attempt: Attempt = None,
    offset: Annotated[
        int, Query(ge=0, le=2**40, description="Where to begin: so many characters of text, or records of JSON.")
    ] = 0,
    limit: Annotated[int | None, Query(ge=1, le=MOST_CHARACTERS, description="How many of them at the most.")] = None,
) -> Response:
    """What the attempts of a run have said, in order: at most 1,048,576 characters, or 1,000 records. Text for who asks
    for `text/plain`; then the header `X-Next-Offset` says where to read on."""
    await visible_run(there.store, who, run_id)
    said = await read_said(there.store, there.outputs, run_id, only=attempt)
    as_text = wants_text(request.headers.get("accept", "")) if format is None else format == "text"
    if as_text:
        body, following = await asyncio.to_thread(_text, said, offset, limit or MOST_CHARACTERS)
        more = {} if following is None else {"X-Next-Offset": str(following)}
        headers = {**attachment(f"run-{run_id}.log"), **more, "Vary": "Accept"}
        return Response(body, headers=headers, media_type="text/plain; charset=utf-8")
    records = await asyncio.to_thread(_json, said, offset, min(limit or MOST_RECORDS, MOST_RECORDS))
    return json_response(records, headers={"Vary": "Accept"})


def _text(said: list[Said], offset: int, limit: int) -> tuple[bytes, int | None]:
    text = "".join(one.text for one in said)
    part = text[offset : offset + limit]
    return part.encode(errors="replace"), offset + limit if offset + limit < len(text) else None


def _json(said: list[Said], offset: int, limit: int) -> dict[str, Any]:
    records = list(_records(said))
    following = offset + limit if offset + limit < len(records) else None
    trouble = [f"attempt {one.attempt}: {one.trouble}" for one in said if one.trouble]
    return {"items": records[offset : offset + limit], "next": following, "trouble": trouble}


def _records(said: list[Said]) -> Iterator[dict[str, Any]]:
    for one in said:
        if one.records is None:
            if one.text:
                yield {"attempt": one.attempt, "at": None, "stream": None, "step": None, "text": one.text}
            continue
        for at, stream, step, text in one.records:
            yield {"attempt": one.attempt, "at": iso(at), "stream": stream, "step": step, "text": text}


_EVENTS: dict[int | str, dict[str, Any]] = {
    200: {
        "description": "Events `log` (as in the JSON of the logs), `left_out`, `trouble`, and one `end`.",
        "content": event_content("log", "left_out", "trouble", "end"),
    },
    204: {"description": "The end was told before: there is nothing to come."},
}


@routes.get("/runs/{run}/logs/follow", response_class=Response, responses={404: {}, **_EVENTS})
async def follow_logs(
    request: Request,
    there: There,
    who: Who,
    feeds: FeedsOfApp,
    run_id: RunId,
    last_event_id: LastEventId = None,
) -> Response:
    """What a run says, as server-sent events, from its beginning until its end. An event's id is a place in the output:
    sent back as `Last-Event-ID`, to whichever server, it goes on there."""
    await visible_run(there.store, who, run_id)
    if last_event_id == END:
        return Response(status_code=204)
    place = LogPosition() if last_event_id is None else read_position(last_event_id)
    if place is None:
        raise DefinitionError(
            f"Last-Event-ID: expected the id of an event like '1.r.2048', got {last_event_id!r}; "
            "leave it away to begin at the beginning"
        )
    return feeds.stream(request, feeds.logs.follow(run_id, place))
