"""The client: which requests it repeats after failures, how it handles keys, and what it refuses without a server."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import httpx2
import pytest

import onthedot as otd
from onthedot.access import keys
from onthedot.access.permissions import Grant, Role
from onthedot.client import connection as transport
from onthedot.model.errors import AccessDenied, KeyRefused, QuotaExceeded, StoreError
from onthedot.model.host_port import Listen
from onthedot.server.http_server import HttpServer
from onthedot.settings import Settings
from tests.server.kit import Served, served

NAP = otd.Job(name="nap", task=otd.Sleep(duration=timedelta(0)), owner="ann")
PROGRAM = otd.Job(name="program", task=otd.Command(script="true"), owner="ann")


class Wire(httpx2.AsyncBaseTransport):
    """A transport to the application that fails on demand: `before` a request arrives, or `after` it was handled."""

    def __init__(self, app: Any) -> None:
        self._inner = httpx2.ASGITransport(app=app)
        self.before: list[Exception] = []
        self.after: list[Exception | int] = []
        self.sent: list[httpx2.Request] = []

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        self.sent.append(request)
        if self.before:
            raise self.before.pop(0)
        answer = await self._inner.handle_async_request(request)
        if self.after:
            trouble = self.after.pop(0)
            if isinstance(trouble, int):
                return httpx2.Response(trouble, headers={"Retry-After": "0"})
            raise trouble
        return answer


@pytest.fixture(autouse=True)
def without_delays(monkeypatch: pytest.MonkeyPatch) -> None:
    """No delay between two tries."""
    monkeypatch.setattr(transport, "FIRST_DELAY", 0.0)


@pytest.fixture
async def there() -> AsyncGenerator[Served]:
    async with served(real=True, rate=10_000.0, burst=10_000) as server:
        await server.there.verbs().put(NAP)
        await server.there.verbs().put(PROGRAM)
        yield server


@pytest.fixture
def wire(there: Served) -> Wire:
    return Wire(there.app)


async def key_of(there: Served, role: Role, **more: Any) -> str:
    return (await keys.issue(there.there.store, "test", Grant(role=role, **more))).text


@pytest.fixture
async def client(there: Served, wire: Wire) -> otd.Client:
    return otd.Client("https://server", key=await key_of(there, Role.ADMIN), transport=wire)


async def count(there: Served) -> int:
    return len(await there.there.verbs().list_runs(limit=1000))


# ── retries ──────────────────────────────────────────────────────────────────────────────────────────────────


LOST = [httpx2.ReadError("reset"), httpx2.ReadTimeout("slow"), httpx2.RemoteProtocolError("gone"), 503, 429]


@pytest.mark.parametrize("trouble", LOST, ids=str)
async def test_a_submit_repeated_after_a_lost_answer_creates_one_run(
    there: Served, wire: Wire, client: otd.Client, trouble: Any
):
    wire.after = [trouble, trouble]
    run = await client.submit("nap", delay="1h")
    assert run.created
    assert (len(wire.sent), await count(there)) == (3, 1)
    wire.after = [trouble]
    await client.trigger("nap")
    assert await count(there) == 2


async def test_a_bulk_submit_repeated_after_a_lost_answer_creates_each_run_once(
    there: Served, wire: Wire, client: otd.Client
):
    runs = await client.submit_many(["nap"] * 700, delay="1h")
    assert (len(set(runs)), await count(there), len(wire.sent)) == (700, 700, 2)
    wire.after = [httpx2.ReadError("reset")] * 2
    again = await client.submit_many(["nap"] * 3, delay="1h")
    assert (len(set(again)), await count(there)) == (3, 703)
    assert all(run.created for run in again)


async def test_a_used_quota_is_reported_without_a_retry():
    """A few retries would be too early. Runs of a bulk submit that were stored stay stored."""
    async with served(real=True, settings=Settings(quota_runs=3)) as there:
        await there.there.verbs().put(NAP)
        wire = Wire(there.app)
        operator = otd.Client("https://server", key=await key_of(there, Role.OPERATOR), transport=wire)
        for submit in (operator.submit_many(["nap"] * 5, delay="1h"), operator.submit("nap")):
            with pytest.raises(QuotaExceeded, match="quota_runs: expected at most 3 runs of owner 'ann'"):
                await submit
        assert [request.method for request in wire.sent] == [
            "GET",
            "POST",
            "POST",
        ]  # the job is read, then each submit is sent once
        assert await count(there) == 3
        await operator.close()


@pytest.mark.parametrize("trouble", [httpx2.ConnectError("refused"), httpx2.ConnectTimeout("slow")], ids=str)
async def test_a_request_that_never_arrived_is_repeated(wire: Wire, client: otd.Client, trouble: Exception):
    wire.before = [trouble, trouble]
    assert (await client.pause("nap")).record.state == "paused"
    assert len(wire.sent) == 3


async def test_a_change_that_may_have_been_done_is_not_repeated(wire: Wire, client: otd.Client):
    await client.put(replace(NAP, schedules=(otd.every("1h"),)))
    wire.sent.clear()
    wire.after = [httpx2.ReadError("reset")]
    with pytest.raises(otd.StoreUnavailable, match="https://server: expected an answer, got none"):
        await client.skip_next("nap")
    assert len(wire.sent) == 1


async def test_retries_end(wire: Wire, client: otd.Client):
    wire.before = [httpx2.ConnectError("refused") for _ in range(100)]
    with pytest.raises(otd.StoreUnavailable, match="is the server running"):
        await client.list_jobs()
    assert len(wire.sent) == transport.TRIES


def test_the_delay_between_tries_is_bounded():
    one = transport.ServerConnection("http://server")
    delays = [one._delay(tries, None) for tries in range(1, 12)]
    assert max(delays) <= transport.LONGEST_DELAY
    assert one._delay(1, 3.0) == 3.0
    assert one._delay(1, 3_600.0) == transport.LONGEST_DELAY


# ── keys and permissions ─────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("key", "words"),
    [("", "expected a key"), ("otd_aaaaaaaaaaaa.nonsense", "this key is not known here, or has ended")],
)
async def test_a_missing_or_unknown_key_is_refused(wire: Wire, key: str, words: str):
    with pytest.raises(KeyRefused, match=words):
        await otd.Client("https://server", key=key, transport=wire).list_jobs()


async def test_a_refusal_names_the_missing_permission(there: Served, wire: Wire):
    viewer = otd.Client("https://server", key=await key_of(there, Role.VIEWER), transport=wire)
    assert await viewer.get_job("nap") is not None
    with pytest.raises(AccessDenied, match="expected runs:control"):
        await viewer.submit("nap")
    with pytest.raises(AccessDenied, match="expected jobs:write"):
        await viewer.put(NAP)


async def test_a_source_is_applied_only_with_permission_for_each_job(there: Served, wire: Wire):
    editor = otd.Client("https://server", key=await key_of(there, Role.EDITOR, owner="ann"), transport=wire)
    new = replace(NAP, name="new")
    with pytest.raises(AccessDenied, match=r"'program'.*expected jobs:code"):
        await editor.apply([new, replace(PROGRAM, priority="high")], source="a.yaml")
    assert await editor.get_job("new") is None
    with pytest.raises(AccessDenied, match="owner: expected 'ann', got 'bob'"):
        await editor.apply([replace(new, owner="bob")], source="a.yaml")
    assert (await editor.apply([replace(new, owner="")], source="a.yaml")).changes == 1
    made = await editor.get_job("new")
    assert made is not None
    assert made.job.owner == "ann"


async def test_a_source_prunes_only_visible_jobs(there: Served, wire: Wire, client: otd.Client):
    await client.apply([replace(NAP, name="anns"), replace(NAP, name="bobs", owner="bob")], source="a.yaml")
    bob = otd.Client("https://server", key=await key_of(there, Role.ADMIN, owner="bob", only_own=True), transport=wire)
    with pytest.raises(otd.UnknownJob):
        await bob.apply([replace(NAP, name="anns")], source="a.yaml")
    pruned = await bob.apply([], source="a.yaml", prune=True)
    assert [(one.name, one.kind) for one in pruned.differences] == [("bobs", "removed")]
    assert await client.get_job("anns") is not None
    assert await client.get_job("bobs") is None


async def test_applied_changes_are_audited(there: Served, client: otd.Client):
    await client.apply([replace(NAP, name="a")], source="a.yaml")
    await client.apply([replace(NAP, name="a", priority="high")], source="a.yaml", dry_run=True)
    await client.apply([replace(NAP, name="a", priority="high")], source="a.yaml")
    await client.apply([], source="a.yaml", prune=True)
    told = (await client.server.ask("GET", "/api/v1/audit"))["items"]
    assert [(one["verb"], one["object"]) for one in told] == [
        ("jobs.create", "job/default/a"),
        ("jobs.edit", "job/default/a"),
        ("jobs.delete", "job/default/a"),
    ]


async def test_a_client_works_in_one_namespace(there: Served, wire: Wire):
    key = await key_of(there, Role.ADMIN)
    night = otd.Client("https://server", key=key, namespace="night", transport=wire)
    assert await night.get_job("nap") is None
    await night.put(replace(NAP, namespace="night"))
    await night.submit("nap", delay="1h")
    assert [run.namespace for run in await night.list_runs()] == ["night"]
    assert [run.namespace for run in await there.there.verbs("night").list_runs()] == ["night"]
    assert await there.there.verbs().list_runs() == []


# ── checks without a server ──────────────────────────────────────────────────────────────────────────────────


async def test_a_transaction_cannot_be_joined_through_a_server(client: otd.Client):
    with pytest.raises(otd.DefinitionError, match="connection: expected none: a server cannot join"):
        await client.submit("nap", connection=object())
    with pytest.raises(otd.DefinitionError, match="connection: expected none"):
        await client.submit_many(["nap"], connection=object())


@pytest.mark.parametrize(
    "url", ["", "server", "ftp://server", "http://", "http://ann:pw@server", "http://server?x=1", "http://server:x"]
)
def test_an_invalid_address_is_refused(url: str):
    with pytest.raises(otd.DefinitionError, match="url: expected"):
        otd.Client(url)


@pytest.mark.parametrize("key", ["a b", "k\n", "schl\u00fcssel"])
def test_an_invalid_key_is_refused(key: str):
    with pytest.raises(otd.DefinitionError, match="key: expected") as refused:
        otd.Client("https://server", key=key)
    assert key not in str(refused.value)


def test_the_repr_does_not_show_the_key():
    client = otd.Client("https://server", key="otd_secret.secret")
    assert "secret" not in repr(client) + repr(client.server)


FAR = ["http://server", "HTTP://jobs.example.org:7411", "http://10.0.0.7", "http://[2001:db8::1]:80", "http://127.1"]
HERE = ["http://127.0.0.1:7411", "http://127.9.9.9", "http://[::1]:80", "http://LocalHost:80", "https://server"]


@pytest.mark.parametrize("kind", [otd.Client, otd.BlockingClient])
@pytest.mark.parametrize("url", FAR)
def test_a_key_is_not_sent_to_another_machine_in_plain_text(kind: type[otd.Client], url: str):
    with pytest.raises(otd.DefinitionError, match=r"url: expected https://.* got .*insecure=True") as refused:
        kind(url, key="otd_secret.secret")
    assert "secret" not in str(refused.value)
    kind(url, key="otd_secret.secret", insecure=True)
    kind(url)  # without a key, nothing secret is sent


@pytest.mark.parametrize("url", HERE)
def test_a_key_is_sent_over_tls_or_to_this_machine(url: str):
    otd.Client(url, key="otd_secret.secret")


async def test_local_requests_use_no_proxy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:9")  # no proxy listens there
    monkeypatch.setenv("NO_PROXY", "")
    server = HttpServer(f"sqlite:///{tmp_path / 'a.db'}", Settings(), Listen(port=0), knows=None)
    server.start()
    try:
        async with otd.Client(server.url) as client:
            assert await client.list_jobs() == []
    finally:
        server.stop()


def answering(status: int, **options: Any) -> Callable[[httpx2.Request], httpx2.Response]:
    return lambda request: httpx2.Response(status, **options)


@pytest.mark.parametrize(
    "answer",
    [
        answering(200, text="<html>hello"), answering(302, headers={"Location": "http://elsewhere"}),
        answering(404, text="nothing here"), answering(200, json={"items": [{}], "next": None}),
    ],
)  # fmt: skip
async def test_a_server_of_another_program_is_reported(answer: Callable[[httpx2.Request], httpx2.Response]):
    client = otd.Client("http://server", transport=httpx2.MockTransport(answer))
    with pytest.raises(StoreError, match=r"expected (the answer of an onthedot server|what this version can read)"):
        await client.list_jobs()


# ── real sockets ─────────────────────────────────────────────────────────────────────────────────────────────


def test_a_blocking_client_works_without_an_event_loop(tmp_path: Path):
    server = HttpServer(f"sqlite:///{tmp_path / 'a.db'}", Settings(), Listen(port=0), knows=None)
    server.start()
    try:
        with otd.BlockingClient(server.url) as client:
            assert client.put(NAP).change == "created"
            run = client.submit("nap", delay="1h", key="k")
            assert client.submit("nap", delay="1h", key="k") == run
            assert client.cancel(run).kind == "cancelled"
            with pytest.raises(otd.RunFailed, match="cancelled"):
                client.result(run, timeout="5s")
            with pytest.raises(otd.UnknownJob, match="did you mean 'nap'"):
                client.pause("nab")
            client.close()
            assert [record.job.name for record in client.list_jobs()] == ["nap"]  # it starts a new thread
    finally:
        server.stop()


async def test_an_unreachable_server_is_reported():
    async with otd.Client("http://127.0.0.1:9") as client:
        with pytest.raises(otd.StoreUnavailable, match=r"http://127.0.0.1:9: expected an answer, got none"):
            await client.list_jobs()
