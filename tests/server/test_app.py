"""Rules for every route: authentication, permissions, the shape of errors, and the headers of answers."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator
from datetime import timedelta
from typing import Any

import httpx2
import pytest
from fastapi import FastAPI, Response

import onthedot as otd
from onthedot.access.permissions import Permission, Role
from onthedot.access.sign_on import LONGEST_TOKEN
from onthedot.model.errors import StoreUnavailable
from onthedot.server.app import openapi_of
from onthedot.server.permissions import ROUTE_PERMISSIONS
from onthedot.server.router import Routes, include
from onthedot.server.submissions import NDJSON
from tests.server.kit import Served, served

NAP = otd.Job(name="nap", task=otd.Sleep(duration=timedelta(0)), owner="ann")


@pytest.fixture
async def there() -> AsyncGenerator[Served]:
    async with served() as server:
        await server.there.verbs().put(NAP)
        yield server


# ── access ───────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("headers", [{}, {"Authorization": "Bearer nobody"}, {"Authorization": "Basic key0"}])
async def test_a_request_without_a_valid_key_is_refused(there: Served, headers: dict[str, str]):
    there.keys.add(Role.ADMIN)
    answer = await there.client.get("/api/v1/jobs/nap", headers=headers)
    assert answer.status_code == 401
    assert answer.headers["www-authenticate"].startswith("Bearer")
    assert "onthedot keys create" in answer.json()["detail"]


async def test_a_refusal_names_the_missing_permission(there: Served):
    viewer = there.keys.add(Role.VIEWER)
    answer = await there.client.post("/api/v1/jobs/nap/pause", json={}, headers=viewer)
    assert answer.status_code == 403
    assert "jobs:control" in answer.json()["detail"]
    record = await there.there.verbs().get_job("nap")
    assert record is not None
    assert record.state == "active"


@pytest.mark.parametrize("whose", [{"namespaces": ("other",)}, {"owner": "bob", "only_own": True}])
async def test_an_object_of_others_is_answered_as_missing(there: Served, whose: dict[str, object]):
    stranger = there.keys.add(Role.ADMIN, **whose)
    foreign = await there.client.get("/api/v1/jobs/nap", headers=stranger)
    missing = await there.client.get("/api/v1/jobs/none", headers=stranger)
    assert foreign.status_code == missing.status_code == 404
    assert (await there.client.delete("/api/v1/jobs/nap", headers=stranger)).status_code == 404


async def test_whoami_returns_the_role_and_permissions(there: Served):
    editor = there.keys.add(Role.EDITOR, scopes=frozenset({Permission.KEYS_OWN, Permission.JOBS_READ}))
    told = (await there.client.get("/api/v1/whoami", headers=editor)).json()
    assert (told["role"], told["permissions"]) == ("editor", ["jobs:read", "keys:own"])


async def test_the_rate_limit_applies_to_each_caller():
    async with served(rate=1.0, burst=3) as server:
        eager, calm = server.keys.add(Role.VIEWER), server.keys.add(Role.VIEWER)
        answers = [await server.client.get("/api/v1/whoami", headers=eager) for _ in range(5)]
        assert [answer.status_code for answer in answers] == [200, 200, 200, 429, 429]
        assert answers[-1].headers["retry-after"] == "1"
        assert (await server.client.get("/api/v1/whoami", headers=calm)).status_code == 200


# ── errors ───────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("path", "methods"),
    [
        ("/api/v1/runs", "GET, HEAD, POST"),
        ("/api/v1/jobs/nap", "DELETE, GET, HEAD, PATCH, PUT"),
        ("/jobs/7", "DELETE, GET, HEAD"),
    ],
)
async def test_an_unknown_method_is_refused_with_the_allowed_ones(there: Served, path: str, methods: str):
    answer = await there.client.options(path)
    assert (answer.status_code, answer.headers["allow"]) == (405, methods)
    assert answer.json()["detail"] == f"expected one of {methods} for this path, got 'OPTIONS'"


@pytest.mark.parametrize(
    ("method", "path", "sent", "detail"),
    [
        ("GET", "/api/v1/runs?stat=dead", {}, "unknown parameter 'stat', did you mean 'state'?"),
        ("GET", "/api/v1/runs?stat=dead&limit=x", {}, "unknown parameter 'stat', did you mean 'state'?"),
        ("GET", "/api/v1/whoami?x=1", {}, "unknown parameter 'x'; it takes none"),
        ("POST", "/api/v1/jobs/nap/pause?reason=x", {}, "unknown parameter 'reason'; known: namespace"),
        ("GET", "/api/v1/runs/abc", {}, "path.run: expected a whole number, got 'abc'"),
        ("GET", "/api/v1/runs/0", {}, "path.run: expected at least 1, got '0'"),
        ("GET", "/api/v1/runs?limit=x", {}, "query.limit: expected a whole number, got 'x'"),
        ("GET", "/nowhere", {}, "expected a path of this server, got '/nowhere'; 'GET /api/v1' lists where to begin"),
        (
            "POST", "/api/v1/runs", {"content": b"{bad", "headers": {"Content-Type": "application/json"}},
            "body: expected JSON, but key must be a string at line 1 column 2",
        ),
        (
            "POST", "/api/v1/jobs/nap/pause", {"content": b"{bad", "headers": {"Content-Type": "application/json"}},
            "body: expected JSON, but expecting property name enclosed in double quotes at character 1",
        ),
        ("POST", "/api/v1/runs", {"json": {"job": 3}}, "job: expected a string, got a number"),
        (
            "POST", "/api/v1/jobs/nap/pause", {"data": {"name": "x"}},
            "body: expected JSON with 'Content-Type: application/json', got Content-Type "
            "'application/x-www-form-urlencoded'",
        ),
        ("POST", "/api/v1/jobs/nap/pause", {"json": [1]}, "body: expected an object, got an array"),
        ("POST", "/api/v1/jobs/nap/move-next", {"json": {}}, "to: expected a value, got none"),
        ("POST", "/api/v1/jobs/nap/pause", {"json": {"reason": 3}}, "reason: expected a string, got a number"),
        (
            "POST", "/api/v1/jobs/nap/pause", {"json": {"reason": "x" * 501}},
            "reason: expected at most 500 characters, got 501",
        ),
        ("POST", "/api/v1/jobs/nap/pause", {"json": {"why": 3}}, "why: expected no such field; leave it out"),
    ],
)  # fmt: skip
async def test_an_error_states_what_was_expected_and_what_came(
    there: Served, method: str, path: str, sent: dict[str, Any], detail: str
):
    headers = {**there.keys.add(Role.ADMIN), **sent.pop("headers", {})}
    answer = await there.client.request(method, path, headers=headers, **sent)
    assert answer.status_code == (404 if path == "/nowhere" else 422)
    assert answer.json()["detail"] == detail


async def test_no_error_shows_a_password(there: Served):
    body = {"username": "ann", "password": ["hunter2"]}
    answer = await there.client.post("/api/v1/login", json=body)
    assert answer.status_code == 422
    assert "hunter2" not in answer.text


@pytest.mark.parametrize("path", ["/", "/docs"])
async def test_a_page_ignores_extra_parameters_of_a_link(there: Served, path: str):
    stranger = await there.client.get(f"{path}?utm_source=mail")
    assert stranger.headers["content-type"] == "text/html; charset=utf-8"


async def test_an_unknown_key_and_a_missing_key_have_different_messages(there: Served):
    wrong = await there.client.get("/api/v1/jobs", headers={"Authorization": "Bearer nix"})
    assert wrong.json()["detail"].startswith("this key is not known here, or has ended; ")
    for headers in ({}, {"Authorization": "Bearer"}, {"Authorization": "Basic x"}):
        missing = await there.client.get("/api/v1/jobs", headers=headers)
        assert missing.json()["detail"].startswith("expected a key: send 'Authorization: Bearer otd_…'")


@pytest.mark.parametrize("line", [line for line in ROUTE_PERMISSIONS if line.startswith("GET ") and "{" not in line])
async def test_head_gives_the_headers_of_get_without_a_body(there: Served, line: str):
    path = line.removeprefix("GET ")
    admin = there.keys.add(Role.ADMIN)
    query = {"worker_id": "w1"} if path == "/job/executions" else {}
    head = await there.client.head(path, params=query, headers=admin)
    assert (head.status_code, head.content) == (200, b"")
    assert head.headers["x-request-id"]
    if path != "/api/v1/events":  # its GET would not end
        got = await there.client.get(path, params=query, headers=admin)
        assert head.headers["content-type"] == got.headers["content-type"]
        assert "content-length" in head.headers
    if ROUTE_PERMISSIONS[line] is not None:
        nobody = await there.client.head(path, params=query)
        assert (nobody.status_code, nobody.content) == (401, b"")


async def test_head_of_a_route_without_get_is_refused(there: Served):
    assert (await there.client.head("/api/v1/login")).status_code == 405
    assert (await there.client.head("/nowhere")).status_code == 404


async def test_every_error_has_one_shape(there: Served):
    admin = there.keys.add(Role.ADMIN)
    ask = there.client
    answers = [
        await ask.get("/api/v1/nowhere"),
        await ask.put("/api/v1/health"),
        await ask.get("/api/v1/jobs/nap"),
        await ask.get("/api/v1/jobs/napp", headers=admin),
        await ask.post("/api/v1/runs", content=b"{", headers={**admin, "Content-Type": "application/json"}),
        await ask.post("/api/v1/runs", json={"job": 3, "more": 1}, headers=admin),
        await ask.post("/api/v1/runs", json={"job": "nap", "delay": "soon"}, headers=admin),
    ]
    assert [answer.status_code for answer in answers] == [404, 405, 401, 404, 422, 422, 422]
    for answer in answers:
        assert answer.headers["content-type"] == "application/problem+json"
        told = answer.json()
        assert told["status"] == answer.status_code
        assert told["request_id"] == answer.headers["x-request-id"]
        assert told["title"]
        assert told["detail"]
    assert "did you mean 'nap'" in answers[3].json()["detail"]
    assert {wrong["field"] for wrong in answers[5].json()["errors"]} == {"job", "more"}
    assert answers[6].json()["errors"][0]["field"] == "delay"


async def test_an_unavailable_store_is_answered_with_503_and_retry_after(
    there: Served, monkeypatch: pytest.MonkeyPatch
):
    async def away() -> int:
        raise StoreUnavailable("the store is away")

    monkeypatch.setattr(there.there.store, "tell_time", away)
    answer = await there.client.get("/api/v1/ready")
    assert answer.status_code == 503
    assert answer.headers["retry-after"] == "1"
    assert (await there.client.get("/api/v1/health")).status_code == 200


async def test_a_bug_is_logged_and_not_shown(
    there: Served, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
):
    async def broken() -> int:
        raise ZeroDivisionError("the secret reason")

    monkeypatch.setattr(there.there.store, "tell_time", broken)
    answer = await there.client.get("/api/v1/ready", headers={"X-Request-Id": "mine"})
    assert answer.status_code == 500
    assert "secret reason" not in answer.text
    assert answer.json()["request_id"] == "mine"
    assert "the secret reason" in caplog.text


@pytest.mark.parametrize("body", [b"[" * 100_000, b'{"job": "\xff"}', b"", b"nul", b'{"job": NaN}', b"\x00"])
async def test_an_unreadable_body_is_refused(there: Served, body: bytes):
    headers = {**there.keys.add(Role.ADMIN), "Content-Type": "application/json"}
    answer = await there.client.post("/api/v1/runs", content=body, headers=headers)
    assert answer.status_code == 422
    assert answer.headers["content-type"] == "application/problem+json"


# ── sizes and headers ────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("declared", [True, False])
async def test_a_large_body_is_refused_before_it_is_read(there: Served, declared: bool):
    admin = there.keys.add(Role.ADMIN)
    body = json.dumps({"job": "nap", "args": {"x": "y" * 2_000_000}}).encode()

    async def pieces() -> AsyncGenerator[bytes]:
        for first in range(0, len(body), 100_000):
            yield body[first : first + 100_000]

    content = body if declared else pieces()
    headers = {**admin, "Content-Type": "application/json"}
    answer = await there.client.post("/api/v1/runs", content=content, headers=headers)
    assert answer.status_code == 413
    assert await there.there.verbs().list_runs() == []


KINDS = {
    "lines": [("Content-Type", NDJSON)],
    "two kinds": [("Content-Type", "application/json"), ("Content-Type", NDJSON)],
}


@pytest.mark.parametrize("kinds", KINDS.values(), ids=KINDS.keys())
@pytest.mark.parametrize("line", [line for line in ROUTE_PERMISSIONS if not line.startswith("GET")])
async def test_only_a_bulk_submit_may_be_large(there: Served, line: str, kinds: list[tuple[str, str]]):
    method, _, path = line.partition(" ")
    path = path.replace("{source:path}", "x").replace("{run}", "1").replace("{job_id}", "1").replace("{job}", "nap")
    read = 0

    async def pieces() -> AsyncGenerator[bytes]:
        nonlocal read
        for _ in range(100):
            read += 100_000
            yield b" " * 100_000

    headers = [*there.keys.add(Role.ADMIN).items(), *kinds]
    await there.client.request(method, path, content=pieces(), headers=headers)
    is_bulk = line == "POST /api/v1/runs" and len(kinds) == 1
    assert (read > 1_300_000) == is_bulk


async def test_a_request_without_a_key_may_only_be_small(there: Served):
    said = {"username": "ann", "password": "x" * 1_024, "token": ""}
    assert (await there.client.post("/api/v1/login", json=said)).status_code == 401
    longest = await there.client.post("/api/v1/login", json={"id_token": "\U0001f389" * (LONGEST_TOKEN + 1)})
    assert longest.status_code == 422  # it was read, and the token is too long
    answer = await there.client.post("/api/v1/login", json={**said, "more": "x" * 270_000})
    assert answer.status_code == 413
    assert "at most 262144 bytes" in answer.json()["detail"]


@pytest.mark.parametrize(("given", "taken"), [("abc-1.2:3_X", True), ("a" * 65, False), ("a b", False), ("é", False)])
async def test_a_plain_request_id_is_used(there: Served, given: str, taken: bool):
    answer = await there.client.get("/api/v1/health", headers={b"X-Request-Id": given.encode()})
    assert (answer.headers["x-request-id"] == given) is taken
    assert answer.headers["x-request-id"]


async def test_answers_have_strict_browser_headers(there: Served):
    headers = (await there.client.get("/api/v1/health")).headers
    assert headers["x-content-type-options"] == "nosniff"
    assert "default-src 'none'" in headers["content-security-policy"]


# ── the table of permissions ─────────────────────────────────────────────────────────────────────────────────────


def test_a_route_without_a_permission_cannot_be_declared():
    routes = Routes(prefix="/api/v1")
    with pytest.raises(RuntimeError, match=r"GET /api/v1/open.*expected a line"):
        routes.get("/open")(lambda: None)


async def test_a_server_with_an_unchecked_route_does_not_start():
    routes = Routes(prefix="/api/v1")
    routes.add_route("/open", lambda request: Response())
    with pytest.raises(RuntimeError, match="expected each behind the checks of auth"):
        include(FastAPI(openapi_url=None, docs_url=None, redoc_url=None), [routes])


@pytest.mark.parametrize("path", ["/api/v1/jobs", "/api/v1/runs", "/api/v1/keys"])
async def test_a_caller_without_a_key_is_refused_before_its_body_is_read(there: Served, path: str):
    answer = await there.client.post(path, content=b"{", headers={"Content-Type": "application/json"})
    assert answer.status_code == 401


async def test_a_server_with_a_permission_without_a_route_does_not_start(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(ROUTE_PERMISSIONS, "GET /api/v1/ghost", None)
    with pytest.raises(RuntimeError, match="ghost"):
        async with served():
            pass


async def test_the_openapi_document_describes_routes_and_their_errors():
    async with served() as server:
        transport = server.client._transport
        document = openapi_of(transport.app)  # type: ignore[attr-defined]  # the application that this asks
    assert "/api/v1/jobs/{job}" in document["paths"]  # type: ignore[operator]
    refusals = document["paths"]["/api/v1/jobs/{job}"]["get"]["responses"]  # type: ignore[index]
    assert set(refusals) >= {"200", "401", "403", "404", "422", "429", "503"}


async def test_strangers_of_one_network_share_a_limit():
    """A client with one IPv6 address usually has its whole network, and could use another address each time."""
    async with served(rate=1, burst=3) as server:

        async def ask(host: str) -> int:
            transport = httpx2.ASGITransport(app=server.app, client=(host, 1))
            async with httpx2.AsyncClient(transport=transport, base_url="http://server") as client:
                return (await client.get("/api/v1/jobs")).status_code

        assert [await ask(f"2001:db8::{number}") for number in range(1, 6)] == [401, 401, 401, 429, 429]
        assert await ask("2001:db8:0:1::1") == 401
        assert [await ask(f"192.0.2.{number}") for number in range(1, 6)] == [401] * 5
