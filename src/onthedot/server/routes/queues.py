"""Queues: list, pause, resume and share them."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import Query, Request
from pydantic import BaseModel, Field

from onthedot.access.permissions import Principal
from onthedot.model.route import check_weights
from onthedot.observe.json_fields import queue_fields, queue_settings
from onthedot.operations.job_lookup import why_unused
from onthedot.operations.open_verbs import OpenStore
from onthedot.server.audit import record_change
from onthedot.server.auth import There, Who, check_unrestricted
from onthedot.server.models import Body, Line, QueueName
from onthedot.server.problems import Problem
from onthedot.server.router import Routes

routes = Routes(prefix="/api/v1", tags=["queues"])

Unused = Annotated[bool, Query(description="Also one that no job and no node uses yet.")]


class QueueSaidOut(BaseModel):
    """What somebody has said about a queue."""

    queue: str = Field(examples=["mail"])
    paused: bool
    paused_at: str | None = Field(examples=[None])
    reason: str = Field(examples=[""])
    weights: dict[str, int] | None = Field(
        description="How it is shared; null: first come, first served, or not for this key.",
        examples=[{"big_tenant": 3}],
    )


class QueueOut(QueueSaidOut):
    """A queue, and who is in it, of all namespaces."""

    waiting: int = Field(examples=[12])
    due: int = Field(description="Those that wait although their instant has come.", examples=[2])
    running: int = Field(examples=[4])
    oldest_due_at: str | None = Field(examples=["2026-01-01T09:00:00.000000Z"])


class QueuesOut(BaseModel):
    """The queues that have a run that has not ended, or that somebody has paused or shared."""

    items: list[QueueOut]
    next: None = None


class PauseQueue(Body):
    """Why."""

    reason: Line = Field("", max_length=500, examples=["the provider is down"])


class ShareQueue(Body):
    """Who has which part."""

    weights: dict[Line, int] | None = Field(
        description="Turns of each value of the jobs' share; others have 1. null: first come, first served again.",
        examples=[{"big_tenant": 3}],
    )


@routes.get("/queues", response_model=QueuesOut)
async def list_queues(there: There, who: Who) -> Any:
    """How long each line is. Counts are those of all namespaces; who shares a queue is told to keys for all of them."""
    whole = not (who.namespaces or who.only_own)
    found = [queue_fields(queue) for queue in await there.store.queries.list_queues(now=there.clock.now())]
    return {"items": found if whole else [{**one, "weights": None} for one in found], "next": None}


@routes.post("/queues/{queue}/pause", response_model=QueueSaidOut, responses={404: {}})
async def pause_queue(
    request: Request, there: There, who: Who, queue: QueueName, body: PauseQueue, unused: Unused = False
) -> Any:
    """Start nothing more of a queue until it is resumed. What runs goes on; a slot that is not started in time is
    missed as ever."""
    await _check(there, who, queue, unused=unused)
    changed = await there.store.pause_queue(queue, reason=body.reason)
    await record_change(request, "queues.pause", f"queue/{queue}")
    return queue_settings(changed)


@routes.post("/queues/{queue}/resume", response_model=QueueSaidOut, responses={404: {}})
async def resume_queue(request: Request, there: There, who: Who, queue: QueueName, unused: Unused = False) -> Any:
    """Let a queue go on. One that is not paused is left alone."""
    await _check(there, who, queue, unused=unused)
    changed = await there.store.resume_queue(queue)
    await record_change(request, "queues.resume", f"queue/{queue}")
    return queue_settings(changed)


@routes.post("/queues/{queue}/share", response_model=QueueSaidOut, responses={404: {}})
async def share_queue(
    request: Request, there: There, who: Who, queue: QueueName, body: ShareQueue, unused: Unused = False
) -> Any:
    """Share a queue fairly between the values of the argument that jobs name as their `share`."""
    if body.weights is not None:
        check_weights(body.weights)
    await _check(there, who, queue, unused=unused)
    changed = await there.store.share_queue(queue, body.weights)
    await record_change(request, "queues.share", f"queue/{queue}")
    return queue_settings(changed)


async def _check(there: OpenStore, who: Principal, queue: str, *, unused: bool) -> None:
    """A queue is any name: so one that nobody uses is taken for a slip, and refused, unless it is meant."""
    check_unrestricted(who, "queue")
    refused = None if unused else await why_unused(there.store.queries, queue)
    if refused is not None:
        raise Problem(404, "unknown", refused)
