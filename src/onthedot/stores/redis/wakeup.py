"""Wake-up across processes: every script that has hints publishes their kinds, and who listens passes them on."""

from __future__ import annotations

from onthedot.stores.hints import ALIVE_EVERY, BaseListener, Hints
from onthedot.stores.redis.connections import Connection, break_off, maker, open_connection
from onthedot.stores.redis.failures import TROUBLE
from onthedot.stores.redis.url import Address


class Listener(BaseListener):
    """Subscribed to the channel of one store."""

    trouble = TROUBLE

    def __init__(self, address: Address, sender: str, hints: Hints) -> None:
        super().__init__(sender, hints)
        self._make = maker(address)
        self._channel = f"{address.tag}:hints"

    async def _listen_once(self, *, missed: bool) -> None:
        db = self._make()
        try:
            await open_connection(db)
            await db.send_command("SUBSCRIBE", self._channel)
            await db.read_response()
            self._is_listening(missed=missed)
            while True:
                await self._hear(db)
        finally:
            await break_off(db)

    async def _hear(self, db: Connection) -> None:
        """The next message; after a while without one, see whether anybody is there."""
        said = await db.read_response(timeout=ALIVE_EVERY, disconnect_on_error=False)
        if said is None:
            await db.send_command("PING")
            said = await db.read_response()
        if said[0] == "message":
            sender, *kinds = said[2].split()
            self._heard(sender, kinds)
