"""What ended a while ago is removed by the leader; what is good, or ended just now, stays."""

from __future__ import annotations

import pytest

import onthedot as otd
from onthedot.access import keys, sessions, users
from onthedot.access.permissions import Grant, Role
from onthedot.access.sign_on import LEEWAY, OLDEST, USED, Person, sign_on
from onthedot.clock import SECOND, Micros
from onthedot.model.events import Event, Events, KeyExpires
from onthedot.model.retention import DAY, HOUR
from onthedot.node.credential_cleanup import FORGET_EVERY, KEEP_KEYS, KEEP_SESSIONS, PAGE, CredentialCleanup
from onthedot.node.leadership import Leadership
from onthedot.stores.connect import open_store
from onthedot.stores.memory import MemoryStore
from onthedot.stores.protocol import Store
from onthedot.stores.values import Term

START: Micros = 1_800_000_000 * SECOND
VIEWER = Grant(role=Role.VIEWER)
SETTINGS = otd.Settings()


class Led(Leadership):
    """Has the term, renewed at an instant of the store's clock; or not."""

    def __init__(self, at: Micros | None) -> None:
        self.terms = {} if at is None else {0: Term(0, 1, "node", at + SETTINGS.term_ttl)}


@pytest.fixture(params=["memory", "sqlite"])
async def store(request, tmp_path):
    store = await open_store("memory:" if request.param == "memory" else f"sqlite:///{tmp_path / 'otd.db'}")
    yield store
    await store.close()


async def one_round(store: Store, at: Micros) -> int:
    return await whole_round(CredentialCleanup(store, Led(at), SETTINGS, Events()))


async def whole_round(service: CredentialCleanup) -> int:
    for ticks in range(1, 100):
        if await service.tick(0) == FORGET_EVERY:
            return ticks
    raise AssertionError("the round never ends")


async def names(store: Store) -> list[str]:
    return sorted(key.name for key in await keys.list_keys(store))


async def count(store: Store, kind: str) -> int:
    return len(await store.documents.list_documents(kind))


async def test_keys_go_a_month_after_their_end(store: Store):
    await keys.issue(store, "good", VIEWER, now=START)
    await keys.issue(store, "good-for-years", VIEWER, expires_at=START + 1_000 * DAY, now=START)
    await keys.issue(store, "expired", VIEWER, expires_at=START + DAY, now=START)
    revoked = await keys.issue(store, "revoked", VIEWER, now=START)
    await keys.note_use(store, revoked.key.id, START)
    await keys.revoke(store, revoked.key.id, now=START + 2 * DAY)
    await one_round(store, START + DAY + KEEP_KEYS - 1)
    assert await names(store) == ["expired", "good", "good-for-years", "revoked"]
    await one_round(store, START + DAY + KEEP_KEYS)
    assert await names(store) == ["good", "good-for-years", "revoked"]
    await one_round(store, START + 2 * DAY + KEEP_KEYS)
    assert await names(store) == ["good", "good-for-years"]
    assert await count(store, keys.USED) == 0


async def test_sessions_and_tokens_go_an_hour_after_their_end(store: Store):
    await sessions.open_session(store, "ann", grant=VIEWER, now=START)
    await sessions.issue_token(store, "up", VIEWER, now=START, lasts=12 * HOUR)
    await one_round(store, START + sessions.LASTS + KEEP_SESSIONS - 1)
    assert (await count(store, sessions.KIND), await count(store, sessions.TOKEN)) == (1, 1)
    await one_round(store, START + sessions.LASTS + KEEP_SESSIONS)
    assert (await count(store, sessions.KIND), await count(store, sessions.TOKEN)) == (0, 0)


async def test_which_id_tokens_were_used_is_known_for_longer_than_one_is_taken(store: Store):
    await users.create(store, "ann@example.org", None, VIEWER)
    await sign_on(store, "a.token.x", Person("1", "ann@example.org"), "https://example.org/")
    [used] = await store.documents.list_documents(USED)
    end = used.written_at + sessions.LASTS + KEEP_SESSIONS
    assert end > used.written_at + OLDEST + LEEWAY
    await one_round(store, end - 1)
    assert await count(store, USED) == 1
    await one_round(store, end)
    assert await count(store, USED) == 0


async def test_what_cannot_be_read_goes_in_time_and_users_stay(store: Store):
    for kind in (sessions.KIND, sessions.TOKEN, users.KIND, keys.KIND):
        await store.documents.put_document(kind, "x", "{}", version=0, now=START)
    await one_round(store, START + 365 * DAY)
    assert [await count(store, kind) for kind in (sessions.KIND, sessions.TOKEN, users.KIND, keys.KIND)] == [0, 0, 1, 1]


async def test_many_are_removed_page_by_page():
    store = MemoryStore()
    for _ in range(2 * PAGE + 1):
        await sessions.open_session(store, "ann", grant=VIEWER, now=START)
    assert await one_round(store, START + 2 * DAY) == 6  # three of them, and one for each other kind
    assert await count(store, sessions.KIND) == 0


async def test_who_does_not_lead_removes_nothing(store: Store):
    await sessions.open_session(store, "ann", grant=VIEWER, now=START)
    assert await CredentialCleanup(store, Led(None), SETTINGS, Events()).tick(START + 365 * DAY) == SETTINGS.renew_every
    assert await count(store, sessions.KIND) == 1


async def test_keys_that_end_in_two_weeks_are_told_of_once(store: Store):
    ends = START + 90 * DAY
    key = (await keys.issue(store, "ci", VIEWER, expires_at=ends, now=START)).key
    await keys.issue(store, "for-ever", VIEWER, now=START)
    await keys.issue(store, "short", VIEWER, expires_at=ends, now=ends - keys.WARNED)
    revoked = await keys.issue(store, "revoked", VIEWER, expires_at=ends, now=START)
    await keys.revoke(store, revoked.key.id, now=START)
    told: list[Event] = []
    led = Led(ends - keys.WARNED - 1)
    service = CredentialCleanup(store, led, SETTINGS, Events([told.append]))
    await whole_round(service)
    assert told == []
    for at in (ends - keys.WARNED, ends - DAY):
        led.terms = Led(at).terms
        await whole_round(service)
        assert told == [KeyExpires(key.id, "ci", ends)]
    led.terms = {}
    await service.tick(0)
    led.terms = Led(ends - 1).terms  # it leads again, and others have led meanwhile
    await whole_round(service)
    assert told == [KeyExpires(key.id, "ci", ends)] * 2
    led.terms = Led(ends).terms
    await whole_round(CredentialCleanup(store, led, SETTINGS, Events([told.append])))
    assert len(told) == 2
