"""Wake-up across processes: every script that has hints publishes their kinds, and who listens passes them on.

A hint that is lost costs latency only, because everybody who sleeps looks again by itself.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from contextlib import suppress
from typing import get_args

from redis.exceptions import RedisError

from onthedot.ids import RandomIds
from onthedot.stores.hints import Hint, HintKind, Hints
from onthedot.stores.redis.connections import Connection, maker, open_connection
from onthedot.stores.redis.url import Address

KINDS: tuple[HintKind, ...] = get_args(HintKind)

ALIVE_EVERY = 5.0
"""How often a listener sees whether its server is still there, in seconds."""

_TROUBLE = (OSError, TimeoutError, RedisError)


class Listener:
    """Passes on the hints of other processes, on the loop that has started it. Connects anew when it has to."""

    def __init__(self, address: Address, sender: str, hints: Hints) -> None:
        self._make = maker(address)
        self._channel = f"{address.tag}:hints"
        self._sender = sender
        self._hints = hints
        self._ids = RandomIds()
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
        db = self._make()
        try:
            await open_connection(db)
            await db.send_command("SUBSCRIBE", self._channel)
            await db.read_response()
            self.listening.set()
            if missed:
                self._send(KINDS)
            while True:
                await self._hear(db)
        finally:
            await db.disconnect(nowait=True)

    async def _hear(self, db: Connection) -> None:
        """The next message; after a while without one, see whether anybody is there."""
        said = await db.read_response(timeout=ALIVE_EVERY, disconnect_on_error=False)
        if said is None:
            await db.send_command("PING")
            said = await db.read_response()
        if said[0] == "message":
            self._heard(said[2])

    def _heard(self, payload: str) -> None:
        sender, *kinds = payload.split()
        if sender != self._sender:
            self._send([kind for kind in KINDS if kind in kinds])

    def _send(self, kinds: Iterable[HintKind]) -> None:
        for kind in kinds:
            self._hints.send(Hint(kind, 0))

    async def close(self) -> None:
        """End listening. The library can swallow a cancellation while it connects: it is told until it has ended."""
        while self._task is not None and not self._task.done():
            self._task.cancel()
            await asyncio.wait([self._task], timeout=0.05)
