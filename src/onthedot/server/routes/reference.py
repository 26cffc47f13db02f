"""The reference of the API: an index, the OpenAPI document, and an HTML page made from it. It needs no key."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from html import escape
from importlib.metadata import version
from typing import Any

from fastapi import FastAPI, Request
from pydantic import BaseModel, Field
from starlette.responses import HTMLResponse, Response

from onthedot.server.compute import in_thread
from onthedot.server.models import to_json
from onthedot.server.router import Routes
from onthedot.server.routes.page import html_page

routes = Routes(tags=["reference"])

LINKS = {
    "docs": "/docs",
    "openapi": "/openapi.json",
    "version": "/api/v1/version",
    "health": "/api/v1/health",
    "ready": "/api/v1/ready",
    "login": "/api/v1/login",
    "whoami": "/api/v1/whoami",
    "jobs": "/api/v1/jobs",
    "runs": "/api/v1/runs",
    "dead_letters": "/api/v1/dead-letters",
    "skips": "/api/v1/skips",
    "queues": "/api/v1/queues",
    "nodes": "/api/v1/nodes",
    "events": "/api/v1/events",
    "audit": "/api/v1/audit",
    "metrics": "/metrics",
}
"""The entry points of the API. Paths with a job or run in them are only in the OpenAPI document."""

_CODE = re.compile(r"`([^`]+)`")
_METHODS = ("get", "post", "put", "patch", "delete")
_MOST_FIELDS = 40


class Index(BaseModel):
    """The entry points of the API."""

    name: str = Field(examples=["onthedot"])
    version: str
    links: dict[str, str] = Field(examples=[{"docs": "/docs", "jobs": "/api/v1/jobs"}])


@routes.get("/api/v1", response_model=Index)
async def get_index() -> Any:
    """The entry points of the API, as paths on this server."""
    return {"name": "onthedot", "version": version("onthedot"), "links": LINKS}


@routes.get("/openapi.json", include_in_schema=False)
async def openapi_document(request: Request) -> Response:
    """The OpenAPI document, as `onthedot openapi` prints it."""
    made = await _made(request.app)
    return Response(made["openapi"], media_type="application/json")


@routes.get("/docs", response_class=HTMLResponse, include_in_schema=False)
async def reference_page(request: Request) -> Response:
    """The OpenAPI document as an HTML page without scripts."""
    made = await _made(request.app)
    return html_page(made["docs"], title="onthedot API", refresh=False)


async def _made(app: FastAPI) -> dict[str, str]:
    """Return the OpenAPI document and the page. They are made once, in a thread, because the document takes a quarter
    of a second."""
    if app.state.reference is None:
        app.state.reference = await in_thread(_make, app)
    made: dict[str, str] = app.state.reference
    return made


def _make(app: FastAPI) -> dict[str, str]:
    document = app.state.describe(app)
    return {"openapi": to_json(document), "docs": page_of(document)}


# ── the page ─────────────────────────────────────────────────────────────────────────────────────────────────


def page_of(document: Mapping[str, Any]) -> str:
    """All operations of an OpenAPI document, grouped by their first tag, as the body of an HTML page."""
    info = document["info"]
    groups: dict[str, list[str]] = {}
    for path, method, operation in _operations(document):
        tag = next(iter(operation.get("tags", ())), "other")
        groups.setdefault(tag, []).append(_operation(path, method, operation, document))
    ids = {tag: escape(tag.replace(" ", "-")) for tag in groups}
    links = " · ".join(f'<a href="#{ids[tag]}">{escape(tag)}</a>' for tag in groups)
    parts = "".join(f'<h2 id="{ids[tag]}">{escape(tag)}</h2>{"".join(told)}' for tag, told in groups.items())
    return (
        f"<h1>{escape(info['title'])} API {escape(info['version'])}</h1><p>Send a key with each request: "
        "<code>Authorization: Bearer otd_…</code>. <code>onthedot keys create NAME</code> makes one. Errors are "
        '<code>application/problem+json</code>. For programs: <a href="/openapi.json">openapi.json</a>.</p>'
        f"<p>{links}</p>{parts}"
    )


def _operations(document: Mapping[str, Any]) -> Iterator[tuple[str, str, Mapping[str, Any]]]:
    for path, methods in document["paths"].items():
        for method in _METHODS:
            if method in methods:
                yield path, method, methods[method]


def _operation(path: str, method: str, operation: Mapping[str, Any], document: Mapping[str, Any]) -> str:
    permission = operation.get("x-permission")
    needs = f"needs <code>{escape(permission)}</code>" if permission else "needs no key"
    rows = [
        (one["name"], one["in"], _kind(one.get("schema", {})), one.get("required", False), one.get("description", ""))
        for one in operation.get("parameters", ())
    ]
    bodies = operation.get("requestBody", {}).get("content", {})
    for media_type, content in bodies.items():
        rows += [(name, media_type, *rest) for name, *rest in _fields(content.get("schema", {}), document)]
    answers = ", ".join(status for status in operation.get("responses", {}) if status.startswith("2"))
    head = f'<h3 id="{escape(operation["operationId"])}"><code>{method.upper()} {escape(path)}</code></h3>'
    described = operation.get("description") or operation.get("summary") or ""
    return f"{head}<p>{_words(described)}</p><p>{needs} · answers {escape(answers)}</p>{_table(rows)}"


def _fields(schema: Mapping[str, Any], document: Mapping[str, Any]) -> Iterator[tuple[str, str, bool, str]]:
    """The fields of a body that its own schema lists."""
    named = schema.get("$ref", "").rpartition("/")[2]
    found = document["components"]["schemas"].get(named, {}) if named else schema
    required = found.get("required", ())
    properties = list(found.get("properties", {}).items())
    for name, one in properties[:_MOST_FIELDS]:
        told = one if isinstance(one, Mapping) else {}
        yield name, _kind(told), name in required, str(told.get("description", ""))
    if not properties:
        yield "(body)", named or _kind(found), True, str(found.get("description", ""))


def _kind(schema: Mapping[str, Any]) -> str:
    """The type of a value in one or two words."""
    if "$ref" in schema:
        return str(schema["$ref"]).rpartition("/")[2]
    for several in ("anyOf", "oneOf"):
        if several in schema:
            return " or ".join(dict.fromkeys(_kind(one) for one in schema[several] if isinstance(one, Mapping)))
    if "enum" in schema:
        return " or ".join(str(value) for value in schema["enum"])
    kind = schema.get("type", "any")
    if kind == "array" and isinstance(schema.get("items"), Mapping):
        return f"list of {_kind(schema['items'])}"
    return " or ".join(kind) if isinstance(kind, list) else str(kind)


def _table(rows: Iterable[tuple[str, str, str, bool, str]]) -> str:
    told = "".join(
        f"<tr><td><code>{escape(name)}</code></td><td>{escape(place)}</td><td>{escape(kind)}</td>"
        f"<td>{'required' if required else ''}</td><td>{_words(description)}</td></tr>"
        for name, place, kind, required, description in rows
    )
    head = "<tr><th>Name</th><th>In</th><th>Type</th><th></th><th></th></tr>"
    return f"<table>{head}{told}</table>" if told else ""


def _words(text: str) -> str:
    """Text as HTML, with its `code` marked."""
    return _CODE.sub(r"<code>\1</code>", escape(text))
