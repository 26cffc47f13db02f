"""Signing on over HTTP, with an identity provider and the keys of a real store."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterator
from pathlib import Path
from typing import Any

import pytest

from onthedot.access import keys
from onthedot.access.grants import Grant
from onthedot.access.permissions import Role
from onthedot.settings import Settings
from tests.server.kit import Served, served
from tests.servers.issuer import CLIENT, Issuer, claims, signed

ANN = {"name": "ann@example.org", "role": "operator", "sign_on": True}


@pytest.fixture
def issuer() -> Iterator[Issuer]:
    with Issuer() as issuer:
        yield issuer


@pytest.fixture
async def there(issuer: Issuer, tmp_path: Path) -> AsyncGenerator[Served]:
    settings = Settings(sign_on=issuer.url, sign_on_client=CLIENT)
    async with served(f"sqlite:///{tmp_path / 'otd.db'}", real=True, settings=settings) as server:
        yield server


async def admin(there: Served) -> dict[str, str]:
    issued = await keys.issue(there.there.store, "root", Grant(role=Role.ADMIN))
    return {"Authorization": f"Bearer {issued.text}"}


async def sign_on(there: Served, issuer: Issuer, **more: Any) -> Any:
    token = signed(claims(issuer.url, there.there.clock.now(), **more))
    return await there.client.post("/api/v1/login", json={"id_token": token})


async def test_somebody_signs_on_works_and_logs_out(there: Served, issuer: Issuer):
    made = await there.client.post("/api/v1/users", json=ANN, headers=await admin(there))
    assert (made.status_code, made.json()["sign_on"]) == (201, True)
    answer = await sign_on(there, issuer)
    assert answer.status_code == 200, answer.text
    ann = {"Authorization": f"Bearer {answer.json()['token']}"}
    who = (await there.client.get("/api/v1/whoami", headers=ann)).json()
    assert (who["name"], who["role"], who["kind"]) == ("ann@example.org", "operator", "session")
    assert (await there.client.post("/api/v1/logout", headers=ann)).status_code == 204
    entries = (await there.client.get("/api/v1/audit", headers=await admin(there))).json()["items"]
    verbs = [entry["verb"] for entry in entries]
    assert verbs == ["users.create", "login", "logout"]


async def test_a_token_is_taken_once_and_kept_nowhere(there: Served, issuer: Issuer, tmp_path: Path):
    await there.client.post("/api/v1/users", json=ANN, headers=await admin(there))
    token = signed(claims(issuer.url, there.there.clock.now()))
    assert (await there.client.post("/api/v1/login", json={"id_token": token})).status_code == 200
    again = await there.client.post("/api/v1/login", json={"id_token": token})
    assert again.status_code == 401
    assert again.json()["detail"].startswith("id_token: expected one that was not used")
    kept = stored_bytes(tmp_path)
    assert not [part for part in token.split(".") if part.encode() in kept]


def stored_bytes(folder: Path) -> bytes:
    found = b"".join(path.read_bytes() for path in folder.iterdir() if path.is_file())
    assert b"ann@example.org" in found, "one looks at the right files"
    return found


async def test_a_stranger_of_the_provider_is_nobody_here(there: Served, issuer: Issuer):
    answer = await sign_on(there, issuer, email="eve@example.org")
    assert answer.status_code == 401
    assert "onthedot users create NAME --sign-on" in answer.json()["detail"]


async def test_a_provider_that_is_away_is_told_as_that(there: Served, issuer: Issuer):
    issuer.answers["/keys"] = (500, b"")
    answer = await sign_on(there, issuer)
    assert (answer.status_code, answer.json()["title"]) == (503, "The identity provider does not answer")
    assert answer.headers["retry-after"] == "60"


async def test_a_server_that_believes_nobody_says_so():
    async with served() as there:
        answer = await there.client.post("/api/v1/login", json={"id_token": "a.b.c"})
    assert (answer.status_code, "--sign-on" in answer.json()["detail"]) == (422, True)


@pytest.mark.parametrize(
    "body",
    [
        {"name": "ann@example.org", "role": "viewer"},
        {"name": "ann@example.org", "role": "viewer", "sign_on": True, "password": "correct horse"},
        {"name": "ann", "role": "viewer", "sign_on": True},
    ],
)
async def test_a_user_has_a_password_or_signs_on(body: dict[str, Any], there: Served):
    assert (await there.client.post("/api/v1/users", json=body, headers=await admin(there))).status_code == 422


@pytest.mark.parametrize("body", [{"id_token": "a.b.c", "token": "x"}, {"id_token": "a.b.c", "username": "ann"}])
async def test_one_way_in_at_a_time(body: dict[str, str], there: Served):
    assert (await there.client.post("/api/v1/login", json=body)).status_code == 422
