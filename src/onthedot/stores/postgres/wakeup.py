"""Wake-up across processes: hints that were sent here are told to all others, by NOTIFY.

    commit ─▶ hints here ─▶ Notifier: one NOTIFY for all that came meanwhile ─▶ server ─▶ Listener of each process

Not in the transaction itself: a commit that notifies takes a lock of the whole server. A hint that is lost costs
latency only, because everybody who sleeps looks again by itself.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from contextlib import suppress
from typing import get_args

from onthedot.clock import SystemClock
from onthedot.errors import StateError, StoreError
from onthedot.ids import RandomIds
from onthedot.stores.hints import Hint, HintKind, Hints
from onthedot.stores.postgres.connections import Connections, connect
from onthedot.stores.postgres.failures import TROUBLE
from onthedot.stores.postgres.url import Address

KINDS: tuple[HintKind, ...] = get_args(HintKind)

APART = 0.02
"""Seconds between two NOTIFYs of a process: what comes meanwhile goes with the next one."""

ALIVE_EVERY = 5.0
"""How often a listener sees whether its server is still there, in seconds."""

# A hint may be lost: nobody waits until it is on the disk.
NOTIFY = "SELECT set_config('synchronous_commit', 'off', true), pg_notify($1, $2)"

_TROUBLE = (*TROUBLE, StoreError, StateError)


def channel_of(address: Address) -> str:
    """Where the hints of one store go: a database may hold several."""
    return f"onthedot_{address.schema}"


class Notifier:
    """Tells other processes of our hints, a few times a second at the most. Used on one event loop."""

    def __init__(self, connections: Connections, address: Address, sender: str) -> None:
        self._connections = connections
        self._channel = channel_of(address)
        self._sender = sender
        self._pending: set[HintKind] = set()
        self._task: asyncio.Task[None] | None = None
        self._wait = asyncio.Event()

    def tell(self, kinds: Iterable[HintKind]) -> None:
        """At once if nothing was told just now; else together with what comes next."""
        self._pending.update(kinds)
        if self._task is None or self._task.done():
            self._task = asyncio.get_running_loop().create_task(self._send())

    async def _send(self) -> None:
        while self._pending:
            with suppress(*_TROUBLE):
                await self._notify()
            with suppress(TimeoutError):
                await asyncio.wait_for(self._wait.wait(), APART)

    async def _notify(self) -> None:
        kinds, self._pending = self._pending, set()
        db = await self._connections.take()
        try:
            await db.fetchval(NOTIFY, self._channel, f"{self._sender} {','.join(sorted(kinds))}")
        except BaseException as error:
            self._connections.give_back(db, error)
            raise
        self._connections.give_back(db)

    async def close(self) -> None:
        """Send what is left."""
        self._wait.set()
        if self._task is not None:
            with suppress(asyncio.CancelledError):
                await self._task


class Listener:
    """Passes on the hints of other processes, on the loop that has started it. Connects anew when it has to."""

    def __init__(self, address: Address, sender: str, hints: Hints) -> None:
        self._address = address
        self._sender = sender
        self._hints = hints
        self._ids = RandomIds()
        self._clock = SystemClock()
        self._task: asyncio.Task[None] | None = None
        self.listening = asyncio.Event()

    def start(self) -> None:
        self._task = asyncio.get_running_loop().create_task(self._listen())

    async def _listen(self) -> None:
        pause, again = 0.1, False
        while True:
            with suppress(*_TROUBLE):
                await self._listen_once(missed=again)
                pause = 0.1
            self.listening.clear()
            again = True
            await asyncio.sleep(pause * (0.5 + self._ids.fraction()))
            pause = min(5.0, pause * 2)

    async def _listen_once(self, *, missed: bool) -> None:
        """Until the connection is lost. What came before it was made is missed: then everybody looks once."""
        db = await connect(self._address.listen_dsn or self._address.dsn, self._address)
        lost = asyncio.Event()
        try:
            db.add_termination_listener(lambda _: lost.set())
            await db.add_listener(channel_of(self._address), self._heard)
            self.listening.set()
            if missed:
                self._send(KINDS)
            while not lost.is_set():
                with suppress(TimeoutError):
                    await asyncio.wait_for(lost.wait(), ALIVE_EVERY)
                await db.execute("SELECT 1")
        finally:
            db.terminate()

    def _heard(self, db: object, pid: int, channel: str, payload: object) -> None:
        del db, pid, channel
        sender, _, kinds = str(payload).partition(" ")
        if sender != self._sender:
            told = kinds.split(",")
            self._send([kind for kind in KINDS if kind in told])

    def _send(self, kinds: Iterable[HintKind]) -> None:
        for kind in kinds:
            self._hints.send(Hint(kind, 0))

    async def close(self) -> None:
        if self._task is None:
            return
        self._task.cancel()
        with suppress(asyncio.CancelledError):
            await self._task
