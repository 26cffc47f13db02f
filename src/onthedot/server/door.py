"""Who is let in: every request is somebody's, is allowed, and is not one too many, before its route is called."""

from __future__ import annotations

from typing import Annotated, Protocol

from fastapi import Depends, Request

from onthedot.access.permissions import Permission
from onthedot.access.principal import LOCAL, Principal
from onthedot.access.users import Logins
from onthedot.open_verbs import OpenStore, OpenVerbs
from onthedot.server.gathered import Gathered
from onthedot.server.limits import Limits
from onthedot.server.problems import Problem

COOKIE = "onthedot_session"


class Keys(Protocol):
    """What knows keys."""

    async def check(self, text: str) -> Principal | None:
        """Whose key this is; None: nobody's, or not any more."""
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
                raise Problem(
                    401,
                    "unauthenticated",
                    "expected a key: send 'Authorization: Bearer otd_…'; 'onthedot keys create' makes one",
                    headers={"WWW-Authenticate": 'Bearer realm="onthedot"'},
                )
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
        if not kind and request.method in ("GET", "HEAD"):  # a cookie is sent along by every site: it only reads
            kind, text = "bearer", request.cookies.get(COOKIE, "")
        return await self._keys.check(text.strip()) if kind.lower() == "bearer" and text else None


def _bucket(request: Request, who: Principal | None) -> str:
    """Who shares a limit: everybody who uses one key; strangers by where they come from."""
    if who is not None:
        return who.id
    return f"stranger {request.client.host if request.client else ''}"


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
