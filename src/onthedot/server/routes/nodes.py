"""Nodes, leader terms and shards: list them, drain a node, change the number of shards."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import Path, Query, Request
from pydantic import BaseModel, Field

from onthedot.clock import SECOND
from onthedot.model.duration import format_duration
from onthedot.model.errors import did_you_mean
from onthedot.observe.json_fields import NodeShown, node_fields, term_fields
from onthedot.operations.cluster import nodes_shown
from onthedot.rules.shards import MOST_SHARDS, check_shards
from onthedot.server.audit import record_change
from onthedot.server.auth import There, Who, check_unrestricted
from onthedot.server.models import Body
from onthedot.server.problems import Problem
from onthedot.server.router import Routes

routes = Routes(prefix="/api/v1", tags=["nodes"])

DAY = 86_400 * SECOND


class NodeOut(BaseModel):
    """A node: one process, since it was started."""

    node_id: str = Field(examples=["web-1"])
    incarnation: str
    state: str = Field(description="living, late, draining, left or dead.", examples=["living"])
    leads: bool
    shards: list[int] = Field(description="Those that it plans.", examples=[[0]])
    draining: bool
    host: str = Field(examples=["web-1.example.org"])
    pid: int
    roles: list[str] = Field(examples=[["planner", "worker"]])
    queues: list[str] = Field(examples=[["default"]])
    labels: list[str]
    tasks: list[str]
    seats: int = Field(examples=[32])
    running: int = Field(description="Runs of all namespaces that it executes.", examples=[3])
    reserved: int
    registered_at: str = Field(examples=["2026-01-01T09:00:00.000000Z"])
    lease_until: str
    left_at: str | None
    ttl: str = Field(description="Of its lease, as it was last renewed.", examples=["15s"])
    tzdata: str = Field(description="The version of its zone data.", examples=["2025b"])


class NodesOut(BaseModel):
    """The nodes, the latest first."""

    items: list[NodeOut]
    next: None = None


class LayoutOut(BaseModel):
    """How many shards there are; the version grows with each change."""

    version: int = Field(examples=[1])
    shards: int = Field(examples=[1])


class TermOut(BaseModel):
    """Who plans a shard, or planned it last."""

    shard: int = Field(examples=[0])
    number: int = Field(examples=[3])
    node_id: str | None = Field(examples=["web-1"])
    incarnation: str
    until: str = Field(examples=["2026-01-01T09:00:10.000000Z"])
    current: bool = Field(description="False: it has ended, and nobody has begun another.")
    layout: int = Field(description="The version of the layout whose shard it is.", examples=[1])
    tzdata: str = Field(description="The version of its node's zone data.", examples=["2025b"])
    zones: str = Field(description="The one that the next slots of the shard were computed with.", examples=["2025b"])


class TermsOut(BaseModel):
    """The layout, and the newest term of each of its shards."""

    layout: LayoutOut
    items: list[TermOut]
    next: None = None


class Drain(Body):
    """Whether it is to take no more work."""

    draining: bool = Field(True, description="false: let it take work again.", examples=[True])


class DrainedOut(BaseModel):
    """A node was asked."""

    node_id: str = Field(examples=["web-1"])
    draining: bool
    incarnations: int = Field(examples=[1])


class Shards(Body):
    """How many there are to be."""

    shards: int = Field(ge=1, le=MOST_SHARDS, examples=[4])
    version: int | None = Field(None, ge=1, le=2**53, description="Only if the layout has this version; else 409.")


@routes.get("/nodes", response_model=NodesOut)
async def list_nodes(
    there: There, all: Annotated[bool, Query(description="Also those that ended more than a day ago.")] = False
) -> Any:
    """Who is there, and who was within the last day. Counts are those of all namespaces."""
    now = there.clock.now()
    shown = await nodes_shown(there.store, now)
    return {"items": [_node(one) for one in shown if all or one.node.lease_until > now - DAY], "next": None}


def _node(one: NodeShown) -> dict[str, Any]:
    return {**node_fields(one), "ttl": format_duration(one.node.ttl), "tzdata": one.node.tzdata}


@routes.get("/terms", response_model=TermsOut)
async def list_terms(there: There) -> Any:
    """Who leads: the layout, and for each shard the term that counts."""
    now = there.clock.now()
    layout, terms = await there.store.queries.get_layout(), await there.store.queries.list_terms()
    nodes = {node.incarnation: node.id for node in await there.store.queries.list_nodes()}
    items = [
        {**term_fields(term, nodes, now), "layout": term.layout, "tzdata": term.tzdata, "zones": term.zones}
        for term in terms
    ]
    return {"layout": layout._asdict(), "items": items, "next": None}


@routes.post("/nodes/{node}/drain", response_model=DrainedOut, responses={404: {}})
async def drain_node(
    request: Request,
    there: There,
    who: Who,
    node: Annotated[str, Path(max_length=200, pattern=r"^[^\x00-\x1f\x7f]*$", examples=["web-1"])],
    body: Drain,
) -> Any:
    """Let a living node take no more work, or go on. What it runs goes on; after a restart it takes work again."""
    check_unrestricted(who, "node")
    count = await there.store.drain(node, draining=body.draining)
    if not count:
        now = there.clock.now()
        living = {one.id for one in await there.store.queries.list_nodes(living=True, now=now)}
        raise Problem(404, "unknown", f"expected a living node, got {node!r}{did_you_mean(node, living)}")
    await record_change(request, "nodes.drain" if body.draining else "nodes.undrain", f"node/{node}")
    return {"node_id": node, "draining": body.draining, "incarnations": count}


@routes.put("/shards", response_model=LayoutOut, responses={409: {}})
async def set_shards(request: Request, there: There, who: Who, body: Shards) -> Any:
    """Divide the jobs anew between the planners. Every term ends; nothing is planned twice."""
    check_unrestricted(who, "shards")
    check_shards(body.shards)
    layout = await there.store.set_shards(body.shards, expected=body.version)
    await record_change(request, "shards.set", f"layout/{layout.version}", after={"shards": layout.shards})
    return layout._asdict()
