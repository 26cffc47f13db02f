"""Skipped slots, and why they did not run."""

from __future__ import annotations

from fastapi import Response
from pydantic import BaseModel, Field

from onthedot.observe.json_fields import skip_fields
from onthedot.server.auth import There, Who, verbs_for
from onthedot.server.json_response import json_response
from onthedot.server.models import fields
from onthedot.server.params import After, Instant, JobName, Namespace, PageSize, instant
from onthedot.server.router import Routes
from onthedot.server.visibility import find_skips
from onthedot.stores.queries import SkipFilter

routes = Routes(prefix="/api/v1", tags=["runs"])


class LeftOutOut(BaseModel):
    """Slots of one schedule that did not run: a range of them."""

    job: str = Field(examples=["nightly_report"])
    namespace: str = Field(examples=["default"])
    schedule: str = Field(description="The schedule's id.", examples=["s1"])
    first: str = Field(description="The first slot.", examples=["2026-01-01T09:00:00.000000Z"])
    last: str = Field(description="The last slot.", examples=["2026-01-01T12:00:00.000000Z"])
    count: int = Field(description="How many there are.", examples=[4])
    reason: str = Field(examples=["missed"])
    recorded_at: str = Field(examples=["2026-01-01T13:00:00.000000Z"])


class LeftOutList(BaseModel):
    """Some ranges, the newest first. A page may be short although there is a next."""

    items: list[LeftOutOut]
    next: str | None = Field(
        description="What `after` is for the older ones; null: there are none.",
        examples=["3WPQYsc0WyJTa2lwQ3Vyc29yIiw0MV0"],
    )


@routes.get("/skips", response_model=LeftOutList, responses={404: {}})
async def list_skips(
    there: There,
    who: Who,
    namespace: Namespace = "default",
    job: JobName = None,
    since: Instant = None,
    until: Instant = None,
    limit: PageSize = 100,
    after: After = None,
) -> Response:
    """Why slots did not run: those that were skipped before there was a run of them, the newest first. Slots whose run
    was skipped are runs in the state `skipped`. With `since` and `until` (without it): ranges that reach into this
    one."""
    verbs_for(there, who, namespace)  # refuses a namespace that the caller does not see
    wanted = SkipFilter(
        namespaces=(namespace,), job=job, since=instant(since, "since"), until=instant(until, "until")
    )  # fmt: skip
    found, following = await find_skips(there, who, wanted, after=after, limit=limit)
    items = [fields(LeftOutOut, **skip_fields(skip, namespace)) for skip in found]
    return json_response({"items": items, "next": following})
