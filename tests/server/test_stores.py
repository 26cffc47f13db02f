"""Routes on every store: the same requests get the same answers, and text that a store cannot hold is refused."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from fastapi import FastAPI

from onthedot.access.permissions import Role
from onthedot.server.app import openapi_of
from onthedot.server.permissions import ROUTE_PERMISSIONS
from tests.server.kit import served
from tests.server.sample_requests import SAMPLES


@pytest.fixture(params=["memory", "sqlite", "postgres", "redis"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    match request.param:
        case "postgres":
            return str(request.getfixturevalue("postgres_url"))
        case "redis":
            return str(request.getfixturevalue("valkey_url"))
        case "sqlite":
            return f"sqlite:///{tmp_path / 'tour.db'}"
        case _:
            return "memory:"


async def test_a_tour_of_the_routes_has_the_same_answers_on_every_store(url: str):
    async with served(url) as there:
        admin = there.keys.add(Role.ADMIN, owner="ann")
        stranger = there.keys.add(Role.ADMIN, owner="bob", only_own=True)

        async def ask(method: str, path: str, status: int = 200, **more: Any) -> Any:
            headers = {**admin, **more.pop("headers", {})}
            answer = await there.client.request(method, path, headers=headers, **more)
            assert answer.status_code == status, (method, path, answer.text)
            return answer

        for name in ("a", "b", "c"):
            body = {"name": name, "noop": True, "schedule": {"cron": "0 9 * * *", "id": "d"}}
            await ask("POST", "/api/v1/jobs", 201, json=body)
            await ask("POST", "/api/v1/jobs", 409, json=body)
        old = (await ask("GET", "/api/v1/jobs/c")).headers["etag"]
        new = (await ask("PATCH", "/api/v1/jobs/c", json={"queue": "mail"}, headers={"If-Match": old})).headers["etag"]
        await ask("PATCH", "/api/v1/jobs/c", 412, json={"queue": "x"}, headers={"If-Match": old})
        await ask("DELETE", "/api/v1/jobs/c", 412, headers={"If-Match": old})
        revisions = (await ask("GET", "/api/v1/jobs/c/revisions")).json()["items"]
        assert [(one["revision"], one["definition"].get("queue")) for one in revisions] == [(2, "mail"), (1, None)]

        page = (await ask("GET", "/api/v1/jobs?limit=2")).json()
        rest = (await ask("GET", f"/api/v1/jobs?limit=2&after={page['next']}")).json()
        assert [job["name"] for job in (*page["items"], *rest["items"])] == ["a", "b", "c"]
        mine = (await there.client.get("/api/v1/jobs", headers=stranger)).json()
        assert mine["items"] == []

        first, second = (await ask("GET", "/api/v1/jobs/a/next?count=2")).json()["items"]
        await ask("POST", "/api/v1/jobs/a/skip-next", json={})
        assert (await ask("GET", "/api/v1/jobs/a/next?count=1")).json()["items"] == [second]
        await ask("POST", "/api/v1/jobs/a/skip-next", 409, json={"slot": "2001-01-01T09:00Z"})
        await ask("POST", "/api/v1/jobs/a/move-next", json={"to": "+1h", "slot": second["slot_at"]})
        assert first["slot_at"] < second["slot_at"]

        await ask("POST", "/api/v1/jobs/b/pause", json={"reason": "moving", "until": "+1h"})
        [paused] = (await ask("GET", "/api/v1/jobs?state=paused")).json()["items"]
        assert (paused["name"], paused["pause_reason"]) == ("b", "moving")
        assert (await ask("POST", "/api/v1/jobs/b/resume", json={"dry_run": True})).json()["was_paused"]
        await ask("POST", "/api/v1/jobs/b/resume", json={})
        range_ = {"start": "2026-01-01T00:00Z", "end": "2026-01-03T00:00Z"}
        assert (await ask("POST", "/api/v1/jobs/b/backfill", json=range_)).json()["created"] == 2

        await ask("POST", "/api/v1/queues/mail/pause", json={})
        assert {one["queue"]: one["paused"] for one in (await ask("GET", "/api/v1/queues")).json()["items"]}["mail"]
        assert (await ask("PUT", "/api/v1/shards", json={"shards": 2})).json() == {"version": 2, "shards": 2}
        await ask("PUT", "/api/v1/shards", 409, json={"shards": 3, "version": 1})
        assert (await ask("GET", "/api/v1/terms")).json()["layout"]["shards"] == 2

        number = paused["id"]
        assert (await ask("GET", f"/jobs/{number}")).json()["status"] == "pending"
        assert len((await ask("GET", f"/api/v1/retrieve_history_execution/{number}")).json()["items"]) == 2
        assert (await ask("GET", f"/api/v1/last_execution_logs/{number}")).json()["execution_id"] is None
        assert (await ask("GET", "/job/executions?worker_id=w001")).json()["items"] == []
        assert len((await ask("GET", "/jobs?status=pending&user_id=ann")).json()["items"]) == 3
        assert (await there.client.delete(f"/jobs/{number}", headers=stranger)).status_code == 404
        assert (await ask("DELETE", f"/jobs/{number}")).json() == {"job_id": number, "cancelled": 2}
        await ask("GET", f"/jobs/{number}", 404)
        await ask("DELETE", "/api/v1/jobs/c", headers={"If-Match": new})
        await ask("DELETE", "/api/v1/jobs/c", 404)


# ── text that a store cannot hold ────────────────────────────────────────────────────────────────────────────────


def with_nul(app: FastAPI, line: str) -> Iterator[tuple[str, str, object]]:
    """Requests of this route with a NUL in one part of the path, one parameter, or one text of the body."""
    method, _, path = line.partition(" ")
    plain = re.sub(r"{[^}]*}", "1", path)
    for place in re.finditer(r"{[^}]*}", path):
        yield method, re.sub(r"{[^}]*}", "1", path[: place.start()]) + "a%00b" + path[place.end() :], None
    document: Any = openapi_of(app)["paths"]
    operation = document.get(path.replace(":path}", "}"), {}).get(method.lower(), {})
    for parameter in [*operation.get("parameters", []), {"in": "query", "name": "unknown"}]:
        if parameter["in"] == "query":
            yield method, f"{plain}?{parameter['name']}=a%00b", None
    body = SAMPLES[line].body
    for name in body if isinstance(body, dict) else ():
        yield method, plain, {**body, name: "a\0b"}


async def test_a_nul_is_refused_in_paths_parameters_and_bodies(url: str):
    async with served(url, rate=100_000.0, burst=100_000) as there:
        admin = there.keys.add(Role.ADMIN)
        for line in ROUTE_PERMISSIONS:
            for method, path, body in with_nul(there.app, line):
                answer = await there.client.request(method, path, json=body, headers=admin)
                expected = {422} if body is None else {200, 401, 404, 409, 415, 422}
                assert answer.status_code in expected, (method, path, body, answer.text)
                if body is None:
                    assert "NUL" in answer.json()["errors"][0]["problem"]
