"""Keys and users: list, create, change and remove them."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import Path, Query, Request, Response
from pydantic import BaseModel, Field, model_validator

from onthedot.access import keys, users
from onthedot.access.permissions import Grant, grant_in_words
from onthedot.clock import Micros
from onthedot.observe.formats import iso, optional_iso
from onthedot.server.audit import record_change
from onthedot.server.auth import There, Who
from onthedot.server.models import Body
from onthedot.server.router import Routes

routes = Routes(prefix="/api/v1", tags=["access"])

KeyId = Annotated[str, Path(max_length=100, description="The key's id: what stands before the dot.")]
UserName = Annotated[str, Path(max_length=200)]
Limit = Annotated[int, Query(ge=1, le=1000)]
After = Annotated[str, Query(max_length=200, description="The `next` of the page before.")]


class GrantIn(Body):
    """What somebody may, and what there is for them."""

    role: str = Field(max_length=20, examples=["operator"])
    scopes: list[str] | None = Field(None, max_length=50, examples=[["runs:control"]])
    may_code: bool = False
    namespaces: list[str] = Field([], max_length=100)
    owner: str = Field("", max_length=100)
    only_own: bool = False

    def grant(self) -> Grant:
        """`DefinitionError` for what cannot be granted."""
        return grant_in_words(
            self.role, scopes=self.scopes, may_code=self.may_code, namespaces=self.namespaces, owner=self.owner,
            only_own=self.only_own,
        )  # fmt: skip


class KeyIn(GrantIn):
    """A key that is to be made."""

    name: str = Field(max_length=200, examples=["ci"])
    expires_in: str = Field(
        keys.LASTS, max_length=50, description="How long it is good; `never`: it does not end.", examples=["90d"]
    )


class UserIn(GrantIn):
    """A user that is to be made."""

    name: str = Field(max_length=200, examples=["ann"])
    password: str | None = Field(None, max_length=1024, examples=["correct horse battery staple"])
    sign_on: bool = Field(False, description="Instead of a password: let in as the identity provider knows `name`.")

    @model_validator(mode="after")
    def one_way(self) -> UserIn:
        """Either the one or the other."""
        if self.sign_on == (self.password is not None):
            raise ValueError("expected either a password or sign_on")
        return self


class UserChange(Body):
    """What is to be another: only what is said."""

    password: str | None = Field(None, max_length=1024)
    disabled: bool | None = Field(None, examples=[True])
    role: str | None = Field(None, max_length=20, examples=["operator"])
    scopes: list[str] | None = Field(None, max_length=50, description="`null`, if it is said: all of the role's.")
    may_code: bool | None = Field(None, description="Ends with the role `editor` if it is not said.")
    namespaces: list[str] | None = Field(None, max_length=100, description="An empty list: all of them.")
    owner: str | None = Field(None, max_length=100)
    only_own: bool | None = None

    def grant(self) -> dict[str, Any]:
        """What is said of the grant."""
        said = self.model_dump(include={"role", "scopes", "may_code", "namespaces", "owner", "only_own"})
        wanted = {name: value for name, value in said.items() if name in self.model_fields_set}
        return {name: value for name, value in wanted.items() if value is not None or name == "scopes"}


class GrantOut(BaseModel):
    """What somebody may."""

    role: str
    scopes: list[str] | None
    may_code: bool
    namespaces: list[str]
    owner: str
    only_own: bool


class KeyOut(BaseModel):
    """A key, without its secret."""

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
    """A new key. Its text is shown here, and never again."""

    key: KeyOut
    text: str = Field(examples=["otd_….…"])


class KeyList(BaseModel):
    """Some keys, and where the next ones begin."""

    items: list[KeyOut]
    next: str | None


class UserOut(BaseModel):
    """A user."""

    name: str
    disabled: bool
    sign_on: bool = Field(description="Let in by what the identity provider says, without a password.")
    grant: GrantOut
    made_at: str


class UserList(BaseModel):
    """Some users, and where the next ones begin."""

    items: list[UserOut]
    next: str | None


def key_fields(key: keys.Key, now: Micros) -> dict[str, Any]:
    """A key as it is answered."""
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
    """A user as it is answered."""
    told = {"name": user.name, "disabled": user.disabled, "sign_on": user.signs_on}
    return {**told, "grant": user.grant.as_json(), "made_at": iso(user.made_at)}


# ── keys ─────────────────────────────────────────────────────────────────────────────────────────────────────


@routes.get("/keys", response_model=KeyList)
async def list_keys(there: There, who: Who, limit: Limit = 100, after: After = "") -> Any:
    """The keys that you could have made, without their secrets."""
    found = await keys.list_keys(there.store, by=who, after=after, limit=limit)
    now = there.clock.now()
    return {"items": [key_fields(key, now) for key in found], "next": found[-1].id if len(found) == limit else None}


@routes.post("/keys", response_model=Issued, status_code=201)
async def create_key(request: Request, there: There, who: Who, body: KeyIn) -> Any:
    """Make a key that may no more than you. Its text is in the answer, and never shown again. It is good for 90 days,
    unless `expires_in` says otherwise."""
    lasts = keys.read_lasts(body.expires_in, what="expires_in")
    now = there.clock.now()
    expires_at = None if lasts is None else now + lasts
    issued = await keys.issue(there.store, body.name, body.grant(), expires_at=expires_at, by=who)
    shown = key_fields(issued.key, now)
    await record_change(request, "keys.create", f"key/{issued.key.id}", after=shown)
    return {"key": shown, "text": issued.text}


@routes.delete("/keys/{key}", response_model=KeyOut, responses={404: {}})
async def revoke_key(request: Request, there: There, who: Who, key: KeyId) -> Any:
    """End a key for good: no server lets it in five seconds from now."""
    revoked = await keys.revoke(there.store, key, by=who)
    await record_change(request, "keys.revoke", f"key/{key}")
    return key_fields(revoked, there.clock.now())


# ── users ────────────────────────────────────────────────────────────────────────────────────────────────────


@routes.get("/users", response_model=UserList)
async def list_users(there: There, who: Who, limit: Limit = 100, after: After = "") -> Any:
    """The users that you could have made."""
    found = await users.list_users(there.store, by=who, after=after, limit=limit)
    return {"items": [user_fields(user) for user in found], "next": found[-1].name if len(found) == limit else None}


@routes.post("/users", response_model=UserOut, status_code=201, responses={409: {}})
async def create_user(request: Request, there: There, who: Who, body: UserIn) -> Any:
    """Make a user that may no more than you."""
    user = await users.create(there.store, body.name, body.password, body.grant(), by=who)
    await record_change(request, "users.create", f"user/{user.name}", after=user_fields(user))
    return user_fields(user)


@routes.patch("/users/{user}", response_model=UserOut, responses={404: {}})
async def change_user(request: Request, there: There, who: Who, user: UserName, body: UserChange) -> Any:
    """Give a user another password, or let it in no more (or again): then its sessions end. Or give it another role,
    or other permissions, namespaces or owner, but no more than you have: its open sessions have them within five
    seconds. All that is said is done, or nothing."""
    before = user_fields(await users.get_user(there.store, user, by=who))
    changed = await users.edit(
        there.store, user, password=body.password, disabled=body.disabled, grant=body.grant(), by=who
    )
    await record_change(request, "users.change", f"user/{user}", before=before, after=user_fields(changed))
    return user_fields(changed)


@routes.delete("/users/{user}", status_code=204, responses={404: {}})
async def delete_user(request: Request, there: There, who: Who, user: UserName) -> Response:
    """Forget a user, and end its sessions."""
    await users.remove(there.store, user, by=who)
    await record_change(request, "users.delete", f"user/{user}")
    return Response(status_code=204)
