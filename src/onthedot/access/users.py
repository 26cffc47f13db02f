"""Users: people who sign in with a password, or through an identity provider (`sign_on.py`).

Each user is a document of the kind `user`. Its *epoch* is a random text that changes with every password, and when the
user is disabled or enabled. A session keeps the epoch in which it began. So one write ends all sessions of a user, on
every server within 5 seconds.

Passwords are hashed with argon2id, on a thread. A hash costs an attacker time and memory.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from onthedot.access import sessions
from onthedot.access.credentials import hidden, is_id
from onthedot.access.keys import UNREADABLE, too_many_conflicts
from onthedot.access.login_limits import LoginLimits, Refusals, Turns
from onthedot.access.permissions import (
    LOCAL,
    NAME,
    Grant,
    Permission,
    Principal,
    check_given,
    check_name,
    edited_grant,
    read_grant,
)
from onthedot.access.sessions import Session
from onthedot.clock import Clock, Micros
from onthedot.ids import Ids, RandomIds
from onthedot.model.errors import (
    DefinitionError,
    DuplicateUser,
    LoginRefused,
    UnknownSession,
    UnknownUser,
    did_you_mean,
)
from onthedot.stores.documents import Document
from onthedot.stores.protocol import Store

if TYPE_CHECKING:
    from argon2 import PasswordHasher


# ── passwords ───────────────────────────────────────────────────────────────────────────────────────────────────────


SHORTEST_PASSWORD, LONGEST_PASSWORD = 8, 1_024
"""The least characters and the most bytes of a password."""


@dataclass(frozen=True, slots=True)
class Passwords:
    """The cost of a hash: RFC 9106's choice for shared machines, some 0.1 s and 64 MiB."""

    rounds: int = 3
    kibibytes: int = 65_536
    lanes: int = 4

    async def hash(self, password: str) -> str:
        """Return the hash to store. Raise `DefinitionError` for a text that cannot be a password."""
        check_password(password)
        return await asyncio.to_thread(self._hasher().hash, password)

    async def matches(self, password: str, kept: str) -> bool:
        """Return whether the hash is of this password. Return False if the text cannot be a password, or if the stored
        text is no hash."""
        from argon2.exceptions import InvalidHashError, VerificationError

        try:
            return await asyncio.to_thread(self._hasher().verify, kept, password)
        except (VerificationError, InvalidHashError, UnicodeEncodeError):
            return False

    async def dummy_hash(self) -> str:
        """Return a hash that no password matches. Comparing a password with it costs as much as with any other hash."""
        return await asyncio.to_thread(self._hasher().hash, RandomIds().token())

    def _hasher(self) -> PasswordHasher:
        try:
            from argon2 import PasswordHasher
        except ImportError:
            raise DefinitionError(
                "users: expected the library for passwords, which is not installed; pip install 'onthedot[server]'"
            ) from None
        return PasswordHasher(self.rounds, self.kibibytes, self.lanes)


PASSWORDS = Passwords()


def check_password(password: str) -> None:
    """Raise `DefinitionError` for a text that cannot be a password. The message does not quote it.

    >>> check_password("short")
    Traceback (most recent call last):
    onthedot.model.errors.DefinitionError: password: expected at least 8 characters, got fewer; choose a longer one
    """
    if len(password) < SHORTEST_PASSWORD:
        raise DefinitionError(
            f"password: expected at least {SHORTEST_PASSWORD} characters, got fewer; choose a longer one"
        )
    if any("\ud800" <= character <= "\udfff" for character in password):
        raise DefinitionError("password: expected UTF-8 text, got other bytes")
    if len(password.encode()) > LONGEST_PASSWORD:
        raise DefinitionError(f"password: expected at most {LONGEST_PASSWORD} bytes, got more; choose a shorter one")


# ── users ───────────────────────────────────────────────────────────────────────────────────────────────────────────


KIND = "user"
_CHANGES = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class User:
    """A user. The password's hash is in no `repr`."""

    name: str
    grant: Grant
    made_at: Micros
    disabled: bool = False
    epoch: str = field(repr=False)
    password: str = field(repr=False)  # its hash; empty if it signs on with an identity provider
    issuer: str = ""
    subject: str = ""  # its id at that provider; empty before the first sign-on

    @property
    def signs_on(self) -> bool:
        """Return whether an identity provider, and nothing else, authenticates this user."""
        return not self.password


async def create(
    store: Store,
    name: str,
    password: str | None,
    grant: Grant,
    *,
    by: Principal = LOCAL,
    now: Micros | None = None,
    passwords: Passwords = PASSWORDS,
    ids: Ids | None = None,
) -> User:
    """Make a user. A user without a password signs on with an identity provider, and its name is its e-mail address.

    Raise `DefinitionError` for a wrong name, password or grant, `DuplicateUser` for a name that is taken, and
    `AccessDenied` for a grant with more rights than `by` has."""
    check_name("name of the user", name)
    check_given(grant, by)
    if password is None:
        name = as_address(name)
    hashed = "" if password is None else await passwords.hash(password)
    now = await store.tell_time() if now is None else now
    user = User(name=name, grant=grant, made_at=now, epoch=(ids or RandomIds()).token(), password=hashed)
    if not (await store.documents.put_document(KIND, name, write_user(user), version=0)).accepted:
        raise DuplicateUser(f"user {name!r} is there already; 'onthedot users password {name}' sets another password")
    return user


async def get_user(store: Store, name: str, *, by: Principal = LOCAL) -> User:
    """Get one user. Raise `UnknownUser` if there is none that `by` can see. `by` sees a user if it has all rights of
    that user itself."""
    return (await _find(store, name, by))[0]


async def list_users(store: Store, *, by: Principal = LOCAL, after: str = "", limit: int = 100) -> list[User]:
    """The users that `by` can see, after this name, in the order of their names."""
    users: list[User] = []
    while len(users) < limit and (page := await store.documents.list_documents(KIND, after=after, limit=limit)):
        after = page[-1].id
        found = [read_user(document) for document in page]
        users += [user for user in found if user is not None and user.grant.is_within(by)]
    return users[:limit]


async def edit(
    store: Store,
    name: str,
    *,
    password: str | None = None,
    disabled: bool | None = None,
    grant: Mapping[str, Any] | None = None,
    by: Principal = LOCAL,
    passwords: Passwords = PASSWORDS,
    ids: Ids | None = None,
) -> User:
    """Change a user in one write. A new password, disabling and enabling end the user's sessions. A new `grant` (see
    `edited_grant`) holds for open sessions within 5 seconds.

    Raise `DefinitionError` for a wrong grant, and for a password if the user signs on with a provider. Raise
    `AccessDenied` for more rights than `by` has."""
    before = await get_user(store, name, by=by)
    if password is not None:
        _check_password_user(before)  # before the work of a hash
    if grant:
        check_given(edited_grant(before.grant, grant), by)
    hashed = None if password is None else await passwords.hash(password)
    epoch = (ids or RandomIds()).token()

    def change(user: User) -> User:
        if hashed is not None:
            _check_password_user(user)
            user = replace(user, password=hashed, epoch=epoch)
        if disabled is not None and disabled != user.disabled:
            user = replace(user, disabled=disabled, epoch=epoch)
        if grant:
            user = replace(user, grant=edited_grant(user.grant, grant))
            check_given(user.grant, by)
        return user

    return await _change(store, name, by, change)


async def set_password(
    store: Store,
    name: str,
    password: str,
    *,
    by: Principal = LOCAL,
    passwords: Passwords = PASSWORDS,
    ids: Ids | None = None,
) -> User:
    """Set a user's password, and end the user's sessions. Raise `DefinitionError` if the user signs on with a
    provider."""
    return await edit(store, name, password=password, by=by, passwords=passwords, ids=ids)


def _check_password_user(user: User) -> None:
    if user.signs_on:
        told = f"password: expected none for {user.name}, who signs on with an identity provider, got one"
        raise DefinitionError(told)


async def set_disabled(
    store: Store, name: str, *, disabled: bool, by: Principal = LOCAL, ids: Ids | None = None
) -> User:
    """Disable a user and end the user's sessions, or enable the user again with the old password. Nothing changes if
    the user is in that state already."""
    return await edit(store, name, disabled=disabled, by=by, ids=ids)


async def remove(store: Store, name: str, *, by: Principal = LOCAL) -> User:
    """Delete a user, and end the user's sessions. A new user of that name has none of them."""
    for _ in range(_CHANGES):
        user, version = await _find(store, name, by)
        if await store.documents.delete_document(KIND, name, version=version):
            return user
    raise too_many_conflicts(f"user {name}")


# ── login ───────────────────────────────────────────────────────────────────────────────────────────────────────────


class Logins:
    """The login limits of one server. Make one for each server, and pass it to every `login`."""

    def __init__(self, clock: Clock) -> None:
        self.limits = LoginLimits(clock)
        self.refusals = Refusals(clock)
        self.turns = Turns(clock)
        self.dummy_hash = ""  # compared with the password if there is no such user, so that it takes as long


async def login(
    store: Store,
    name: str,
    password: str,
    *,
    logins: Logins,
    source: str = "",
    gone: Callable[[], Awaitable[bool]] | None = None,
    passwords: Passwords = PASSWORDS,
    now: Micros | None = None,
    ids: Ids | None = None,
) -> Session:
    """Open a session for a user's name and password. `source` is the caller's address. `gone` returns whether the
    caller has disconnected: then no password is compared.

    Raise `LoginRefused` for a wrong name or password and for a disabled user, with the same message after the same
    time. Raise `LoginLimited` if too many attempts come from this address or wait there, and `LoginsBusy` if too many
    wait in all.
    """
    if not NAME.fullmatch(name) or len(password.encode(errors="replace")) > LONGEST_PASSWORD:
        raise _refused()  # no user can have this name, so the time of the answer reveals nothing
    logins.limits.begin(name, source)
    async with logins.turns.turn(source):
        if gone is not None and await gone():
            raise _refused()
        logins.dummy_hash = logins.dummy_hash or await passwords.dummy_hash()
        found = await store.documents.get_document(KIND, name)
        user = None if found is None else read_user(found)
        kept = logins.dummy_hash if user is None or user.signs_on else user.password
        matches = await passwords.matches(password, kept)
    if user is None or user.disabled or not matches:
        logins.turns.failed(source)
        raise _refused()
    return await sessions.open_session(store, name, user=name, epoch=user.epoch, source=source, now=now, ids=ids)


async def exchange(
    store: Store,
    text: str,
    *,
    page: bool = False,
    source: str = "",
    now: Micros | None = None,
    ids: Ids | None = None,
) -> Session:
    """Exchange a one-time token (`sessions.issue_token`) for a session; with `page`, for the page's cookie. Of all
    callers with the same token, on any server, one gets a session. The others get `LoginRefused`."""
    used = await sessions.use_token(store, text, now=now, ids=ids)
    return await sessions.open_session(store, used.name, grant=used.grant, page=page, source=source, now=now, ids=ids)


# ── sessions that are open ───────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenSession:
    """An open session, without its secret."""

    id: str
    name: str
    user: str  # empty: it has a grant of its own, from a one-time token
    page: bool  # a browser has it, in the page's cookie
    source: str
    grant: Grant
    made_at: Micros
    expires_at: Micros


async def list_sessions(
    store: Store, *, by: Principal = LOCAL, after: str = "", limit: int = 100, now: Micros | None = None
) -> list[OpenSession]:
    """The open sessions that `by` may end, after this id, in the order of their ids.

    These are all sessions of the caller's user. With `keys:manage`, `by` may end others if it has all their rights
    itself."""
    now = await store.tell_time() if now is None else now
    seen = _Seen(store, by, now)
    found: list[OpenSession] = []
    while len(found) < limit and (
        page := await store.documents.list_documents(sessions.KIND, after=after, limit=limit)
    ):
        after = page[-1].id
        found += [session for document in page if (session := await seen.read(document)) is not None]
    return found[:limit]


async def end_session(store: Store, id: str, *, by: Principal = LOCAL, now: Micros | None = None) -> OpenSession:
    """End a session. Within 5 seconds no server accepts it. Raise `UnknownSession` if `list_sessions` does not show
    it."""
    now = await store.tell_time() if now is None else now
    document = await store.documents.get_document(sessions.KIND, id) if is_id(id) else None
    session = None if document is None else await _Seen(store, by, now).read(document)
    if session is None:
        told = f"session {hidden(id)!r}: expected the id of one that is open, found none"
        raise UnknownSession(f"{told}; 'onthedot sessions list' has them")
    await sessions.end_session(store, id)
    return session


class _Seen:
    """Reads sessions for one caller. Each user is read once."""

    def __init__(self, store: Store, by: Principal, now: Micros) -> None:
        self._store, self._by, self._now = store, by, now
        self._users: dict[str, User | None] = {}
        self._own: str | None = None

    async def read(self, document: Document) -> OpenSession | None:
        """The session; None if it is not open, or not visible to the caller."""
        stored = sessions.read_session(document)
        if stored is None or stored.expires_at <= self._now:
            return None
        grant = stored.grant
        if grant is None:
            user = await self._user(stored.user)
            if user is None or user.disabled or user.epoch != stored.epoch:
                return None
            grant = user.grant
        if not (self._manages(grant) or await self._is_own(document.id, stored.user)):
            return None
        return OpenSession(
            id=document.id, name=stored.name, user=stored.user, page=bool(stored.csrf), source=stored.source,
            grant=grant, made_at=document.written_at, expires_at=stored.expires_at,
        )  # fmt: skip

    def _manages(self, grant: Grant) -> bool:
        return self._by.may(Permission.KEYS_MANAGE) and grant.is_within(self._by)

    async def _is_own(self, id: str, user: str) -> bool:
        if self._by.kind != "session":
            return False
        if self._own is None:
            found = await self._store.documents.get_document(sessions.KIND, self._by.id)
            stored = None if found is None else sessions.read_session(found)
            self._own = "" if stored is None else stored.user
        return id == self._by.id or (user != "" and user == self._own)

    async def _user(self, name: str) -> User | None:
        if name not in self._users:
            found = await self._store.documents.get_document(KIND, name)
            self._users[name] = None if found is None else read_user(found)
        return self._users[name]


# ── stored users ────────────────────────────────────────────────────────────────────────────────────────────────────


def read_user(document: Document) -> User | None:
    """Read a stored user. Return None if it cannot be read: such a user cannot log in."""
    try:
        data = json.loads(document.body)
        return User(
            name=document.id,
            grant=read_grant(data["grant"]),
            made_at=int(data["made_at"]),
            disabled=data["disabled"] is not False,
            epoch=str(data["epoch"]),
            password=str(data["password"]),
            issuer=str(data.get("issuer", "")),
            subject=str(data.get("subject", "")),
        )
    except UNREADABLE:
        return None


def write_user(user: User) -> str:
    """The user as it is stored."""
    return json.dumps(
        {
            "grant": user.grant.as_json(),
            "made_at": user.made_at,
            "disabled": user.disabled,
            "epoch": user.epoch,
            "password": user.password,
            "issuer": user.issuer,
            "subject": user.subject,
        }
    )


async def _find(store: Store, name: str, by: Principal) -> tuple[User, int]:
    found = await store.documents.get_document(KIND, name) if NAME.fullmatch(name) else None
    user = None if found is None else read_user(found)
    if found is None or user is None or not user.grant.is_within(by):
        known = [one.name for one in await list_users(store, by=by)]
        raise UnknownUser(f"user {name!r}: expected one that is there, found none{did_you_mean(name, known)}")
    return user, found.version


async def _change(store: Store, name: str, by: Principal, change: Callable[[User], User]) -> User:
    for _ in range(_CHANGES):
        user, version = await _find(store, name, by)
        changed = change(user)
        if (await store.documents.put_document(KIND, name, write_user(changed), version=version)).accepted:
            return changed
    raise too_many_conflicts(f"user {name}")


def as_address(name: str) -> str:
    """The name of a user who signs on: an e-mail address in lower case."""
    local, at, host = name.partition("@")
    if not at or not local or "." not in host or "@" in host:
        raise DefinitionError(f"name of the user: expected the e-mail address that it signs on with, got {name!r}")
    return name.lower()


def _refused() -> LoginRefused:
    return LoginRefused(
        "login: expected the name and the password of a user, got others; 'onthedot users list' has them"
    )
