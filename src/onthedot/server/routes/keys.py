"""API keys and users: list, create, change and remove them."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import Path, Query, Request, Response
from pydantic import BaseModel, Field, model_validator

from onthedot.access import keys, users
from onthedot.access.permissions import Grant, parse_grant
from onthedot.clock import Micros
from onthedot.observe.formats import iso, optional_iso
from onthedot.server.audit import record_change
from onthedot.server.auth import StoreDep, Who
from onthedot.server.models import Body
from onthedot.server.router import Routes

routes = Routes(prefix="/api/v1", tags=["access"])

KeyId = Annotated[str, Path(max_length=100, description="The key's id: the part before the dot.")]
UserName = Annotated[str, Path(max_length=200)]
Limit = Annotated[int, Query(ge=1, le=1000)]
After = Annotated[str, Query(max_length=200, description="The `next` of the previous page.")]


class GrantIn(Body):
    """The permissions of a key or user, and the namespaces and jobs that it may see."""

    role: str = Field(max_length=20, examples=["operator"])
    scopes: list[str] | None = Field(None, max_length=50, examples=[["runs:control"]])
    may_code: bool = False
    namespaces: list[str] = Field([], max_length=100)
    owner: str = Field("", max_length=100)
    only_own: bool = False

    def grant(self) -> Grant:
        """The grant. Raises `DefinitionError` if it is not valid."""
        return parse_grant(
            self.role, scopes=self.scopes, may_code=self.may_code, namespaces=self.namespaces, owner=self.owner,
            only_own=self.only_own,
        )  # fmt: skip


class KeyIn(GrantIn):
    """A new key."""

    name: str = Field(max_length=200, examples=["ci"])
    expires_in: str = Field(
        keys.LASTS, max_length=50, description="Lifetime of the key; `never`: no end.", examples=["90d"]
    )


class UserIn(GrantIn):
    """A new user: with a password, or with `sign_on`."""

    name: str = Field(max_length=200, examples=["ann"])
    password: str | None = Field(None, max_length=1024, examples=["correct horse battery staple"])
    sign_on: bool = Field(
        False, description="No password: the user signs in at the identity provider, under the address `name`."
    )

    @model_validator(mode="after")
    def one_way(self) -> UserIn:
        """Require exactly one of password and sign_on."""
        if self.sign_on == (self.password is not None):
            raise ValueError("expected either a password or sign_on")
        return self


class UserChange(Body):
    """The changes of a user. Fields that are left out stay."""

    password: str | None = Field(None, max_length=1024)
    disabled: bool | None = Field(None, examples=[True])
    role: str | None = Field(None, max_length=20, examples=["operator"])
    scopes: list[str] | None = Field(None, max_length=50, description="null: all scopes of the role.")
    may_code: bool | None = Field(None, description="Becomes false with a role other than `editor`, unless it is set.")
    namespaces: list[str] | None = Field(None, max_length=100, description="An empty list: all namespaces.")
    owner: str | None = Field(None, max_length=100)
    only_own: bool | None = None

    def grant(self) -> dict[str, Any]:
        """The fields of the grant that the request sets."""
        given = self.model_dump(include={"role", "scopes", "may_code", "namespaces", "owner", "only_own"})
        wanted = {name: value for name, value in given.items() if name in self.model_fields_set}
        return {name: value for name, value in wanted.items() if value is not None or name == "scopes"}


class GrantOut(BaseModel):
    """The permissions of a key or user."""

    role: str
    scopes: list[str] | None
    may_code: bool
    namespaces: list[str]
    owner: str
    only_own: bool


class KeyOut(BaseModel):
    """A key, without its secret text."""

    id: str
    name: str
    state: str = Field(examples=["active"])
    grant: GrantOut
    made_at: str
    made_by: str
    expires_at: str | None
    revoked_at: str | None
    used_at: str | None


class Issued(BaseModel):
    """A new key. Its text is in this answer, and cannot be read again."""

    key: KeyOut
    text: str = Field(examples=["otd_….…"])


class KeyList(BaseModel):
    """A page of keys."""

    items: list[KeyOut]
    next: str | None


class UserOut(BaseModel):
    """A user."""

    name: str
    disabled: bool
    sign_on: bool = Field(description="Whether the user signs in at the identity provider, without a password.")
    grant: GrantOut
    made_at: str


class UserList(BaseModel):
    """A page of users."""

    items: list[UserOut]
    next: str | None


def key_fields(key: keys.Key, now: Micros) -> dict[str, Any]:
    """A key as JSON."""
    return {
        "id": key.id,
        "name": key.name,
        "state": key.state(now),
        "grant": key.grant.as_json(),
        "made_at": iso(key.made_at),
        "made_by": key.made_by,
        "expires_at": optional_iso(key.expires_at),
        "revoked_at": optional_iso(key.revoked_at),
        "used_at": optional_iso(key.used_at),
    }


def user_fields(user: users.User) -> dict[str, Any]:
    """A user as JSON."""
    told = {"name": user.name, "disabled": user.disabled, "sign_on": user.signs_on}
    return {**told, "grant": user.grant.as_json(), "made_at": iso(user.made_at)}


# ── keys ─────────────────────────────────────────────────────────────────────────────────────────────────────


@routes.get("/keys", response_model=KeyList)
async def list_keys(opened: StoreDep, who: Who, limit: Limit = 100, after: After = "") -> Any:
    """List the keys with no more permissions than yours, without their secret text."""
    found = await keys.list_keys(opened.store, by=who, after=after, limit=limit)
    now = opened.clock.now()
    return {"items": [key_fields(key, now) for key in found], "next": found[-1].id if len(found) == limit else None}


@routes.post("/keys", response_model=Issued, status_code=201)
async def create_key(request: Request, opened: StoreDep, who: Who, body: KeyIn) -> Any:
    """Create a key, with at most your own permissions. The answer contains its secret text, which cannot be read again.
    The key expires after 90 days, unless `expires_in` sets another lifetime."""
    lasts = keys.parse_lifetime(body.expires_in, what="expires_in")
    now = opened.clock.now()
    expires_at = None if lasts is None else now + lasts
    issued = await keys.issue(opened.store, body.name, body.grant(), expires_at=expires_at, by=who)
    shown = key_fields(issued.key, now)
    await record_change(request, "keys.create", f"key/{issued.key.id}", after=shown)
    return {"key": shown, "text": issued.text}


@routes.delete("/keys/{key}", response_model=KeyOut, responses={404: {}})
async def revoke_key(request: Request, opened: StoreDep, who: Who, key: KeyId) -> Any:
    """Revoke a key for good. After five seconds no server accepts it."""
    revoked = await keys.revoke(opened.store, key, by=who)
    await record_change(request, "keys.revoke", f"key/{key}")
    return key_fields(revoked, opened.clock.now())


# ── users ────────────────────────────────────────────────────────────────────────────────────────────────────


@routes.get("/users", response_model=UserList)
async def list_users(opened: StoreDep, who: Who, limit: Limit = 100, after: After = "") -> Any:
    """List the users with no more permissions than yours."""
    found = await users.list_users(opened.store, by=who, after=after, limit=limit)
    return {"items": [user_fields(user) for user in found], "next": found[-1].name if len(found) == limit else None}


@routes.post("/users", response_model=UserOut, status_code=201, responses={409: {}})
async def create_user(request: Request, opened: StoreDep, who: Who, body: UserIn) -> Any:
    """Create a user, with at most your own permissions. 409 if the name is taken."""
    user = await users.create(opened.store, body.name, body.password, body.grant(), by=who)
    await record_change(request, "users.create", f"user/{user.name}", after=user_fields(user))
    return user_fields(user)


@routes.patch("/users/{user}", response_model=UserOut, responses={404: {}})
async def change_user(request: Request, opened: StoreDep, who: Who, user: UserName, body: UserChange) -> Any:
    """Change a user. A new password, or a change of `disabled`, ends the user's sessions. A new role, scopes,
    namespaces or owner (at most your own) apply to open sessions within five seconds. All changes are made, or none."""
    before = user_fields(await users.get_user(opened.store, user, by=who))
    changed = await users.edit(
        opened.store, user, password=body.password, disabled=body.disabled, grant=body.grant(), by=who
    )
    await record_change(request, "users.change", f"user/{user}", before=before, after=user_fields(changed))
    return user_fields(changed)


@routes.delete("/users/{user}", status_code=204, responses={404: {}})
async def delete_user(request: Request, opened: StoreDep, who: Who, user: UserName) -> Response:
    """Delete a user, and end its sessions."""
    await users.remove(opened.store, user, by=who)
    await record_change(request, "users.delete", f"user/{user}")
    return Response(status_code=204)
