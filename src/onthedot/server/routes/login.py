"""To be let in for a while: by name and password, by a one-time token, or by what an identity provider says."""

from __future__ import annotations

from typing import Any

from fastapi import Request, Response
from pydantic import BaseModel, Field, model_validator

from onthedot.access import sessions, users
from onthedot.access.id_tokens import MOST
from onthedot.access.principal import ANONYMOUS
from onthedot.access.signing_on import sign_on
from onthedot.errors import DefinitionError
from onthedot.observe.text import iso
from onthedot.server.auditing import audited
from onthedot.server.door import There, Who, door_of
from onthedot.server.provider_keys import ProviderKeys
from onthedot.server.routing import Routes
from onthedot.server.shapes import Body

routes = Routes(prefix="/api/v1", tags=["access"])


class Login(Body):
    """A name and a password; a one-time token, such as 'onthedot up' prints in its link; or an ID token of the identity
    provider that this server believes."""

    username: str = Field("", max_length=200, examples=["ann"])
    password: str = Field("", max_length=1024, examples=["correct horse battery staple"])
    token: str = Field("", max_length=200, examples=[""])
    id_token: str = Field("", max_length=MOST, examples=[""])

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
async def login(request: Request, there: There, asked: Login) -> Any:
    """Be let in for twelve hours. Five tries a minute are looked at for one name from one address, and 30 from that
    address for all names; then it is 429 with the time to wait. An ID token is taken once, an hour old at the most,
    for the user who is called by its e-mail address."""
    if asked.token:
        session = await users.exchange(there.store, asked.token)
    elif asked.id_token:
        provider = _provider(request)
        person = await provider.read(asked.id_token)
        session = await sign_on(there.store, asked.id_token, person, provider.provider.issuer)
    else:
        logins, source = door_of(request).logins, request.client.host if request.client else ""
        session = await users.login(there.store, asked.username, asked.password, logins=logins, source=source)
    request.state.who = ANONYMOUS
    await audited(request, "login", f"session/{session.id}", after={"name": session.name})
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
        await audited(request, "logout", f"session/{who.id}")
    return Response(status_code=204)
