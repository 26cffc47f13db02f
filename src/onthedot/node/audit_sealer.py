"""The audit sealer: seals the audit entries that are new since its last tick (`access/audit_seals.py`).

It ticks on the node that has the term: one is enough. Two that believe to have it do no harm: a seal says which one it
follows, and the store keeps one for each.
"""

from __future__ import annotations

from onthedot.access.audit import KIND
from onthedot.access.audit_seals import BATCH, SEALS, START, Head, append_seal, head_of, read_seal
from onthedot.clock import MILLISECOND, SECOND, Micros
from onthedot.loop import Service
from onthedot.model.events import AuditSealed, Events
from onthedot.node.leadership import Leadership
from onthedot.settings import Settings
from onthedot.stores.protocol import Store

SEAL_EVERY: Micros = 10 * SECOND
"""How long an entry may be without a seal, while somebody leads."""
BREATH: Micros = 20 * MILLISECOND
"""Between two pages, or two seals, when there are many."""
PAGE = 100
"""How many seals are read at once."""


class AuditSealer(Service):
    """Seals the audit as long as this node has the term."""

    name = "sealing"

    def __init__(self, store: Store, leadership: Leadership, settings: Settings, events: Events) -> None:
        super().__init__()
        self._store = store
        self._leadership = leadership
        self._settings = settings
        self._events = events
        self._head: Head = START  # the newest seal that was read
        self._last = 0  # the newest entry under a seal
        self._own = 0  # the seal that this node has put last
        self._again = 0  # how often a seal was gone before it could be read

    async def tick(self, now: Micros) -> Micros:
        """One page of seals that are not known yet, or one seal."""
        del now
        if self._leadership.term is None:
            return self._settings.renew_every  # it may be ours any moment
        if await self._learn():
            return BREATH
        entries = await self._store.documents.list_appended(KIND, after=self._last, limit=BATCH)
        if not entries:
            return SEAL_EVERY
        if self._own > self._head.number:  # its key is known, and it was not there to be read: somebody removed it
            self._again += 1
        self._own = await append_seal(self._store, self._head, entries, again=self._again)
        if self._own <= self._head.number:  # what we knew is not there any more: somebody has been at it
            self._head, self._last, self._own = START, 0, 0
            return SEAL_EVERY
        return BREATH

    async def _learn(self) -> bool:
        """Read seals on; whether there were any. One that cannot be read is passed over, and found by a check."""
        page = await self._store.documents.list_appended(SEALS, after=self._head.number, limit=PAGE)
        for entry in page:
            seal = read_seal(entry)
            self._head = head_of(entry)
            self._last = self._last if seal is None else max(self._last, seal.last)
            if seal is not None and entry.number == self._own:
                self._events.emit(AuditSealed(len(seal.entries), entry.number, self._head.hash))
        return bool(page)
