"""Each event loop has its own resources of a store: how they are made, closed, and lent."""

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


class FakeResource:
    """Records the loop on which it was closed, after a few turns of it."""

    def __init__(self) -> None:
        self.closed_on: list[asyncio.AbstractEventLoop] = []

    async def close(self) -> None:
        for _ in range(10):
            await asyncio.sleep(0)
        self.closed_on.append(asyncio.get_running_loop())


def make_homes() -> tuple[Homes[FakeResource], list[FakeResource]]:
    built: list[FakeResource] = []

    def make() -> FakeResource:
        built.append(FakeResource())
        return built[-1]

    return Homes(make, "store"), built


async def test_each_loop_has_its_own_resource():
    homes, built = make_homes()
    async with OtherLoop() as other:
        assert await homes.here() is await homes.here() is built[0]
        assert await other.run(homes.here()) is await other.run(homes.here()) is built[1]
        await homes.close()


async def test_close_closes_each_resource_on_its_loop_and_waits():
    homes, built = make_homes()
    async with OtherLoop() as one, OtherLoop() as two:
        await homes.here()
        await one.run(homes.here())
        await two.run(homes.here())
        await homes.close()
        assert [house.closed_on for house in built] == [[asyncio.get_running_loop()], [one.loop], [two.loop]]
        await homes.close()
        with pytest.raises(StateError, match=f"^store: {CLOSED}"):
            await one.run(homes.here())
    assert [len(house.closed_on) for house in built] == [1, 1, 1]


async def test_the_resource_of_a_stopped_loop_is_closed_when_that_loop_ends():
    homes, built = make_homes()
    async with OtherLoop() as other:
        await other.run(homes.here())
        await other.stop()
        await asyncio.wait_for(homes.close(), per_loop.CLOSE_PATIENCE / 2)
        assert built[0].closed_on == []
        await asyncio.to_thread(other.end)
        assert built[0].closed_on == [other.loop]


async def test_close_does_not_wait_for_a_blocked_loop_which_closes_its_resource_later(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(per_loop, "CLOSE_PATIENCE", 0.02)
    homes, built = make_homes()
    release = threading.Event()
    async with OtherLoop() as other:
        await other.run(homes.here())
        await other.block(release)
        await homes.close()
        assert built[0].closed_on == []
        release.set()
        await look_until(lambda: built[0].closed_on, "the other loop to close its resource")
    assert len(built[0].closed_on) == 1


async def test_the_end_of_a_loop_closes_its_resource_for_good():
    homes, built = make_homes()
    async with OtherLoop() as other:
        await other.run(homes.here())
    assert built[0].closed_on == [other.loop]
    await homes.here()
    await homes.close()
    assert [len(house.closed_on) for house in built] == [1, 1]


async def test_an_error_on_another_loop_is_raised_after_all_are_closed():
    class Broken(FakeResource):
        async def close(self) -> None:
            await super().close()
            if len(built) > 1 and self is built[1]:
                raise RuntimeError("a bug")

    built: list[Broken] = []

    def make() -> Broken:
        built.append(Broken())
        return built[-1]

    homes = Homes(make, "store")
    async with OtherLoop() as other:
        await homes.here()
        await other.run(homes.here())
        with pytest.raises(RuntimeError, match="a bug"):
            await homes.close()
        assert [len(house.closed_on) for house in built] == [1, 1]


# ── every driver ─────────────────────────────────────────────────────────────────────────────────────────────────

Count = Callable[[], int]
SESSIONS = "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'onthedot' AND datname = current_database()"


@pytest.fixture(params=["postgres", "redis"])
def server(request: pytest.FixtureRequest) -> tuple[str, Count]:
    """Returns the URL of a store, and a function that counts our connections to its server."""
    if request.param == "postgres":  # its own database, without connections of other tests
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
    """Open without a listener, so that only connections of calls are counted."""
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


async def test_a_store_can_be_closed_although_a_loop_is_stopped(server: tuple[str, Count]):
    url, count = server
    store = await opened(url)
    async with OtherLoop() as other:
        assert await other.run(store.queries.list_jobs()) == []
        await other.stop()
        await asyncio.wait_for(store.close(), per_loop.CLOSE_PATIENCE / 2)
        await look_until(lambda: count() == 1, "the server to have that loop's connection only")
        await asyncio.to_thread(other.end)
        await look_until(lambda: count() == 0, "the server to have no connection of ours")


async def test_the_close_of_a_store_does_not_wait_for_ever_for_a_blocked_loop(
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


class FakeConnection:
    """A fake connection that records its state."""

    def __init__(self) -> None:
        self.state = "open"


class FakePool(Pool[FakeConnection]):
    trouble = (OSError,)

    def __init__(self, *, connections: int = 2, timeout: float = 0.02) -> None:
        super().__init__(ServerAddress("dsn", "store", connections=connections, timeout=timeout))
        self.made: list[FakeConnection] = []
        self.opening: BaseException | asyncio.Event | None = None

    async def open(self) -> FakeConnection:
        if isinstance(self.opening, asyncio.Event):
            await self.opening.wait()
        elif self.opening is not None:
            raise self.opening
        self.made.append(FakeConnection())
        return self.made[-1]

    async def end(self, db: FakeConnection) -> None:
        db.state = "ended"

    async def part(self, db: FakeConnection) -> None:
        db.state = "parted"

    def is_fit(self, db: FakeConnection) -> bool:
        return db.state == "open"

    @staticmethod
    def is_broken(error: BaseException) -> bool:
        return not isinstance(error, ValueError)

    @property
    def states(self) -> list[str]:
        return [wire.state for wire in self.made]


async def return_it(wire: FakeConnection) -> FakeConnection:
    return wire


def failing(error: Exception) -> Callable[[FakeConnection], Awaitable[None]]:
    async def work(wire: FakeConnection) -> None:
        raise error

    return work


async def use_both(pool: FakePool) -> None:
    for wire in [await pool.take(), await pool.take()]:
        await pool.give_back(wire)


async def test_the_last_used_connection_is_lent_first_and_only_once():
    pool = FakePool()
    one, other = await pool.take(), await pool.take()
    assert one is not other
    await pool.give_back(other)
    await pool.give_back(one)
    assert await pool.use(return_it) is one  # given back last
    assert pool.states == ["open", "open"]


async def test_an_error_of_the_server_keeps_the_connection():
    pool = FakePool()
    with pytest.raises(ValueError, match="no"):
        await pool.use(failing(ValueError("no")))
    assert await pool.take() is pool.made[0]


async def test_a_cancelled_call_ends_only_its_own_connection():
    pool = FakePool()
    await use_both(pool)
    lent = asyncio.Event()

    async def stay(wire: FakeConnection) -> None:
        lent.set()
        await asyncio.Event().wait()

    task = asyncio.create_task(pool.use(stay))
    await lent.wait()
    task.cancel()
    await asyncio.wait([task])
    assert task.cancelled()
    assert sorted(pool.states) == ["ended", "open"]
    await use_both(pool)  # the pool may open a second one again


async def test_a_broken_connection_ends_the_idle_ones_too():
    pool = FakePool()
    await use_both(pool)
    with pytest.raises(OSError, match="gone"):
        await pool.use(failing(OSError("gone")))
    assert pool.states == ["ended", "ended"]


async def test_an_unfit_connection_is_not_lent_again():
    pool = FakePool()
    unfit = await pool.take()
    unfit.state = "half done"
    await pool.give_back(unfit)
    gone = await pool.take()
    await pool.give_back(gone)
    gone.state = "gone"  # it broke while it was idle
    assert await pool.take() is pool.made[2]
    assert pool.states == ["ended", "gone", "open"]


async def test_an_error_says_that_all_connections_are_in_use():
    pool = FakePool()
    lent = [await pool.take(), await pool.take()]
    with pytest.raises(StoreUnavailable, match=r"^store: expected one of 2 connections to be free, .*; ask again"):
        await pool.take()
    await pool.give_back(lent[0])
    await pool.take()


@pytest.mark.parametrize("error", [OSError("away"), RuntimeError("a bug")])
async def test_a_failed_connect_frees_its_place(error: Exception):
    pool = FakePool(connections=1)
    pool.opening = error
    for _ in range(2):
        with pytest.raises(type(error)):
            await pool.take()
    pool.opening = None
    assert await pool.take() is pool.made[0]


async def test_a_cancelled_connect_frees_its_place():
    pool = FakePool(connections=1)
    pool.opening = asyncio.Event()
    task = asyncio.create_task(pool.take())
    await asyncio.sleep(0)
    task.cancel()
    await asyncio.wait([task])
    pool.opening = None
    assert await pool.take() is pool.made[0]


async def test_close_ends_lent_connections_and_parts_from_idle_ones():
    pool = FakePool()
    lent = await pool.take()
    await pool.give_back(await pool.take())
    await pool.close()
    assert pool.states == ["ended", "parted"]
    await pool.give_back(lent)
    with pytest.raises(StateError, match=r"^store: expected an open store, but it was closed; open it again"):
        await pool.take()
    await pool.close()
