"""Access upkeep: seals new audit entries, and removes expired credentials after a while.

Both services tick only on the leader, because one node is enough. Two nodes that believe they lead do no harm: a seal
names the seal that it follows, and the store keeps one successor for each. Safety does not depend on the clean-up: the
server refuses an expired key, removed or not.
"""

from __future__ import annotations

from onthedot.access import keys, sessions, sign_on
from onthedot.access.audit import KIND
from onthedot.access.audit_seals import BATCH, SEALS, START, Head, append_seal, head_of, read_seal
from onthedot.clock import MILLISECOND, SECOND, Micros
from onthedot.loop import Service
from onthedot.model.events import AuditSealed, Events, KeyExpires
from onthedot.model.retention import DAY, HOUR
from onthedot.node.leadership import Leadership
from onthedot.settings import Settings
from onthedot.stores.documents import Document
from onthedot.stores.protocol import Store

SEAL_EVERY: Micros = 10 * SECOND
"""The longest time that an entry stays without a seal while the cluster has a leader."""
BREATH: Micros = 20 * MILLISECOND
"""The delay between two pages, or two seals, when there are many."""
PAGE = 100
"""How many seals or documents one call reads."""


class AuditSealer(Service):
    """Seals new audit entries while this node has the term (`access/audit_seals.py`)."""

    name = "audit sealer"

    def __init__(self, store: Store, leadership: Leadership, settings: Settings, events: Events) -> None:
        super().__init__()
        self._store = store
        self._leadership = leadership
        self._settings = settings
        self._events = events
        self._head: Head = START  # the newest seal that this node has read
        self._last = 0  # the newest sealed entry
        self._own = 0  # the last seal that this node wrote
        self._again = 0  # how often a seal was removed before this node read it

    async def tick(self, now: Micros) -> Micros:
        """Read one page of unknown seals, or write one seal."""
        del now
        if self._leadership.term is None:
            return self._settings.renew_every  # this node may become leader at any moment
        if await self._learn():
            return BREATH
        entries = await self._store.documents.list_appended(KIND, after=self._last, limit=BATCH)
        if not entries:
            return SEAL_EVERY
        if self._own > self._head.number:  # the seal is stored, but somebody removed it before we read it
            self._again += 1
        self._own = await append_seal(self._store, self._head, entries, again=self._again)
        if self._own <= self._head.number:  # seals that we read are gone: read all of them again
            self._head, self._last, self._own = START, 0, 0
            return SEAL_EVERY
        return BREATH

    async def _learn(self) -> bool:
        """Read the next seals. Return whether there were any. Skip an unreadable seal: a check of the audit
        finds it.
        """
        page = await self._store.documents.list_appended(SEALS, after=self._head.number, limit=PAGE)
        for entry in page:
            seal = read_seal(entry)
            self._head = head_of(entry)
            self._last = self._last if seal is None else max(self._last, seal.last)
            if seal is not None and entry.number == self._own:
                self._events.emit(AuditSealed(len(seal.entries), entry.number, self._head.hash))
        return bool(page)


KEEP_KEYS: Micros = 30 * DAY
"""How long 'onthedot keys list' shows a key that was revoked or has expired."""
KEEP_SESSIONS: Micros = HOUR
"""How long ended sessions and used tokens stay: longer than clocks differ."""
FORGET_EVERY: Micros = HOUR


class CredentialCleanup(Service):
    """Removes expired keys, sessions and tokens while this node is the leader, one page per tick.

    Emits `KeyExpires` for keys that end soon."""

    name = "credential cleanup"

    def __init__(self, store: Store, leadership: Leadership, settings: Settings, events: Events) -> None:
        super().__init__()
        self._store = store
        self._leadership = leadership
        self._settings = settings
        self._events = events
        self._told: set[str] = set()  # keys whose expiry this node has reported as leader
        self._left: list[tuple[str, str]] = []  # left in this round: a kind, and its last id

    async def tick(self, now: Micros) -> Micros:
        """Remove one page. After the last page of a round, wait a while before the next round."""
        del now
        term = self._leadership.term
        if term is None:
            self._left = []
            self._told.clear()
            return self._settings.renew_every
        if not self._left:
            self._left = [(kind, "") for kind in (keys.KIND, sessions.KIND, sessions.TOKEN, sign_on.USED)]
        kind, after = self._left.pop()
        page = await self._store.documents.list_documents(kind, after=after, limit=PAGE)
        seen = term.until - self._settings.term_ttl  # the store's clock, as last renewed
        for document in page:
            if _is_over(document, seen):
                await self._remove(document)
            elif kind == keys.KIND:
                self._tell(document, seen)
        if len(page) == PAGE:
            self._left.append((kind, page[-1].id))
        return BREATH if self._left else FORGET_EVERY

    def _tell(self, document: Document, now: Micros) -> None:
        stored = keys.read_key(document)
        if stored is None or stored.key.id in self._told or not stored.key.ends_soon(now):
            return
        self._told.add(stored.key.id)
        if stored.key.expires_at is not None:
            self._events.emit(KeyExpires(stored.key.id, stored.key.name, stored.key.expires_at))

    async def _remove(self, document: Document) -> None:
        if document.kind == keys.KIND:
            await keys.forget(self._store, document)
        else:
            await self._store.documents.delete_document(document.kind, document.id, version=document.version)


def _is_over(document: Document, now: Micros) -> bool:
    if document.kind == keys.KIND:
        stored = keys.read_key(document)
        ends = [] if stored is None else [stored.key.expires_at, stored.key.revoked_at]
        return any(end is not None and end <= now - KEEP_KEYS for end in ends)
    session = sessions.read_session(document)
    end = document.written_at + sessions.LASTS if session is None else session.expires_at
    return end <= now - KEEP_SESSIONS
