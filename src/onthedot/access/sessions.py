"""Sessions and one-time tokens: credentials that expire soon. They are documents of the kinds `session` and `token`.

A program sends a session as it sends a key. A browser sends it in a cookie. The cookie is a credential of another kind,
which no program can use as a key. The cookie alone opens the page only: browsers send cookies to every port of a host,
so another server there may have read it. For the API, the page also sends a second text, which only its own origin has.

A session of a user has the grant that the user has at the moment (`users.py`). Any other session has its own grant,
from the one-time token that was exchanged for it.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from onthedot.access import credentials
from onthedot.access.credentials import Credential
from onthedot.access.keys import UNREADABLE, too_many_conflicts
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
    csrf: str = field(default="", repr=False)  # of a page's session: the page's second text


class Stored(NamedTuple):
    """A stored session or one-time token. `user` and `epoch` are empty if it has a grant of its own.

    `csrf` is the proof of the page's second text; empty if it is not a page's session. `source` is the address from
    which it was opened.
    """

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
    """Open a session for this user, or with this grant. A user's session ends when the user's epoch changes. With
    `page` it is for the page's cookie. `source` is the caller's address."""
    now, ids = await store.tell_time() if now is None else now, ids or RandomIds()
    credential = credentials.draw("page" if page else "session", ids)
    csrf = replace(credentials.draw("csrf", ids), id=credential.id) if page else None
    csrf_proof, csrf_text = ("", "") if csrf is None else (csrf.proof, csrf.text)
    stored = Stored(name, user, epoch, grant, now + LASTS, credential.proof, csrf_proof, source)
    put = await store.documents.put_document(KIND, credential.id, _write(stored), version=0)
    if not put.accepted:
        raise too_many_conflicts("session")
    return Session(credential.id, name, stored.expires_at, credential.text, csrf_text)


async def end_session(store: Store, id: str) -> None:
    """End a session. Within 5 seconds no server accepts it. Does nothing if it has ended already."""
    found = await store.documents.get_document(KIND, id)
    if found is not None:
        await store.documents.delete_document(KIND, id, version=found.version)


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
    """Make a one-time token. `users.exchange` takes it once, for a session with this grant. Raises as `keys.issue`."""
    check_name("name of the token", name)
    check_given(grant, by)
    now = await store.tell_time() if now is None else now
    credential = credentials.draw("token", ids or RandomIds())
    stored = Stored(name, "", "", grant, now + lasts, credential.proof)
    if not (await store.documents.put_document(TOKEN, credential.id, _write(stored), version=0)).accepted:
        raise too_many_conflicts("token")
    return credential.text


async def use_token(store: Store, text: str, *, now: Micros | None = None, ids: Ids | None = None) -> Stored:
    """Use a one-time token. `LoginRefused` if it is not valid, or was used.

    We mark the token as used, so that two requests on any servers cannot both succeed. A delete would be granted to
    both. The mark is random, so that only one write is accepted."""
    credential = credentials.read(text)
    if credential is None or credential.kind != "token":
        raise _refused()
    now = await store.tell_time() if now is None else now
    found = await store.documents.get_document(TOKEN, credential.id)
    stored = None if found is None else read_session(found)
    if found is None or stored is None or not is_valid(stored, credential, now):
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


def is_valid(stored: Stored, credential: Credential, now: Micros) -> bool:
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
        "token: expected one that was not used yet and has not expired, got one that is not valid; "
        "'onthedot sessions link' makes a new link, or use a key ('onthedot keys create NAME')"
    )
