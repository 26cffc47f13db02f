"""The index, the OpenAPI document and its page: complete, readable without a key, and without scripts."""

from __future__ import annotations

import asyncio
import re

from onthedot.server.app import describe_api
from onthedot.server.permissions import ROUTE_PERMISSIONS
from onthedot.server.routes.reference import LINKS, page_of
from tests.server.kit import served


async def test_the_document_equals_the_output_of_the_command():
    async with served() as there:
        answer = await there.client.get("/openapi.json")
        again = await there.client.get("/openapi.json")
    assert (answer.status_code, answer.headers["content-type"]) == (200, "application/json")
    assert answer.json() == await asyncio.to_thread(describe_api)
    assert again.content == answer.content


async def test_every_link_of_the_index_works():
    async with served() as there:
        answer = await there.client.get("/api/v1")
        assert (answer.status_code, answer.json()["name"], answer.json()["links"]) == (200, "onthedot", LINKS)
        assert (await there.client.get("/api/v1/", follow_redirects=True)).json() == answer.json()
        for path in LINKS.values():
            status = (await there.client.get(path)).status_code if path != "/api/v1/events" else 401
            assert status in (200, 401, 405), path
    assert set(LINKS.values()) <= {line.partition(" ")[2] for line in ROUTE_PERMISSIONS}


async def test_the_page_shows_every_operation():
    async with served() as there:
        answer = await there.client.get("/docs")
    assert (answer.status_code, answer.headers["content-type"]) == (200, "text/html; charset=utf-8")
    assert "script" not in answer.headers["content-security-policy"]
    assert "default-src 'none'" in answer.headers["content-security-policy"]
    assert "refresh" not in answer.text
    hidden = {"GET /", "GET /style.css", "GET /docs", "GET /openapi.json"}
    shown = set(re.findall(r"<h3 id=\"\w+\"><code>([^<]+)</code>", answer.text))
    assert shown == {line.replace(":path}", "}") for line in ROUTE_PERMISSIONS} - hidden
    assert set(re.findall(r'(?:href|src)="([^"#][^"]*)"', answer.text)) == {"/openapi.json", "/style.css"}
    anchors = set(re.findall(r'href="#([^"]+)"', answer.text))
    assert anchors <= set(re.findall(r'<h2 id="([^" ]+)">', answer.text))
    assert re.findall(r"<(script|style|img|iframe|form|object)\b", answer.text) == []


def test_text_of_the_document_is_escaped_on_the_page():
    operation = {
        "operationId": "x",
        "description": "a <b> and `c<d>`",
        "parameters": [{"name": "<i>", "in": "query", "schema": {"type": ["string", "null"]}}],
        "responses": {"200": {}},
    }
    page = page_of({"info": {"title": "<t>", "version": "1"}, "paths": {"/<p>": {"get": operation}}, "components": {}})
    assert "a &lt;b&gt; and <code>c&lt;d&gt;</code>" in page
    assert "<code>GET /&lt;p&gt;</code>" in page
    assert "<code>&lt;i&gt;</code>" in page
    assert "<h1>&lt;t&gt; API 1</h1>" in page
