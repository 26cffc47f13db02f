"""Health, readiness, version and metrics of the server, and the identity of the caller."""

from __future__ import annotations

from importlib.metadata import version
from typing import Any

from fastapi import Request, Response
from pydantic import BaseModel

from onthedot.observe.content_negotiation import compressed
from onthedot.observe.counters import Counters
from onthedot.observe.metrics import NodeMetrics, Snapshot, exposed
from onthedot.operations.cluster import cluster_snapshot
from onthedot.server.auth import StoreDep, Who, check_unrestricted
from onthedot.server.compute import in_thread
from onthedot.server.problems import Problem
from onthedot.server.router import Routes

routes = Routes()


class Health(BaseModel):
    """The server answers."""

    status: str


class Version(BaseModel):
    """Name and version of the server."""

    name: str
    version: str


class WhoOut(BaseModel):
    """The caller, and its permissions."""

    kind: str
    id: str
    name: str
    role: str
    permissions: list[str]
    namespaces: list[str]
    owner: str
    only_own: bool


@routes.get("/api/v1/health", tags=["server"], response_model=Health)
async def health() -> Any:
    """Liveness: the process answers. It does not check the store."""
    return {"status": "ok"}


@routes.get("/api/v1/ready", tags=["server"], response_model=Health)
async def ready(request: Request, opened: StoreDep) -> Any:
    """Readiness: the store answers as well. 503 if it does not, and when this server has begun to stop."""
    counters: Counters | None = request.app.state.counters
    if counters is not None and "DrainBegun" in counters.events():
        raise Problem(503, "draining", "this server's node drains, and the server stops after it; ask another server")
    await opened.store.tell_time()
    return {"status": "ok"}


@routes.get("/api/v1/version", tags=["server"], response_model=Version)
async def get_version() -> Any:
    """The version of onthedot."""
    return {"name": "onthedot", "version": version("onthedot")}


@routes.get("/api/v1/whoami", tags=["server"], response_model=WhoOut)
async def whoami(who: Who) -> Any:
    """Your identity on this server, and your permissions."""
    return {
        "kind": who.kind,
        "id": who.id,
        "name": who.name,
        "role": str(who.role),
        "permissions": sorted(str(permission) for permission in who.permissions),
        "namespaces": list(who.namespaces),
        "owner": who.owner,
        "only_own": who.only_own,
    }


# ── metrics ──────────────────────────────────────────────────────────────────────────────────────────────────

_KINDS = ("text/plain", "application/openmetrics-text")
TEXT = {"description": "The metrics.", "content": {kind: {"schema": {"type": "string"}} for kind in _KINDS}}


@routes.get("/metrics", tags=["nodes"], response_class=Response, responses={200: TEXT})
async def read_metrics(request: Request, opened: StoreDep, who: Who) -> Response:
    """Metrics for Prometheus: nodes and queues of the whole cluster, and what the node in this process has counted,
    such as attempts by job and their lateness. In OpenMetrics if `Accept` asks for it; compressed if `Accept-Encoding`
    allows gzip. It needs a key for all namespaces and owners."""
    check_unrestricted(who, "metrics")
    standing = await cluster_snapshot(opened.store, opened.clock.now())
    accept, encoding = (request.headers.get(name, "") for name in ("accept", "accept-encoding"))
    body, headers, media_type = await in_thread(_text, standing, request.app.state.counters, accept, encoding)
    return Response(body, headers=headers, media_type=media_type)


def _text(
    standing: Snapshot, counters: Counters | None, accept: str, encoding: str
) -> tuple[bytes, dict[str, str], str]:
    of_node = [] if counters is None else NodeMetrics(counters).collect()
    body, media_type = exposed([*standing.collect(), *of_node], accept)
    return *compressed(body, encoding), media_type
