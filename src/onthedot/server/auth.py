"""Authenticates, authorises and rate-limits each request, before its route is called."""

from __future__ import annotations

import math
from typing import Annotated, Protocol

from fastapi import Depends, Request

from onthedot.access import login_limits
from onthedot.access.permissions import LOCAL, Permission, Principal
from onthedot.clock import SECOND, Clock, Micros
from onthedot.operations.open_verbs import OpenStore, OpenVerbs
from onthedot.server.problems import Problem
from onthedot.server.request_origin import PORTS, READS, authority_of

CSRF = "X-CSRF-Token"
"""The header that the page sends beside its cookie."""
_BEARER = 'Bearer realm="onthedot"'
_PAGE = "/"
"""The only path that the page's cookie opens without that header."""
_MOST_BUCKETS = 10_000


class Keys(Protocol):
    """Checks keys and sessions."""

    async def check(self, text: str) -> Principal | None:
        """The principal of a key; None if the key is unknown, expired or revoked."""
        ...

    async def check_page(self, cookie: str, csrf: str | None) -> Principal | None:
        """The principal of the page's cookie with its CSRF token; None if they are not valid."""
        ...

    async def close(self) -> None:
        """Stop. The caller makes no more checks."""
        ...


class RateLimits:
    """A token bucket for each caller: `rate` requests per second, and `burst` of them at once."""

    def __init__(self, clock: Clock, *, rate: float, burst: int) -> None:
        self._clock = clock
        self._each = round(SECOND / rate)
        self._depth = self._each * burst
        self._full_at: dict[str, Micros] = {}  # when a caller's bucket will be full

    def take(self, caller: str) -> None:
        """Take a token. Raises 429 with `Retry-After` if the bucket is empty."""
        now = self._clock.steady()
        full_at = max(self._full_at.get(caller, now), now) + self._each
        if full_at - now > self._depth:
            seconds = math.ceil((full_at - now - self._depth) / SECOND)
            raise Problem(
                429,
                "too-many",
                f"expected fewer requests: this key's come faster than it may send them; ask again in {seconds} s",
                headers={"Retry-After": str(seconds)},
            )
        if len(self._full_at) >= _MOST_BUCKETS:
            self._forget(now)
        self._full_at[caller] = full_at

    def _forget(self, now: Micros) -> None:
        """Forget callers whose buckets are full. If there are still too many, forget the least busy ones."""
        busy = sorted((at, caller) for caller, at in self._full_at.items() if at > now)
        self._full_at = {caller: at for at, caller in busy[-_MOST_BUCKETS // 2 :]}


class Auth:
    """The checks of one application. Without `keys` every caller may do everything, like the owner of the store."""

    def __init__(self, keys: Keys | None, limits: RateLimits) -> None:
        self._keys = keys
        self._limits = limits

    async def admit(self, request: Request, permission: Permission | None) -> None:
        """Set `request.state.who` to the caller. Raises 401, 403 or 429 if the request is refused."""
        who = await self._who(request)
        self._limits.take(_bucket(request, who))
        if permission is not None:
            if who is None:
                raise Problem(401, "unauthenticated", _wanted(request), headers={"WWW-Authenticate": _BEARER})
            if not who.may(permission):
                raise Problem(403, "forbidden", f"{who.name} ({who.role}) may not do this: expected {permission}")
        request.state.who = who
        request.state.permission = permission

    async def still_admits(self, request: Request) -> bool:
        """Return whether the caller of an admitted request would still be admitted now. Streams check this until they
        end."""
        who, permission = await self._who(request), request.state.permission
        return permission is None or (who is not None and who.may(permission))

    async def _who(self, request: Request) -> Principal | None:
        if self._keys is None:
            return LOCAL
        kind, _, text = request.headers.get("authorization", "").partition(" ")
        if kind:
            return await self._keys.check(text.strip()) if kind.lower() == "bearer" and text else None
        cookie = request.cookies.get(cookie_of(request), "") if "cookie" in request.headers else ""
        if not cookie:
            return None
        if request.url.path == _PAGE and request.method in READS:
            return await self._keys.check_page(cookie, None)
        csrf = request.headers.get(CSRF, "")
        if (
            request.method not in READS and "origin" not in request.headers
        ):  # `SameOriginMiddleware` has compared an `Origin` that is present
            return None
        return await self._keys.check_page(cookie, csrf) if csrf else None


def cookie_of(request: Request) -> str:
    """The name of the page's cookie. The name contains the port, because browsers share cookies between the ports of a
    host. With TLS the name has a prefix, so that only this host can have set the cookie."""
    scheme = request.scope["scheme"]
    authority = authority_of(request.scope)
    port = (authority.port if authority is not None else None) or PORTS.get(scheme, 0)
    return f"{'__Host-' if scheme == 'https' else ''}onthedot-{port}"


def _wanted(request: Request) -> str:
    """Return a message: which credentials the caller has to send."""
    if "authorization" not in request.headers and cookie_of(request) in request.cookies:
        return f"expected {CSRF} beside the page's cookie (and Origin for a change): the cookie opens the page alone"
    kind, _, text = request.headers.get("authorization", "").partition(" ")
    if kind.lower() == "bearer" and text.strip():  # one message, so that nobody learns which keys existed
        return "this key is not known here, or has ended; 'onthedot keys create NAME' makes another"
    return "expected a key: send 'Authorization: Bearer otd_…'; 'onthedot keys create NAME' makes one"


def _bucket(request: Request, who: Principal | None) -> str:
    """The bucket of a caller: one per key or session; for unknown callers, one per address (IPv6: per network)."""
    if who is not None:
        return who.id
    return f"stranger {login_limits.place_of(request.client.host) if request.client else ''}"


def auth_of(request: Request) -> Auth:
    """The checks of the application that got this request."""
    auth: Auth = request.app.state.auth
    return auth


# ── dependencies of routes ──────────────────────────────────────────────────────────────────────────────────────


async def _who(request: Request) -> Principal:
    who: Principal = request.state.who
    return who


def store_of(request: Request) -> OpenStore:
    """The open store of the application that got this request."""
    opened: OpenStore = request.app.state.open_store
    return opened


async def _opened(request: Request) -> OpenStore:
    return store_of(request)


Who = Annotated[Principal, Depends(_who)]
StoreDep = Annotated[OpenStore, Depends(_opened)]


def verbs_for(opened: OpenStore, who: Principal, namespace: str) -> OpenVerbs:
    """The verbs of a namespace. Raises 404 if the caller may not see it."""
    if who.namespaces and namespace not in who.namespaces:
        raise Problem(404, "unknown", f"there is no namespace {namespace!r} for {who.name}; see 'onthedot whoami'")
    return opened.verbs(namespace)


def check_unrestricted(who: Principal, what: str) -> None:
    """Raise 403 if the caller is limited to some namespaces or owners, because all namespaces and owners share nodes
    and queues."""
    if who.namespaces or who.only_own:
        raise Problem(
            403, "forbidden", f"{what}: expected a key for all namespaces and owners, which share it; {who.name} is not"
        )
