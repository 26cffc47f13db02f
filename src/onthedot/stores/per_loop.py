"""Keeps one connection pool per event loop, for stores on a server.

Handlers may run on another loop than the engine. A loop gets its home with its first call, and closes it at its end at
the latest. Connections are opened when needed and lent to one call at a time. A call that is cancelled, times out or
loses its server leaves its connection in an unknown state, so that connection is ended.
"""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from asyncio import AbstractEventLoop
from collections.abc import AsyncGenerator, Awaitable, Callable
from concurrent.futures import Future
from typing import ClassVar, Generic, Protocol, TypeVar

from onthedot.clock import SECOND, Micros, SystemClock
from onthedot.ids import RandomIds
from onthedot.model.errors import StateError, StoreUnavailable
from onthedot.stores.addresses import ServerAddress

C = TypeVar("C")
T = TypeVar("T")

CLOSE_PATIENCE = 2.0
"""How long a store that is closed waits for other loops to close what is theirs, in seconds."""

CONNECT_TIMEOUT = 5.0
LONGEST_PAUSE: Micros = 5 * SECOND


class Home(Protocol):
    """What belongs to one event loop."""

    async def close(self) -> None:
        """Let go of everything. Called once, on this loop."""


H = TypeVar("H", bound=Home)


async def _until_closed(home: Home) -> AsyncGenerator[None]:
    """Closes a home at its own end. A loop ends its generators before it is closed itself."""
    try:
        yield
    finally:
        await home.close()


async def _close(end: AsyncGenerator[None]) -> None:
    await end.aclose()


class Homes(Generic[H]):
    """The homes of one store, by loop. `shown` is the store's address, for people."""

    def __init__(self, make: Callable[[], H], shown: str) -> None:
        self._make = make
        self._shown = shown
        self._homes: dict[AbstractEventLoop, tuple[H, AsyncGenerator[None]]] = {}
        self._closed = False

    async def here(self) -> H:
        """What belongs to the loop that this is called on. `StateError` when the store was closed."""
        if self._closed:
            raise StateError(f"{self._shown}: expected an open store, but it was closed; open it again")
        loop = asyncio.get_running_loop()
        known = self._homes.get(loop)
        if known is not None:
            return known[0]
        for old in [one for one in list(self._homes) if one.is_closed()]:
            self._homes.pop(old, None)  # another loop may do the same at this moment
        home = self._make()
        _, end = self._homes[loop] = home, _until_closed(home)
        await anext(end)
        return home

    async def close(self) -> None:
        """Close them all, each on its own loop; those of other loops are waited for, but not for ever. Twice is fine.

        A loop that does not run, or has no time now, closes what is its own when it ends."""
        if self._closed:
            return
        self._closed = True
        here, homes = asyncio.get_running_loop(), dict(self._homes)
        elsewhere = [_close_on(loop, end) for loop, (_, end) in homes.items() if loop is not here and loop.is_running()]
        if here in homes:
            await _close(homes[here][1])
        asked = [asyncio.wrap_future(closing) for closing in elsewhere if closing is not None]
        if asked:
            done, _ = await asyncio.wait(asked, timeout=CLOSE_PATIENCE)
            for closing in done:
                if not closing.cancelled():  # its loop ended meanwhile, and with it what was its own
                    closing.result()


def _close_on(loop: AbstractEventLoop, end: AsyncGenerator[None]) -> Future[None] | None:
    """Ask another loop to close a home; None if it has ended at this moment."""
    closing = _close(end)
    try:
        return asyncio.run_coroutine_threadsafe(closing, loop)
    except RuntimeError:
        closing.close()
        return None


class Pool(ABC, Generic[C]):
    """Used on one event loop only."""

    trouble: ClassVar[tuple[type[Exception], ...]]
    """All that a server and the way to it can answer with."""

    lost: ClassVar[tuple[type[Exception], ...]] = (OSError,)
    """What breaks a connection because of the way to the server: then the idle ones lead to the same place."""

    def __init__(self, address: ServerAddress) -> None:
        self._address = address
        self._idle: list[C] = []
        self._lent: set[C] = set()
        self._room = asyncio.Semaphore(address.connections)
        self._clock = SystemClock()  # real time: the server is real
        self._ids = RandomIds()
        self._failures = 0
        self._connect_at: Micros = 0
        self._closed = False

    # ── what a driver says ───────────────────────────────────────────────────────────────────────────────────

    @abstractmethod
    async def open(self) -> C:
        """A new connection, or nothing that is left behind."""

    @abstractmethod
    async def end(self, db: C) -> None:
        """End a connection at once, even with an answer on its way. It does not wait, so a cancelled caller can do
        it."""

    async def part(self, db: C) -> None:
        """End a connection that has nothing on its way: as politely as the server wants it."""
        await self.end(db)

    @abstractmethod
    def is_fit(self, db: C) -> bool:
        """Whether a connection that was given back can be lent again."""

    @staticmethod
    @abstractmethod
    def is_broken(error: BaseException) -> bool:
        """Whether a call that ended with this error leaves its connection in an unknown state."""

    # ── lending ──────────────────────────────────────────────────────────────────────────────────────────────

    async def use(self, work: Callable[[C], Awaitable[T]]) -> T:
        """Do some work on a connection of its own."""
        db = await self.take()
        try:
            answer = await work(db)
        except BaseException as error:  # a cancel, too, leaves an answer on its way
            await self.give_back(db, error)
            raise
        await self.give_back(db)
        return answer

    async def take(self) -> C:
        """An unused connection: an idle one, or a new one."""
        try:
            async with asyncio.timeout(self._address.timeout):
                await self._room.acquire()
        except TimeoutError as error:
            raise StoreUnavailable(
                f"{self._address.shown}: expected one of {self._address.connections} connections to be free, "
                "all are in use; ask again, or raise the option 'connections' of the URL"
            ) from error
        try:
            if self._closed:
                raise StateError(f"{self._address.shown}: expected an open store, but it was closed; open it again")
            db = self._take_idle() or await self._connect()
        except BaseException:  # whoever is cancelled while it connects leaves room for the next one
            self._room.release()
            raise
        self._lent.add(db)
        return db

    def _take_idle(self) -> C | None:
        while self._idle:
            db = self._idle.pop()  # the last used first: the others may be let go by a server that is restarted
            if self.is_fit(db):
                return db
        return None

    async def _connect(self) -> C:
        """Connect; after a failure not at once again, and not all nodes at the same time."""
        wait = self._connect_at - self._clock.steady()
        if wait > 0:
            await asyncio.sleep(wait / SECOND)
        try:
            db = await self.open()
        except self.trouble:
            self._failures += 1
            longest = min(LONGEST_PAUSE, SECOND // 10 << min(self._failures, 10))
            self._connect_at = self._clock.steady() + round(longest * self._ids.fraction())
            raise
        self._failures = 0
        return db

    async def give_back(self, db: C, error: BaseException | None = None) -> None:
        """Return a connection that has nothing on its way; after an error that leaves some, end it."""
        self._lent.discard(db)
        try:
            if error is not None and self.is_broken(error):
                await self.end(db)
                if isinstance(error, self.lost):
                    await self._end_idle()
            elif self._closed or not self.is_fit(db):
                await self.end(db)
            else:
                self._idle.append(db)
        finally:
            self._room.release()

    async def _end_idle(self) -> None:
        while self._idle:
            await self.end(self._idle.pop())

    async def close(self) -> None:
        """End them all: politely those that nobody uses."""
        self._closed = True
        for db in list(self._lent):
            await self.end(db)
        while self._idle:
            await self.part(self._idle.pop())
