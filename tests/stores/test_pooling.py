"""Connections of one loop: lent to one at a time, ended when in doubt. With made-up connections."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from onthedot.model.errors import StateError, StoreUnavailable
from onthedot.stores.addresses import ServerAddress
from onthedot.stores.per_loop import Pool


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
