"""Keeps one connection pool per event loop, for stores on a server.

Handlers may run on another loop than the engine. A loop's first call creates its home. The home is closed when the loop
ends, or earlier. Connections are opened when needed and lent to one call at a time. A call that is cancelled, times out
or loses its server leaves its connection in an unknown state, so this connection is ended.
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
"""How long a closing store waits for other loops to close their homes, in seconds."""

CONNECT_TIMEOUT = 5.0
LONGEST_PAUSE: Micros = 5 * SECOND


class Home(Protocol):
    """The resources of one event loop."""

    async def close(self) -> None:
        """Release all resources. This is called once, on this loop."""


H = TypeVar("H", bound=Home)


async def _until_closed(home: Home) -> AsyncGenerator[None]:
    """Close a home when this generator ends. A loop ends its generators before it is closed."""
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
        """Return the home of the calling loop. Raise `StateError` if the store was closed."""
        if self._closed:
            raise StateError(f"{self._shown}: expected an open store, but it was closed; open it again")
        loop = asyncio.get_running_loop()
        known = self._homes.get(loop)
        if known is not None:
            return known[0]
        for old in [one for one in list(self._homes) if one.is_closed()]:
            self._homes.pop(old, None)  # another loop may do the same now
        home = self._make()
        _, end = self._homes[loop] = home, _until_closed(home)
        await anext(end)
        return home

    async def close(self) -> None:
        """Close all homes, each on its own loop. Wait for other loops, but not for ever. A second call does nothing.

        A loop that does not run, or is busy now, closes its home when it ends."""
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
                if not closing.cancelled():  # its loop ended, and closed its home
                    closing.result()


def _close_on(loop: AbstractEventLoop, end: AsyncGenerator[None]) -> Future[None] | None:
    """Ask another loop to close a home. Return None if that loop has just ended."""
    closing = _close(end)
    try:
        return asyncio.run_coroutine_threadsafe(closing, loop)
    except RuntimeError:
        closing.close()
        return None


class Pool(ABC, Generic[C]):
    """Lends connections to calls on one event loop."""

    trouble: ClassVar[tuple[type[Exception], ...]]
    """All errors that a server or the network can cause."""

    lost: ClassVar[tuple[type[Exception], ...]] = (OSError,)
    """Network errors that break a connection. Idle connections to the server are then broken, too."""

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

    # ── for each driver ──────────────────────────────────────────────────────────────────────────────────────

    @abstractmethod
    async def open(self) -> C:
        """Open a connection. If this fails, nothing stays open."""

    @abstractmethod
    async def end(self, db: C) -> None:
        """End a connection at once, even if an answer is pending. This does not wait, so a cancelled caller can call
        it."""

    async def part(self, db: C) -> None:
        """End a connection that has no pending answer, as politely as the server wants."""
        await self.end(db)

    @abstractmethod
    def is_fit(self, db: C) -> bool:
        """Return whether a connection that was given back can be lent again."""

    @staticmethod
    @abstractmethod
    def is_broken(error: BaseException) -> bool:
        """Return whether this error of a call leaves its connection in an unknown state."""

    # ── lending ──────────────────────────────────────────────────────────────────────────────────────────────

    async def use(self, work: Callable[[C], Awaitable[T]]) -> T:
        """Run work on a connection that no other call uses."""
        db = await self.take()
        try:
            answer = await work(db)
        except BaseException as error:  # a cancel, too, leaves a pending answer
            await self.give_back(db, error)
            raise
        await self.give_back(db)
        return answer

    async def take(self) -> C:
        """Return an unused connection, idle or new."""
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
        except BaseException:  # a call that is cancelled while it connects makes room for the next
            self._room.release()
            raise
        self._lent.add(db)
        return db

    def _take_idle(self) -> C | None:
        while self._idle:
            db = self._idle.pop()  # the last used first: a restarted server may have closed the others
            if self.is_fit(db):
                return db
        return None

    async def _connect(self) -> C:
        """Connect. After a failure wait before the next try, for a random time, so that nodes do not connect
        together."""
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
        """Give back a connection that has no pending answer. After an error that leaves one, end the connection."""
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
        """End all connections, and politely those that no call uses."""
        self._closed = True
        for db in list(self._lent):
            await self.end(db)
        while self._idle:
            await self.part(self._idle.pop())
