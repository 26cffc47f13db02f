"""Makes the FastAPI application from all routes, and the OpenAPI document that describes it."""

from __future__ import annotations

import asyncio
from importlib.metadata import version
from typing import Any

from fastapi import FastAPI
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException

from onthedot.access.sign_on import Provider
from onthedot.access.users import Logins
from onthedot.model.errors import OnTheDotError
from onthedot.model.host_port import Listen
from onthedot.observe.counters import Counters
from onthedot.operations.open_verbs import OpenStore, opened
from onthedot.server.audit import WriteBatcher
from onthedot.server.auth import Auth, Keys, RateLimits
from onthedot.server.compat import routes as compat_routes
from onthedot.server.compat.models import document_component
from onthedot.server.event_stream import Followers
from onthedot.server.middleware import RequestMiddleware
from onthedot.server.models import components, schema_of
from onthedot.server.permissions import ROUTE_PERMISSIONS
from onthedot.server.problems import Problem, handle
from onthedot.server.provider_keys import ProviderKeys
from onthedot.server.quotas import make_quotas
from onthedot.server.request_origin import Hosts, Proxies, ProxyMiddleware, SameOriginMiddleware
from onthedot.server.router import ProblemOut, include
from onthedot.server.routes import (
    artifacts,
    audit,
    dead_letters,
    events,
    health,
    job_control,
    jobs,
    login,
    logs,
    nodes,
    page,
    queues,
    reference,
    runs,
    schedules,
    sources,
)
from onthedot.server.routes import keys as keys_routes
from onthedot.server.routes.events import EventFeed
from onthedot.server.routes.logs import LogFeeds
from onthedot.server.submissions import NDJSON

ROUTES = (
    runs, health, login, keys_routes, audit, jobs, job_control, schedules, sources, nodes, queues,
    logs, artifacts, dead_letters, events, compat_routes, page, reference,
)  # fmt: skip
"""All route modules. Starlette tries them in this order, so the most used ones come first."""


def make_app(
    open_store: OpenStore,
    keys: Keys | None,
    *,
    rate: float | None = None,
    burst: int | None = None,
    counters: Counters | None = None,
    listen: Listen | None = None,
) -> FastAPI:
    """Make the API of an open store.

    `keys` checks keys and sessions; with None every caller may do everything. `rate` and `burst` replace those of the
    settings. `counters` are the metrics of the node in this process, if there is one. The server listens at `listen`
    (None: on loopback). It answers for the hosts of that address, and for `Settings.allow_hosts`."""
    app = FastAPI(
        title="onthedot",
        version=version("onthedot"),
        description="Every job, on the dot, once.",
        openapi_url=None,
        docs_url=None,
        redoc_url=None,
    )
    settings = open_store.settings
    limits = RateLimits(open_store.clock, rate=rate or settings.api_rate, burst=burst or settings.api_burst)
    app.state.open_store = open_store
    app.state.auth = Auth(keys, limits)
    app.state.logins = Logins(open_store.clock)
    app.state.writes = WriteBatcher(open_store.store)
    app.state.quotas = make_quotas(open_store.store, open_store.clock, settings)
    app.state.followers = Followers(settings.api_followers, settings.api_followers_each)
    app.state.events = EventFeed(open_store)
    app.state.logs = LogFeeds(open_store)
    app.state.counters = counters
    app.state.describe = openapi_of
    app.state.reference = None
    provider = Provider(settings.sign_on, settings.sign_on_client)
    app.state.provider = ProviderKeys(provider, open_store.clock) if settings.sign_on else None
    include(app, [module.routes for module in ROUTES])
    for kind in (RequestValidationError, HTTPException, Problem, OnTheDotError):
        app.add_exception_handler(kind, handle)
    app.add_middleware(
        SameOriginMiddleware, hosts=Hosts(listen or Listen(), settings.allow_hosts), keyed=keys is not None
    )
    if settings.trusted_proxies:
        proxies = Proxies(settings.trusted_proxies)
        app.add_middleware(ProxyMiddleware, proxies=proxies, most=settings.api_clients_per_address)
    app.add_middleware(RequestMiddleware, in_pieces=("POST", "/api/v1/runs", NDJSON))
    return app


TAGS = {
    "jobs": "Job definitions: what runs, and when.",
    "schedules": "Describe, check and preview a schedule before you store it.",
    "runs": "Submit, list, cancel and retry runs.",
    "logs": "The output of attempts: logs and artifacts.",
    "dead letters": "Runs that failed for good: group, replay or discard them.",
    "events": "A stream of the runs that start and end.",
    "queues": "Pause, resume and share queues.",
    "nodes": "Nodes, shards, their leaders, and metrics.",
    "access": "Keys, users, sessions and the audit.",
    "documents": "A second, simpler API: jobs and executions in other words.",
    "server": "Health, readiness and version of the server, and your identity.",
    "reference": "An index of the API.",
}
"""The tags of the OpenAPI document, in their order."""


def _without_null(body: dict[str, Any]) -> None:
    """Document an optional body without null. If the document allowed null, generated clients would send it or fail."""
    for content in body.get("content", {}).values():
        match content["schema"]:
            case {"anyOf": [{"$ref": _} as kind, {"type": "null"}]}:
                content["schema"] = kind


def openapi_of(app: FastAPI) -> dict[str, object]:
    """The OpenAPI document of an application."""
    document = app.openapi()
    document["info"] |= {
        "contact": {"name": "onthedot"},
        "license": {"name": "Apache License 2.0", "identifier": "Apache-2.0"},
    }
    document["servers"] = [{"url": "/", "description": "The server of this document."}]
    document["tags"] = [{"name": name, "description": text} for name, text in TAGS.items()]
    schemas = document.setdefault("components", {}).setdefault("schemas", {})
    schemas.update(ProblemOut.model_json_schema(ref_template="#/components/schemas/{model}").pop("$defs", {}))
    schemas["ProblemOut"] = schema_of(ProblemOut)
    written = components()
    schemas.update(written)
    schemas["written.document_job"] = document_component(written["written.job"])
    document["components"]["securitySchemes"] = {"key": {"type": "http", "scheme": "bearer"}}
    document["security"] = [{"key": []}]
    for line, permission in ROUTE_PERMISSIONS.items():
        method, path = line.replace(":path}", "}").split(" ")
        operation = document["paths"].get(path, {}).get(method.lower())
        if operation is None:  # an HTML page, or this document
            continue
        _without_null(operation.get("requestBody", {}))
        if permission is None:
            operation["security"] = []
        else:
            operation["x-permission"] = str(permission)
    return document


def describe_api() -> dict[str, object]:
    """The OpenAPI document of this version, without a server.

    >>> describe_api()["openapi"][:3]
    '3.1'
    """
    return asyncio.run(_describe())


async def _describe() -> dict[str, object]:
    async with opened("memory:") as open_store:  # an application needs a store; this one is never used
        return openapi_of(make_app(open_store, None))
