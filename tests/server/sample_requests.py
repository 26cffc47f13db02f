"""One valid request for each route, for the permission matrix."""

from __future__ import annotations

from typing import Any, NamedTuple


class Sample(NamedTuple):
    """A request that succeeds for a caller with the permission who sees the objects that it names."""

    path: str = ""  # replaces the path of the table, if that has parameters; text in braces is a key of `fill`
    body: Any = None
    about: bool = False  # names objects of an owner: 404 for callers that cannot see them; else they are left out
    placed: bool = False  # names a namespace and no object: 404 for callers that cannot see the namespace
    managed: bool = False  # is about another user: 404 for callers without `keys:manage`
    gives: bool = False  # concerns everybody, or gives more rights than a restricted caller has: 403 for those
    shared: bool = False  # returns what belongs to all namespaces, the same to every caller
    changes: bool = True  # changes the store and adds an audit entry; a GET never does
    stream: bool = False  # the answer continues until the reader leaves
    content_type: str = "application/json"


FILE = "jobs:\n  - name: from_a_file\n    noop: true\n"
NEW = {"name": "fresh", "noop": True}
EXPRESSION = {"expression": "0 9 * * *"}
PASSWORD = "a good long password"

SAMPLES: dict[str, Sample] = {
    "GET /": Sample(),
    "GET /style.css": Sample(),
    "GET /docs": Sample(),
    "GET /openapi.json": Sample(),
    "GET /api/v1": Sample(),
    "GET /api/v1/health": Sample(),
    "GET /api/v1/ready": Sample(),
    "GET /api/v1/version": Sample(),
    "GET /api/v1/whoami": Sample(),
    # ── access ───────────────────────────────────────────────────────────────────────────────────────────────
    "POST /api/v1/login": Sample(body={"username": "ann", "password": PASSWORD}),
    "POST /api/v1/logout": Sample(changes=False),  # ends sessions only; the caller has a key
    "GET /api/v1/sessions": Sample(),
    "DELETE /api/v1/sessions/{session}": Sample("/api/v1/sessions/{session}", about=True, managed=True),
    "GET /api/v1/keys": Sample(),
    "POST /api/v1/keys": Sample(body={"name": "ci", "role": "viewer"}, gives=True),
    "DELETE /api/v1/keys/{key}": Sample("/api/v1/keys/{key}", about=True),
    "GET /api/v1/users": Sample(),
    "POST /api/v1/users": Sample(body={"name": "bob", "password": PASSWORD, "role": "viewer"}, gives=True),
    "PATCH /api/v1/users/{user}": Sample("/api/v1/users/ann", {"disabled": True}, about=True),
    "DELETE /api/v1/users/{user}": Sample("/api/v1/users/ann", about=True),
    "GET /api/v1/audit": Sample(),
    # ── jobs ─────────────────────────────────────────────────────────────────────────────────────────────────
    "GET /api/v1/jobs": Sample(),
    "POST /api/v1/jobs": Sample(body=NEW, placed=True),
    "GET /api/v1/jobs/{job}": Sample("/api/v1/jobs/nap", about=True),
    "PUT /api/v1/jobs/{job}": Sample("/api/v1/jobs/nap", {"noop": True}, about=True),
    "PATCH /api/v1/jobs/{job}": Sample("/api/v1/jobs/nap", {"queue": "mail"}, about=True),
    "DELETE /api/v1/jobs/{job}": Sample("/api/v1/jobs/nap", about=True),
    "GET /api/v1/jobs/{job}/revisions": Sample("/api/v1/jobs/nap/revisions", about=True),
    "GET /api/v1/jobs/{job}/next": Sample("/api/v1/jobs/nap/next", about=True),
    "POST /api/v1/jobs/{job}/pause": Sample("/api/v1/jobs/nap/pause", {}, about=True),
    "POST /api/v1/jobs/{job}/resume": Sample("/api/v1/jobs/asleep/resume", {}, about=True),
    "POST /api/v1/jobs/{job}/skip-next": Sample("/api/v1/jobs/nap/skip-next", {}, about=True),
    "POST /api/v1/jobs/{job}/move-next": Sample("/api/v1/jobs/nap/move-next", {"to": "+30m"}, about=True),
    "POST /api/v1/jobs/{job}/backfill": Sample(
        "/api/v1/jobs/nap/backfill", {"start": "2026-01-01T00:00Z", "end": "2026-01-01T03:00Z"}, about=True
    ),
    "POST /api/v1/schedules/describe": Sample(body=EXPRESSION, changes=False),
    "POST /api/v1/schedules/lint": Sample(body=EXPRESSION, changes=False),
    "POST /api/v1/schedules/preview": Sample(body=EXPRESSION, changes=False),
    # ── the cluster ──────────────────────────────────────────────────────────────────────────────────────────
    "GET /metrics": Sample(gives=True),
    "GET /api/v1/nodes": Sample(shared=True),
    "GET /api/v1/terms": Sample(shared=True),
    "POST /api/v1/nodes/{node}/drain": Sample("/api/v1/nodes/worker-1/drain", {"draining": True}, gives=True),
    "PUT /api/v1/shards": Sample(body={"shards": 2}, gives=True),
    "GET /api/v1/queues": Sample(shared=True),
    "POST /api/v1/queues/{queue}/pause": Sample("/api/v1/queues/default/pause", {}, gives=True),
    "POST /api/v1/queues/{queue}/resume": Sample("/api/v1/queues/default/resume", gives=True),
    "POST /api/v1/queues/{queue}/share": Sample("/api/v1/queues/default/share", {"weights": {"a": 2}}, gives=True),
    # ── runs ─────────────────────────────────────────────────────────────────────────────────────────────────
    "GET /api/v1/runs": Sample(),
    "POST /api/v1/runs": Sample(body={"job": "nap"}, about=True),
    "POST /api/v1/jobs/{job}/trigger": Sample("/api/v1/jobs/nap/trigger", {}, about=True),
    "GET /api/v1/runs/{run}": Sample("/api/v1/runs/{ended}", about=True),
    "GET /api/v1/runs/{run}/result": Sample("/api/v1/runs/{ended}/result", about=True),
    "GET /api/v1/runs/{run}/attempts": Sample("/api/v1/runs/{ended}/attempts", about=True),
    "POST /api/v1/runs/{run}/cancel": Sample("/api/v1/runs/{running}/cancel", {}, about=True),
    "POST /api/v1/runs/{run}/retry": Sample("/api/v1/runs/{dead}/retry", {}, about=True),
    "GET /api/v1/runs/{run}/logs": Sample("/api/v1/runs/{ended}/logs", about=True),
    "GET /api/v1/runs/{run}/logs/follow": Sample("/api/v1/runs/{ended}/logs/follow", about=True, stream=True),
    "GET /api/v1/runs/{run}/artifacts": Sample("/api/v1/runs/{ended}/artifacts", about=True),
    "GET /api/v1/runs/{run}/artifacts/{attempt}/{name:path}": Sample(
        "/api/v1/runs/{ended}/artifacts/1/report.csv", about=True
    ),
    "GET /api/v1/attempts": Sample("/api/v1/attempts?worker=worker-1"),
    "GET /api/v1/skips": Sample(placed=True),
    "GET /api/v1/upcoming": Sample(),
    "GET /api/v1/dead-letters": Sample(placed=True),
    "GET /api/v1/dead-letters/groups": Sample(placed=True),
    "POST /api/v1/dead-letters/replay": Sample(body={"run_ids": ["{dead}"]}, about=True),
    "POST /api/v1/dead-letters/discard": Sample(body={"run_ids": ["{dead}"]}, about=True),
    "GET /api/v1/events": Sample(stream=True),
    "PUT /api/v1/sources/{source:path}": Sample(
        "/api/v1/sources/jobs.yaml", {"jobs": [{"name": "nap", "sleep": "1s"}]}, about=True
    ),
    "GET /api/v1/runs/{run}/standing": Sample("/api/v1/runs/{running}/standing", about=True),
    # ── routes of the requirement documents ──────────────────────────────────────────────────────────────────
    "POST /jobs": Sample(body=NEW),
    "GET /jobs": Sample(),
    "GET /jobs/{job_id}": Sample("/jobs/{job_id}", about=True),
    "DELETE /jobs/{job_id}": Sample("/jobs/{job_id}", about=True),
    "GET /job/executions": Sample("/job/executions?worker_id=worker-1"),
    "POST /api/v1/submit_job": Sample(body=FILE, placed=True, content_type="application/yaml"),
    "GET /api/v1/retrieve_history_execution/{job_id}": Sample(
        "/api/v1/retrieve_history_execution/{job_id}", about=True
    ),
    "GET /api/v1/last_execution_logs/{job_id}": Sample("/api/v1/last_execution_logs/{job_id}", about=True),
    "GET /api/v1/job_status/{job_id}": Sample("/api/v1/job_status/{job_id}", about=True),
}
