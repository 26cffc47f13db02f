"""Authenticates, authorises and rate-limits each request, before its route is called."""

from __future__ import annotations

import math
from typing import Annotated, Protocol

from fastapi import Depends, Request

from onthedot.access import login_limits
from onthedot.access.permissions import Permission
from onthedot.access.principal import LOCAL, Principal
from onthedot.access.users import Logins
from onthedot.clock import SECOND, Clock, Micros
from onthedot.operations.open_verbs import OpenStore, OpenVerbs
from onthedot.server.problems import Problem
from onthedot.server.same_origin import PORTS, READS, place_of
from onthedot.server.write_batcher import Gathered

_MOST_BUCKETS = 10_000


class Limits:
    """`rate` requests a second for each caller, `burst` of them at once."""

    def __init__(self, clock: Clock, *, rate: float, burst: int) -> None:
        self._clock = clock
        self._each = round(SECOND / rate)
        self._depth = self._each * burst
        self._full_at: dict[str, Micros] = {}  # when a caller's bucket will be full again

    def take(self, caller: str) -> None:
        """Take a token, or refuse with the time to wait."""
        now = self._clock.steady()
        full_at = max(self._full_at.get(caller, now), now) + self._each
        if full_at - now > self._depth:
            seconds = math.ceil((full_at - now - self._depth) / SECOND)
            raise Problem(
                429,
                "too-many",
                f"expected fewer requests: this key's come faster than they are let in; ask again in {seconds} s",
                headers={"Retry-After": str(seconds)},
            )
        if len(self._full_at) >= _MOST_BUCKETS:
            self._forget(now)
        self._full_at[caller] = full_at

    def _forget(self, now: Micros) -> None:
        """Callers whose buckets are full are as good as new; if all are busy, the least busy ones go."""
        busy = sorted((at, caller) for caller, at in self._full_at.items() if at > now)
        self._full_at = {caller: at for at, caller in busy[-_MOST_BUCKETS // 2 :]}


CSRF = "X-CSRF-Token"
"""The header with what the page sends beside its cookie."""
_BEARER = 'Bearer realm="onthedot"'
_PAGE = "/"
"""The path that the page's cookie opens by itself."""


class Keys(Protocol):
    """What knows keys."""

    async def check(self, text: str) -> Principal | None:
        """Whose key this is; None: nobody's, or not any more."""
        ...

    async def check_page(self, cookie: str, csrf: str | None) -> Principal | None:
        """Whose cookie of the page this is, with what the page sends beside it; None as above."""
        ...

    async def close(self) -> None:
        """Nobody is asked for any more."""
        ...


class Door:
    """Of one application. Without `keys` everybody is let in, as whoever has the store itself in hand."""

    def __init__(self, there: OpenStore, keys: Keys | None, limits: Limits) -> None:
        self.there = there
        self.limits = limits
        self.gathered = Gathered(there.store)
        self.logins = Logins(there.clock)
        self._keys = keys

    async def let_in(self, request: Request, permission: Permission | None) -> None:
        """Say who asks in `request.state.who`, or refuse."""
        who = await self._who(request)
        self.limits.take(_bucket(request, who))
        if permission is not None:
            if who is None:
                raise Problem(401, "unauthenticated", _wanted(request), headers={"WWW-Authenticate": _BEARER})
            if not who.may(permission):
                raise Problem(403, "forbidden", f"{who.name} ({who.role}) may not do this: expected {permission}")
        request.state.who = who
        request.state.permission = permission

    async def still_lets_in(self, request: Request) -> bool:
        """Whether whoever was let in would be so now: asked again and again of those who stay."""
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
        if request.method not in READS and "origin" not in request.headers:  # `Browsers` has compared it if it is there
            return None
        return await self._keys.check_page(cookie, csrf) if csrf else None


def cookie_of(request: Request) -> str:
    """The name of the page's cookie. It has the port, since browsers keep one set of cookies for all ports of a host;
    and where TLS is used a prefix, so that only this host can have set it."""
    scheme = request.scope["scheme"]
    place = place_of(request.scope)
    port = (place.port if place is not None else None) or PORTS.get(scheme, 0)
    return f"{'__Host-' if scheme == 'https' else ''}onthedot-{port}"


def _wanted(request: Request) -> str:
    """What somebody has to send who was not let in."""
    if "authorization" not in request.headers and cookie_of(request) in request.cookies:
        return f"expected {CSRF} beside the page's cookie (and Origin for a change): the cookie opens the page alone"
    kind, _, text = request.headers.get("authorization", "").partition(" ")
    if kind.lower() == "bearer" and text.strip():  # the same words for both: nobody learns which keys there were
        return "this key is not known here, or has ended; 'onthedot keys create NAME' makes another"
    return "expected a key: send 'Authorization: Bearer otd_…'; 'onthedot keys create NAME' makes one"


def _bucket(request: Request, who: Principal | None) -> str:
    """Who shares a limit: everybody who uses one key; strangers by where they come from, of IPv6 by their network."""
    if who is not None:
        return who.id
    return f"stranger {login_limits.place_of(request.client.host) if request.client else ''}"


def door_of(request: Request) -> Door:
    """The door that this request came through."""
    door: Door = request.app.state.door
    return door


# ── what routes ask for ──────────────────────────────────────────────────────────────────────────────────────


async def _who(request: Request) -> Principal:
    who: Principal = request.state.who
    return who


async def _there(request: Request) -> OpenStore:
    return door_of(request).there


Who = Annotated[Principal, Depends(_who)]
There = Annotated[OpenStore, Depends(_there)]


def verbs_for(there: OpenStore, who: Principal, namespace: str) -> OpenVerbs:
    """What can be asked of a namespace; 404 for one that is not there for whoever asks."""
    if who.namespaces and namespace not in who.namespaces:
        raise Problem(404, "unknown", f"there is no namespace {namespace!r} for {who.name}; see 'onthedot whoami'")
    return there.verbs(namespace)
