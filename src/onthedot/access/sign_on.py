"""Signs on users without a password: an identity provider proves their e-mail address, which is the user's name.

The first sign-on binds the user to the subject that the provider knows them by. If their address is given to somebody
else later, that person is refused.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import replace

from onthedot.access import sessions, users
from onthedot.access.id_tokens import Person
from onthedot.access.keys import crowded
from onthedot.access.sessions import Session
from onthedot.clock import Micros
from onthedot.ids import Ids, RandomIds
from onthedot.model.errors import LoginRefused
from onthedot.stores.protocol import Store

USED = "id_token"
"""The kind of the documents of used tokens. They are deleted after half a day."""
_TRIES = 10


async def sign_on(
    store: Store,
    text: str,
    person: Person,
    issuer: str,
    *,
    source: str = "",
    now: Micros | None = None,
    ids: Ids | None = None,
) -> Session:
    """Open a session for the person that this token is about. `LoginRefused` if there is no such user, if the user is
    bound to somebody else, or if the token was used before."""
    await _bound(store, person, issuer, write=False)
    signed, _, _ = text.rpartition(".")  # without the signature: by elliptic curve it has a second form, as good
    digest = hashlib.sha256(signed.encode()).hexdigest()
    mark = json.dumps({"by": (ids or RandomIds()).token()})  # who writes the same as another is told that it is there
    if not (await store.documents.put_document(USED, digest, mark, version=0)).accepted:
        raise LoginRefused("id_token: expected one that was not used yet, got one that was; sign on again")
    user = await _bound(store, person, issuer, write=True)
    return await sessions.open_session(
        store, user.name, user=user.name, epoch=user.epoch, source=source, now=now, ids=ids
    )


async def _bound(store: Store, person: Person, issuer: str, *, write: bool) -> users.User:
    """The user of this person. With `write` the user is bound to the person."""
    for _ in range(_TRIES):
        found = await store.documents.get_document(users.KIND, person.email)
        user = None if found is None else users.read_user(found)
        if found is None or user is None or user.disabled or not user.signs_on:
            raise _nobody(person)
        if (user.issuer, user.subject) == (issuer, person.subject):
            return user
        if user.subject:
            raise _nobody(person)
        if not write:
            return user
        bound = replace(user, issuer=issuer, subject=person.subject)
        if (
            await store.documents.put_document(users.KIND, user.name, users.write_user(bound), version=found.version)
        ).accepted:
            return bound
    raise crowded(f"user {person.email}")


def _nobody(person: Person) -> LoginRefused:
    return LoginRefused(
        f"id_token: expected a user who signs on as {person.email}, found none that is let in; "
        "'onthedot users create NAME --sign-on' makes one"
    )
