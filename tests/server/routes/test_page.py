"""The status page and its cookie: the cookie opens the page only, and requests need the CSRF token too."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from pathlib import Path

import httpx2
import pytest

import onthedot as otd
from onthedot.access import sessions
from onthedot.access.authenticator import Authenticator
from onthedot.access.permissions import Grant, Role
from onthedot.model.host_port import Listen
from onthedot.model.task import Noop
from onthedot.server.http_server import HttpServer
from onthedot.settings import Settings
from tests.server.kit import Served, served

HOSTILE = "<script>alert('x')</script>"


@pytest.fixture
async def there() -> AsyncGenerator[Served]:
    async with served(real=True) as server:
        await server.there.verbs().put(otd.Job(name="mine", task=Noop(), owner="ann", schedules=(otd.every("1h"),)))
        yield server


async def sign_in(there: Served, **more: object) -> str:
    """Open the link, as a browser does. Return the CSRF token, which scripts of the page send beside the cookie."""
    grant = Grant(role=Role.ADMIN, **more)  # type: ignore[arg-type]
    token = await sessions.issue_token(there.there.store, "up", grant)
    preview = await there.client.head("/", params={"token": token})  # HEAD does not use the token
    assert "set-cookie" not in preview.headers
    answer = await there.client.get("/", params={"token": token})
    path, _, csrf = answer.headers["location"].partition("#csrf=")
    assert (answer.status_code, path) == (303, "/")
    cookie = answer.headers["set-cookie"].lower()
    assert "httponly" in cookie
    assert "samesite=lax" in cookie
    assert (await there.client.get("/", params={"token": token})).status_code == 401
    return csrf


async def test_the_page_explains_how_to_sign_in(there: Served):
    answer = await there.client.get("/")
    assert answer.status_code == 401
    assert "onthedot keys create" in answer.text
    assert "mine" not in answer.text


async def test_the_link_opens_the_page_with_jobs_and_runs(there: Served):
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


async def test_the_page_shows_only_visible_jobs(there: Served):
    await sign_in(there, owner="bob", only_own=True)
    assert "mine" not in (await there.client.get("/")).text


# ── the cookie ───────────────────────────────────────────────────────────────────────────────────────────────────

PAUSE = "/api/v1/jobs/mine/pause"
OWN = {"Origin": "http://server"}


async def test_the_cookie_opens_the_page_and_no_other_route(there: Served):
    """Browsers also send it to servers at other ports of the host. Those must not be able to use it for more."""
    await sign_in(there)
    assert (await there.client.get("/")).status_code == 200
    for path in ("/api/v1/jobs/mine", "/api/v1/whoami", "/api/v1/audit", "/api/v1/keys", "/jobs", "/metrics"):
        answer = await there.client.get(path, headers={"Sec-Fetch-Site": "same-origin"})
        assert (answer.status_code, "X-CSRF-Token" in answer.json()["detail"]) == (401, True), path
    assert (await there.client.post(PAUSE, json={}, headers=OWN)).status_code == 401
    assert (await there.client.delete("/api/v1/jobs/mine", headers=OWN)).status_code == 401
    assert (await there.client.get("/api/v1/version")).status_code == 200


async def test_the_cookie_and_the_csrf_token_are_no_keys(there: Served):
    csrf = await sign_in(there)
    [cookie] = there.client.cookies.jar
    assert cookie.value is not None
    there.client.cookies.clear()
    for text in (cookie.value, cookie.value.replace("otp_", "ots_"), csrf, csrf.replace("otc_", "ots_")):
        answer = await there.client.get("/api/v1/whoami", headers={"Authorization": f"Bearer {text}"})
        assert answer.status_code == 401
        assert (await there.client.post("/api/v1/login", json={"token": text})).status_code == 401


async def test_the_token_of_a_session_is_no_cookie(there: Served):
    token = await sessions.issue_token(there.there.store, "up", Grant(role=Role.ADMIN))
    session = (await there.client.post("/api/v1/login", json={"token": token})).json()["token"]
    for text in (session, session.replace("ots_", "otp_")):
        assert (await there.client.get("/", headers={"Cookie": f"onthedot-80={text}"})).status_code == 401


async def test_the_page_reads_and_writes_with_the_csrf_token(there: Served):
    csrf = {"X-CSRF-Token": await sign_in(there)}
    assert (await there.client.get("/api/v1/whoami", headers=csrf)).json()["role"] == "admin"
    assert (await there.client.post(PAUSE, json={}, headers={**csrf, **OWN})).status_code == 200
    assert (await there.client.post("/api/v1/logout", headers={**csrf, **OWN})).status_code == 204
    assert await there.there.store.documents.list_documents("session") == []


async def test_a_write_of_the_page_needs_its_own_origin(there: Served):
    csrf = {"X-CSRF-Token": await sign_in(there)}
    assert (await there.client.post(PAUSE, json={}, headers=csrf)).status_code == 401
    for origin in ("http://server:81", "http://evil.example", "null"):
        answer = await there.client.post(PAUSE, json={}, headers={**csrf, "Origin": origin})
        assert answer.status_code == 403
    record = await there.there.verbs().get_job("mine")
    assert record is not None
    assert record.state == "active"


async def test_the_csrf_token_is_valid_with_its_own_cookie_only(there: Served):
    first = await sign_in(there)
    second = await sign_in(there)  # its cookie replaces the first one
    [cookie] = there.client.cookies.jar
    wrong = ["", "x", first, second[:-1], f"{second[:-1]}{'0' if second[-1] != '0' else '1'}", cookie.value or ""]
    for text in wrong:
        answer = await there.client.get("/api/v1/whoami", headers={"X-CSRF-Token": text})
        assert answer.status_code == 401
    assert (await there.client.get("/api/v1/whoami", headers={"X-CSRF-Token": second})).status_code == 200
    there.client.cookies.clear()
    assert (await there.client.get("/api/v1/whoami", headers={"X-CSRF-Token": second})).status_code == 401


@pytest.mark.parametrize(
    ("url", "name"),
    [
        ("http://server", "onthedot-80"),
        ("http://server:7411", "onthedot-7411"),
        ("https://server", "__Host-onthedot-443"),
        ("https://server:8443", "__Host-onthedot-8443"),
    ],
)
async def test_the_name_of_the_cookie_contains_the_port(there: Served, url: str, name: str):
    """Browsers share cookies between all ports of a host. Two servers must not replace each other's cookie."""
    token = await sessions.issue_token(there.there.store, "up", Grant(role=Role.ADMIN))
    answer = await there.client.get(f"{url}/", params={"token": token})
    said, *attributes = answer.headers["set-cookie"].split("; ")
    assert said.startswith(f"{name}=otp_")
    assert "Path=/" in attributes
    assert ("Secure" in attributes) == url.startswith("https")
    assert not [one for one in attributes if one.startswith("Domain")]
    assert (await there.client.get(f"{url}/")).status_code == 200


def test_servers_at_two_ports_cannot_use_each_others_cookies(tmp_path: Path):
    """The client sends cookies to every port, as browsers do."""
    servers = []
    for number in range(2):
        url = f"sqlite:///{tmp_path / f'{number}.db'}"
        servers.append(HttpServer(url, Settings(), Listen(port=0), lambda node: Authenticator(node.store, node.clock)))
    try:
        with httpx2.Client(follow_redirects=True) as browser:
            for server in servers:
                server.start()
                once = server.ask(lambda there: sessions.issue_token(there.store, "up", Grant(role=Role.ADMIN)))
                assert browser.get(f"{server.url}/?token={once}").status_code == 200
            assert [browser.get(server.url).status_code for server in servers] == [200, 200]
            sent = browser.get(servers[0].url).request.headers["cookie"]
            assert sent.count("otp_") == 2, "the client must send both cookies to each port"
            for server in servers:
                for path in ("/api/v1/whoami", "/api/v1/jobs"):
                    assert browser.get(server.url + path).status_code == 401
    finally:
        for server in servers:
            server.stop()


async def test_text_of_users_is_escaped_on_the_page(there: Served):
    await there.there.verbs().put(otd.Job(name="evil", task=Noop()))
    await there.there.verbs().pause("evil", reason=HOSTILE)
    run = await there.there.verbs().submit("evil", delay="1h")
    await there.there.verbs().cancel(run, why=HOSTILE)
    await sign_in(there)
    page = (await there.client.get("/")).text
    assert "<script" not in page
    assert "&lt;script&gt;" in page
