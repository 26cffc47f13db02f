"""HTTP calls: what they send, where they may connect, and which outcome follows from the answer."""

from __future__ import annotations

import asyncio
import json
import socket
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from datetime import timedelta
from ipaddress import ip_address

import pytest

from onthedot.clock import SECOND
from onthedot.model.addresses import Address, AddressRefused, Allowed
from onthedot.model.task import Http
from onthedot.model.verdict import Outcome, OutcomeKind
from onthedot.runners.http import HttpExecutor, first_request, idempotency_key, redirected, retry_not_before
from tests.runners.attempts import CLOCK, RunnerBench, lease_of, log_of
from tests.runners.pages import Handler, Page, Site, serving

LOOPBACK = Allowed.of(["127.0.0.1"])


@pytest.fixture
def pages() -> dict[str, Page]:
    return {"/": lambda asked: asked.answer(200, b"hello")}


@pytest.fixture
def site(pages: dict[str, Page]) -> Iterator[Site]:
    with serving(pages) as site:
        yield site


@pytest.fixture
async def bench() -> AsyncIterator[RunnerBench]:
    bench = RunnerBench(HttpExecutor(LOOPBACK, CLOCK))
    yield bench
    bench.runner.close()


def fake_resolver(**addresses: str | list[str]) -> Callable[[str, int], object]:
    """A resolver that knows only these names. It returns the texts of a list one after the other."""
    calls: dict[str, int] = {}

    async def resolve(host: str, port: int) -> list[Address]:
        found = addresses[host.replace(".", "_")]
        calls[host] = calls.get(host, -1) + 1
        text = found if isinstance(found, str) else found[calls[host]]
        return [ip_address(one) for one in text.split()]

    return resolve


async def run_attempt(
    task: Http, *, allowed: Allowed = LOOPBACK, timeout: timedelta | None = None, **options
) -> tuple[Outcome, str]:
    """Run one attempt. Returns its outcome and its log."""
    bench = RunnerBench(HttpExecutor(allowed, CLOCK, **options))
    try:
        attempt = bench.begin(lease_of(task), timeout)
        return await bench.end(attempt), log_of(attempt)
    finally:
        bench.runner.close()


async def test_a_request_is_sent_and_its_answer_is_logged(site: Site):
    task = Http(url=site.url("/?a=1"), method="POST", headers={"X-Who": "me"}, body={"n": [1, None, "ü"]})
    outcome, log = await run_attempt(task)
    assert outcome == Outcome(OutcomeKind.SUCCEEDED, result='{"status":200}')
    [asked] = site.asked
    assert (asked.command, asked.path, json.loads(asked.body)) == ("POST", "/?a=1", {"n": [1, None, "ü"]})
    wanted = {
        "X-Who": "me", "Host": f"127.0.0.1:{site.port}", "Content-Type": "application/json", "Onthedot-Run-Id": "7",
        "Onthedot-Attempt": "1", "Onthedot-Fence": "42",
    }  # fmt: skip
    assert {name: asked.headers[name] for name in wanted} == wanted
    assert asked.headers["Idempotency-Key"]
    assert log.startswith(f"POST http://127.0.0.1:{site.port}/?a=1 → 200 (5 bytes, ")
    assert log.endswith("s)\nhello\n")


@pytest.mark.parametrize(("expect", "status", "kind"), [
    ((), 204, "succeeded"), ((), 404, "failed"), ((404,), 404, "succeeded"), ((404,), 200, "failed"),
    ((), 500, "failed"), ((302,), 302, "succeeded"), ((), 304, "failed"),
])  # fmt: skip
async def test_the_status_decides_the_outcome(site: Site, pages: dict[str, Page], expect, status, kind):
    pages["/"] = lambda asked: asked.answer(status, Location="/nowhere")
    outcome, _ = await run_attempt(Http(url=site.url(), expect=expect))
    assert outcome.kind == kind
    if kind == "failed":
        assert outcome.error_types == (f"onthedot.HttpStatus.{status}", "onthedot.HttpStatus")
        assert f"got {status}" in str(outcome.error)


async def test_retry_after_becomes_the_earliest_retry(site: Site, pages: dict[str, Page]):
    pages["/"] = lambda asked: asked.answer(503, Retry_After="300")
    before = CLOCK.now()
    outcome, _ = await run_attempt(Http(url=site.url()))
    assert before + 300 * SECOND <= outcome.not_before <= CLOCK.now() + 300 * SECOND


# ── addresses that are refused ───────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "[::ffff:127.0.0.1]", "127.0.0.1."])
async def test_the_workers_own_machine_is_refused_by_default(site: Site, host: str):
    outcome, _ = await run_attempt(Http(url=site.url(host=host)), allowed=Allowed())
    assert (outcome.kind, outcome.error_types) == (OutcomeKind.FAILED, ("onthedot.HttpRefused",))
    assert "loopback" in str(outcome.error)
    assert "http_allow" in str(outcome.error)
    assert site.asked == []


@pytest.mark.parametrize(
    "url", ["http://0x7f.1:{}/", "http://2130706433:{}/", "http://127.1:{}/", "ftp://127.0.0.1:{}/"]
)
async def test_unusual_spellings_of_an_address_are_refused(site: Site, url: str):
    outcome, _ = await run_attempt(Http(url=url.format(site.port)))
    assert outcome.error_types == ("onthedot.HttpRefused",)
    assert site.asked == []


async def test_a_name_with_one_refused_address_is_refused(site: Site):
    outcome, _ = await run_attempt(
        Http(url=site.url(host="shop.example")),
        allowed=Allowed(),
        resolve=fake_resolver(shop_example="1.1.1.1 10.0.0.7"),
    )
    assert "shop.example (10.0.0.7) is private" in str(outcome.error)


async def test_the_connection_uses_the_address_that_was_checked(site: Site):
    """Only our resolver knows this name, so a second lookup would fail."""
    outcome, _ = await run_attempt(
        Http(url=site.url(host="shop.invalid")), resolve=fake_resolver(shop_invalid=["127.0.0.1", "10.0.0.1"])
    )
    assert outcome.kind is OutcomeKind.SUCCEEDED
    assert site.asked[0].headers["Host"] == f"shop.invalid:{site.port}"


async def test_the_address_of_a_name_is_checked_again_at_each_redirect(site: Site, pages: dict[str, Page]):
    pages["/"] = lambda asked: asked.answer(302, Location="/again")
    outcome, _ = await run_attempt(
        Http(url=site.url(host="shop.invalid")), resolve=fake_resolver(shop_invalid=["127.0.0.1", "169.254.169.254"])
    )
    assert "shop.invalid (169.254.169.254) is link-local" in str(outcome.error)
    assert [asked.path for asked in site.asked] == ["/"]


async def test_a_redirect_to_an_internal_address_is_refused(site: Site, pages: dict[str, Page]):
    pages["/"] = lambda asked: asked.answer(302, Location=f"http://127.0.0.1:{site.port}/secret")
    outcome, log = await run_attempt(
        Http(url=site.url(host="shop.invalid")),
        allowed=Allowed.of(["shop.invalid"]),
        resolve=fake_resolver(shop_invalid="127.0.0.1"),
    )
    assert outcome.error_types == ("onthedot.HttpRefused",)
    assert [asked.path for asked in site.asked] == ["/"]
    assert "→ 302, to http://127.0.0.1" in log


async def test_redirects_are_followed_up_to_a_limit(site: Site, pages: dict[str, Page]):
    pages["/a"] = lambda asked: asked.answer(303, Location="/")
    pages["/loop"] = lambda asked: asked.answer(307, Location="/loop")
    outcome, log = await run_attempt(Http(url=site.url("/a"), method="POST", body=1))
    assert outcome.kind is OutcomeKind.SUCCEEDED
    assert [asked.command for asked in site.asked] == ["POST", "GET"]
    assert "→ 303, to /" in log
    outcome, _ = await run_attempt(Http(url=site.url("/loop")))
    assert "expected at most 5 redirects" in str(outcome.error)
    assert len(site.asked) == 2 + 6


async def test_a_redirect_to_another_origin_sends_no_secrets(site: Site, pages: dict[str, Page]):
    with serving({"/": lambda asked: asked.answer(200)}) as other:
        pages["/"] = lambda asked: asked.answer(307, Location=other.url())
        outcome, _ = await run_attempt(
            Http(url=site.url(), headers={"Authorization": "Bearer s3cret", "X-Key": "s3cret"})
        )
    assert outcome.kind is OutcomeKind.SUCCEEDED
    assert "s3cret" in str(site.asked[0].headers)
    assert "s3cret" not in str(other.asked[0].headers)


async def test_proxies_of_the_environment_are_ignored(site: Site, monkeypatch: pytest.MonkeyPatch):
    with serving({}) as proxy:
        for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"):
            monkeypatch.setenv(name, proxy.url())
        outcome, _ = await run_attempt(Http(url=site.url()))
    assert outcome.kind is OutcomeKind.SUCCEEDED
    assert proxy.asked == []


# ── hostile servers ──────────────────────────────────────────────────────────────────────────────────────────


async def test_an_endless_answer_is_read_only_up_to_a_limit(site: Site, pages: dict[str, Page]):
    sent = 0

    def endless(asked: Handler) -> None:
        nonlocal sent
        asked.send_response(200)
        asked.end_headers()
        while not asked.server.site.over.is_set():
            sent += asked.wfile.write(b"x" * 65_536)

    pages["/"] = endless
    outcome, log = await run_attempt(Http(url=site.url()))
    assert outcome.kind is OutcomeKind.SUCCEEDED
    assert "more than 1048576 bytes" in log
    assert "left out" in log
    assert len(log) < 40_000
    assert sent < 64 << 20


@pytest.mark.parametrize("head", [True, False])
async def test_a_slow_answer_ends_with_the_time_out(site: Site, pages: dict[str, Page], head: bool):
    def slow(asked: Handler) -> None:
        if head:
            asked.send_response(200)
            asked.end_headers()
        while not asked.server.site.over.wait(0.02):
            if head:
                asked.wfile.write(b".")

    pages["/"] = slow
    outcome, _ = await run_attempt(Http(url=site.url()), timeout=timedelta(milliseconds=300))
    assert outcome == Outcome(OutcomeKind.TIMED_OUT, "took longer than its time-out of 0.3 s")


async def test_a_job_without_a_time_out_has_a_default(site: Site, pages: dict[str, Page]):
    def never(asked: Handler) -> None:
        asked.server.site.over.wait()

    pages["/"] = never
    bench = RunnerBench(HttpExecutor(LOOPBACK, CLOCK), longest=SECOND // 5)
    outcome = await bench.end(bench.begin(lease_of(Http(url=site.url()))))
    bench.runner.close()
    assert outcome.kind is OutcomeKind.TIMED_OUT


async def test_huge_headers_are_a_failure(site: Site, pages: dict[str, Page]):
    def huge(asked: Handler) -> None:
        asked.wfile.write(b"HTTP/1.1 200 OK\r\n")
        while not asked.server.site.over.is_set():
            asked.wfile.write(b"X-A: " + b"a" * 4096 + b"\r\n")

    pages["/"] = huge
    outcome, _ = await run_attempt(Http(url=site.url()))
    assert (outcome.kind, outcome.error_types[0]) == (OutcomeKind.FAILED, "onthedot.HttpTrouble")


async def test_an_incomplete_answer_is_a_failure(site: Site, pages: dict[str, Page]):
    def broken(asked: Handler) -> None:
        asked.send_response(200)
        asked.send_header("Content-Length", "100")
        asked.end_headers()
        asked.wfile.write(b"half")

    pages["/"] = broken
    outcome, _ = await run_attempt(Http(url=site.url()))
    assert "broke off after 4 bytes" in str(outcome.error)
    assert "builtins.ConnectionError" in outcome.error_types


@pytest.mark.parametrize("answer", [b"", b"SSH-2.0-OpenSSH\r\n", b"HTTP/1.1 999999 x\r\n\r\n", b"\x00" * 100])
async def test_an_answer_that_is_not_http_is_a_failure(answer: bytes):
    listening = socket.create_server(("127.0.0.1", 0))

    def serve() -> None:
        talk, _ = listening.accept()
        talk.recv(65_536)
        talk.sendall(answer)
        talk.close()

    thread = threading.Thread(target=serve, daemon=True)
    thread.start()
    outcome, _ = await run_attempt(Http(url=f"http://127.0.0.1:{listening.getsockname()[1]}/"))
    thread.join()
    listening.close()
    assert outcome.error_types[0] == "onthedot.HttpTrouble"


async def test_a_compressed_answer_is_not_decompressed(site: Site, pages: dict[str, Page]):
    """A decompression bomb stays small. The request does not accept compressed answers, either."""
    pages["/"] = lambda asked: asked.answer(200, b"\x1f\x8b-bomb", Content_Encoding="gzip")
    outcome, log = await run_attempt(Http(url=site.url()))
    assert outcome.kind is OutcomeKind.SUCCEEDED
    assert "(7 bytes" in log
    assert site.asked[0].headers["Accept-Encoding"] == "identity"


async def test_a_host_that_does_not_answer_is_a_failure_unless_another_address_does(site: Site):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    outcome, _ = await run_attempt(Http(url=f"http://127.0.0.1:{port}/"))
    assert "builtins.ConnectionError" in outcome.error_types
    outcome, _ = await run_attempt(Http(url="http://nobody.invalid/"))
    assert "nobody.invalid" in str(outcome.error)
    both = Allowed.of(["127.0.0.0/8"])
    outcome, _ = await run_attempt(
        Http(url=site.url(host="two.invalid")), allowed=both, resolve=fake_resolver(two_invalid="127.0.0.77 127.0.0.1")
    )
    assert outcome.kind is OutcomeKind.SUCCEEDED  # nothing listens at the first address; the second one answers


# ── ending early ─────────────────────────────────────────────────────────────────────────────────────────────


async def test_a_cancelled_call_ends_at_once(bench: RunnerBench, site: Site, pages: dict[str, Page]):
    asked = asyncio.Event()

    def never(handler: Handler) -> None:
        bench.loop.call_soon_threadsafe(asked.set)
        handler.server.site.over.wait()

    pages["/"] = never
    attempt = bench.begin(lease_of(Http(url=site.url())))
    await asyncio.wait_for(asked.wait(), 10)
    bench.stop(attempt, Outcome(OutcomeKind.CANCELLED, "by hand"))
    assert await bench.end(attempt) == Outcome(OutcomeKind.CANCELLED, "by hand")


async def test_a_call_that_is_stopped_before_its_start_is_released(bench: RunnerBench, site: Site):
    attempt = bench.begin(lease_of(Http(url=site.url())))
    bench.stop(attempt, Outcome(OutcomeKind.LOST, "its lease is gone"))
    assert (await bench.end(attempt)).kind is (OutcomeKind.LOST if attempt.started_at else OutcomeKind.RELEASED)


@pytest.mark.slow
async def test_many_calls_run_at_once(bench: RunnerBench, site: Site, pages: dict[str, Page]):
    barrier = threading.Barrier(20)

    def meet(asked: Handler) -> None:
        barrier.wait(20)
        asked.answer(200)

    pages["/"] = meet
    attempts = [bench.begin(lease_of(Http(url=site.url()), run_id=number)) for number in range(20)]
    assert {(await bench.end(attempt)).kind for attempt in attempts} == {OutcomeKind.SUCCEEDED}


async def test_cookies_of_one_answer_are_not_sent_by_other_calls(
    bench: RunnerBench, site: Site, pages: dict[str, Page]
):
    """Several names can share one address, so a stored cookie could go to another host."""
    pages["/"] = lambda asked: asked.answer(302, Location="/next", Set_Cookie="session=s3cret; Path=/")
    pages["/next"] = lambda asked: asked.answer(200, Set_Cookie="session=s3cret; Path=/")
    for number in range(2):
        await bench.end(bench.begin(lease_of(Http(url=site.url()), run_id=number)))
    assert len(site.asked) == 4
    assert [asked.headers["Cookie"] for asked in site.asked] == [None] * 4


JOB = Http(
    url="https://shop.example/pay",
    method="POST",
    headers={"Authorization": "Bearer t", "X-Api-Key": "k", "Accept": "text/plain"},
    body={"n": 1},
)


def test_a_request_has_headers_that_identify_its_run():
    request = first_request(JOB, lease_of(JOB, run_id=7, attempt=2, fence=42))
    headers = dict(request.headers)
    assert (headers["onthedot-run-id"], headers["onthedot-attempt"], headers["onthedot-fence"]) == ("7", "2", "42")
    assert (headers["content-type"], headers["authorization"], headers["accept"], request.body) == (
        "application/json", "Bearer t", "text/plain", b'{"n": 1}',
    )  # fmt: skip


def test_all_attempts_of_a_run_share_an_idempotency_key_of_their_own():
    keys = {idempotency_key(lease_of(JOB, attempt=attempt, fence=attempt)) for attempt in (1, 2, 3)}
    assert len(keys) == 1
    assert keys.isdisjoint({idempotency_key(lease_of(JOB, run_id=8))})


def test_a_job_may_set_its_own_key_but_not_the_fence():
    task = Http(url="http://x", headers={"Idempotency-Key": "mine", "Onthedot-Fence": "999"})
    headers = dict(first_request(task, lease_of(task)).headers)
    assert (headers["idempotency-key"], headers["onthedot-fence"]) == ("mine", "42")


@pytest.mark.parametrize("value", ["a\r\nB: c", "a\x00", "snow☃"])
def test_an_invalid_header_is_refused_and_its_value_is_not_shown(value: str):
    task = Http(url="http://x", headers={"X-Token": value})
    with pytest.raises(AddressRefused, match="header x-token: expected one line") as refused:
        first_request(task, lease_of(task))
    assert value not in str(refused.value)


@pytest.mark.parametrize(
    ("method", "status", "then"),
    [
        ("POST", 301, "GET"), ("POST", 302, "GET"), ("POST", 303, "GET"), ("PUT", 303, "GET"), ("PUT", 302, "PUT"),
        ("POST", 307, "POST"), ("POST", 308, "POST"), ("HEAD", 303, "HEAD"), ("GET", 301, "GET"),
    ],
)  # fmt: skip
def test_a_redirect_changes_the_method(method: str, status: int, then: str):
    task = Http(url="https://shop.example/a", method=method, body={"n": 1})
    request = redirected(first_request(task, lease_of(task)), status, "/b")
    assert (request.method, request.target.path) == (then, "/b")
    assert (request.body is None) == (then == "GET" != method)


def test_a_redirect_to_another_origin_drops_the_headers_of_the_job():
    request = first_request(JOB, lease_of(JOB))
    for elsewhere in ("https://evil.example/", "https://shop.example:444/", "//evil.example/x"):
        headers = dict(redirected(request, 307, elsewhere).headers)
        assert not {"authorization", "x-api-key"} & set(headers)
        assert headers["onthedot-run-id"] == "7"
    same = dict(redirected(request, 307, "https://SHOP.example:443/other").headers)
    assert same["authorization"] == "Bearer t"


@pytest.mark.parametrize(
    "location",
    ["http://shop.example/", "file:///etc/passwd", "https://a:b@evil.example/", "https://0x7f.1/", "https://["],
)
def test_an_unsafe_redirect_is_refused(location: str):
    with pytest.raises(AddressRefused):
        redirected(first_request(JOB, lease_of(JOB)), 302, location)


@pytest.mark.parametrize(
    ("status", "text", "seconds"),
    [
        (429, "120", 1120), (503, " 5 ", 1005), (429, "0", 1000), (503, "Thu, 01 Jan 1970 00:30:00 GMT", 1800),
        (500, "5", 0), (429, None, 0), (429, "", 0), (429, "soon", 0), (429, "-5", 0), (429, "9" * 30, 0),
        (429, "Thu, 01 Jan 99999 00:00:00 GMT", 0), (429, "1.5", 0),
    ],
)  # fmt: skip
def test_retry_after_is_read_and_ignored_if_invalid(status: int, text: str | None, seconds: int):
    assert retry_not_before(status, text, 1000 * SECOND) == seconds * SECOND
