"""Sessions and one-time tokens: credentials that end by themselves, documents of the kinds `session` and `token`.

A session is shown by a program as a key is, or by a browser in a cookie. The cookie is a credential of another kind,
which no program can use as a key. It opens the page alone: browsers send cookies to every port of a host, so another
server there may have read it. With a second text, which only the page's own origin has, it opens the API as well.

A session is either a user's, and then worth what the user has at the moment (`users.py`), or has a grant of its own,
from the one-time token that it was exchanged for.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from onthedot.access import credentials
from onthedot.access.credentials import Credential
from onthedot.access.keys import UNREADABLE, crowded
from onthedot.access.permissions import LOCAL, Grant, Principal, check_given, check_name, read_grant
from onthedot.clock import SECOND, Micros
from onthedot.ids import Ids, RandomIds
from onthedot.model.errors import LoginRefused
from onthedot.stores.documents import Document
from onthedot.stores.protocol import Store

KIND, TOKEN = "session", "token"
LASTS: Micros = 12 * 3_600 * SECOND
"""How long a session is valid."""
TOKEN_LASTS: Micros = 15 * 60 * SECOND
"""How long a one-time token can be exchanged."""


@dataclass(frozen=True, slots=True)
class Session:
    """A new session with its text, which is shown once and never stored."""

    id: str
    name: str
    expires_at: Micros
    text: str = field(repr=False)
    csrf: str = field(default="", repr=False)  # of a page's session: what it sends beside its cookie


class Stored(NamedTuple):
    """A session or a one-time token as it is kept. `user` and `epoch` are empty if it has a grant of its own. `csrf` is
    the proof of what a page sends beside its cookie; empty: it is no page's. `source` is the address it was opened
    from."""

    name: str
    user: str
    epoch: str
    grant: Grant | None
    expires_at: Micros
    proof: str
    csrf: str = ""
    source: str = ""

    def __repr__(self) -> str:
        return f"Stored({self.name!r}, expires_at={self.expires_at})"


async def open_session(
    store: Store,
    name: str,
    *,
    user: str = "",
    epoch: str = "",
    grant: Grant | None = None,
    page: bool = False,
    source: str = "",
    now: Micros | None = None,
    ids: Ids | None = None,
) -> Session:
    """Let somebody in for a while: as this user, for as long as its epoch is this one, or with this grant. With `page`,
    by the page's cookie. `source` is the address that it comes from."""
    now, ids = await store.tell_time() if now is None else now, ids or RandomIds()
    credential = credentials.draw("page" if page else "session", ids)
    csrf = replace(credentials.draw("csrf", ids), id=credential.id) if page else None
    csrf_proof, csrf_text = ("", "") if csrf is None else (csrf.proof, csrf.text)
    stored = Stored(name, user, epoch, grant, now + LASTS, credential.proof, csrf_proof, source)
    put = await store.documents.put_document(KIND, credential.id, _write(stored), version=0)
    if not put.accepted:
        raise crowded("session")
    return Session(credential.id, name, stored.expires_at, credential.text, csrf_text)


async def end_session(store: Store, id: str) -> None:
    """End a session. Within 5 seconds no server accepts it. One that has ended already is no error."""
    found = await store.documents.get_document(KIND, id)
    if found is not None:
        await store.documents.delete_document(
            KIND, id, version=found.version
        )  # nobody changes a session: there is one version


async def issue_token(
    store: Store,
    name: str,
    grant: Grant,
    *,
    lasts: Micros = TOKEN_LASTS,
    by: Principal = LOCAL,
    now: Micros | None = None,
    ids: Ids | None = None,
) -> str:
    """Make a one-time token: `users.exchange` takes it once, for a session with this grant. Raises as `keys.issue`."""
    check_name("name of the token", name)
    check_given(grant, by)
    now = await store.tell_time() if now is None else now
    credential = credentials.draw("token", ids or RandomIds())
    stored = Stored(name, "", "", grant, now + lasts, credential.proof)
    if not (await store.documents.put_document(TOKEN, credential.id, _write(stored), version=0)).accepted:
        raise crowded("token")
    return credential.text


async def use_token(store: Store, text: str, *, now: Micros | None = None, ids: Ids | None = None) -> Stored:
    """What a one-time token gives; `LoginRefused` if it gives nothing, or has been used.

    A delete would not do: who deletes what is gone already is told that it is gone. So the token is marked first, with
    something that only this call can have written: of all who do so at once, on whatever server, one is accepted."""
    credential = credentials.read(text)
    if credential is None or credential.kind != "token":
        raise _refused()
    now = await store.tell_time() if now is None else now
    found = await store.documents.get_document(TOKEN, credential.id)
    stored = None if found is None else read_session(found)
    if found is None or stored is None or not is_good(stored, credential, now):
        raise _refused()
    mark = json.dumps({"used_by": (ids or RandomIds()).token(), "expires_at": stored.expires_at})
    put = await store.documents.put_document(TOKEN, found.id, mark, version=found.version)
    if not put.accepted:
        raise _refused()
    await store.documents.delete_document(TOKEN, found.id, version=put.version)
    return stored


def token_named(text: str) -> str:
    """The name of a one-time token in the audit, valid or not.

    >>> token_named("ott_0123456789abcde." + "f" * 64), token_named("x")
    ('token/0123456789abcde', 'token/unreadable')
    """
    credential = credentials.read(text)
    return f"token/{'unreadable' if credential is None else credential.id}"


def is_good(stored: Stored, credential: Credential, now: Micros) -> bool:
    """Whether the credential is the stored one, and has not expired."""
    return credential.proves(stored.proof) and now < stored.expires_at


def read_session(document: Document) -> Stored | None:
    """Read a stored session or token; None if it cannot be read, or is a used token. Then it is not accepted."""
    try:
        data = json.loads(document.body)
        return Stored(
            name=str(data["name"]),
            user=str(data["user"]),
            epoch=str(data["epoch"]),
            grant=None if data["grant"] is None else read_grant(data["grant"]),
            expires_at=int(data["expires_at"]),
            proof=str(data["proof"]),
            csrf=str(data.get("csrf", "")),
            source=str(data.get("source", "")),
        )
    except UNREADABLE:
        return None


def _write(stored: Stored) -> str:
    return json.dumps(stored._asdict() | {"grant": None if stored.grant is None else stored.grant.as_json()})


def _refused() -> LoginRefused:
    return LoginRefused(
        "token: expected one that was not used yet and has not ended, got another; "
        "'onthedot sessions link' makes a new link, or use a key ('onthedot keys create NAME')"
    )
