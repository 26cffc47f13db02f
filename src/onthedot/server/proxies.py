"""Finds the address of a client behind trusted proxies, and limits its requests.

`X-Forwarded-For` and `X-Forwarded-Proto` count if the connection is a trusted proxy's (`Settings.trusted_proxies`).
From any other address they are ignored: everybody can send them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from starlette.types import ASGIApp, Receive, Scope, Send

from onthedot.access.login_limits import place_of
from onthedot.model.addresses import Address, literal, read_networks
from onthedot.server.problems import Problem, answer

Headers = Sequence[tuple[bytes, bytes]]


class Proxies:
    """The proxies that a server trusts: addresses and networks.

    >>> proxies = Proxies(["10.0.0.0/8"])
    >>> proxies.trusts("10.1.2.3"), proxies.trusts("::ffff:10.1.2.3"), proxies.trusts("192.0.2.1")
    (True, True, False)
    """

    def __init__(self, texts: Iterable[str]) -> None:
        self._networks = read_networks(texts)

    def trusts(self, host: str) -> bool:
        """Whether this address is one of them."""
        address = _address(host)
        return address is not None and any(address in network for network in self._networks)

    def client_of(self, peer: str, headers: Headers) -> str:
        """The address that a trusted peer forwards for. Proxies append, so this is the last address that is no
        proxy's. A part that cannot be read was not written by a proxy, and ends the search.

        >>> headers = [(b"x-forwarded-for", b"198.51.100.9, 192.0.2.7, 10.0.0.2")]
        >>> Proxies(["10.0.0.0/8"]).client_of("10.0.0.1", headers)
        '192.0.2.7'
        """
        said = ",".join(_values(headers, b"x-forwarded-for"))
        for text in reversed(said.split(",") if said else []):
            address = _address(_without_port(text.strip()))
            if address is None:
                break
            peer = str(address)
            if not self.trusts(peer):
                break
        return peer


class ProxyMiddleware:
    """Middleware of a server with trusted proxies. A request gets the address that the proxy forwards for, and an
    address may have `most` requests at once. Its connections are the proxy's, and cannot be counted here."""

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
        if self._proxies.trusts(client):  # the proxy's own request, such as a health check
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
    """An address as proxies write it: `192.0.2.7:4711`, `[2001:db8::7]:4711`."""
    if text.startswith("["):
        return text[1:].partition("]")[0]
    return text.partition(":")[0] if text.count(":") == 1 else text


def _address(host: str) -> Address | None:
    address = literal(host.partition("%")[0])
    mapped = getattr(address, "ipv4_mapped", None)
    return mapped or address
