"""API keys: makes, lists and revokes them. Each is a document of the kind `key`.

`authenticator.py` accepts the text of a key, and gives its bearer the key's grant. A key never changes, except that
revoking it removes its proof. The time of its last use is a document of its own (`key.used`), so that writing it never
conflicts with other writes.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any, Literal, NamedTuple

from onthedot.access import credentials
from onthedot.access.permissions import LOCAL, Grant, Principal, check_given, check_name, read_grant
from onthedot.clock import SECOND, Micros
from onthedot.ids import Ids, RandomIds
from onthedot.model.duration import micros, parse_duration
from onthedot.model.errors import DefinitionError, OnTheDotError, UnknownKey
from onthedot.model.retention import DAY
from onthedot.stores.documents import Document
from onthedot.stores.protocol import Store

KIND, USED = "key", "key.used"
USED_EVERY: Micros = 60 * SECOND
"""The time of a key's last use is written at most once in this time."""

LASTS = "90d"
"""How long a new key is valid, by default."""
NEVER = "never"
WARN_BEFORE: Micros = 14 * DAY
"""How long before a key expires its owner is warned."""

UNREADABLE = (AttributeError, KeyError, TypeError, ValueError)
"""The errors that a foreign document raises when it is read."""
_TRIES = 10
_PAGE = 1_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Key:
    """A key without its secret."""

    id: str
    name: str
    grant: Grant
    made_at: Micros
    made_by: str
    expires_at: Micros | None = None
    revoked_at: Micros | None = None
    used_at: Micros | None = None

    def state(self, now: Micros) -> Literal["active", "expired", "revoked"]:
        """The state of the key. Only an active key is accepted."""
        if self.revoked_at is not None:
            return "revoked"
        return "expired" if self.expires_at is not None and self.expires_at <= now else "active"

    def ends_soon(self, now: Micros) -> bool:
        """Return whether to warn the key's maker: the key is active and expires within two weeks. Return False if its
        whole lifetime is two weeks or less."""
        if self.expires_at is None or self.state(now) != "active":
            return False
        return self.expires_at - WARN_BEFORE <= now and self.expires_at - self.made_at > WARN_BEFORE


@dataclass(frozen=True, slots=True)
class Issued:
    """A new key with its text, which is shown once and never stored."""

    key: Key
    text: str = field(repr=False)


class Stored(NamedTuple):
    """A key as it is stored."""

    key: Key
    proof: str

    def __repr__(self) -> str:
        return f"Stored({self.key!r})"


def parse_lifetime(text: str, *, what: str) -> Micros | None:
    """Read the lifetime of a key; None means that it never expires. Raise `DefinitionError` for other text.

    >>> parse_lifetime("90d", what="expires_in") == 90 * DAY, parse_lifetime("never", what="expires_in")
    (True, None)
    """
    return None if text == NEVER else micros(parse_duration(text, what=what))


async def issue(
    store: Store,
    name: str,
    grant: Grant,
    *,
    expires_at: Micros | None = None,
    by: Principal = LOCAL,
    now: Micros | None = None,
    ids: Ids | None = None,
) -> Issued:
    """Make a key. Raise `DefinitionError` for a wrong name, grant or end, and `AccessDenied` for a grant with more
    rights than `by` has. Names are for people: two keys may have the same name."""
    check_name("name of the key", name)
    check_given(grant, by)
    now = await store.tell_time() if now is None else now
    if expires_at is not None and expires_at <= now:
        raise DefinitionError("expiry of the key: expected an instant that lies ahead, got one that is past")
    credential = credentials.draw("key", ids or RandomIds())
    key = Key(id=credential.id, name=name, grant=grant, made_at=now, made_by=by.name, expires_at=expires_at)
    put = await store.documents.put_document(KIND, key.id, _write(key, credential.proof), version=0)
    if not put.accepted:  # an id that was drawn twice: once in 2⁶⁰
        raise too_many_conflicts(f"key {key.id}")
    return Issued(key, credential.text)


async def get_key(store: Store, id: str, *, by: Principal = LOCAL) -> Key:
    """Get one key. Raise `UnknownKey` if there is none that `by` can see. `by` sees a key if it has all rights of that
    key itself."""
    key, _ = await _find(store, id, by)
    return replace(key, used_at=_instant(await store.documents.get_document(USED, id)))


async def list_keys(store: Store, *, by: Principal = LOCAL, after: str = "", limit: int = 100) -> list[Key]:
    """The keys that `by` can see, after this id, in the order of their ids."""
    keys: list[Key] = []
    start = after
    while len(keys) < limit and (page := await store.documents.list_documents(KIND, after=after, limit=limit)):
        after = page[-1].id
        stored = [read_key(document) for document in page]
        keys += [one.key for one in stored if one is not None and one.key.grant.is_within(by)]
    del keys[limit:]
    used = await _uses(store, start, keys[-1].id) if keys else {}
    return [replace(key, used_at=used.get(key.id)) for key in keys]


async def revoke(store: Store, id: str, *, by: Principal = LOCAL, now: Micros | None = None) -> Key:
    """Revoke a key. Within 5 seconds no server accepts it. Revoking it again changes nothing. Raise `UnknownKey` as
    `get_key` does."""
    for _ in range(_TRIES):
        key, version = await _find(store, id, by)
        if key.revoked_at is not None:
            return key
        revoked = replace(key, revoked_at=await store.tell_time() if now is None else now)
        if (await store.documents.put_document(KIND, id, _write(revoked, ""), version=version)).accepted:
            return revoked
    raise too_many_conflicts(f"key {id}")


async def note_use(store: Store, id: str, now: Micros) -> None:
    """Record that a key was used, unless any server did so less than a minute ago."""
    found = await store.documents.get_document(USED, id)
    last = _instant(found)
    if last is None or last <= now - USED_EVERY:
        body = json.dumps({"used_at": now})
        await store.documents.put_document(USED, id, body, version=0 if found is None else found.version)


async def forget(store: Store, found: Document) -> None:
    """Delete a key, and the time of its last use."""
    used = await store.documents.get_document(USED, found.id)
    if used is not None:
        await store.documents.delete_document(USED, used.id, version=used.version)
    await store.documents.delete_document(KIND, found.id, version=found.version)


@lru_cache(maxsize=1000)  # read with every request
def read_key(document: Document) -> Stored | None:
    """Read a stored key. Return None if it cannot be read: such a key is not accepted."""
    try:
        data = json.loads(document.body)
        key = Key(
            id=document.id,
            name=str(data["name"]),
            grant=read_grant(data["grant"]),
            made_at=int(data["made_at"]),
            made_by=str(data["made_by"]),
            expires_at=instant_of(data["expires_at"]),
            revoked_at=instant_of(data["revoked_at"]),
        )
        return Stored(key, str(data["proof"]))
    except UNREADABLE:
        return None


def instant_of(value: Any) -> Micros | None:
    """Return an instant or None. Raise `TypeError` for anything else, so that a typing error cannot mean "never"."""
    if value is None or (isinstance(value, int) and not isinstance(value, bool)):
        return value
    raise TypeError("expected an instant or null")


def _write(key: Key, proof: str) -> str:
    return json.dumps(
        {
            "name": key.name,
            "grant": key.grant.as_json(),
            "made_at": key.made_at,
            "made_by": key.made_by,
            "expires_at": key.expires_at,
            "revoked_at": key.revoked_at,
            "proof": proof,
        }
    )


async def _find(store: Store, id: str, by: Principal) -> tuple[Key, int]:
    found = await store.documents.get_document(KIND, id) if credentials.is_id(id) else None
    stored = None if found is None else read_key(found)
    if found is None or stored is None or not stored.key.grant.is_within(by):
        raise UnknownKey(
            f"key {credentials.hidden(id)!r}: expected the id of one that is there, such as 'onthedot keys list' "
            "shows; it is what stands between 'otd_' and the dot"
        )
    return stored.key, found.version


async def _uses(store: Store, after: str, last: str) -> dict[str, Micros | None]:
    """Return when the keys after this id, up to `last`, were used."""
    used: dict[str, Micros | None] = {}
    while after < last and (page := await store.documents.list_documents(USED, after=after, limit=_PAGE)):
        after = page[-1].id
        used |= {document.id: _instant(document) for document in page}
    return used


def _instant(document: Document | None) -> Micros | None:
    try:
        return None if document is None else instant_of(json.loads(document.body)["used_at"])
    except UNREADABLE:
        return None


def too_many_conflicts(what: str) -> OnTheDotError:
    """The error for a write that lost every race."""
    return OnTheDotError(f"{what}: others changed it at the same time; try again")
