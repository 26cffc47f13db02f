"""The leader seals audit entries and removes old credentials; no other node does either."""

from __future__ import annotations

import asyncio

import pytest

import onthedot as otd
from onthedot.access import keys, sessions, users
from onthedot.access.audit import KIND, Entry, record
from onthedot.access.audit_seals import BATCH, SEALS, check
from onthedot.access.permissions import LOCAL, Grant, Role
from onthedot.access.sign_on import LEEWAY, OLDEST, USED, Person, sign_on
from onthedot.clock import SECOND, Micros
from onthedot.model.events import AuditSealed, Event, Events, KeyExpires
from onthedot.model.retention import DAY, HOUR
from onthedot.node.access_upkeep import (
    BREATH,
    FORGET_EVERY,
    KEEP_KEYS,
    KEEP_SESSIONS,
    PAGE,
    SEAL_EVERY,
    AuditSealer,
    CredentialCleanup,
)
from onthedot.node.leadership import Leadership
from onthedot.stores.connect import open_store
from onthedot.stores.memory import MemoryStore
from onthedot.stores.protocol import Store
from onthedot.stores.values import Term
from tests.behind import behind

SETTINGS = otd.Settings()


class Led(Leadership):
    """Leadership that holds the term, or not, as the test sets it."""

    def __init__(self, *, leads: bool = True) -> None:
        self.terms = {0: Term(0, 1, "node", 0)} if leads else {}


@pytest.fixture(params=["memory", "sqlite"])
async def store(request, tmp_path):
    store = await open_store("memory:" if request.param == "memory" else f"sqlite:///{tmp_path / 'otd.db'}")
    yield store
    await store.close()


def sealing(store: Store, *, leads: bool = True) -> tuple[AuditSealer, list[Event]]:
    told: list[Event] = []
    return AuditSealer(store, Led(leads=leads), SETTINGS, Events([told.append])), told


async def settle(service: AuditSealer) -> int:
    """Tick until nothing is left to seal, and return the number of ticks."""
    for ticks in range(1, 100):
        if await service.tick(0) == SEAL_EVERY:
            return ticks
    raise AssertionError("expected the sealer to finish within 99 ticks")


async def fill(store: Store, count: int) -> None:
    for number in range(count):
        await record(store, Entry(who=LOCAL, verb="v", object=str(number)))


async def test_the_leader_seals_entries_and_reports_each_seal(store: Store):
    service, told = sealing(store)
    assert await settle(service) == 1  # no entries yet
    await fill(store, 3)
    await settle(service)
    checked = await check(store)
    assert (checked.sealed, checked.unsealed, checked.fault) == (3, 0, None)
    assert told == [AuditSealed(3, *checked.head)]
    await fill(store, 1)
    await settle(service)
    await settle(service)
    after = await check(store, known=checked.head)
    assert (after.sealed, after.head.number, after.fault) == (4, 2, None)
    assert told[1:] == [AuditSealed(1, *after.head)]


async def test_a_node_that_does_not_lead_seals_nothing(store: Store):
    service, told = sealing(store, leads=False)
    await fill(store, 1)
    assert await service.tick(0) == SETTINGS.renew_every
    assert (await check(store))[:2] == (0, 1)
    assert told == []


async def test_the_next_leader_continues_the_chain_of_seals(store: Store):
    first, _ = sealing(store)
    for _ in range(3):
        await fill(store, 2)
        await settle(first)
    second, told = sealing(store)
    await fill(store, 2)
    await settle(second)
    checked = await check(store)
    assert (checked.sealed, checked.head.number, checked.fault) == (8, 4, None)
    assert told == [AuditSealed(2, *checked.head)]  # the first leader has reported its own seals


async def test_two_nodes_that_both_believe_they_lead_make_one_chain(store: Store):
    one, _ = sealing(store)
    other, _ = sealing(store)
    for _ in range(5):
        await fill(store, 2)
        await one.tick(0)
        await other.tick(0)
    await settle(one)
    await settle(other)
    checked = await check(store)
    assert (checked.sealed, checked.unsealed, checked.fault) == (10, 0, None)


async def test_many_entries_are_sealed_in_batches():
    store = MemoryStore()
    await fill(store, 2 * BATCH + 1)
    service, _ = sealing(store)
    assert await service.tick(0) == BREATH
    await settle(service)
    checked = await check(store)
    assert (checked.sealed, checked.head.number, checked.fault) == (2 * BATCH + 1, 3, None)


@pytest.mark.parametrize("body", ["{}", "[]", '{"previous": "", "entries": []}'])
async def test_a_changed_seal_is_found_and_sealing_continues(body: str):
    store = MemoryStore()
    service, _ = sealing(store)
    await fill(store, 2)
    await settle(service)
    behind(store, "UPDATE entries SET body = ? WHERE kind = ?", body, SEALS)
    successor, _ = sealing(store)
    await fill(store, 1)
    await settle(successor)
    assert str((await check(store)).fault) == "seal 1 cannot be read: it was changed"
    assert await settle(successor) == 1


async def test_removed_seals_are_found_and_sealing_continues():
    store = MemoryStore()
    service, _ = sealing(store)
    for _ in range(3):
        await fill(store, 2)
        await settle(service)
    behind(store, "DELETE FROM entries WHERE kind = ?", SEALS)
    await fill(store, 1)
    for _ in range(5):
        await settle(service)
    assert str((await check(store)).fault).startswith("seal 1 does not follow the beginning")
    assert len(await store.documents.list_appended(SEALS)) == 1
    await fill(store, 1)
    await settle(service)
    assert len(await store.documents.list_appended(SEALS)) == 2


async def test_sealing_continues_if_only_the_row_of_the_last_seal_was_removed():
    store = MemoryStore()
    service, _ = sealing(store)
    for _ in range(2):
        await fill(store, 2)
        await settle(service)
    behind(store, "DELETE FROM entries WHERE kind = ? AND number = 2", SEALS)
    successor, _ = sealing(store)
    await settle(successor)
    checked = await check(store)
    assert (checked.sealed, checked.unsealed, checked.head.number) == (4, 0, 2)


async def test_a_running_node_seals_entries(tmp_path):
    url = f"sqlite:///{tmp_path / 'otd.db'}"
    store = await open_store(url)
    await fill(store, 2)
    told: list[AuditSealed] = []
    sealed = asyncio.Event()

    def listen(event: Event) -> None:
        if isinstance(event, AuditSealed):
            told.append(event)
            sealed.set()

    sched = otd.Scheduler(url)
    sched.subscribe(listen)
    async with sched:
        await asyncio.wait_for(sealed.wait(), 30)
    assert [(event.entries, event.seal) for event in told] == [(2, 1)]
    assert (await check(store))[:2] == (2, 0)
    assert len(await store.documents.list_appended(KIND)) == 2
    await store.close()


START: Micros = 1_800_000_000 * SECOND
VIEWER = Grant(role=Role.VIEWER)


class LedAt(Leadership):
    """Leadership whose term was renewed at `at` on the store's clock; None: it holds no term."""

    def __init__(self, at: Micros | None) -> None:
        self.terms = {} if at is None else {0: Term(0, 1, "node", at + SETTINGS.term_ttl)}


async def one_round(store: Store, at: Micros) -> int:
    return await whole_round(CredentialCleanup(store, LedAt(at), SETTINGS, Events()))


async def whole_round(service: CredentialCleanup) -> int:
    for ticks in range(1, 100):
        if await service.tick(0) == FORGET_EVERY:
            return ticks
    raise AssertionError("expected the round to end within 99 ticks")


async def names(store: Store) -> list[str]:
    return sorted(key.name for key in await keys.list_keys(store))


async def count(store: Store, kind: str) -> int:
    return len(await store.documents.list_documents(kind))


async def test_keys_are_removed_a_month_after_their_end(store: Store):
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


async def test_sessions_and_tokens_are_removed_an_hour_after_their_end(store: Store):
    await sessions.open_session(store, "ann", grant=VIEWER, now=START)
    await sessions.issue_token(store, "up", VIEWER, now=START, lasts=12 * HOUR)
    await one_round(store, START + sessions.LASTS + KEEP_SESSIONS - 1)
    assert (await count(store, sessions.KIND), await count(store, sessions.TOKEN)) == (1, 1)
    await one_round(store, START + sessions.LASTS + KEEP_SESSIONS)
    assert (await count(store, sessions.KIND), await count(store, sessions.TOKEN)) == (0, 0)


async def test_a_used_id_token_is_remembered_for_longer_than_it_is_accepted(store: Store):
    await users.create(store, "ann@example.org", None, VIEWER)
    await sign_on(store, "a.token.x", Person("1", "ann@example.org"), "https://example.org/")
    [used] = await store.documents.list_documents(USED)
    end = used.written_at + sessions.LASTS + KEEP_SESSIONS
    assert end > used.written_at + OLDEST + LEEWAY
    await one_round(store, end - 1)
    assert await count(store, USED) == 1
    await one_round(store, end)
    assert await count(store, USED) == 0


async def test_unreadable_sessions_and_tokens_are_removed_and_users_are_kept(store: Store):
    for kind in (sessions.KIND, sessions.TOKEN, users.KIND, keys.KIND):
        await store.documents.put_document(kind, "x", "{}", version=0, now=START)
    await one_round(store, START + 365 * DAY)
    assert [await count(store, kind) for kind in (sessions.KIND, sessions.TOKEN, users.KIND, keys.KIND)] == [0, 0, 1, 1]


async def test_many_sessions_are_removed_page_by_page():
    store = MemoryStore()
    for _ in range(2 * PAGE + 1):
        await sessions.open_session(store, "ann", grant=VIEWER, now=START)
    assert await one_round(store, START + 2 * DAY) == 6  # three pages of sessions, one of each other kind
    assert await count(store, sessions.KIND) == 0


async def test_a_node_that_does_not_lead_removes_nothing(store: Store):
    await sessions.open_session(store, "ann", grant=VIEWER, now=START)
    assert (
        await CredentialCleanup(store, LedAt(None), SETTINGS, Events()).tick(START + 365 * DAY) == SETTINGS.renew_every
    )
    assert await count(store, sessions.KIND) == 1


async def test_a_leader_warns_once_of_a_key_that_ends_within_two_weeks(store: Store):
    ends = START + 90 * DAY
    key = (await keys.issue(store, "ci", VIEWER, expires_at=ends, now=START)).key
    await keys.issue(store, "for-ever", VIEWER, now=START)
    await keys.issue(store, "short", VIEWER, expires_at=ends, now=ends - keys.WARN_BEFORE)
    revoked = await keys.issue(store, "revoked", VIEWER, expires_at=ends, now=START)
    await keys.revoke(store, revoked.key.id, now=START)
    told: list[Event] = []
    led = LedAt(ends - keys.WARN_BEFORE - 1)
    service = CredentialCleanup(store, led, SETTINGS, Events([told.append]))
    await whole_round(service)
    assert told == []
    for at in (ends - keys.WARN_BEFORE, ends - DAY):
        led.terms = LedAt(at).terms
        await whole_round(service)
        assert told == [KeyExpires(key.id, "ci", ends)]
    led.terms = {}
    await service.tick(0)
    led.terms = LedAt(ends - 1).terms  # it leads again; another node may have led in between
    await whole_round(service)
    assert told == [KeyExpires(key.id, "ci", ends)] * 2
    led.terms = LedAt(ends).terms
    await whole_round(CredentialCleanup(store, led, SETTINGS, Events([told.append])))
    assert len(told) == 2
