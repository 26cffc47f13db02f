"""The routes of logins and sessions: sign-on with an identity provider, and the audit of logins."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterator
from pathlib import Path
from typing import Any

import httpx2
import pytest

from onthedot.access import keys, sessions, users
from onthedot.access.login_limits import REFUSED_FROM_ADDRESS
from onthedot.access.permissions import Grant, Role
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


async def test_a_user_signs_on_works_and_logs_out(there: Served, issuer: Issuer):
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


async def test_an_id_token_works_once_and_is_not_stored(there: Served, issuer: Issuer, tmp_path: Path):
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
    assert b"ann@example.org" in found, "the files must hold the user"
    return found


async def test_a_person_without_a_user_is_refused(there: Served, issuer: Issuer):
    answer = await sign_on(there, issuer, email="eve@example.org")
    assert answer.status_code == 401
    assert "onthedot users create NAME --sign-on" in answer.json()["detail"]


async def test_an_unavailable_provider_is_answered_with_503(there: Served, issuer: Issuer):
    issuer.answers["/keys"] = (500, b"")
    answer = await sign_on(there, issuer)
    assert (answer.status_code, answer.json()["title"]) == (503, "The identity provider does not answer")
    assert answer.headers["retry-after"] == "60"


async def test_a_server_without_sign_on_names_the_option():
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
async def test_a_user_has_either_a_password_or_sign_on(body: dict[str, Any], there: Served):
    assert (await there.client.post("/api/v1/users", json=body, headers=await admin(there))).status_code == 422


@pytest.mark.parametrize("body", [{"id_token": "a.b.c", "token": "x"}, {"id_token": "a.b.c", "username": "ann"}])
async def test_a_login_takes_exactly_one_kind_of_credentials(body: dict[str, str], there: Served):
    assert (await there.client.post("/api/v1/login", json=body)).status_code == 422


# ── audit ────────────────────────────────────────────────────────────────────────────────────────────────────────


async def entries(there: Served) -> list[dict[str, Any]]:
    found = await there.client.get("/api/v1/audit?limit=1000", headers=await admin(there))
    items: list[dict[str, Any]] = found.json()["items"]
    return items


async def link(there: Served) -> str:
    return await sessions.issue_token(there.there.store, "up", Grant(role=Role.ADMIN))


async def test_accepted_and_refused_links_are_audited(there: Served):
    token = await link(there)
    assert (await there.client.get("/", params={"token": token})).status_code == 303
    assert (await there.client.get("/", params={"token": token})).status_code == 401
    assert (await there.client.get("/", params={"token": "x"})).status_code == 401
    [document] = await there.there.store.documents.list_documents(sessions.KIND)
    good, used, wrong = await entries(there)
    assert (good["verb"], good["object"], good["who"]) == (
        "login", f"session/{document.id}", {"kind": "session", "id": document.id, "name": "up"},
    )  # fmt: skip
    assert (good["after"], good["source"]) == ({"name": "up", "by": "link"}, "127.0.0.1")
    assert (used["verb"], used["object"], used["who"]["kind"]) == (
        "login.refused",
        sessions.token_named(token),
        "nobody",
    )
    assert (wrong["object"], wrong["after"]) == ("token/unreadable", {"by": "link", "why": "refused"})


@pytest.mark.slow
async def test_refused_logins_are_audited_without_the_typed_text(there: Served):
    await users.create(there.there.store, "ann", "a good long password", Grant(role=Role.VIEWER))
    typed = ["ann", "hunter2", "not a name at all", *["ann"] * 5]
    answers = [await there.client.post("/api/v1/login", json={"username": name, "password": "no"}) for name in typed]
    assert [answer.status_code for answer in answers] == [401] * 7 + [429]
    found = await entries(there)
    assert {entry["verb"] for entry in found} == {"login.refused"}
    assert [entry["object"] for entry in found] == ["user/ann", "user/?", "user/?", *["user/ann"] * 5]
    assert [entry["after"]["why"] for entry in found] == ["refused"] * 7 + ["too many tries"]
    assert "hunter2" not in str(found)


async def test_a_refused_id_token_is_audited(there: Served, issuer: Issuer):
    assert (await sign_on(there, issuer, email="eve@example.org")).status_code == 401
    assert (await there.client.post("/api/v1/login", json={"id_token": "a.b.c"})).status_code == 401
    issuer.answers["/keys"] = (500, b"")
    first, second = await entries(there)
    assert (first["object"], first["after"]["by"]) == ("user/eve@example.org", "id_token")
    assert (second["verb"], second["object"]) == ("login.refused", "id_token")


async def test_audit_entries_of_refused_logins_are_limited():
    async with served(real=True, rate=10_000.0, burst=10_000) as there:
        for _ in range(REFUSED_FROM_ADDRESS + 5):
            assert (await there.client.post("/api/v1/login", json={"token": "x"})).status_code == 401
        assert len(await entries(there)) == REFUSED_FROM_ADDRESS
        elsewhere = httpx2.ASGITransport(app=there.app, client=("192.0.2.7", 1234))
        async with httpx2.AsyncClient(transport=elsewhere, base_url="http://server") as client:
            assert (await client.post("/api/v1/login", json={"token": "x"})).status_code == 401
        last = (await entries(there))[-1]
        assert (last["source"], last["after"]["left_out"]) == ("192.0.2.7", 5)


# ── sessions ─────────────────────────────────────────────────────────────────────────────────────────────────────


async def opened_by(there: Served, name: str) -> dict[str, str]:
    user = await users.get_user(there.there.store, name)
    session = await sessions.open_session(there.there.store, name, user=name, epoch=user.epoch, source="192.0.2.7")
    return {"Authorization": f"Bearer {session.text}"}


async def listed(there: Served, headers: dict[str, str]) -> list[dict[str, Any]]:
    items: list[dict[str, Any]] = (await there.client.get("/api/v1/sessions", headers=headers)).json()["items"]
    return items


async def test_a_user_lists_and_ends_its_own_sessions(there: Served):
    for name in ("ann@example.org", "bob@example.org"):
        await users.create(there.there.store, name, None, Grant(role=Role.VIEWER))
    ann, also_ann, bob = [await opened_by(there, f"{name}@example.org") for name in ("ann", "ann", "bob")]
    mine = await listed(there, ann)
    assert {(one["user"], one["page"], one["source"]) for one in mine} == {("ann@example.org", False, "192.0.2.7")}
    assert sorted(one["current"] for one in mine) == [False, True]
    [other] = [one["id"] for one in mine if not one["current"]]
    [theirs] = [one["id"] for one in await listed(there, bob)]
    assert (await there.client.delete(f"/api/v1/sessions/{theirs}", headers=ann)).status_code == 404
    ended = await there.client.delete(f"/api/v1/sessions/{other}", headers=ann)
    assert (ended.status_code, ended.json()["id"]) == (200, other)
    assert (await there.client.delete(f"/api/v1/sessions/{other}", headers=ann)).status_code == 404
    assert (await there.client.get("/api/v1/whoami", headers=also_ann)).status_code == 401
    assert [one["current"] for one in await listed(there, ann)] == [True]
    entry = (await entries(there))[-1]
    assert (entry["verb"], entry["object"], entry["who"]["name"]) == (
        "sessions.end", f"session/{other}", "ann@example.org",
    )  # fmt: skip


async def test_an_administrator_lists_and_ends_all_sessions(there: Served):
    await users.create(there.there.store, "ann@example.org", None, Grant(role=Role.VIEWER))
    ann = await opened_by(there, "ann@example.org")
    assert (await there.client.get("/", params={"token": await link(there)})).status_code == 303
    root = await admin(there)
    found = await listed(there, root)
    assert sorted((one["name"], one["role"], one["page"]) for one in found) == [
        ("ann@example.org", "viewer", False), ("up", "admin", True),
    ]  # fmt: skip
    assert "ots_" not in str(found)
    for one in found:
        assert (await there.client.delete(f"/api/v1/sessions/{one['id']}", headers=root)).status_code == 200
    assert await listed(there, root) == []
    assert (await there.client.get("/api/v1/whoami", headers=ann)).status_code == 401
    assert (await there.client.get("/")).status_code == 401
    first = await there.client.get("/api/v1/sessions?limit=1", headers=root)
    assert first.json() == {"items": [], "next": None}


async def test_an_administrator_of_one_namespace_sees_no_sessions_with_more_rights(there: Served):
    """A key without `keys:manage` sees none either: it has no sessions of its own."""
    await there.client.get("/", params={"token": await link(there)})
    grants = [Grant(role=Role.ADMIN, namespaces=("night",)), Grant(role=Role.EDITOR)]
    for grant in grants:
        issued = await keys.issue(there.there.store, "some", grant)
        assert await listed(there, {"Authorization": f"Bearer {issued.text}"}) == []


async def test_ended_sessions_are_not_listed(there: Served):
    await users.create(there.there.store, "ann@example.org", None, Grant(role=Role.VIEWER))
    await opened_by(there, "ann@example.org")
    await sessions.open_session(there.there.store, "old", grant=Grant(role=Role.VIEWER), now=1)
    root = await admin(there)
    assert [one["name"] for one in await listed(there, root)] == ["ann@example.org"]
    await users.set_disabled(there.there.store, "ann@example.org", disabled=True)
    assert await listed(there, root) == []


async def test_sessions_are_listed_page_by_page(there: Served):
    made = sorted(
        [(await sessions.open_session(there.there.store, "up", grant=Grant(role=Role.VIEWER))).id for _ in "abc"]
    )
    root, found = await admin(there), list[str]()
    after: str | None = ""
    while after is not None:
        page = (await there.client.get("/api/v1/sessions", params={"limit": 2, "after": after}, headers=root)).json()
        found += [one["id"] for one in page["items"]]
        after = page["next"]
    assert found == made
    assert (await there.client.get("/api/v1/sessions", params={"after": "\0"}, headers=root)).status_code == 422
