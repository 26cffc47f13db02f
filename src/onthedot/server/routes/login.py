"""Logins by password, one-time token or ID token, and the sessions that they open."""

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
from onthedot.server.auth import There, Who
from onthedot.server.models import NO_NUL, Body
from onthedot.server.provider_keys import ProviderKeys
from onthedot.server.router import Routes

routes = Routes(prefix="/api/v1", tags=["access"])


class Login(Body):
    """A name and a password; a one-time token, such as 'onthedot up' prints in its link; or an ID token of the identity
    provider that this server believes."""

    username: str = Field("", max_length=200, examples=["ann"])
    password: str = Field("", max_length=1024, examples=["correct horse battery staple"])
    token: str = Field("", max_length=200, examples=[""])
    id_token: str = Field("", max_length=LONGEST_TOKEN, examples=[""])

    @model_validator(mode="after")
    def one_way(self) -> Login:
        """One of the three."""
        if [bool(self.username), bool(self.token), bool(self.id_token)].count(True) != 1:
            raise ValueError("expected either username and password, or a token, or an id_token")
        return self


class SessionOut(BaseModel):
    """Send it as `Authorization: Bearer …` until it expires."""

    token: str = Field(examples=["ots_…"])
    token_type: str = Field(examples=["Bearer"])
    name: str
    expires_at: str


@routes.post(
    "/login",
    response_model=SessionOut,
    responses={401: {"description": "Name, password or token are not good."}, 403: {}},
)
async def login(request: Request, there: There, body: Login) -> Any:
    """Be let in for twelve hours. Five tries a minute are looked at for one name from one address, and 30 from that
    address for all names, and two may wait there for others; then it is 429 with the time to wait, or 503 if too many
    wait everywhere. An ID token is taken once, an hour old at the most,
    for the user who is called by its e-mail address."""
    source = source_of(request)
    way = "token" if body.token else "id_token" if body.id_token else "password"
    what = sessions.token_named(body.token) if body.token else "id_token"
    try:
        if body.token:
            session = await users.exchange(there.store, body.token, source=source)
        elif body.id_token:
            provider = _provider(request)
            person = await provider.read(body.id_token)
            what = f"user/{person.email}"
            session = await sign_on(there.store, body.id_token, person, provider.provider.issuer, source=source)
        else:
            logins = logins_of(request)
            session = await users.login(
                there.store, body.username, body.password, logins=logins, source=source, gone=request.is_disconnected
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
async def logout(request: Request, there: There, who: Who) -> Response:
    """End the session that this is sent with. A key is not ended so: revoke it."""
    if who.kind == "session":
        await sessions.end_session(there.store, who.id)
        await record_change(request, "logout", f"session/{who.id}")
    return Response(status_code=204)


# ── sessions ─────────────────────────────────────────────────────────────────────────────────────────────────


class OpenSession(BaseModel):
    """A session that is open, without what proves it."""

    id: str
    name: str
    user: str = Field(description="Empty: it came from a one-time token, and is no user's.")
    role: str
    page: bool = Field(description="Whether a browser has it, in the page's cookie.")
    source: str = Field(description="The address that it was opened from.", examples=["192.0.2.7"])
    made_at: str
    expires_at: str
    current: bool = Field(description="Whether this very request is sent with it.")


class SessionList(BaseModel):
    """Some sessions, and where the next ones begin."""

    items: list[OpenSession]
    next: str | None


@routes.get("/sessions", response_model=SessionList)
async def list_sessions(
    there: There,
    who: Who,
    limit: Annotated[int, Query(ge=1, le=1000)] = 100,
    after: Annotated[str, Query(max_length=200, pattern=NO_NUL, description="The `next` of the page before.")] = "",
) -> Any:
    """Your own sessions: those of your user. With `keys:manage`, those of everybody you could have let in."""
    found = await users.list_sessions(there.store, by=who, after=after, limit=limit)
    following = found[-1].id if len(found) == limit else None
    return {"items": [session_fields(session, who) for session in found], "next": following}


@routes.delete("/sessions/{session}", response_model=OpenSession, responses={404: {}})
async def end_session(
    request: Request,
    there: There,
    who: Who,
    session: Annotated[str, Path(max_length=100, description="The session's id.")],
) -> Any:
    """End one of those: no server lets it in five seconds from now."""
    ended = session_fields(await users.end_session(there.store, session, by=who), who)
    await record_change(request, "sessions.end", f"session/{session}", before=ended)
    return ended
