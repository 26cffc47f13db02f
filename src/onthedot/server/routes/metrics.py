"""Metrics for Prometheus: of the cluster, and of the node in this process."""

from __future__ import annotations

from fastapi import Request, Response

from onthedot.observe.content_negotiation import compressed
from onthedot.observe.counters import Counters
from onthedot.observe.metrics import NodeMetrics, Snapshot, exposed
from onthedot.operations.cluster import cluster_snapshot
from onthedot.server.auth import There, Who, check_unrestricted
from onthedot.server.compute import in_thread
from onthedot.server.router import Routes

routes = Routes(tags=["nodes"])

_KINDS = ("text/plain", "application/openmetrics-text")
TEXT = {"description": "The metrics.", "content": {kind: {"schema": {"type": "string"}} for kind in _KINDS}}


@routes.get("/metrics", response_class=Response, responses={200: TEXT})
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
