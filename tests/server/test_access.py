"""Keys, users, sessions and the audit over HTTP, with real keys in the store."""

from __future__ import annotations

from collections.abc import AsyncGenerator

import httpx2
import pytest

from onthedot.access import keys, sessions, users
from onthedot.access.permissions import Grant, Role
from onthedot.model.retention import DAY
from tests.server.kit import Served, served

PASSWORD = "a good long password"


@pytest.fixture
async def there() -> AsyncGenerator[Served]:
    async with served(real=True) as server:
        yield server


async def admin(there: Served, **more: object) -> dict[str, str]:
    issued = await keys.issue(there.there.store, "root", Grant(role=Role.ADMIN, **more))  # type: ignore[arg-type]
    return bearer(issued.text)


def bearer(text: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {text}"}


async def whoami(there: Served, headers: dict[str, str]) -> httpx2.Response:
    return await there.client.get("/api/v1/whoami", headers=headers)


async def test_a_key_is_created_used_and_revoked(there: Served):
    root = await admin(there)
    made = await there.client.post("/api/v1/keys", json={"name": "ci", "role": "operator"}, headers=root)
    assert made.status_code == 201
    ci = bearer(made.json()["text"])
    assert (await whoami(there, ci)).json()["role"] == "operator"
    listed = (await there.client.get("/api/v1/keys", headers=root)).json()["items"]
    assert sorted(key["name"] for key in listed) == ["ci", "root"]
    assert made.json()["text"] not in (await there.client.get("/api/v1/keys", headers=root)).text
    key_id = made.json()["key"]["id"]
    assert (await there.client.delete(f"/api/v1/keys/{key_id}", headers=root)).json()["state"] == "revoked"
    stored = await keys.get_key(there.there.store, key_id)
    assert stored.revoked_at is not None


@pytest.mark.parametrize(("said", "days"), [({}, 90), ({"expires_in": "30d"}, 30), ({"expires_in": "never"}, None)])
async def test_a_key_expires_after_ninety_days_by_default(there: Served, said: dict[str, str], days: int | None):
    asked = {"name": "ci", "role": "viewer", **said}
    made = await there.client.post("/api/v1/keys", json=asked, headers=await admin(there))
    key = await keys.get_key(there.there.store, made.json()["key"]["id"])
    lasts = None if key.expires_at is None else round((key.expires_at - key.made_at) / DAY, 3)
    assert lasts == days
    assert (made.json()["key"]["expires_at"] is None) == (days is None)


async def test_an_administrator_cannot_give_rights_that_it_lacks(there: Served):
    some = await admin(there, namespaces=("night",))
    refused = await there.client.post("/api/v1/keys", json={"name": "all", "role": "viewer"}, headers=some)
    assert refused.status_code == 403
    given = {"name": "night", "role": "viewer", "namespaces": ["night"]}
    assert (await there.client.post("/api/v1/keys", json=given, headers=some)).status_code == 201


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({"name": "x", "role": "king"}, "role"),
        ({"name": "x", "role": "viewer", "scopes": ["jobs:raed"]}, "scope"),
        ({"name": "x", "role": "viewer", "expires_in": "soon"}, "expires_in"),
        ({"name": "x", "role": "viewer", "expires_in": None}, "expires_in"),
        ({"role": "viewer"}, "name"),
        ({"name": 3, "role": "viewer"}, "name"),
    ],
)
async def test_an_invalid_key_is_refused_with_its_field(there: Served, body: dict[str, object], field: str):
    root = await admin(there)
    answer = await there.client.post("/api/v1/keys", json=body, headers=root)
    assert answer.status_code == 422
    assert [wrong["field"] for wrong in answer.json()["errors"]] == [field]
    assert len((await there.client.get("/api/v1/keys", headers=root)).json()["items"]) == 1


@pytest.mark.slow
async def test_a_user_logs_in_and_out(there: Served):
    root = await admin(there)
    ann = {"name": "ann", "password": PASSWORD, "role": "editor"}
    assert (await there.client.post("/api/v1/users", json=ann, headers=root)).status_code == 201
    assert (await there.client.post("/api/v1/users", json=ann, headers=root)).status_code == 409
    wrong = await there.client.post("/api/v1/login", json={"username": "ann", "password": "wrong"})
    nobody = await there.client.post("/api/v1/login", json={"username": "bob", "password": "wrong"})
    assert (wrong.status_code, nobody.status_code) == (401, 401)
    assert wrong.json()["detail"] == nobody.json()["detail"]
    session = (await there.client.post("/api/v1/login", json={"username": "ann", "password": PASSWORD})).json()
    signed_in = bearer(session["token"])
    assert (await whoami(there, signed_in)).json()["name"] == "ann"
    assert (await there.client.post("/api/v1/logout", headers=signed_in)).status_code == 204
    assert (await there.there.store.documents.get_document("session", session["token"][4:].partition(".")[0])) is None


@pytest.mark.slow
async def test_too_many_logins_are_refused_with_retry_after(there: Served):
    tries = [await there.client.post("/api/v1/login", json={"username": "ann", "password": "no"}) for _ in range(6)]
    assert [answer.status_code for answer in tries] == [401] * 5 + [429]
    assert int(tries[-1].headers["retry-after"]) > 0


@pytest.mark.slow
async def test_failed_logins_from_one_address_do_not_lock_the_user_out_elsewhere(there: Served):
    root = await admin(there)
    ann = {"name": "ann", "password": PASSWORD, "role": "viewer"}
    assert (await there.client.post("/api/v1/users", json=ann, headers=root)).status_code == 201
    good, bad = ({"username": "ann", "password": password} for password in (PASSWORD, "no"))
    answers = [await there.client.post("/api/v1/login", json=bad) for _ in range(6)]
    assert answers[-1].status_code == 429
    elsewhere = httpx2.ASGITransport(app=there.app, client=("192.0.2.7", 1234))
    async with httpx2.AsyncClient(transport=elsewhere, base_url="http://server") as client:
        assert (await client.post("/api/v1/login", json=good)).status_code == 200
    assert (await there.client.post("/api/v1/login", json=good)).status_code == 429


async def test_a_one_time_token_is_exchanged_once(there: Served):
    token = await sessions.issue_token(there.there.store, "up", Grant(role=Role.ADMIN))
    session = await there.client.post("/api/v1/login", json={"token": token})
    assert (await whoami(there, bearer(session.json()["token"]))).json()["role"] == "admin"
    assert (await there.client.post("/api/v1/login", json={"token": token})).status_code == 401


@pytest.mark.parametrize("body", [{}, {"username": "ann", "token": "x"}, {"password": "x"}])
async def test_a_login_takes_exactly_one_kind_of_credentials(there: Served, body: dict[str, str]):
    assert (await there.client.post("/api/v1/login", json=body)).status_code == 422


async def test_a_user_is_disabled_and_deleted(there: Served):
    root = await admin(there)
    await users.create(there.there.store, "ann", PASSWORD, Grant(role=Role.VIEWER))
    changed = await there.client.patch("/api/v1/users/ann", json={"disabled": True}, headers=root)
    assert changed.json()["disabled"] is True
    assert (await there.client.delete("/api/v1/users/ann", headers=root)).status_code == 204
    assert (await there.client.delete("/api/v1/users/ann", headers=root)).status_code == 404


async def test_a_new_role_applies_to_open_sessions(there: Served):
    root = await admin(there)
    store = there.there.store
    ann = await users.create(store, "ann", PASSWORD, Grant(role=Role.EDITOR, may_code=True, namespaces=("shop",)))
    session = await sessions.open_session(store, "ann", user="ann", epoch=ann.epoch)
    before = await there.client.post("/api/v1/keys", json={"name": "x", "role": "viewer"}, headers=bearer(session.text))
    assert before.status_code == 403
    changed = await there.client.patch("/api/v1/users/ann", json={"role": "operator"}, headers=root)
    assert changed.status_code == 200
    grant = changed.json()["grant"]
    assert (grant["role"], grant["may_code"], grant["namespaces"]) == ("operator", False, ["shop"])
    there.app.state.auth._keys._cache.clear()  # as if two seconds had passed
    seen = (await whoami(there, bearer(session.text))).json()
    assert (seen["role"], "jobs:write" in seen["permissions"]) == ("operator", False)
    [entry] = (await there.client.get("/api/v1/audit", headers=root)).json()["items"]
    assert (entry["verb"], entry["before"]["grant"]["role"], entry["after"]["grant"]["role"]) == (
        *("users.change", "editor", "operator"),
    )  # fmt: skip


async def test_a_refused_change_of_a_user_changes_nothing(there: Served):
    root = await admin(there)
    store = there.there.store
    before = await users.create(store, "ann", PASSWORD, Grant(role=Role.VIEWER, namespaces=("qa",)))
    for bad in ({"role": "boss"}, {"role": "worker", "scopes": ["jobs:write"]}, {"namespaces": ["a b"]}):
        asked = {"password": "another horse battery", "disabled": True, **bad}
        answer = await there.client.patch("/api/v1/users/ann", json=asked, headers=root)
        assert answer.status_code == 422
    team = await admin(there, namespaces=("qa",))
    wider: list[dict[str, object]] = [{"namespaces": []}, {"role": "admin", "namespaces": ["qa", "shop"]}]
    for more in wider:
        assert (await there.client.patch("/api/v1/users/ann", json=more, headers=team)).status_code == 403
    assert await users.get_user(store, "ann") == before
    lifted = await there.client.patch("/api/v1/users/ann", json={"role": "operator", "scopes": None}, headers=team)
    assert (lifted.status_code, lifted.json()["grant"]["scopes"]) == (200, None)


async def test_changes_are_in_the_audit(there: Served):
    root = await admin(there)
    headers = {**root, "X-Request-Id": "r-1"}
    await there.client.post("/api/v1/keys", json={"name": "ci", "role": "viewer"}, headers=headers)
    await there.client.post("/api/v1/users", json={"name": "ann", "password": PASSWORD, "role": "viewer"}, headers=root)
    answer = await there.client.get("/api/v1/audit", headers=root)
    [key, user] = answer.json()["items"]
    assert (key["verb"], key["who"]["name"], key["request_id"]) == ("keys.create", "root", "r-1")
    assert (user["verb"], user["object"]) == ("users.create", "user/ann")
    assert PASSWORD not in answer.text
    rest = await there.client.get(f"/api/v1/audit?after={key['number']}", headers=root)
    assert [entry["verb"] for entry in rest.json()["items"]] == ["users.create"]
