"""What a store has for each event loop: how it is made and closed, and how its connections are lent."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable

import psycopg
import pytest
import redis

from onthedot.model.errors import StateError, StoreUnavailable
from onthedot.stores import per_loop
from onthedot.stores.addresses import ServerAddress
from onthedot.stores.connect import open_store
from onthedot.stores.per_loop import Homes, Pool
from onthedot.stores.protocol import Store
from tests.stores.loops import OtherLoop, look_until

CLOSED = "expected an open store, but it was closed; open it again"


class House:
    """Notes which loop it was left on, after a few turns of it."""

    def __init__(self) -> None:
        self.left: list[asyncio.AbstractEventLoop] = []

    async def close(self) -> None:
        for _ in range(10):
            await asyncio.sleep(0)
        self.left.append(asyncio.get_running_loop())


def made() -> tuple[Homes[House], list[House]]:
    built: list[House] = []

    def make() -> House:
        built.append(House())
        return built[-1]

    return Homes(make, "store"), built


async def test_each_loop_has_one():
    all_of_them, built = made()
    async with OtherLoop() as other:
        assert await all_of_them.here() is await all_of_them.here() is built[0]
        assert await other.run(all_of_them.here()) is await other.run(all_of_them.here()) is built[1]
        await all_of_them.close()


async def test_all_are_closed_each_on_its_own_loop_and_waited_for():
    all_of_them, built = made()
    async with OtherLoop() as one, OtherLoop() as two:
        await all_of_them.here()
        await one.run(all_of_them.here())
        await two.run(all_of_them.here())
        await all_of_them.close()
        assert [house.left for house in built] == [[asyncio.get_running_loop()], [one.loop], [two.loop]]
        await all_of_them.close()
        with pytest.raises(StateError, match=f"^store: {CLOSED}"):
            await one.run(all_of_them.here())
    assert [len(house.left) for house in built] == [1, 1, 1]


async def test_a_loop_that_does_not_run_is_not_asked_and_closes_its_own():
    all_of_them, built = made()
    async with OtherLoop() as other:
        await other.run(all_of_them.here())
        await other.stop()
        await asyncio.wait_for(all_of_them.close(), per_loop.CLOSE_PATIENCE / 2)
        assert built[0].left == []
        await asyncio.to_thread(other.end)
        assert built[0].left == [other.loop]


async def test_a_loop_that_has_no_time_is_not_waited_for_and_closes_its_own(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(per_loop, "CLOSE_PATIENCE", 0.02)
    all_of_them, built = made()
    release = threading.Event()
    async with OtherLoop() as other:
        await other.run(all_of_them.here())
        await other.block(release)
        await all_of_them.close()
        assert built[0].left == []
        release.set()
        await look_until(lambda: built[0].left, "the other loop to close what is its own")
    assert len(built[0].left) == 1


async def test_the_end_of_a_loop_closes_its_own_and_the_next_asker_forgets_it():
    all_of_them, built = made()
    async with OtherLoop() as other:
        await other.run(all_of_them.here())
    assert built[0].left == [other.loop]
    await all_of_them.here()
    await all_of_them.close()
    assert [len(house.left) for house in built] == [1, 1]


async def test_what_goes_wrong_elsewhere_is_told_when_all_are_closed():
    class Broken(House):
        async def close(self) -> None:
            await super().close()
            if len(built) > 1 and self is built[1]:
                raise RuntimeError("a bug")

    built: list[Broken] = []

    def make() -> Broken:
        built.append(Broken())
        return built[-1]

    all_of_them = Homes(make, "store")
    async with OtherLoop() as other:
        await all_of_them.here()
        await other.run(all_of_them.here())
        with pytest.raises(RuntimeError, match="a bug"):
            await all_of_them.close()
        assert [len(house.left) for house in built] == [1, 1]


# ── every driver ─────────────────────────────────────────────────────────────────────────────────────────────────

Count = Callable[[], int]
SESSIONS = "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'onthedot' AND datname = current_database()"


@pytest.fixture(params=["postgres", "redis"])
def server(request: pytest.FixtureRequest) -> tuple[str, Count]:
    """A store's URL, and how many connections of ours its server has."""
    if request.param == "postgres":  # a database of its own: nobody else's connections are in it
        url: str = request.getfixturevalue("postgres_url")
        asyncio.run(_migrate(url))
    else:
        url = request.getfixturevalue("valkey_url")

    def in_postgres() -> int:
        with psycopg.connect(url, autocommit=True) as db:
            [[count]] = db.execute(SESSIONS)
        return int(count)

    def in_redis() -> int:
        with redis.Redis.from_url(url) as db:
            return sum(client["name"] == "onthedot" for client in db.client_list())

    return url, in_postgres if request.param == "postgres" else in_redis


async def _migrate(url: str) -> None:
    await (await open_store(url)).close()


async def opened(url: str) -> Store:
    """Open, and heard by nobody: only connections that calls have made are counted."""
    store = await open_store(url, read_only=True)
    assert await store.queries.list_jobs() == []
    return store


async def test_a_store_closes_the_connections_of_every_loop(server: tuple[str, Count]):
    url, count = server
    store = await opened(url)
    async with OtherLoop() as other:
        assert await other.run(store.queries.list_jobs()) == []
        assert count() == 2
        await store.close()
        await look_until(lambda: count() == 0, "the server to have no connection of ours")
        for asking in (store.queries.list_jobs(), other.run(store.queries.list_jobs())):
            with pytest.raises(StateError, match=CLOSED):
                await asking


async def test_a_store_is_closed_though_a_loop_no_longer_runs(server: tuple[str, Count]):
    url, count = server
    store = await opened(url)
    async with OtherLoop() as other:
        assert await other.run(store.queries.list_jobs()) == []
        await other.stop()
        await asyncio.wait_for(store.close(), per_loop.CLOSE_PATIENCE / 2)
        await look_until(lambda: count() == 1, "the server to have that loop's connection only")
        await asyncio.to_thread(other.end)
        await look_until(lambda: count() == 0, "the server to have no connection of ours")


async def test_a_store_does_not_wait_for_ever_for_a_loop_that_has_no_time(
    server: tuple[str, Count], monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(per_loop, "CLOSE_PATIENCE", 0.02)
    url, count = server
    store = await opened(url)
    release = threading.Event()
    async with OtherLoop() as other:
        assert await other.run(store.queries.list_jobs()) == []
        await other.block(release)
        await store.close()
        release.set()
        await look_until(lambda: count() == 0, "the server to have no connection of ours")


class Wire:
    """A connection that only notes what becomes of it."""

    def __init__(self) -> None:
        self.state = "open"


class Wires(Pool[Wire]):
    trouble = (OSError,)

    def __init__(self, *, connections: int = 2, timeout: float = 0.02) -> None:
        super().__init__(ServerAddress("dsn", "store", connections=connections, timeout=timeout))
        self.made: list[Wire] = []
        self.opening: BaseException | asyncio.Event | None = None

    async def open(self) -> Wire:
        if isinstance(self.opening, asyncio.Event):
            await self.opening.wait()
        elif self.opening is not None:
            raise self.opening
        self.made.append(Wire())
        return self.made[-1]

    async def end(self, db: Wire) -> None:
        db.state = "ended"

    async def part(self, db: Wire) -> None:
        db.state = "parted"

    def is_fit(self, db: Wire) -> bool:
        return db.state == "open"

    @staticmethod
    def is_broken(error: BaseException) -> bool:
        return not isinstance(error, ValueError)

    @property
    def states(self) -> list[str]:
        return [wire.state for wire in self.made]


async def kept(wire: Wire) -> Wire:
    return wire


def failing(error: Exception) -> Callable[[Wire], Awaitable[None]]:
    async def work(wire: Wire) -> None:
        raise error

    return work


async def use_both(pool: Wires) -> None:
    for wire in [await pool.take(), await pool.take()]:
        await pool.give_back(wire)


async def test_the_last_used_is_lent_first_and_none_to_two():
    pool = Wires()
    one, other = await pool.take(), await pool.take()
    assert one is not other
    await pool.give_back(other)
    await pool.give_back(one)
    assert await pool.use(kept) is one  # given back last
    assert pool.states == ["open", "open"]


async def test_an_answer_that_is_an_error_leaves_the_connection_as_it_was():
    pool = Wires()
    with pytest.raises(ValueError, match="no"):
        await pool.use(failing(ValueError("no")))
    assert await pool.take() is pool.made[0]


async def test_a_cancelled_call_ends_its_connection_and_no_other():
    pool = Wires()
    await use_both(pool)
    lent = asyncio.Event()

    async def stay(wire: Wire) -> None:
        lent.set()
        await asyncio.Event().wait()

    task = asyncio.create_task(pool.use(stay))
    await lent.wait()
    task.cancel()
    await asyncio.wait([task])
    assert task.cancelled()
    assert sorted(pool.states) == ["ended", "open"]
    await use_both(pool)  # there is room for both


async def test_a_way_that_leads_nowhere_ends_the_idle_ones_too():
    pool = Wires()
    await use_both(pool)
    with pytest.raises(OSError, match="gone"):
        await pool.use(failing(OSError("gone")))
    assert pool.states == ["ended", "ended"]


async def test_an_unfit_one_is_not_lent_again():
    pool = Wires()
    unfit = await pool.take()
    unfit.state = "half done"
    await pool.give_back(unfit)
    gone = await pool.take()
    await pool.give_back(gone)
    gone.state = "gone"  # while it was idle
    assert await pool.take() is pool.made[2]
    assert pool.states == ["ended", "gone", "open"]


async def test_when_all_are_in_use_it_says_so():
    pool = Wires()
    lent = [await pool.take(), await pool.take()]
    with pytest.raises(StoreUnavailable, match=r"^store: expected one of 2 connections to be free, .*; ask again"):
        await pool.take()
    await pool.give_back(lent[0])
    await pool.take()


@pytest.mark.parametrize("error", [OSError("away"), RuntimeError("a bug")])
async def test_who_cannot_connect_leaves_room(error: Exception):
    pool = Wires(connections=1)
    pool.opening = error
    for _ in range(2):
        with pytest.raises(type(error)):
            await pool.take()
    pool.opening = None
    assert await pool.take() is pool.made[0]


async def test_who_is_cancelled_while_it_connects_leaves_room():
    pool = Wires(connections=1)
    pool.opening = asyncio.Event()
    task = asyncio.create_task(pool.take())
    await asyncio.sleep(0)
    task.cancel()
    await asyncio.wait([task])
    pool.opening = None
    assert await pool.take() is pool.made[0]


async def test_closing_ends_what_is_lent_and_parts_from_what_is_idle():
    pool = Wires()
    lent = await pool.take()
    await pool.give_back(await pool.take())
    await pool.close()
    assert pool.states == ["ended", "parted"]
    await pool.give_back(lent)
    with pytest.raises(StateError, match=r"^store: expected an open store, but it was closed; open it again"):
        await pool.take()
    await pool.close()
