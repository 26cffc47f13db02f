"""The connections of one event loop: opened when needed, lent to one call at a time, ended when in doubt.

A call that is cancelled, times out or loses its server leaves a connection in an unknown state: it is ended, and
nobody else ever reads the answer that was meant for that call. What a connection is, and when it is in doubt, a driver
says.
"""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from types import TracebackType
from typing import ClassVar, Generic, TypeVar

from onthedot.clock import SECOND, Micros, SystemClock
from onthedot.errors import StateError, StoreUnavailable
from onthedot.ids import RandomIds
from onthedot.stores.addresses import ServerAddress

C = TypeVar("C")

CONNECT_TIMEOUT = 5.0
LONGEST_PAUSE: Micros = 5 * SECOND


class Pool(ABC, Generic[C]):
    """Used on one event loop only."""

    trouble: ClassVar[tuple[type[Exception], ...]]
    """All that a server and the way to it can answer with."""

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
        """End a connection at once, whatever is on its way. It does not wait: whoever was cancelled can do it."""

    async def part(self, db: C) -> None:
        """End a connection that has nothing on its way: as politely as the server wants it."""
        await self.end(db)

    @abstractmethod
    def is_fit(self, db: C) -> bool:
        """Whether a connection that was given back can be lent again."""

    @abstractmethod
    def is_broken(self, error: BaseException) -> bool:
        """Whether nobody knows what state the connection of a call is in that ended so."""

    @abstractmethod
    def leads_nowhere(self, error: BaseException) -> bool:
        """Whether a connection broke because of the way to the server: then the idle ones lead to the same place."""

    # ── lending ──────────────────────────────────────────────────────────────────────────────────────────────

    def lend(self) -> Loan[C]:
        """A connection for one call: `async with pool.lend() as db`."""
        return Loan(self)

    async def take(self) -> C:
        """A connection that nobody else uses: one that was given back, or a new one."""
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

    async def give_back(self, db: C, error: BaseException | None = None, *, doubt: bool = False) -> None:
        """Return a connection that has nothing on its way; in `doubt`, or after an error that leaves some, end it."""
        self._lent.discard(db)
        try:
            if error is not None and self.is_broken(error):
                await self.end(db)
                if self.leads_nowhere(error):
                    await self._end_idle()
            elif doubt or self._closed or not self.is_fit(db):
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


class Loan(Generic[C]):
    """A connection that is lent to one call. A class, because a generator costs every call some microseconds more."""

    __slots__ = ("_db", "_pool")

    def __init__(self, pool: Pool[C]) -> None:
        self._pool = pool

    async def __aenter__(self) -> C:
        self._db = await self._pool.take()
        return self._db

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._pool.give_back(self._db, error)  # a cancel is an error here: it leaves an answer on its way
