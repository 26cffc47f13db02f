"""Slots that did not run, and why: the part of the ledger that is no run."""

from __future__ import annotations

from fastapi import Response
from pydantic import BaseModel, Field

from onthedot.access.principal import Principal
from onthedot.errors import DefinitionError
from onthedot.observe.json_lines import skip_fields
from onthedot.open_verbs import OpenStore
from onthedot.run import SkipRecord
from onthedot.server.answering import json_answer
from onthedot.server.asked import After, Instant, PageSize
from onthedot.server.door import There, Who, verbs_for
from onthedot.server.routes.jobs import Namespace
from onthedot.server.routes.letters import JobName
from onthedot.server.routing import Routes
from onthedot.server.shapes import fields

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
    """Some ranges, the newest first."""

    items: list[LeftOutOut]
    next: str | None = Field(description="What `after` is for the older ones; null: there are none.", examples=["100"])


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
    verbs = verbs_for(there, who, namespace)
    first = _place(after)
    if who.only_own:
        found = await _own(there, who, await verbs.list_skips(job, since=since, until=until), namespace)
    else:
        found = await verbs.list_skips(job, since=since, until=until, limit=first + limit + 1)
    following = str(first + limit) if len(found) > first + limit else None
    items = [fields(LeftOutOut, **skip_fields(skip, namespace)) for skip in found[first : first + limit]]
    return json_answer({"items": items, "next": following})


def _place(after: str | None) -> int:
    """How many newer ones were told before. What is skipped in the meantime moves the rest: a range may come twice."""
    if after is None:
        return 0
    if not (after.isascii() and after.isdecimal() and len(after) < 10):
        raise DefinitionError(f"after: expected a cursor as it was answered, got {after!r}")
    return int(after)


async def _own(there: OpenStore, who: Principal, found: list[SkipRecord], namespace: str) -> list[SkipRecord]:
    """Those of the jobs that this one sees. A skip has a name only, so one that is older than the job which has that
    name now was another's, who may have been somebody else."""
    since: dict[str, int] = {}
    for name in {skip.job for skip in found}:
        record = await there.store.get_job(name, namespace=namespace)
        if record is not None and who.sees(namespace, record.job.owner):
            since[name] = record.created_at
    return [skip for skip in found if skip.job in since and skip.recorded_at >= since[skip.job]]
