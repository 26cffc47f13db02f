"""Credential cleanup: removes keys, sessions and tokens some time after they ended or were used.

It also emits `KeyExpires` for keys that will end soon. It ticks on the node that has the term: one is enough. Nothing
depends on it: a key that has ended is refused, removed or not.
"""

from __future__ import annotations

from onthedot.access import keys, sessions, sign_on
from onthedot.clock import MILLISECOND, Micros
from onthedot.loop import Service
from onthedot.model.events import Events, KeyExpires
from onthedot.model.retention import DAY, HOUR
from onthedot.node.leadership import Leadership
from onthedot.settings import Settings
from onthedot.stores.documents import Document
from onthedot.stores.protocol import Store

KEEP_KEYS: Micros = 30 * DAY
"""How long 'onthedot keys list' shows a key that was revoked or has expired."""
KEEP_SESSIONS: Micros = HOUR
"""How long what nobody lists stays after its end: longer than clocks differ."""
FORGET_EVERY: Micros = HOUR
BREATH: Micros = 20 * MILLISECOND
PAGE = 100


class CredentialCleanup(Service):
    """Removes what has ended as long as this node has the term: a page in a tick."""

    name = "forgetting"

    def __init__(self, store: Store, leadership: Leadership, settings: Settings, events: Events) -> None:
        super().__init__()
        self._store = store
        self._leadership = leadership
        self._settings = settings
        self._events = events
        self._told: set[str] = set()  # keys whose coming end was reported while this node leads
        self._left: list[tuple[str, str]] = []  # of the round: kinds, and after which id each goes on

    async def tick(self, now: Micros) -> Micros:
        """One page; at the end of the round, the next one is a while away."""
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
