"""The audit: list who changed what, and when."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import Query
from pydantic import BaseModel, Field, JsonValue

from onthedot.access import audit
from onthedot.observe.formats import iso
from onthedot.server.auth import StoreDep, Who
from onthedot.server.router import Routes

routes = Routes(prefix="/api/v1", tags=["access"])


class WhoDid(BaseModel):
    """The author of a change."""

    kind: str
    id: str
    name: str


class EntryOut(BaseModel):
    """An audit entry: one change."""

    number: int
    at: str
    who: WhoDid
    source: str = Field(description="The address or program that the change came from.", examples=["127.0.0.1"])
    verb: str = Field(examples=["jobs.pause"])
    object: str = Field(examples=["job/default/nightly_report"])
    before: JsonValue
    after: JsonValue
    request_id: str


class EntryList(BaseModel):
    """A page of audit entries, oldest first."""

    items: list[EntryOut]
    next: int | None


@routes.get("/audit", response_model=EntryList)
async def list_audit(
    opened: StoreDep,
    who: Who,
    limit: Annotated[int, Query(ge=1, le=1000)] = 100,
    after: Annotated[int, Query(ge=0, le=2**53, description="The `next` of the previous page.")] = 0,
) -> Any:
    """List all changes through the API, the command line and programs, oldest first. Entries never contain values of
    arguments or secrets."""
    found = await audit.read(opened.store, by=who, after=after, limit=limit)
    items = [
        {
            "number": entry.number,
            "at": iso(entry.at),
            "who": {"kind": entry.who_kind, "id": entry.who_id, "name": entry.who_name},
            "source": entry.source,
            "verb": entry.verb,
            "object": entry.object,
            "before": entry.before,
            "after": entry.after,
            "request_id": entry.request_id,
        }
        for entry in found
    ]
    return {"items": items, "next": found[-1].number if len(found) == limit else None}
