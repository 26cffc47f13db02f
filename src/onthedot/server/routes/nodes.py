"""Nodes, leader terms and shards: list them, drain a node, set the number of shards."""

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
from onthedot.server.auth import StoreDep, Who, check_unrestricted
from onthedot.server.models import Body
from onthedot.server.problems import Problem
from onthedot.server.router import Routes

routes = Routes(prefix="/api/v1", tags=["nodes"])

DAY = 86_400 * SECOND


class NodeOut(BaseModel):
    """A node: one process since its start."""

    node_id: str = Field(examples=["web-1"])
    incarnation: str
    state: str = Field(description="living, late, draining, left or dead.", examples=["living"])
    leads: bool
    shards: list[int] = Field(description="The shards that it plans.", examples=[[0]])
    draining: bool
    host: str = Field(examples=["web-1.example.org"])
    pid: int
    roles: list[str] = Field(examples=[["planner", "worker"]])
    queues: list[str] = Field(examples=[["default"]])
    labels: list[str]
    tasks: list[str]
    seats: int = Field(examples=[32])
    running: int = Field(description="Runs that it executes, of all namespaces.", examples=[3])
    reserved: int
    registered_at: str = Field(examples=["2026-01-01T09:00:00.000000Z"])
    lease_until: str
    left_at: str | None
    ttl: str = Field(description="The length of its lease.", examples=["15s"])
    tzdata: str = Field(description="The version of its zone data.", examples=["2025b"])


class NodesOut(BaseModel):
    """The nodes, newest first."""

    items: list[NodeOut]
    next: None = None


class LayoutOut(BaseModel):
    """The number of shards. The version grows with each change."""

    version: int = Field(examples=[1])
    shards: int = Field(examples=[1])


class TermOut(BaseModel):
    """The leader term of a shard: the node that plans it, or planned it last."""

    shard: int = Field(examples=[0])
    number: int = Field(examples=[3])
    node_id: str | None = Field(examples=["web-1"])
    incarnation: str
    until: str = Field(examples=["2026-01-01T09:00:10.000000Z"])
    current: bool = Field(description="False: it has ended, and no node has started the next one.")
    layout: int = Field(description="The version of the shard's layout.", examples=[1])
    tzdata: str = Field(description="The version of the node's zone data.", examples=["2025b"])
    zones: str = Field(description="The version with which the next slots were computed.", examples=["2025b"])


class TermsOut(BaseModel):
    """The layout, and the newest term of each of its shards."""

    layout: LayoutOut
    items: list[TermOut]
    next: None = None


class Drain(Body):
    """Starts or ends the drain of a node."""

    draining: bool = Field(True, description="false: it takes work again.", examples=[True])


class DrainedOut(BaseModel):
    """The answer to a drain."""

    node_id: str = Field(examples=["web-1"])
    draining: bool
    incarnations: int = Field(examples=[1])


class Shards(Body):
    """The new number of shards."""

    shards: int = Field(ge=1, le=MOST_SHARDS, examples=[4])
    version: int | None = Field(
        None, ge=1, le=2**53, description="Write only if the layout has this version; else 409."
    )


@routes.get("/nodes", response_model=NodesOut)
async def list_nodes(
    opened: StoreDep, all: Annotated[bool, Query(description="Include nodes that ended more than a day ago.")] = False
) -> Any:
    """List the nodes that live or lived within the last day. Counts are over all namespaces."""
    now = opened.clock.now()
    shown = await nodes_shown(opened.store, now)
    return {"items": [_node(one) for one in shown if all or one.node.lease_until > now - DAY], "next": None}


def _node(one: NodeShown) -> dict[str, Any]:
    return {**node_fields(one), "ttl": format_duration(one.node.ttl), "tzdata": one.node.tzdata}


@routes.get("/terms", response_model=TermsOut)
async def list_terms(opened: StoreDep) -> Any:
    """The layout of shards, and the newest leader term of each."""
    now = opened.clock.now()
    layout, terms = await opened.store.queries.get_layout(), await opened.store.queries.list_terms()
    nodes = {node.incarnation: node.id for node in await opened.store.queries.list_nodes()}
    items = [
        {**term_fields(term, nodes, now), "layout": term.layout, "tzdata": term.tzdata, "zones": term.zones}
        for term in terms
    ]
    return {"layout": layout._asdict(), "items": items, "next": None}


@routes.post("/nodes/{node}/drain", response_model=DrainedOut, responses={404: {}})
async def drain_node(
    request: Request,
    opened: StoreDep,
    who: Who,
    node: Annotated[str, Path(max_length=200, pattern=r"^[^\x00-\x1f\x7f]*$", examples=["web-1"])],
    body: Drain,
) -> Any:
    """Drain a living node: it takes no more work, and finishes its running runs. Or end the drain. After a restart a
    node takes work again. 404 if no node of this name lives."""
    check_unrestricted(who, "node")
    count = await opened.verbs().drain_node(node, draining=body.draining)
    if not count:
        now = opened.clock.now()
        living = {one.id for one in await opened.store.queries.list_nodes(living=True, now=now)}
        raise Problem(404, "unknown", f"expected a living node, got {node!r}{did_you_mean(node, living)}")
    await record_change(request, "nodes.drain" if body.draining else "nodes.undrain", f"node/{node}")
    return {"node_id": node, "draining": body.draining, "incarnations": count}


@routes.put("/shards", response_model=LayoutOut, responses={409: {}})
async def set_shards(request: Request, opened: StoreDep, who: Who, body: Shards) -> Any:
    """Set the number of shards, into which the jobs are divided. Every leader term ends; no slot is planned twice. 409
    if the layout does not have `version`."""
    check_unrestricted(who, "shards")
    check_shards(body.shards)
    layout = await opened.store.set_shards(body.shards, expected=body.version)
    await record_change(request, "shards.set", f"layout/{layout.version}", after={"shards": layout.shards})
    return layout._asdict()
