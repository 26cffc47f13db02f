"""Login with a password, one-time token or ID token, and the sessions that it opens."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import Path, Query, Request, Response
from pydantic import BaseModel, Field, model_validator

from onthedot.access import sessions, users
from onthedot.access.sign_on import LONGEST_TOKEN, sign_on
from onthedot.model.errors import DefinitionError, LoginLimited, LoginRefused
from onthedot.observe.formats import iso
from onthedot.observe.json_fields import session_fields
from onthedot.server.audit import logins_of, record_change, record_login, record_refusal, source_of
from onthedot.server.auth import StoreDep, Who
from onthedot.server.models import NO_NUL, Body
from onthedot.server.provider_keys import ProviderKeys
from onthedot.server.router import Routes

routes = Routes(prefix="/api/v1", tags=["access"])


class Login(Body):
    """The credentials: a name and a password; or a one-time token, as in the link that 'onthedot up' prints; or an ID
    token of the identity provider of this server."""

    username: str = Field("", max_length=200, examples=["ann"])
    password: str = Field("", max_length=1024, examples=["correct horse battery staple"])
    token: str = Field("", max_length=200, examples=[""])
    id_token: str = Field("", max_length=LONGEST_TOKEN, examples=[""])

    @model_validator(mode="after")
    def one_way(self) -> Login:
        """Require exactly one kind of credentials."""
        if [bool(self.username), bool(self.token), bool(self.id_token)].count(True) != 1:
            raise ValueError("expected either username and password, or a token, or an id_token")
        return self


class SessionOut(BaseModel):
    """A new session. Send its token as `Authorization: Bearer …` until it expires."""

    token: str = Field(examples=["ots_…"])
    token_type: str = Field(examples=["Bearer"])
    name: str
    expires_at: str


@routes.post(
    "/login",
    response_model=SessionOut,
    responses={401: {"description": "The name, password or token is wrong."}, 403: {}},
)
async def login(request: Request, opened: StoreDep, body: Login) -> Any:
    """Open a session for twelve hours. One address may try a name five times a minute, and all names 30 times a minute;
    at most two of its requests may wait at once. Beyond that the answer is 429 with the time to wait, or 503 if too
    many requests wait in all. An ID token is accepted once, up to one hour after it was issued, for the user whose name
    is its e-mail address."""
    source = source_of(request)
    way = "token" if body.token else "id_token" if body.id_token else "password"
    what = sessions.token_named(body.token) if body.token else "id_token"
    try:
        if body.token:
            session = await users.exchange(opened.store, body.token, source=source)
        elif body.id_token:
            provider = _provider(request)
            person = await provider.read(body.id_token)
            what = f"user/{person.email}"
            session = await sign_on(opened.store, body.id_token, person, provider.provider.issuer, source=source)
        else:
            logins = logins_of(request)
            session = await users.login(
                opened.store, body.username, body.password, logins=logins, source=source, gone=request.is_disconnected
            )
    except (LoginRefused, LoginLimited) as error:
        await record_refusal(request, what, way, error, name=body.username)
        raise
    await record_login(request, session, way)
    return {"token": session.text, "token_type": "Bearer", "name": session.name, "expires_at": iso(session.expires_at)}


def _provider(request: Request) -> ProviderKeys:
    provider: ProviderKeys | None = request.app.state.provider
    if provider is None:
        raise DefinitionError("id_token: this server believes no identity provider; start it with --sign-on")
    return provider


@routes.post("/logout", status_code=204)
async def logout(request: Request, opened: StoreDep, who: Who) -> Response:
    """End the session of this request. It does not end a key; revoke the key instead."""
    if who.kind == "session":
        await sessions.end_session(opened.store, who.id)
        await record_change(request, "logout", f"session/{who.id}")
    return Response(status_code=204)


# ── sessions ─────────────────────────────────────────────────────────────────────────────────────────────────


class OpenSession(BaseModel):
    """An open session, without its token."""

    id: str
    name: str
    user: str = Field(description="Empty: the session was opened with a one-time token and has no user.")
    role: str
    page: bool = Field(description="Whether it is the page's session, in the cookie of a browser.")
    source: str = Field(description="The address that opened it.", examples=["192.0.2.7"])
    made_at: str
    expires_at: str
    current: bool = Field(description="Whether it is the session of this request.")


class SessionList(BaseModel):
    """A page of sessions."""

    items: list[OpenSession]
    next: str | None


@routes.get("/sessions", response_model=SessionList)
async def list_sessions(
    opened: StoreDep,
    who: Who,
    limit: Annotated[int, Query(ge=1, le=1000)] = 100,
    after: Annotated[str, Query(max_length=200, pattern=NO_NUL, description="The `next` of the previous page.")] = "",
) -> Any:
    """List the sessions of your user. With `keys:manage`, those of all users with no more permissions than yours."""
    found = await users.list_sessions(opened.store, by=who, after=after, limit=limit)
    following = found[-1].id if len(found) == limit else None
    return {"items": [session_fields(session, who) for session in found], "next": following}


@routes.delete("/sessions/{session}", response_model=OpenSession, responses={404: {}})
async def end_session(
    request: Request,
    opened: StoreDep,
    who: Who,
    session: Annotated[str, Path(max_length=100, description="The session's id.")],
) -> Any:
    """End a session. After five seconds no server accepts it."""
    ended = session_fields(await users.end_session(opened.store, session, by=who), who)
    await record_change(request, "sessions.end", f"session/{session}", before=ended)
    return ended
