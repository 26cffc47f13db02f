"""Users and their passwords: right ones are accepted, wrong ones cost the same time, and tries are limited."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import AsyncGenerator
from typing import Any

import pytest

from onthedot.access.credentials import read
from onthedot.access.permissions import Grant, Role
from onthedot.access.sessions import KIND as SESSION
from onthedot.access.sessions import Session
from onthedot.access.users import (
    KIND,
    PASSWORDS,
    Logins,
    Passwords,
    create,
    get_user,
    list_users,
    login,
    remove,
    set_disabled,
    set_password,
)
from onthedot.clock import SECOND
from onthedot.model.errors import (
    AccessDenied,
    DefinitionError,
    DuplicateUser,
    LoginLimited,
    LoginRefused,
    LoginsBusy,
    UnknownUser,
)
from onthedot.stores.memory import MemoryStore
from onthedot.stores.protocol import Store
from tests.access.clocks import START, ManualClock

CHEAP = Passwords(1, 8, 1)


async def test_only_the_same_password_matches():
    kept = await CHEAP.hash("correct horse")
    assert await CHEAP.matches("correct horse", kept)
    for other in ("", "correct horsf", "correct horse ", "CORRECT HORSE", "\ud800"):
        assert not await CHEAP.matches(other, kept)
    assert kept != await CHEAP.hash("correct horse")


@pytest.mark.parametrize("kept", ["", "x", "$argon2id$", "$argon2id$v=19$m=8,t=1,p=1$AAAA$AAAA", "correct horse"])
async def test_an_invalid_hash_matches_no_password(kept: str):
    assert not await CHEAP.matches("correct horse", kept)


async def test_the_dummy_hash_matches_no_password_and_costs_the_same():
    kept = await CHEAP.dummy_hash()
    assert kept.startswith("$argon2id$v=19$m=8,t=1,p=1$")
    assert not await CHEAP.matches("correct horse", kept)


@pytest.mark.slow
def test_without_the_library_the_error_names_the_extra():
    probe = """
import asyncio, sys
sys.modules["argon2"] = None
from onthedot.access.users import PASSWORDS
from onthedot.model.errors import DefinitionError
try:
    asyncio.run(PASSWORDS.hash("correct horse"))
except DefinitionError as error:
    print(error)
"""
    done = subprocess.run([sys.executable, "-c", probe], capture_output=True, text=True, timeout=30)
    assert "pip install 'onthedot[server]'" in done.stdout, done.stderr


PASSWORD = "correct horse"
VIEWER = Grant(role=Role.VIEWER, namespaces=("qa",))


class Watched(Passwords):
    """Records each comparison of a password."""

    __slots__ = ("compared",)

    def __init__(self) -> None:
        super().__init__(1, 8, 1)
        object.__setattr__(self, "compared", [])

    async def matches(self, password: str, kept: str) -> bool:
        self.compared.append(kept)  # type: ignore[attr-defined]
        return await super().matches(password, kept)


async def create_user(store: Store, name: str = "ann") -> None:
    await create(store, name, PASSWORD, VIEWER, passwords=CHEAP, now=START)


async def test_a_user_signs_in_with_its_password(stores: tuple[Store, Store], clock: ManualClock):
    one, other = stores
    await create_user(one)
    session = await login(other, "ann", PASSWORD, logins=Logins(clock), passwords=CHEAP, now=START)
    assert (session.name, session.expires_at) == ("ann", START + 12 * 3_600 * SECOND)
    credential = read(session.text)
    assert credential is not None
    document = await one.documents.get_document(SESSION, session.id)
    assert document is not None
    assert credential.secret not in f"{document} {session!r}"


async def test_a_password_is_kept_as_argon2id_and_nowhere_else(stores: tuple[Store, Store]):
    await create_user(stores[0])
    document = await stores[1].documents.get_document(KIND, "ann")
    assert document is not None
    assert "$argon2id$" in document.body
    user = await get_user(stores[1], "ann")
    assert PASSWORD not in f"{document} {user!r}"
    assert "argon2" not in repr(user)
    assert user.epoch not in repr(user)


async def test_a_password_is_hashed_with_the_default_cost():
    kept = await PASSWORDS.hash(PASSWORD)
    assert kept.startswith("$argon2id$v=19$m=65536,t=3,p=4$")
    assert await PASSWORDS.matches(PASSWORD, kept)


async def test_every_refused_login_has_the_same_message_and_cost(clock: ManualClock):
    store, passwords, logins = MemoryStore(), Watched(), Logins(clock)
    await create_user(store)
    await create_user(store, "off")
    await set_disabled(store, "off", disabled=True)
    told = set()
    for name, password in (("ann", "wrong horse"), ("bob", PASSWORD), ("off", PASSWORD), ("off", "wrong horse")):
        with pytest.raises(LoginRefused) as error:
            await login(store, name, password, logins=logins, passwords=passwords)
        told.add(str(error.value))
    assert len(told) == 1
    assert len(passwords.compared) == 4  # type: ignore[attr-defined]
    assert all(kept.startswith("$argon2id$v=19$m=8,t=1,p=1$") for kept in passwords.compared)  # type: ignore[attr-defined]
    assert await store.documents.list_documents(SESSION) == []


@pytest.mark.parametrize("name", ["", "a b", "\0", "x" * 101, "\ud800", "a\n"])
async def test_an_invalid_name_cannot_sign_in(stores: tuple[Store, Store], clock: ManualClock, name: str):
    with pytest.raises(LoginRefused):
        await login(stores[0], name, PASSWORD, logins=Logins(clock), passwords=CHEAP)


@pytest.mark.parametrize("password", ["", "x" * 1_025, "\ud800" * 9, "\0" * 9])
async def test_an_invalid_password_cannot_sign_in(clock: ManualClock, password: str):
    store = MemoryStore()
    await create_user(store)
    with pytest.raises(LoginRefused):
        await login(store, "ann", password, logins=Logins(clock), passwords=CHEAP)


async def test_a_name_has_five_tries_a_minute(clock: ManualClock):
    store, passwords, logins = MemoryStore(), Watched(), Logins(clock)
    await create_user(store)
    for _ in range(5):
        clock.turn(2)
        with pytest.raises(LoginRefused):
            await login(store, "ann", "wrong horse", logins=logins, passwords=passwords)
    with pytest.raises(LoginLimited, match="try again in 52 s") as told:
        await login(store, "ann", PASSWORD, logins=logins, passwords=passwords)
    assert told.value.again_in == 52 * SECOND
    assert len(passwords.compared) == 5  # type: ignore[attr-defined]
    with pytest.raises(LoginRefused, match="expected the name and the password"):
        await login(store, "bob", PASSWORD, logins=logins, passwords=passwords)  # other names have their own limit
    clock.turn(52)
    assert (await login(store, "ann", PASSWORD, logins=logins, passwords=passwords)).name == "ann"
    with pytest.raises(LoginLimited):
        await login(store, "ann", PASSWORD, logins=logins, passwords=passwords)


async def test_concurrent_tries_are_counted_before_they_are_answered(clock: ManualClock):
    store, logins = MemoryStore(), Logins(clock)
    await create_user(store)
    tries = [login(store, "ann", f"wrong horse {n}", logins=logins, passwords=CHEAP) for n in range(20)]
    answers = await asyncio.gather(*tries, return_exceptions=True)
    assert [type(answer) for answer in answers].count(LoginLimited) == 15


async def test_failed_tries_from_one_address_do_not_lock_the_user_out_elsewhere(clock: ManualClock):
    store, logins = MemoryStore(), Logins(clock)
    await create_user(store)
    for n in range(6):
        with pytest.raises(LoginLimited if n == 5 else LoginRefused):
            await login(store, "ann", "wrong horse", logins=logins, source="192.0.2.66", passwords=CHEAP)
    session = await login(store, "ann", PASSWORD, logins=logins, source="192.0.2.7", passwords=CHEAP)
    assert session.name == "ann"
    with pytest.raises(LoginLimited):  # even with the right password
        await login(store, "ann", PASSWORD, logins=logins, source="192.0.2.66", passwords=CHEAP)


async def test_concurrent_creations_of_a_user_give_one_user(stores: tuple[Store, Store]):
    tries = [create(store, "ann", PASSWORD, VIEWER, passwords=CHEAP) for store in (*stores, *stores)]
    answers = await asyncio.gather(*tries, return_exceptions=True)
    assert [type(answer) for answer in answers].count(DuplicateUser) == 3


async def test_users_are_listed_changed_and_removed(stores: tuple[Store, Store], clock: ManualClock):
    one, other = stores
    for name in ("carl", "ann", "bob"):
        await create_user(one, name)
    assert [user.name for user in await list_users(other)] == ["ann", "bob", "carl"]
    assert [user.name for user in await list_users(other, after="ann", limit=1)] == ["bob"]
    before = await get_user(one, "ann")
    after = await set_password(one, "ann", "another horse", passwords=CHEAP)
    assert before.epoch != after.epoch
    assert (await set_disabled(one, "bob", disabled=False)).epoch == (await get_user(other, "bob")).epoch
    with pytest.raises(LoginRefused):
        await login(other, "ann", PASSWORD, logins=Logins(clock), passwords=CHEAP)
    assert (await login(other, "ann", "another horse", logins=Logins(clock), passwords=CHEAP)).name == "ann"
    await remove(one, "ann")
    with pytest.raises(UnknownUser, match=r"user 'ann': expected one that is there, found none"):
        await get_user(other, "ann")


async def test_invalid_users_are_not_created():
    store = MemoryStore()
    with pytest.raises(DefinitionError, match="name of the user"):
        await create(store, "a b", PASSWORD, VIEWER, passwords=CHEAP)
    for password in ("short", "x" * 1_025, "\ud800" * 9):
        with pytest.raises(DefinitionError) as told:
            await create(store, "ann", password, VIEWER, passwords=CHEAP)
        assert password not in str(told.value)
    team = Grant(role=Role.ADMIN, namespaces=("team",)).principal("key", "1", "team")
    with pytest.raises(AccessDenied):
        await create(store, "ann", PASSWORD, VIEWER, by=team, passwords=CHEAP)
    assert await list_users(store) == []


async def test_a_principal_sees_only_users_it_could_have_created():
    store = MemoryStore()
    await create_user(store)
    team = Grant(role=Role.ADMIN, namespaces=("team",)).principal("key", "1", "team")
    assert await list_users(store, by=team) == []
    with pytest.raises(UnknownUser) as told:
        await set_password(store, "ann", "another horse", by=team, passwords=CHEAP)
    assert "did you mean" not in str(told.value)
    with pytest.raises(UnknownUser):
        await set_disabled(store, "ann", disabled=True, by=team)
    with pytest.raises(UnknownUser):
        await remove(store, "ann", by=team)
    assert not (await get_user(store, "ann")).disabled


class Held(Passwords):
    """Compares one password for each turn that `let` gives, and records which were compared."""

    __slots__ = ("compared", "turns")

    def __init__(self) -> None:
        super().__init__(1, 8, 1)
        object.__setattr__(self, "compared", [])
        object.__setattr__(self, "turns", asyncio.Semaphore(0))

    async def matches(self, password: str, kept: str) -> bool:
        self.compared.append(password)  # type: ignore[attr-defined]
        await self.turns.acquire()  # type: ignore[attr-defined]
        return password == PASSWORD

    async def dummy_hash(self) -> str:
        return "nobody's"

    async def let(self, count: int) -> None:
        """Finish this many comparisons. Each lets the next login begin."""
        for _ in range(count):
            self.turns.release()  # type: ignore[attr-defined]
            await settle()


async def settle() -> None:
    for _ in range(20):
        await asyncio.sleep(0)


class Crowd:
    """Concurrent logins from many addresses on one server."""

    def __init__(self, clock: ManualClock) -> None:
        self.store, self.logins, self.passwords = MemoryStore(), Logins(clock), Held()
        self.tries: list[asyncio.Task[Session]] = []

    async def start_login(self, source: str, password: str = "", name: str = "", **more: Any) -> None:
        """Start another login, which is `last`."""
        name, password = name or f"v{len(self.tries)}", password or "wrong horse"
        one = login(self.store, name, password, logins=self.logins, source=source, passwords=self.passwords, **more)
        self.tries.append(asyncio.ensure_future(one))
        await settle()

    @property
    def last(self) -> asyncio.Task[Session]:
        return self.tries[-1]

    def refused(self) -> list[type[BaseException]]:
        return [type(one.exception()) for one in self.tries if one.done()]  # type: ignore[misc]


@pytest.fixture
async def crowd(clock: ManualClock) -> AsyncGenerator[Crowd]:
    one = Crowd(clock)
    await create_user(one.store)
    yield one
    for task in one.tries:
        task.cancel()
    await asyncio.gather(*one.tries, return_exceptions=True)


async def test_many_logins_from_some_addresses_do_not_delay_other_addresses(crowd: Crowd):
    for place in range(10):
        for _ in range(30):
            await crowd.start_login(f"192.0.2.{place}")
    await crowd.start_login("198.51.100.7", PASSWORD, "ann")
    good = crowd.last
    await crowd.passwords.let(6)  # four were being compared; then new addresses take turns with failed ones
    assert good.done()
    assert good.result().name == "ann"


async def test_two_logins_of_one_address_wait_and_the_others_are_refused(crowd: Crowd):
    for _ in range(10):
        await crowd.start_login("2001:db8::1")
    assert crowd.refused() == [LoginLimited] * 4
    await crowd.start_login("2001:db8::2")  # the same network
    with pytest.raises(LoginLimited, match="at most 2 that wait from one address"):
        await crowd.last
    await crowd.passwords.let(6)
    assert len(crowd.passwords.compared) == 6  # type: ignore[attr-defined]
    assert crowd.refused().count(LoginRefused) == 6


async def test_addresses_take_turns(crowd: Crowd):
    for _ in range(4):
        await crowd.start_login("192.0.2.1")
    for number, source in enumerate(("192.0.2.2", "192.0.2.2", "192.0.2.3", "192.0.2.4", "192.0.2.3")):
        await crowd.start_login(source, f"horse {number}")
    await crowd.passwords.let(9)
    assert crowd.passwords.compared[4:] == [f"horse {number}" for number in (0, 2, 3, 1, 4)]  # type: ignore[attr-defined]


async def test_when_the_queue_is_full_failed_addresses_make_room(crowd: Crowd):
    for _ in range(7):
        await crowd.start_login("192.0.2.1")  # the last one is refused: this address has failed
    for place in range(62):
        await crowd.start_login(f"198.51.100.{place}")
    assert crowd.refused() == [LoginLimited]
    await crowd.start_login("203.0.113.1", PASSWORD, "ann")
    fresh = crowd.last
    assert crowd.refused() == [LoginsBusy, LoginLimited]
    assert not fresh.done()
    await crowd.start_login("203.0.113.2")
    assert crowd.refused() == [LoginsBusy, LoginsBusy, LoginLimited]
    await crowd.start_login("203.0.113.3", PASSWORD, "ann")
    with pytest.raises(LoginsBusy, match="at most 64 that wait") as told:  # no failed address is left
        await crowd.last
    assert told.value.again_in > 0


async def test_failed_addresses_still_get_turns_beside_new_ones(crowd: Crowd):
    for _ in range(7):
        await crowd.start_login("192.0.2.1", "once more")
    for place in range(20):
        await crowd.start_login(f"198.51.100.{place}")
    await crowd.passwords.let(8)
    assert crowd.passwords.compared[4:].count("once more") == 2  # type: ignore[attr-defined]


async def test_a_login_whose_client_is_gone_takes_no_turn(crowd: Crowd):
    async def gone() -> bool:
        return True

    for _ in range(4):
        await crowd.start_login("192.0.2.1")
    await crowd.start_login("192.0.2.2", "gone horse", gone=gone)
    left = crowd.last
    await crowd.start_login("192.0.2.3", PASSWORD, "ann")
    good = crowd.last
    await crowd.passwords.let(5)  # the four being compared, then the good one
    with pytest.raises(LoginRefused):
        await left
    assert good.result().name == "ann"
    assert "gone horse" not in crowd.passwords.compared  # type: ignore[attr-defined]


async def test_a_cancelled_login_makes_room(crowd: Crowd):
    for _ in range(4):
        await crowd.start_login("192.0.2.1")
    for _ in range(5):  # each cancelled login frees its place
        await crowd.start_login("192.0.2.2")
        waiting = crowd.last
        await crowd.start_login("192.0.2.3", name="v")
        waiting.cancel()
        await settle()
    for task in crowd.tries[:4]:
        task.cancel()
    await crowd.start_login("192.0.2.4", PASSWORD, "ann")
    good = crowd.last
    await crowd.passwords.let(3)
    assert good.result().name == "ann"
