"""Lists the permission that each route needs, and returns the methods of each path.

The server checks requests by this table, and tests iterate over it. A route that is missing here stops the server from
starting; so does a line without a route.
"""

from __future__ import annotations

import re
from collections import defaultdict

from starlette.routing import compile_path

from onthedot.access.permissions import Permission

EVERYBODY = None
"""For routes that anybody may call, without a key."""

ROUTE_PERMISSIONS: dict[str, Permission | None] = {
    "GET /": EVERYBODY,
    "GET /style.css": EVERYBODY,
    "GET /docs": EVERYBODY,
    "GET /openapi.json": EVERYBODY,
    "GET /api/v1": EVERYBODY,
    "GET /api/v1/health": EVERYBODY,
    "GET /api/v1/ready": EVERYBODY,
    "GET /api/v1/version": EVERYBODY,
    "GET /api/v1/whoami": Permission.KEYS_OWN,
    # ── authentication ────────────────────────────────────────────────────────────────────────────────────────
    "POST /api/v1/login": EVERYBODY,
    "POST /api/v1/logout": Permission.KEYS_OWN,
    "GET /api/v1/sessions": Permission.KEYS_OWN,
    "DELETE /api/v1/sessions/{session}": Permission.KEYS_OWN,
    "GET /api/v1/keys": Permission.KEYS_MANAGE,
    "POST /api/v1/keys": Permission.KEYS_MANAGE,
    "DELETE /api/v1/keys/{key}": Permission.KEYS_MANAGE,
    "GET /api/v1/users": Permission.KEYS_MANAGE,
    "POST /api/v1/users": Permission.KEYS_MANAGE,
    "PATCH /api/v1/users/{user}": Permission.KEYS_MANAGE,
    "DELETE /api/v1/users/{user}": Permission.KEYS_MANAGE,
    "GET /api/v1/audit": Permission.AUDIT_READ,
    # ── jobs ─────────────────────────────────────────────────────────────────────────────────────────────────
    "GET /api/v1/jobs": Permission.JOBS_READ,
    "POST /api/v1/jobs": Permission.JOBS_WRITE,
    "GET /api/v1/jobs/{job}": Permission.JOBS_READ,
    "PUT /api/v1/jobs/{job}": Permission.JOBS_WRITE,
    "PATCH /api/v1/jobs/{job}": Permission.JOBS_WRITE,
    "DELETE /api/v1/jobs/{job}": Permission.JOBS_WRITE,
    "GET /api/v1/jobs/{job}/revisions": Permission.JOBS_READ,
    "GET /api/v1/jobs/{job}/next": Permission.JOBS_READ,
    "POST /api/v1/jobs/{job}/pause": Permission.JOBS_CONTROL,
    "POST /api/v1/jobs/{job}/resume": Permission.JOBS_CONTROL,
    "POST /api/v1/jobs/{job}/skip-next": Permission.JOBS_CONTROL,
    "POST /api/v1/jobs/{job}/move-next": Permission.JOBS_CONTROL,
    "POST /api/v1/jobs/{job}/backfill": Permission.JOBS_CONTROL,
    "PUT /api/v1/sources/{source:path}": Permission.JOBS_WRITE,
    "POST /api/v1/schedules/describe": Permission.JOBS_READ,
    "POST /api/v1/schedules/lint": Permission.JOBS_READ,
    "POST /api/v1/schedules/preview": Permission.JOBS_READ,
    # ── the cluster ──────────────────────────────────────────────────────────────────────────────────────────
    "GET /metrics": Permission.METRICS_READ,
    "GET /api/v1/nodes": Permission.NODES_READ,
    "GET /api/v1/terms": Permission.NODES_READ,
    "POST /api/v1/nodes/{node}/drain": Permission.NODES_CONTROL,
    "PUT /api/v1/shards": Permission.NODES_CONTROL,
    "GET /api/v1/queues": Permission.QUEUES_READ,
    "POST /api/v1/queues/{queue}/pause": Permission.QUEUES_CONTROL,
    "POST /api/v1/queues/{queue}/resume": Permission.QUEUES_CONTROL,
    "POST /api/v1/queues/{queue}/share": Permission.QUEUES_CONTROL,
    # ── runs ─────────────────────────────────────────────────────────────────────────────────────────────────
    "GET /api/v1/runs": Permission.RUNS_READ,
    "POST /api/v1/runs": Permission.RUNS_CONTROL,
    "POST /api/v1/jobs/{job}/trigger": Permission.RUNS_CONTROL,
    "GET /api/v1/runs/{run}": Permission.RUNS_READ,
    "GET /api/v1/runs/{run}/result": Permission.RUNS_READ,
    "GET /api/v1/runs/{run}/attempts": Permission.RUNS_READ,
    "GET /api/v1/runs/{run}/standing": Permission.RUNS_READ,
    "POST /api/v1/runs/{run}/cancel": Permission.RUNS_CONTROL,
    "POST /api/v1/runs/{run}/retry": Permission.RUNS_CONTROL,
    "GET /api/v1/runs/{run}/logs": Permission.LOGS_READ,
    "GET /api/v1/runs/{run}/logs/follow": Permission.LOGS_READ,
    "GET /api/v1/runs/{run}/artifacts": Permission.LOGS_READ,
    "GET /api/v1/runs/{run}/artifacts/{attempt}/{name:path}": Permission.LOGS_READ,
    "GET /api/v1/attempts": Permission.RUNS_READ,
    "GET /api/v1/skips": Permission.RUNS_READ,
    "GET /api/v1/upcoming": Permission.JOBS_READ,
    "GET /api/v1/dead-letters": Permission.RUNS_READ,
    "GET /api/v1/dead-letters/groups": Permission.RUNS_READ,
    "POST /api/v1/dead-letters/replay": Permission.RUNS_CONTROL,
    "POST /api/v1/dead-letters/discard": Permission.RUNS_CONTROL,
    "GET /api/v1/events": Permission.RUNS_READ,
    # ── compatibility ───────────────────────────────────────────────────────────────────────────────────
    "POST /jobs": Permission.JOBS_WRITE,
    "GET /jobs": Permission.JOBS_READ,
    "GET /jobs/{job_id}": Permission.JOBS_READ,
    "DELETE /jobs/{job_id}": Permission.JOBS_WRITE,
    "GET /job/executions": Permission.RUNS_READ,
    "POST /api/v1/submit_job": Permission.JOBS_WRITE,
    "GET /api/v1/retrieve_history_execution/{job_id}": Permission.RUNS_READ,
    "GET /api/v1/last_execution_logs/{job_id}": Permission.LOGS_READ,
    "GET /api/v1/job_status/{job_id}": Permission.JOBS_READ,
}


def _by_path() -> list[tuple[re.Pattern[str], str]]:
    found: dict[str, list[str]] = defaultdict(list)
    for line in ROUTE_PERMISSIONS:
        method, _, path = line.partition(" ")
        found[path] += ["GET", "HEAD"] if method == "GET" else [method]
    return [(compile_path(path)[0], ", ".join(sorted(methods))) for path, methods in found.items()]


_METHODS = _by_path()


def methods_of(path: str) -> str:
    """The methods of a path, as the header `Allow` lists them.

    >>> methods_of("/api/v1/jobs/nightly_report")
    'DELETE, GET, HEAD, PATCH, PUT'
    """
    return next((methods for pattern, methods in _METHODS if pattern.match(path)), "")
