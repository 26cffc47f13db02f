"""Sends hints to other processes by NOTIFY, and listens for theirs.

    commit ─▶ hints here ─▶ Notifier: one NOTIFY for all that came meanwhile ─▶ server ─▶ Listener of each process

The NOTIFY is outside the transaction, because a commit that notifies takes a lock of the whole server.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from contextlib import suppress
from operator import methodcaller

from onthedot.model.errors import StateError, StoreError
from onthedot.stores.hints import ALIVE_EVERY, BaseListener, HintKind, Hints
from onthedot.stores.postgres.connections import Address, Connections, connect
from onthedot.stores.postgres.errors import TROUBLE

LEAST_APART = 0.002
MOST_APART = 0.02
"""The longest time between two NOTIFYs of a process, in seconds. The time begins short, and doubles while hints keep
coming. Hints in between go with the next NOTIFY."""

# A hint may be lost, so the commit does not wait for the disk.
NOTIFY = "SELECT set_config('synchronous_commit', 'off', true), pg_notify($1, $2)"

_TROUBLE = (*TROUBLE, StoreError, StateError)


def channel_of(address: Address) -> str:
    """Return the channel for the hints of one store, because a database may contain several stores."""
    return f"onthedot_{address.schema}"


class Notifier:
    """Sends our hints to other processes: the first at once, more of them in batches. Used on one event loop."""

    def __init__(self, connections: Connections, address: Address, sender: str) -> None:
        self._connections = connections
        self._channel = channel_of(address)
        self._sender = sender
        self._pending: set[HintKind] = set()
        self._task: asyncio.Task[None] | None = None
        self._wait = asyncio.Event()

    def tell(self, kinds: Iterable[HintKind]) -> None:
        """Send now if no NOTIFY was sent just before. Otherwise send together with the next hints."""
        self._pending.update(kinds)
        if self._task is None or self._task.done():
            self._task = asyncio.get_running_loop().create_task(self._send())

    async def _send(self) -> None:
        apart = LEAST_APART
        while self._pending:
            told, self._pending = f"{self._sender} {','.join(sorted(self._pending))}", set()
            with suppress(*_TROUBLE):
                await self._connections.use(methodcaller("fetch", NOTIFY, self._channel, told))
            with suppress(TimeoutError):
                await asyncio.wait_for(self._wait.wait(), apart)
            apart = min(2 * apart, MOST_APART)

    async def close(self) -> None:
        """Send the remaining hints."""
        self._wait.set()
        if self._task is not None:
            with suppress(asyncio.CancelledError):
                await self._task


class Listener(BaseListener):
    """Listens to the channel of one store."""

    trouble = _TROUBLE

    def __init__(self, address: Address, sender: str, hints: Hints) -> None:
        super().__init__(sender, hints)
        self._address = address

    async def _listen_once(self, *, missed: bool) -> None:
        db = await connect(self._address.listen_dsn or self._address.dsn, self._address)
        lost = asyncio.Event()
        try:
            db.add_termination_listener(lambda _: lost.set())
            await db.add_listener(channel_of(self._address), self._notified)
            self._is_listening(missed=missed)
            while not lost.is_set():
                with suppress(TimeoutError):
                    await asyncio.wait_for(lost.wait(), ALIVE_EVERY)
                await db.execute("SELECT 1")
        finally:
            db.terminate()

    def _notified(self, db: object, pid: int, channel: str, payload: object) -> None:
        del db, pid, channel
        sender, _, kinds = str(payload).partition(" ")
        self._heard(sender, kinds.split(","))
