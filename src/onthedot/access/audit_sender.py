"""Sends the audit to a receiver as it grows: every entry, in order, at least once.

The position of each destination is a document (`audit.sent`). So a restarted sender continues where it was. Entries
that are recorded while the receiver or the sender is down are sent later. Several senders may run: the document names
the one that sends.

    read position ─▶ claim it ─▶ send ─▶ write the new position, and release it
                        │          └─ refused: release it, and try again later
                        └─ claimed by another: look again later

If a sender is killed between sending and writing, the entries are sent again. Receivers ignore numbers that they have.
"""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import json
from collections.abc import Awaitable, Callable, Sequence
from typing import NamedTuple

from onthedot.access.audit import KIND, Recorded, recorded_of
from onthedot.clock import MILLISECOND, SECOND, Clock, Micros
from onthedot.ids import RandomIds
from onthedot.stores.documents import Entry
from onthedot.stores.protocol import Store

SENT = "audit.sent"
"""The kind of the documents that hold the position of a destination."""

LOOK_EVERY: Micros = 500 * MILLISECOND
SEND_WITHIN: Micros = 20 * SECOND
"""The time-out of a receiver."""
CLAIM_FOR: Micros = 60 * SECOND
"""How long a claim is valid, if the sender that holds it was killed."""
AGAIN_AFTER: Micros = 1 * SECOND
AGAIN_AT_MOST: Micros = 60 * SECOND
MOST = 200
MOST_BYTES = 512 * 1024
"""Most entries and bytes in one request."""

Send = Callable[[Sequence[Recorded]], Awaitable[None]]


class SendFailed(Exception):
    """The receiver refused the entries, or did not answer. The text says why."""


class Position(NamedTuple):
    """The number of the last entry that was sent, and the claim of the sender that sends now."""

    number: int
    by: str = ""
    until: Micros = 0
    version: int = 0


def signature(key: str, timestamp: int, body: bytes) -> str:
    """The signature of a request, over its time (seconds since 1970) and its body. A receiver can refuse old requests.

    >>> signature("a key that both sides know", 1767225600, b"{}")
    'v1=b521724cb02e96ca59c698ae4feac252ffab68bbf509c7db9366a26647277069'
    """
    digest = hmac.new(key.encode(), f"{timestamp}.".encode() + body, hashlib.sha256)
    return f"v1={digest.hexdigest()}"


async def read_position(store: Store, destination: str) -> Position | None:
    """The position of this destination; None if nothing was sent to it yet."""
    found = await store.documents.get_document(SENT, _id(destination))
    if found is None:
        return None
    said = json.loads(found.body)
    return Position(int(said["number"]), str(said["by"]), int(said["until"]), found.version)


def _id(destination: str) -> str:
    """Return the destination's id in the store. It is a hash, because the URL may contain a secret."""
    return hashlib.sha256(destination.encode()).hexdigest()


class Sender:
    """Sends to one destination. `first` is the number after which it begins if nothing was sent yet."""

    def __init__(
        self, store: Store, clock: Clock, destination: str, send: Send, tell: Callable[[str], None], *, first: int = 0
    ) -> None:
        self._store = store
        self._clock = clock
        self._destination = destination
        self._send = send
        self._tell = tell
        self._first = first
        self._id = RandomIds().token()
        self._failures = 0

    async def tick(self) -> Micros:
        """Send the next entries. Returns how long to wait before the next call."""
        position = await read_position(self._store, self._destination) or Position(self._first)
        entries = await self._next(position.number)
        if not entries:
            return LOOK_EVERY
        now = self._clock.now()
        if position.by not in ("", self._id) and position.until > now:
            return LOOK_EVERY
        claimed = await self._write(position._replace(by=self._id, until=now + CLAIM_FOR))
        if claimed is None:
            return LOOK_EVERY
        try:
            async with asyncio.timeout(SEND_WITHIN / SECOND):
                await self._send([recorded_of(entry) for entry in entries])
        except (SendFailed, TimeoutError) as error:
            await self._write(claimed._replace(by="", until=0))
            return self._failed(error)
        self._failures = 0
        if await self._write(Position(entries[-1].number, version=claimed.version)) is None:
            self._tell("another sender has taken over: it was slower than expected, and entries may be sent twice")
        return 0

    async def _next(self, after: int) -> list[Entry]:
        entries = await self._store.documents.list_appended(KIND, after=after, limit=MOST)
        size = 0
        for place, entry in enumerate(entries):
            size += len(entry.body)
            if place and size > MOST_BYTES:
                return entries[:place]
        return entries

    async def _write(self, position: Position) -> Position | None:
        """Write the position in place of the version that was read. Return None if another sender was faster."""
        body = json.dumps({"number": position.number, "by": position.by, "until": position.until})
        put = await self._store.documents.put_document(SENT, _id(self._destination), body, version=position.version)
        return position._replace(version=put.version) if put.accepted else None

    def _failed(self, error: Exception) -> Micros:
        again_in = min(AGAIN_AFTER << min(self._failures, 10), AGAIN_AT_MOST)
        self._failures += 1
        why = str(error) or f"no answer within {SEND_WITHIN // SECOND} s"
        self._tell(f"not sent: {why}; tried again in {again_in // SECOND} s")
        return again_in
