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
from onthedot.server.auth import StoreDep, Who, check_unrestricted
from onthedot.server.models import Body, Line, QueueName
from onthedot.server.problems import Problem
from onthedot.server.router import Routes

routes = Routes(prefix="/api/v1", tags=["queues"])

Unused = Annotated[bool, Query(description="Allow a queue that no job and no node uses yet.")]


class QueueSettingsOut(BaseModel):
    """The settings of a queue."""

    queue: str = Field(examples=["mail"])
    paused: bool
    paused_at: str | None = Field(examples=[None])
    reason: str = Field(examples=[""])
    weights: dict[str, int] | None = Field(
        description="How it is shared; null: first come, first served, or not visible to this key.",
        examples=[{"big_tenant": 3}],
    )


class QueueOut(QueueSettingsOut):
    """A queue, and how many runs it has, over all namespaces."""

    waiting: int = Field(examples=[12])
    due: int = Field(description="Waiting runs whose due time has passed.", examples=[2])
    running: int = Field(examples=[4])
    oldest_due_at: str | None = Field(examples=["2026-01-01T09:00:00.000000Z"])


class QueuesOut(BaseModel):
    """The queues with an unfinished run, and those that are paused or shared."""

    items: list[QueueOut]
    next: None = None


class PauseQueue(Body):
    """The reason for a pause."""

    reason: Line = Field("", max_length=500, examples=["the provider is down"])


class ShareQueue(Body):
    """The weights of a shared queue."""

    weights: dict[Line, int] | None = Field(
        description="Weights of values of the argument that the jobs name as `share`. A value that is not listed has "
        "weight 1. null: first come, first served.",
        examples=[{"big_tenant": 3}],
    )


@routes.get("/queues", response_model=QueuesOut)
async def list_queues(opened: StoreDep, who: Who) -> Any:
    """List the queues. Counts are over all namespaces. Only keys for all namespaces and owners see the weights."""
    whole = not (who.namespaces or who.only_own)
    found = [queue_fields(queue) for queue in await opened.store.queries.list_queues(now=opened.clock.now())]
    return {"items": found if whole else [{**one, "weights": None} for one in found], "next": None}


@routes.post("/queues/{queue}/pause", response_model=QueueSettingsOut, responses={404: {}})
async def pause_queue(
    request: Request, opened: StoreDep, who: Who, queue: QueueName, body: PauseQueue, unused: Unused = False
) -> Any:
    """Pause a queue: none of its runs starts until it is resumed. Running ones continue. Slots that do not start in
    time are missed as usual. 404 if nothing uses the queue."""
    await _check(opened, who, queue, unused=unused)
    changed = await opened.verbs().pause_queue(queue, reason=body.reason)
    await record_change(request, "queues.pause", f"queue/{queue}")
    return queue_settings(changed)


@routes.post("/queues/{queue}/resume", response_model=QueueSettingsOut, responses={404: {}})
async def resume_queue(request: Request, opened: StoreDep, who: Who, queue: QueueName, unused: Unused = False) -> Any:
    """Resume a queue. One that is not paused does not change."""
    await _check(opened, who, queue, unused=unused)
    changed = await opened.verbs().resume_queue(queue)
    await record_change(request, "queues.resume", f"queue/{queue}")
    return queue_settings(changed)


@routes.post("/queues/{queue}/share", response_model=QueueSettingsOut, responses={404: {}})
async def share_queue(
    request: Request, opened: StoreDep, who: Who, queue: QueueName, body: ShareQueue, unused: Unused = False
) -> Any:
    """Share a queue fairly between the values of the argument that its jobs name as `share`."""
    if body.weights is not None:
        check_weights(body.weights)
    await _check(opened, who, queue, unused=unused)
    changed = await opened.verbs().share_queue(queue, body.weights)
    await record_change(request, "queues.share", f"queue/{queue}")
    return queue_settings(changed)


async def _check(opened: OpenStore, who: Principal, queue: str, *, unused: bool) -> None:
    """Raise 404 if nothing uses the queue, unless `unused` is set: the name is probably misspelt."""
    check_unrestricted(who, "queue")
    refused = None if unused else await why_unused(opened.store.queries, queue)
    if refused is not None:
        raise Problem(404, "unknown", refused)
