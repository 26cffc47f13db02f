"""Every route, and what it takes to be called: the one table that the server goes by, and that tests go over.

A route that is not here keeps the server from starting; so does a line here without a route.
"""

from __future__ import annotations

from onthedot.access.permissions import Permission

EVERYBODY = None
"""For routes that nobody has to be known for."""

TABLE: dict[str, Permission | None] = {
    "GET /api/v1/health": EVERYBODY,
    "GET /api/v1/ready": EVERYBODY,
    "GET /api/v1/version": EVERYBODY,
    "GET /api/v1/whoami": Permission.KEYS_OWN,
    # ── who is let in ────────────────────────────────────────────────────────────────────────────────────────
    "POST /api/v1/login": EVERYBODY,
    "POST /api/v1/logout": Permission.KEYS_OWN,
    "GET /api/v1/keys": Permission.KEYS_MANAGE,
    "POST /api/v1/keys": Permission.KEYS_MANAGE,
    "DELETE /api/v1/keys/{key}": Permission.KEYS_MANAGE,
    "GET /api/v1/users": Permission.KEYS_MANAGE,
    "POST /api/v1/users": Permission.KEYS_MANAGE,
    "PATCH /api/v1/users/{user}": Permission.KEYS_MANAGE,
    "DELETE /api/v1/users/{user}": Permission.KEYS_MANAGE,
    "GET /api/v1/audit": Permission.AUDIT_READ,
    # ── jobs ─────────────────────────────────────────────────────────────────────────────────────────────────
    "GET /api/v1/jobs/{job}": Permission.JOBS_READ,
    "DELETE /api/v1/jobs/{job}": Permission.JOBS_WRITE,
    "POST /api/v1/jobs/{job}/pause": Permission.JOBS_CONTROL,
    # ── runs ─────────────────────────────────────────────────────────────────────────────────────────────────
    "GET /api/v1/runs": Permission.RUNS_READ,
    "POST /api/v1/runs": Permission.RUNS_CONTROL,
    "POST /api/v1/jobs/{job}/trigger": Permission.RUNS_CONTROL,
    "GET /api/v1/runs/{run}": Permission.RUNS_READ,
    "GET /api/v1/runs/{run}/result": Permission.RUNS_READ,
    "GET /api/v1/runs/{run}/attempts": Permission.RUNS_READ,
    "POST /api/v1/runs/{run}/cancel": Permission.RUNS_CONTROL,
    "POST /api/v1/runs/{run}/retry": Permission.RUNS_CONTROL,
    "GET /api/v1/runs/{run}/logs": Permission.LOGS_READ,
    "GET /api/v1/runs/{run}/logs/follow": Permission.LOGS_READ,
    "GET /api/v1/runs/{run}/artifacts": Permission.LOGS_READ,
    "GET /api/v1/runs/{run}/artifacts/{attempt}/{name:path}": Permission.LOGS_READ,
    "GET /api/v1/attempts": Permission.RUNS_READ,
    "GET /api/v1/dead-letters": Permission.RUNS_READ,
    "GET /api/v1/dead-letters/groups": Permission.RUNS_READ,
    "POST /api/v1/dead-letters/replay": Permission.RUNS_CONTROL,
    "POST /api/v1/dead-letters/discard": Permission.RUNS_CONTROL,
    "GET /api/v1/events": Permission.RUNS_READ,
}
