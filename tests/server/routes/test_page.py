"""The page for people, and the cookie that lets them in."""

from __future__ import annotations

from collections.abc import AsyncGenerator

import pytest

import onthedot as otd
from onthedot.access import sessions
from onthedot.access.grants import Grant
from onthedot.access.permissions import Role
from onthedot.task import Noop
from tests.server.kit import Served, served

HOSTILE = "<script>alert('x')</script>"


@pytest.fixture
async def there() -> AsyncGenerator[Served]:
    async with served(real=True) as server:
        await server.there.verbs().put(otd.Job(name="mine", task=Noop(), owner="ann", schedules=(otd.every("1h"),)))
        yield server


async def sign_in(there: Served, **more: object) -> None:
    grant = Grant(role=Role.ADMIN, **more)  # type: ignore[arg-type]
    token = await sessions.issue_token(there.there.store, "up", grant)
    answer = await there.client.get("/", params={"token": token})
    assert (answer.status_code, answer.headers["location"]) == (303, "/")
    cookie = answer.headers["set-cookie"].lower()
    assert "httponly" in cookie
    assert "samesite=lax" in cookie
    assert (await there.client.get("/", params={"token": token})).status_code == 401


async def test_a_stranger_is_told_how_to_come_in(there: Served):
    answer = await there.client.get("/")
    assert answer.status_code == 401
    assert "onthedot keys create" in answer.text
    assert "mine" not in answer.text


async def test_the_link_lets_in_once_and_shows_what_there_is(there: Served):
    await sign_in(there)
    run = await there.there.verbs().submit("mine")
    page = await there.client.get("/")
    assert page.status_code == 200
    assert "mine" in page.text
    assert f">{run.id}<" in page.text
    assert page.headers.get_list("content-security-policy") == [
        "default-src 'none'; style-src 'self'; frame-ancestors 'none'; form-action 'none'"
    ]
    assert (await there.client.get("/style.css")).headers["content-type"].startswith("text/css")


async def test_what_is_not_theirs_is_not_shown(there: Served):
    await sign_in(there, owner="bob", only_own=True)
    assert "mine" not in (await there.client.get("/")).text


async def test_a_cookie_reads_and_changes_nothing(there: Served):
    """Every other site can have it sent along."""
    await sign_in(there)
    assert (await there.client.get("/api/v1/jobs/mine")).status_code == 200
    assert (await there.client.post("/api/v1/jobs/mine/pause", json={})).status_code == 401
    assert (await there.client.delete("/api/v1/jobs/mine")).status_code == 401


async def test_text_is_text(there: Served):
    await there.there.verbs().put(otd.Job(name="evil", task=Noop()))
    await there.there.verbs().pause("evil", reason=HOSTILE)
    run = await there.there.verbs().submit("evil", delay="1h")
    await there.there.verbs().cancel(run, why=HOSTILE)
    await sign_in(there)
    page = (await there.client.get("/")).text
    assert "<script" not in page
    assert "&lt;script&gt;" in page
