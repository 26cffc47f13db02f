"""Determines where a request comes from: which client, and from which web page.

**Proxies.** The server uses `X-Forwarded-For` and `X-Forwarded-Proto` only if the connection comes from a trusted proxy
(`Settings.trusted_proxies`). It ignores them from any other address, because anybody can send them.

**Web pages.** Two checks refuse requests that a foreign page makes a browser send. `Host` must be a name or address of
this server (421): a page whose own name resolves to this machine (DNS rebinding) reads nothing. A write must not come
from another origin (403): browsers set `Origin` and `Sec-Fetch-Site`, and no page can change them. Other programs send
neither.
"""

from __future__ import annotations

import socket
from collections import Counter
from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import NamedTuple
from urllib.parse import urlsplit

from starlette.types import ASGIApp, Receive, Scope, Send

from onthedot.access.login_limits import place_of
from onthedot.model.addresses import Address, AddressRefused, is_loopback, literal, read_host, read_networks
from onthedot.model.host_port import Listen
from onthedot.server.problems import Problem, answer

Headers = Sequence[tuple[bytes, bytes]]


# ── proxies ────────────────────────────────────────────────────────────────────────────────────────────────────


class Proxies:
    """The proxies that a server trusts: addresses and networks.

    >>> proxies = Proxies(["10.0.0.0/8"])
    >>> proxies.trusts("10.1.2.3"), proxies.trusts("::ffff:10.1.2.3"), proxies.trusts("192.0.2.1")
    (True, True, False)
    """

    def __init__(self, texts: Iterable[str]) -> None:
        self._networks = read_networks(texts)

    def trusts(self, host: str) -> bool:
        """Return whether this address is a trusted proxy."""
        address = _address(host)
        return address is not None and any(address in network for network in self._networks)

    def client_of(self, peer: str, headers: Headers) -> str:
        """The client's address behind a trusted proxy. Proxies append to the header, so this is the last address that
        is not a proxy's. A part that is no address was not written by a proxy, and ends the search.

        >>> headers = [(b"x-forwarded-for", b"198.51.100.9, 192.0.2.7, 10.0.0.2")]
        >>> Proxies(["10.0.0.0/8"]).client_of("10.0.0.1", headers)
        '192.0.2.7'
        """
        forwarded = ",".join(_values(headers, b"x-forwarded-for"))
        for text in reversed(forwarded.split(",") if forwarded else []):
            address = _address(_without_port(text.strip()))
            if address is None:
                break
            peer = str(address)
            if not self.trusts(peer):
                break
        return peer


class ProxyMiddleware:
    """Middleware of a server with trusted proxies. It sets the client address of a request to the forwarded one. One
    client address may have `most` requests at once. Its connections cannot be limited, because they belong to the
    proxy."""

    def __init__(self, app: ASGIApp, *, proxies: Proxies, most: int) -> None:
        self._app = app
        self._proxies = proxies
        self._most = most
        self._running: Counter[str] = Counter()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        peer = scope["client"][0] if scope["type"] == "http" and scope.get("client") else ""
        if not self._proxies.trusts(peer):
            await self._app(scope, receive, send)
            return
        headers: Headers = scope["headers"]
        client = self._proxies.client_of(peer, headers)
        scope["client"] = client, 0
        schemes = [text.rpartition(",")[2].strip().lower() for text in _values(headers, b"x-forwarded-proto")]
        if schemes and schemes[-1] in ("http", "https"):
            scope["scheme"] = schemes[-1]
        if self._proxies.trusts(client):  # a request of the proxy itself, such as a health check
            await self._app(scope, receive, send)
            return
        place = place_of(client)
        if self._running[place] >= self._most:
            await answer(_too_many(self._most), scope)(scope, receive, send)
            return
        self._running[place] += 1
        try:
            await self._app(scope, receive, send)
        finally:
            self._running[place] -= 1
            if not self._running[place]:
                del self._running[place]


def _too_many(most: int) -> Problem:
    detail = f"expected at most {most} requests at once from one address, got more; ask again when some have ended"
    return Problem(429, "too-many", detail, headers={"Retry-After": "5"})


def _values(headers: Headers, name: bytes) -> list[str]:
    return [value.decode("latin-1") for key, value in headers if key == name]


def _without_port(text: str) -> str:
    """Return an address without its port. Proxies write `192.0.2.7:4711`, `[2001:db8::7]:4711`."""
    if text.startswith("["):
        return text[1:].partition("]")[0]
    return text.partition(":")[0] if text.count(":") == 1 else text


def _address(host: str) -> Address | None:
    address = literal(host.partition("%")[0])
    mapped = getattr(address, "ipv4_mapped", None)
    return mapped or address


# ── web pages ──────────────────────────────────────────────────────────────────────────────────────────────────

PROBES = frozenset({"/api/v1/health", "/api/v1/ready"})
"""Paths that answer under any host name, because health probes use any address."""
SCRAPED = frozenset({"/metrics"})
"""The same for metrics scrapers, if the server has keys. Without keys any web page could read the metrics."""
READS = frozenset({"GET", "HEAD", "OPTIONS"})
PORTS = {"http": 80, "https": 443}
_OURS = frozenset({"same-origin", "none"})


class Authority(NamedTuple):
    """The host and port of a URL. Port None means the default port of the scheme."""

    host: str
    port: int | None


class Hosts:
    """The hosts that a server answers for.

    A server on loopback answers for `localhost` and loopback addresses. Any other server answers for the host it
    listens on, for the name of its machine, and for every IP address: DNS rebinding needs a name. `allowed` adds names.

    >>> hosts = Hosts(Listen("127.0.0.1"), allowed=["jobs.example.org"])
    >>> [hosts.has(name) for name in ("localhost", "127.0.0.1", "jobs.example.org", "evil.example", "192.0.2.1")]
    [True, True, True, False, False]
    """

    def __init__(self, listen: Listen, allowed: Iterable[str] = ()) -> None:
        self._only_loopback = listen.is_loopback
        own = () if self._only_loopback else (listen.host, socket.gethostname())
        self._names = frozenset(filter(None, map(_host_or_none, (*own, *allowed))))

    def has(self, host: str) -> bool:
        """Return whether this server answers for this host."""
        if is_loopback(host) or host in self._names:
            return True
        return not self._only_loopback and literal(host) is not None


class SameOriginMiddleware:
    """Checks `Host` and the origin of writes, as plain ASGI. `keyed` is True if the server requires keys."""

    def __init__(self, app: ASGIApp, *, hosts: Hosts, keyed: bool) -> None:
        self._app = app
        self._hosts = hosts
        self._exempt = PROBES | SCRAPED if keyed else PROBES

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        problem = self._problem(scope) if scope["type"] == "http" else None
        if problem is None:
            await self._app(scope, receive, send)
        else:
            await answer(problem, scope)(scope, receive, send)

    def _problem(self, scope: Scope) -> Problem | None:
        if scope["path"] not in self._exempt:
            authority = authority_of(scope)
            if authority is None:
                return Problem(400, "invalid", "Host: expected this header once, with a name or an address, got other")
            if not self._hosts.has(authority.host):
                return _misdirected(authority)
        if scope["method"] not in READS:
            return _foreign(scope)
        return None


def authority_of(scope: Scope) -> Authority | None:
    """Return the `Host` of a request; None if it is missing, repeated or unreadable."""
    found = _values(scope["headers"], b"host")
    return read_authority(found[0]) if len(found) == 1 else None


@lru_cache(maxsize=1000)  # every request reads it
def read_authority(text: str) -> Authority | None:
    """A host with or without a port, as in `Host`.

    >>> read_authority("LocalHost:7411"), read_authority("example.org."), read_authority("a@b:x")
    (Authority(host='localhost', port=7411), Authority(host='example.org', port=None), None)
    >>> read_authority("[::1]:80")
    Authority(host='::1', port=80)
    """
    try:
        parts = urlsplit(f"//{text}")
        host, port = parts.hostname, parts.port
    except ValueError:
        return None
    if not host or parts.netloc != text or "@" in text or not text.isascii() or not text.isprintable():
        return None
    name = _host_or_none(host)
    return None if name is None else Authority(name, port)


def is_own(origin: str, scope: Scope) -> bool:
    """Return whether `Origin` is the server that the request was sent to. If this server ends TLS, only `https` is
    accepted. If a proxy ends TLS, both `https` and `http` are accepted."""
    scheme, mark, rest = origin.partition("://")
    origin_host, authority = read_authority(rest) if mark else None, authority_of(scope)
    if (
        origin_host is None
        or authority is None
        or scheme not in PORTS
        or (scope["scheme"] == "https" and scheme != "https")
    ):
        return False
    usual = PORTS[scheme]
    return origin_host.host == authority.host and (origin_host.port or usual) == (authority.port or usual)


def _foreign(scope: Scope) -> Problem | None:
    for site in _values(scope["headers"], b"sec-fetch-site"):
        if site not in _OURS:
            return _refused("Sec-Fetch-Site", "'same-origin'", site)
    for origin in _values(scope["headers"], b"origin"):
        if not is_own(origin, scope):
            return _refused("Origin", "the address of this server", origin)
    return None


def _refused(header: str, expected: str, got: str) -> Problem:
    detail = (
        f"{header}: expected {expected} for a change, got {got[:100]!r}: pages of other origins change nothing here"
    )
    return Problem(403, "forbidden", f"{detail}; a proxy in front of this server must pass 'Host' on as it came")


def _misdirected(authority: Authority) -> Problem:
    host = authority.host[:100]
    detail = f"Host: expected a host that this server answers for, got {host!r}"
    return Problem(421, "misdirected", f"{detail}; if it is the server's own, start it with --allow-host {host}")


def _host_or_none(text: str) -> str | None:
    try:
        return read_host(text)
    except AddressRefused:
        return None
