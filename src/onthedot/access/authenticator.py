"""Authenticates requests: finds the principal that a key or a session belongs to.

A server caches documents for 2 seconds, counted from the moment before the read. So every server refuses a revoked key,
a disabled user and an old password within 5 seconds. The cache holds documents, never results: the proof and the expiry
of a credential are checked every time.
"""

from __future__ import annotations

import asyncio
from typing import NamedTuple

from onthedot.access import credentials, keys, sessions, users
from onthedot.access.credentials import Credential
from onthedot.access.permissions import Principal
from onthedot.clock import SECOND, Clock, Micros
from onthedot.model.errors import StoreError
from onthedot.stores.documents import Document
from onthedot.stores.protocol import Store

CACHE_FOR: Micros = 2 * SECOND
"""How long a document is cached."""
_MOST = 10_000


class _Read(NamedTuple):
    document: Document
    asked_at: Micros  # steady


class Authenticator:
    """Finds the principal of a credential. Use it on one event loop, and `close` it at the end."""

    def __init__(self, store: Store, clock: Clock) -> None:
        self._store = store
        self._clock = clock
        self._cache: dict[tuple[str, str], _Read] = {}
        self._noted: dict[str, Micros] = {}  # keys whose use was noted by this server, and when (steady)
        self._noting: set[asyncio.Task[None]] = set()

    async def check(self, text: str) -> Principal | None:
        """Return the principal of this text; None if the text is not valid, or no longer valid. Raise
        `StoreUnavailable` if the store does not answer. The caller must then refuse the request."""
        credential = credentials.read(text)
        if credential is None or credential.kind not in ("key", "session"):
            return None
        document = await self._read(credential.kind, credential.id)
        if document is None:
            return None
        if credential.kind == "session":
            return await self._session(credential, document)
        stored = keys.read_key(document)
        if stored is None or not credential.proves(stored.proof) or stored.key.state(self._clock.now()) != "active":
            return None
        self._note(credential.id)
        return stored.key.grant.principal("key", credential.id, stored.key.name)

    async def check_page(self, cookie: str, csrf: str | None) -> Principal | None:
        """Return the principal of the page's cookie and the second text that the page sends. If `csrf` is None, the
        cookie is enough. Raise the same errors as `check`."""
        credential = credentials.read(cookie)
        beside = None if csrf is None else credentials.read(csrf)
        if credential is None or credential.kind != "page" or (csrf is not None and beside is None):
            return None
        document = await self._read(sessions.KIND, credential.id)
        return None if document is None else await self._session(credential, document, beside)

    async def _session(
        self, credential: Credential, document: Document, beside: Credential | None = None
    ) -> Principal | None:
        stored = sessions.read_session(document)
        if stored is None or not sessions.is_valid(stored, credential, self._clock.now()):
            return None
        if beside is not None and not beside.proves(stored.csrf):
            return None
        grant = stored.grant
        if grant is None:
            found = await self._read(users.KIND, stored.user)
            user = None if found is None else users.read_user(found)
            if user is None or user.disabled or user.epoch != stored.epoch:
                return None
            grant = user.grant
        return grant.principal("session", credential.id, stored.name)

    async def _read(self, kind: str, id: str) -> Document | None:
        now = self._clock.steady()
        known = self._cache.get((kind, id))
        if known is not None and now - known.asked_at < CACHE_FOR:
            return known.document
        self._cache.pop((kind, id), None)
        found = await self._store.documents.get_document(kind, id)
        if found is not None:  # never cache a missing document: strangers could fill the memory with made-up ids
            if len(self._cache) >= _MOST:
                self._cache.clear()
            self._cache[kind, id] = _Read(found, now)
        return found

    # ── when it was last used ────────────────────────────────────────────────────────────────────────────────

    def _note(self, id: str) -> None:
        """Write the time of use, at most once a minute, in the background."""
        now = self._clock.steady()
        noted = self._noted.get(id)
        if noted is not None and now - noted < keys.USED_EVERY:
            return
        if len(self._noted) >= _MOST:
            self._noted.clear()
        self._noted[id] = now
        task = asyncio.create_task(self._write_use(id, self._clock.now()))
        self._noting.add(task)
        task.add_done_callback(self._noting.discard)

    async def _write_use(self, id: str, now: Micros) -> None:
        try:
            await keys.note_use(self._store, id, now)
        except StoreError:
            self._noted.pop(id, None)  # the next request tries again

    async def close(self) -> None:
        """Wait for uses that are still being written."""
        await asyncio.gather(*self._noting)
