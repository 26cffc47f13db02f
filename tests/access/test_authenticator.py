"""The authenticator: it accepts valid keys and sessions, and refuses revoked, expired, forged and foreign ones."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from onthedot.access import keys, sessions, users
from onthedot.access.authenticator import CACHE_FOR, Authenticator
from onthedot.access.credentials import read
from onthedot.access.permissions import Grant, Permission, Role
from onthedot.access.users import Passwords
from onthedot.clock import SECOND, Micros
from onthedot.model.errors import StoreUnavailable
from onthedot.stores.documents import Document
from onthedot.stores.memory import MemoryStore
from onthedot.stores.protocol import Store
from onthedot.stores.sql.port import Database
from onthedot.stores.sql.store import SqlDocuments
from tests.access.clocks import START, ManualClock

CHEAP = Passwords(1, 8, 1)
EDITOR = Grant(role=Role.EDITOR, scopes=frozenset({Permission.JOBS_WRITE}), namespaces=("ci",), owner="ann")
VIEWER = Grant(role=Role.VIEWER)


class Counting(SqlDocuments):
    """Records reads. A test can make it unavailable (`away`) or block its writes (`gate`)."""

    def __init__(self, database: Database) -> None:
        super().__init__(database)
        self.reads: list[str] = []
        self.away = False
        self.gate = asyncio.Event()
        self.gate.set()

    async def get_document(self, kind: str, id: str) -> Document | None:
        self.reads.append(kind)
        if self.away:
            raise StoreUnavailable("away")
        document: Document | None = await super().get_document(kind, id)
        return document

    async def put_document(self, kind: str, id: str, body: str, **options: Any) -> Any:
        if kind == keys.USED:
            await self.gate.wait()
        return await super().put_document(kind, id, body, **options)


async def test_a_key_gives_the_principal_of_its_grant(stores: tuple[Store, Store], clock: ManualClock):
    issued = await keys.issue(stores[0], "ci", EDITOR, now=START)
    authenticator = Authenticator(stores[1], clock)
    principal = await authenticator.check(issued.text)
    assert principal == EDITOR.principal("key", issued.key.id, "ci")
    assert principal is not None
    assert principal.permissions == {Permission.JOBS_WRITE}
    await authenticator.close()


async def test_a_revoked_key_is_refused_everywhere_within_five_seconds(stores: tuple[Store, Store], clock: ManualClock):
    issued = await keys.issue(stores[0], "ci", VIEWER, now=START)
    rings = [Authenticator(store, clock) for store in stores]
    assert [await ring.check(issued.text) is not None for ring in rings] == [True, True]
    clock.turn(1)
    await keys.revoke(stores[0], issued.key.id)
    clock.turn(4.9)
    assert [await ring.check(issued.text) for ring in rings] == [None, None]
    for ring in rings:
        await ring.close()


async def test_a_key_expires_at_its_end_although_it_is_cached(clock: ManualClock):
    store = MemoryStore()
    issued = await keys.issue(store, "ci", VIEWER, expires_at=START + SECOND, now=START)
    authenticator = Authenticator(store, clock)
    clock.turn(0.999_999)
    assert await authenticator.check(issued.text) is not None
    clock.turn(0.000_001)
    assert await authenticator.check(issued.text) is None


async def test_any_other_text_is_refused(stores: tuple[Store, Store], clock: ManualClock):
    store = stores[0]
    issued = await keys.issue(store, "ci", VIEWER, now=START)
    another = await keys.issue(store, "other", VIEWER, now=START)
    foreign = await keys.issue(MemoryStore(), "foreign", Grant(role=Role.ADMIN))
    token = await sessions.issue_token(store, "up", VIEWER, now=START)
    authenticator = Authenticator(store, clock)
    assert await authenticator.check(issued.text) is not None  # the secret is compared although it is cached
    head, _, secret = issued.text.partition(".")
    wrong = [
        *("", "x", issued.key.id, head, f"Bearer {issued.text}", issued.text.upper(), f"{issued.text} "),
        *(f"{head}.{another.text.partition('.')[2]}", f"{head}.{'0' * 64}", f"{head}.{secret[::-1]}"),
        *(foreign.text, token, issued.text.replace("otd_", "ots_"), "\0" * 84, "é" * 84),
    ]
    for text in wrong:
        assert await authenticator.check(text) is None, text
    await authenticator.close()


@pytest.mark.parametrize(
    "change",
    [{"proof": ""}, {"proof": None}, {"grant": None}, {"grant": {"role": "admin"}}, {"expires_at": "never"},
     {"expires_at": True}, {"revoked_at": ""}, {"revoked_at": 0}],
)  # fmt: skip
async def test_a_key_with_a_damaged_document_is_refused(clock: ManualClock, change: dict[str, object]):
    store = MemoryStore()
    issued = await keys.issue(store, "ci", VIEWER, now=START)
    found = await store.documents.get_document(keys.KIND, issued.key.id)
    assert found is not None
    body = json.dumps(json.loads(found.body) | change)
    await store.documents.put_document(keys.KIND, found.id, body, version=found.version)
    assert await Authenticator(store, clock).check(issued.text) is None


async def test_a_key_copied_to_another_id_is_refused(clock: ManualClock):
    store = MemoryStore()
    weak, strong = await keys.issue(store, "weak", VIEWER), await keys.issue(store, "strong", Grant(role=Role.ADMIN))
    mine, theirs = read(weak.text), await store.documents.get_document(keys.KIND, strong.key.id)
    own = await store.documents.get_document(keys.KIND, weak.key.id)
    assert mine is not None
    assert theirs is not None
    assert own is not None
    await store.documents.put_document(keys.KIND, theirs.id, own.body, version=theirs.version)
    assert await Authenticator(store, clock).check(f"otd_{theirs.id}.{mine.secret}") is None


async def test_a_key_is_cached_for_two_seconds(clock: ManualClock):
    store = MemoryStore()
    store.documents = documents = Counting(store.database)
    issued = await keys.issue(store, "ci", VIEWER, now=START)
    authenticator = Authenticator(store, clock)
    await authenticator.check(issued.text)
    await authenticator.close()
    documents.reads.clear()
    clock.turn((CACHE_FOR - 1) / SECOND)
    assert await authenticator.check(issued.text) is not None
    assert documents.reads == []
    clock.turn(0.000_001)
    assert await authenticator.check(issued.text) is not None
    assert documents.reads == [keys.KIND]


async def test_unknown_keys_do_not_fill_the_cache(clock: ManualClock):
    store = MemoryStore()
    authenticator = Authenticator(store, clock)
    for number in range(100):
        assert await authenticator.check(f"otd_{number:015x}.{'0' * 64}") is None
    assert authenticator._cache == {}


async def test_a_key_is_refused_while_the_store_is_unavailable(clock: ManualClock):
    store = MemoryStore()
    store.documents = documents = Counting(store.database)
    issued = await keys.issue(store, "ci", VIEWER, now=START)
    authenticator = Authenticator(store, clock)
    await authenticator.check(issued.text)
    await authenticator.close()
    documents.away = True
    clock.turn(2)
    with pytest.raises(StoreUnavailable):
        await authenticator.check(issued.text)


# ── last used ────────────────────────────────────────────────────────────────────────────────────────────────


async def used(store: Store, id: str) -> Micros | None:
    return (await keys.get_key(store, id)).used_at


async def test_use_is_recorded_once_a_minute_without_delaying_requests(clock: ManualClock):
    store = MemoryStore()
    store.documents = documents = Counting(store.database)
    issued = await keys.issue(store, "ci", VIEWER, now=START)
    authenticator = Authenticator(store, clock)
    documents.gate.clear()  # a store that never answers
    assert await asyncio.wait_for(authenticator.check(issued.text), 20) is not None
    assert await used(store, issued.key.id) is None
    documents.gate.set()
    await authenticator.close()
    for seconds, noted in ((0, 0), (59, 0), (2, 61)):
        clock.turn(seconds)
        await authenticator.check(issued.text)
        await authenticator.close()
        assert await used(store, issued.key.id) == START + noted * SECOND


async def test_two_servers_record_one_use_a_minute(clock: ManualClock):
    store = MemoryStore()
    issued = await keys.issue(store, "ci", VIEWER, now=START)
    for _ in range(2):
        authenticator = Authenticator(store, clock)
        await authenticator.check(issued.text)
        await authenticator.close()
        clock.turn(30)
    assert await used(store, issued.key.id) == START


async def test_a_use_that_cannot_be_recorded_is_recorded_later(clock: ManualClock):
    store = MemoryStore()
    store.documents = documents = Counting(store.database)
    issued = await keys.issue(store, "ci", VIEWER, now=START)
    authenticator = Authenticator(store, clock)
    assert await authenticator.check(issued.text) is not None
    documents.away = True  # before the use is recorded
    await authenticator.close()
    documents.away = False
    clock.turn(1)
    assert await authenticator.check(issued.text) is not None
    await authenticator.close()
    assert await used(store, issued.key.id) == START + SECOND


# ── sessions ─────────────────────────────────────────────────────────────────────────────────────────────────


async def logged_in(store: Store, clock: ManualClock) -> str:
    await users.create(store, "ann", "correct horse", EDITOR, passwords=CHEAP, now=START)
    logins = users.Logins(clock)
    return (await users.login(store, "ann", "correct horse", logins=logins, passwords=CHEAP, now=START)).text


async def test_a_session_has_the_rights_of_its_user(stores: tuple[Store, Store], clock: ManualClock):
    text = await logged_in(stores[0], clock)
    principal = await Authenticator(stores[1], clock).check(text)
    assert principal is not None
    assert (principal.kind, principal.name, principal.owner) == ("session", "ann", "ann")
    assert principal.permissions == {Permission.JOBS_WRITE}
    clock.turn(12 * 3_600)
    assert await Authenticator(stores[1], clock).check(text) is None


@pytest.mark.parametrize("how", ["password", "disabled", "disabled and enabled", "removed", "removed and made", "out"])
async def test_a_session_ends_everywhere_within_five_seconds(stores: tuple[Store, Store], clock: ManualClock, how: str):
    one, other = stores
    text = await logged_in(one, clock)
    authenticator = Authenticator(other, clock)
    assert await authenticator.check(text) is not None
    if how == "password":
        await users.set_password(one, "ann", "another horse", passwords=CHEAP)
    elif how.startswith("disabled"):
        await users.set_disabled(one, "ann", disabled=True)
        if how.endswith("enabled"):
            await users.set_disabled(one, "ann", disabled=False)
    elif how.startswith("removed"):
        await users.remove(one, "ann")
        if how.endswith("made"):
            await users.create(one, "ann", "correct horse", EDITOR, passwords=CHEAP)
    else:
        session = read(text)
        assert session is not None
        await sessions.end_session(one, session.id)
        await sessions.end_session(one, session.id)
    clock.turn(5)
    assert await authenticator.check(text) is None


async def test_a_session_of_a_token_has_the_rights_of_the_token(stores: tuple[Store, Store], clock: ManualClock):
    text = await sessions.issue_token(stores[0], "up", Grant(role=Role.ADMIN), now=START)
    session = await users.exchange(stores[1], text, now=START)
    principal = await Authenticator(stores[0], clock).check(session.text)
    assert principal is not None
    assert (principal.kind, principal.id, principal.name, principal.role) == ("session", session.id, "up", Role.ADMIN)


async def test_a_user_disabled_directly_in_the_store_has_no_sessions(clock: ManualClock):
    """The document is edited without a new epoch."""
    store = MemoryStore()
    text = await logged_in(store, clock)
    found = await store.documents.get_document(users.KIND, "ann")
    assert found is not None
    body = json.dumps(json.loads(found.body) | {"disabled": True})
    await store.documents.put_document(users.KIND, "ann", body, version=found.version)
    assert await Authenticator(store, clock).check(text) is None


async def test_a_page_cookie_works_only_for_pages_and_expires(stores: tuple[Store, Store], clock: ManualClock):
    session = await sessions.open_session(stores[0], "up", grant=EDITOR, page=True, now=START)
    authenticator = Authenticator(stores[1], clock)
    who = EDITOR.principal("session", session.id, "up")
    assert await authenticator.check_page(session.text, None) == who
    assert await authenticator.check_page(session.text, session.csrf) == who
    for cookie, csrf in ((session.text, ""), (session.text, session.text), (session.csrf, None), ("", session.csrf)):
        assert await authenticator.check_page(cookie, csrf) is None
    assert await authenticator.check(session.text) is None
    assert await authenticator.check(session.csrf) is None
    clock.turn(sessions.LASTS / SECOND)
    assert await authenticator.check_page(session.text, session.csrf) is None
    await authenticator.close()
