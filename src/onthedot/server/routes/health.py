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
from onthedot.server.auth import There, Who, check_unrestricted
from onthedot.server.compute import in_thread
from onthedot.server.router import Routes

routes = Routes()


class Health(BaseModel):
    """Alive."""

    status: str


class Version(BaseModel):
    """Which one this is."""

    name: str
    version: str


class WhoOut(BaseModel):
    """Who asks, and what that one may do."""

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
    """Alive: the process answers. Says nothing of the store."""
    return {"status": "ok"}


@routes.get("/api/v1/ready", tags=["server"], response_model=Health)
async def ready(there: There) -> Any:
    """Ready: the store answers, too; else 503."""
    await there.store.tell_time()
    return {"status": "ok"}


@routes.get("/api/v1/version", tags=["server"], response_model=Version)
async def get_version() -> Any:
    """Which version of onthedot this is."""
    return {"name": "onthedot", "version": version("onthedot")}


@routes.get("/api/v1/whoami", tags=["server"], response_model=WhoOut)
async def whoami(who: Who) -> Any:
    """Who you are to this server, and what you may do."""
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
async def read_metrics(request: Request, there: There, who: Who) -> Response:
    """Nodes and queues of the whole cluster, as Prometheus reads them, or in OpenMetrics for who asks for that; and
    what the node in this process has counted: attempts by job, how late they began. Compressed by gzip for who takes
    that. For keys of all namespaces."""
    check_unrestricted(who, "metrics")
    standing = await cluster_snapshot(there.store, there.clock.now())
    accept, encoding = (request.headers.get(name, "") for name in ("accept", "accept-encoding"))
    body, headers, media_type = await in_thread(_text, standing, request.app.state.counters, accept, encoding)
    return Response(body, headers=headers, media_type=media_type)


def _text(
    standing: Snapshot, counters: Counters | None, accept: str, encoding: str
) -> tuple[bytes, dict[str, str], str]:
    of_node = [] if counters is None else NodeMetrics(counters).collect()
    body, media_type = exposed([*standing.collect(), *of_node], accept)
    return *compressed(body, encoding), media_type
