"""Runs HTTP calls: sends one request, follows its redirects, and connects only to addresses that are allowed.

    Http, Lease ──▶ first_request ──▶ resolve, check, send ──▶ redirect_of ──▶ is_expected ──▶ outcome
                                              ▲                     └── redirected

A name is resolved once for each hop. If one of its addresses is not allowed, none is used. The connection uses an
address of that same answer. So it does not matter if the name resolves differently a moment later. `Host` and the name
in the certificate are still those of the URL. The proxy settings of the environment are ignored.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import re
import socket
import ssl
from collections.abc import Awaitable, Callable, Sequence
from datetime import UTC
from email.utils import parsedate_to_datetime
from ipaddress import ip_address
from typing import TYPE_CHECKING, NamedTuple

from onthedot.clock import SECOND, Clock, Micros, to_micros
from onthedot.model.addresses import Address, AddressRefused, Allowed, Target, check, literal, read_redirect, read_url
from onthedot.model.job import job_name
from onthedot.model.run import Lease
from onthedot.model.task import Http
from onthedot.model.verdict import Outcome, OutcomeKind
from onthedot.output.redact import forms_of, redacted, redacted_bytes
from onthedot.runners.attempt import Attempt
from onthedot.runners.io_runner import OutputWriter
from onthedot.runners.outcomes import type_names
from onthedot.runners.task_template import Filled

if TYPE_CHECKING:
    import httpx2


MOST_REDIRECTS = 5

_REDIRECTS = frozenset({301, 302, 303, 307, 308})
_FOR_ANYBODY = frozenset({"accept", "accept-encoding", "accept-language", "content-type", "user-agent"})
_OURS = ("onthedot-", "idempotency-key")
_SECONDS = re.compile(r"[0-9]{1,9}")
_HEADER_VALUE = re.compile(r"[\t\x20-\x7e\x80-\xff]*")


# ── what a job sends, and what follows from the answer. Pure ────────────────────────────────────────────────────────


class Request(NamedTuple):
    """One request, complete except for the address."""

    method: str
    target: Target
    headers: tuple[tuple[str, str], ...]  # without Host and the length, which belong to the connection
    body: bytes | None = None


def first_request(task: Http, lease: Lease) -> Request:
    """Return the job's request, with headers that name the run.

    `Idempotency-Key` is the same for every attempt of a run, and no other run has it. A job may set its own.
    """
    headers = {"user-agent": "onthedot", "accept": "*/*", "accept-encoding": "identity"}
    body = None
    if task.body is not None:
        body = json.dumps(task.body, ensure_ascii=False, allow_nan=False).encode()
        headers["content-type"] = "application/json"
    headers |= {"idempotency-key": idempotency_key(lease)}
    headers |= {name.lower(): value for name, value in task.headers.items()}
    headers |= {
        "onthedot-run-id": str(lease.run_id),
        "onthedot-attempt": str(lease.attempt),
        "onthedot-fence": str(lease.fence),
    }
    for name, value in headers.items():
        if not _HEADER_VALUE.fullmatch(value):  # the message must not contain the value: it may be a secret
            raise AddressRefused(f"header {name}: expected one line of printable text, got something else")
    return Request(task.method, read_url(task.url), tuple(headers.items()), body)


def idempotency_key(lease: Lease) -> str:
    """Return a key that all attempts of a run share, and no other run has."""
    key = (job_name(lease.record.job), lease.run_id, lease.trigger, lease.slot_at, lease.target)
    return hashlib.sha256(repr(key).encode()).hexdigest()[:32]


def is_expected(task: Http, status: int) -> bool:
    """Return whether this answer is a success.

    >>> is_expected(Http(url="http://x"), 204), is_expected(Http(url="http://x", expect=(200, 404)), 204)
    (True, False)
    """
    return status in task.expect if task.expect else 200 <= status <= 299


def redirect_of(task: Http, status: int, location: str | None) -> str:
    """Return the location to which the answer redirects. Empty if it is no redirect, or if the job expects that status.

    >>> redirect_of(Http(url="http://x"), 302, "/y"), redirect_of(Http(url="http://x", expect=(302,)), 302, "/y")
    ('/y', '')
    """
    return location if location and status in _REDIRECTS and status not in task.expect else ""


def redirected(request: Request, status: int, location: str) -> Request:
    """Return the request that follows a redirect. The caller must check its target like the first one.

    The method becomes GET after 303, and after 301 or 302 to a POST, as all clients do it. Another origin does not get
    the job's own headers, except those that any client sends. Raise `AddressRefused` for a redirect from https to http.
    """
    target = read_redirect(request.target, location)
    if request.target.scheme == "https" and target.scheme == "http":
        raise AddressRefused(f"redirected from https to {target.url}: expected https there, too; ask it directly")
    headers, method, body = request.headers, request.method, request.body
    if (status == 303 and method != "HEAD") or (status in (301, 302) and method == "POST"):
        method, body = "GET", None
        headers = tuple((name, value) for name, value in headers if name != "content-type")
    if target.origin != request.target.origin:
        headers = tuple((name, value) for name, value in headers if name in _FOR_ANYBODY or name.startswith(_OURS))
    return Request(method, target, headers, body)


def retry_not_before(status: int, retry_after: str | None, now: Micros) -> Micros:
    """Return the earliest retry that the server allows (`Retry-After`); 0 if it sets no valid one.

    >>> retry_not_before(429, "120", 0) // SECOND, retry_not_before(503, "Thu, 01 Jan 1970 00:01:00 GMT", 0) // SECOND
    (120, 60)
    >>> retry_not_before(500, "120", 0), retry_not_before(503, "soon", 0)
    (0, 0)
    """
    if status not in (429, 503) or retry_after is None:
        return 0
    text = retry_after.strip()
    if _SECONDS.fullmatch(text):
        return now + int(text) * SECOND
    try:
        instant = parsedate_to_datetime(text)
    except (ValueError, TypeError, OverflowError):
        return 0
    return to_micros(instant if instant.tzinfo else instant.replace(tzinfo=UTC))


# ── the request itself ──────────────────────────────────────────────────────────────────────────────────────────────


LONGEST: Micros = 60 * SECOND
"""The time-out of HTTP jobs without one."""

_MOST_READ = 1 << 20  # bytes of an answer that are read
_MOST_KEPT = 32 << 10  # bytes of them in the log
_MOST_SHOWN = 500  # characters of a redirect's target in the log
_CONNECT = 10.0  # seconds for one address if another one remains to try
_MOST_ADDRESSES = 4  # addresses that are tried
_REFUSED = ("onthedot.HttpRefused",)
_TROUBLE = ("onthedot.HttpTrouble", *type_names(ConnectionError))

Resolve = Callable[[str, int], Awaitable[Sequence[Address]]]


class HttpTrouble(ConnectionError):
    """The server sent no answer, or an incomplete one."""


async def resolve(host: str, port: int) -> list[Address]:
    """Return all addresses of a name. Raise `HttpTrouble` if it has none."""
    loop = asyncio.get_running_loop()
    try:
        found = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError) as error:
        raise HttpTrouble(f"the host {host} cannot be found: {error}") from error
    return list(dict.fromkeys(ip_address(where[0]) for *_, where in found))


class HttpExecutor:
    """Sends the requests of HTTP jobs. `trust`: the certificate authorities; by default the machine's."""

    def __init__(
        self, allowed: Allowed, clock: Clock, *, resolve: Resolve = resolve, trust: ssl.SSLContext | None = None
    ) -> None:
        self._allowed = allowed
        self._clock = clock
        self._resolve = resolve
        self._trust = trust
        self._transport: httpx2.AsyncHTTPTransport | None = None

    async def perform(self, attempt: Attempt, filled: Filled, said: OutputWriter) -> Outcome:
        """See `Executor`."""
        task = filled.task
        if not isinstance(task, Http):
            raise AssertionError(f"a task for another runner: {task!r}")
        try:
            return await self._ask(attempt, task, said, forms_of(filled.secrets))
        except AddressRefused as error:
            return Outcome(OutcomeKind.FAILED, f"refused: {error}", _REFUSED)
        except HttpTrouble as error:
            return Outcome(OutcomeKind.FAILED, str(error), _TROUBLE)

    async def warm_up(self) -> None:
        """See `Executor`. Takes a third of a second, most of it for the library."""
        self._open()

    async def close(self) -> None:
        """See `Executor`."""
        if self._transport is not None:
            await self._transport.aclose()

    async def _ask(self, attempt: Attempt, task: Http, said: OutputWriter, forms: Sequence[bytes]) -> Outcome:
        request = first_request(task, attempt.lease)
        for _ in range(MOST_REDIRECTS + 1):
            sent_at = self._clock.steady()
            answer = await self._send(request)
            try:
                elsewhere = redirect_of(task, answer.status_code, answer.headers.get("location"))
                if not elsewhere:
                    return await self._judge(task, request, answer, said, sent_at, forms)
            finally:
                await answer.aclose()
            to = redacted(elsewhere, forms)[:_MOST_SHOWN]  # redact before the cut: a cut secret is not found
            said.remark(f"{request.method} {request.target.url} → {answer.status_code}, to {to}")
            request = redirected(request, answer.status_code, elsewhere)
        raise AddressRefused(
            f"expected at most {MOST_REDIRECTS} redirects, got more; the last led to {request.target.url}"
        )

    async def _judge(
        self,
        task: Http,
        request: Request,
        answer: httpx2.Response,
        said: OutputWriter,
        sent_at: Micros,
        forms: Sequence[bytes],
    ) -> Outcome:
        body, cut = await _read(answer)
        took = (self._clock.steady() - sent_at) / SECOND
        size = f"more than {len(body)} bytes" if cut else f"{len(body)} bytes"
        said.remark(f"{request.method} {request.target.url} → {answer.status_code} ({size}, {took:.3f} s)")
        if body:
            said.feed("out", redacted_bytes(body, forms, cut=cut)[:_MOST_KEPT])
        if len(body) > _MOST_KEPT:
            said.remark(f"\n[… the rest of {size} left out …]")
        status = answer.status_code
        if is_expected(task, status):
            return Outcome(OutcomeKind.SUCCEEDED, result=f'{{"status":{status}}}')
        wanted = ", ".join(map(str, task.expect)) or "200 to 299"
        return Outcome(
            OutcomeKind.FAILED,
            f"{request.method} {request.target.url}: expected status {wanted}, got {status}",
            (f"onthedot.HttpStatus.{status}", "onthedot.HttpStatus"),
            not_before=retry_not_before(status, answer.headers.get("retry-after"), self._clock.now()),
        )

    async def status_of(self, request: Request) -> int:
        """Send a request of our own. Returns the status of its answer, without redirects. `HttpTrouble` without one."""
        answer = await self._send(request)
        await answer.aclose()
        return answer.status_code

    async def _send(self, request: Request) -> httpx2.Response:
        """Send a request to the first address that accepts the connection. Returns the head of the answer."""
        import httpx2

        target = request.target
        given = literal(target.host)
        addresses = await self._resolve(target.host, target.port) if given is None else [given]
        check(target.host, addresses, self._allowed)
        transport = self._open()
        trouble: Exception = HttpTrouble(f"the host {target.host} has no address")
        for address in addresses[:_MOST_ADDRESSES]:
            try:
                return await transport.handle_async_request(_pinned(request, address))
            except (httpx2.ConnectError, httpx2.ConnectTimeout) as error:
                trouble = error  # nothing was sent, so try another address
            except httpx2.TransportError as error:
                raise _told(target.authority, error) from error
        raise _told(target.authority, trouble) from trouble

    def _open(self) -> httpx2.AsyncHTTPTransport:
        """Return the transport. We use no client: it would keep cookies for an address that many names may share, and
        use the proxies and password files of the environment."""
        import httpx2

        if self._transport is not None:
            return self._transport
        self._transport = httpx2.AsyncHTTPTransport(
            verify=True if self._trust is None else self._trust,
            trust_env=False,
            # Each connection is used once, because it must not serve another name of the same address.
            limits=httpx2.Limits(max_connections=None, max_keepalive_connections=0),
        )
        return self._transport


def _pinned(request: Request, address: Address) -> httpx2.Request:
    """The request to this address, with the host's name in its header and for its certificate."""
    import httpx2

    target = request.target
    where = f"[{address}]" if address.version == 6 else str(address)
    return httpx2.Request(
        request.method,
        f"{target.scheme}://{where}:{target.port}{target.path}",
        headers=[("host", target.authority), *request.headers],
        content=request.body,
        # The attempt's time-out limits everything else.
        extensions={"sni_hostname": target.host, "timeout": {"connect": _CONNECT}},
    )


async def _read(answer: httpx2.Response) -> tuple[bytes, bool]:
    """Return the body, up to the most bytes that we read, and whether there was more."""
    import httpx2

    body = bytearray()
    try:
        async for chunk in answer.aiter_raw():
            body += chunk
            if len(body) > _MOST_READ:
                return bytes(body[:_MOST_READ]), True
    except httpx2.TransportError as error:
        raise HttpTrouble(f"the answer broke off after {len(body)} bytes: {_words(error)}") from error
    return bytes(body), False


def _told(authority: str, error: Exception) -> HttpTrouble:
    return error if isinstance(error, HttpTrouble) else HttpTrouble(f"{authority}: no answer: {_words(error)}")


def _words(error: Exception) -> str:
    """The text of a library's error, with its type."""
    return f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
